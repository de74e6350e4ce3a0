//! `stepgate wait`: comes back when a cluster is where somebody waits for it to be.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use rollout::{Ledger, StageId, StageRecordKind};
use tokio::time::timeout;

use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet::{self, Opened};
use crate::cli::common::output;
use crate::cli::{ClusterArguments, FleetArguments};
use crate::reconcile::clusters::access::Clusters;
use crate::reconcile::main_loop::clock::SystemClock;
use crate::reconcile::observe::explain::{Explainer, Explanation, State};
use crate::reconcile::planner::Planner;
use crate::watch::{Watch, WatchSettings};

/// Arguments of `stepgate wait`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 it is there · 2 error · 3 it is blocked · 4 the time is over · 5 it is held. A cluster that is \
                  blocked or held ends the wait at once: people have to do something first."
)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// The cluster.
    #[arg(add = crate::cli::common::names::clusters())]
    cluster: String,
    /// What is waited for: `done`, or `stage=STAGE`, which is committed then.
    #[arg(long = "for", value_name = "done|stage=STAGE", default_value = "done", add = crate::cli::common::names::goals())]
    goal: Goal,
    /// How long, such as 30m or 4h.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = policy::parse_duration)]
    timeout: Duration,
    /// The longest time between two looks at the cluster, in seconds. A commit is seen at once.
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    interval: u64,
}

/// Where somebody waits for a cluster to be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Goal {
    /// Nothing is left to be done.
    Done,
    /// This stage is committed, and was not taken back.
    Stage(StageId),
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "done" => Ok(Self::Done),
            Some(("stage", stage)) => stage.parse().map(Self::Stage).map_err(|error| format!("{error}")),
            _ => Err("write `done`, or `stage=` and a stage, such as `stage=control-plane`".to_owned()),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => formatter.write_str("done"),
            Self::Stage(stage) => write!(formatter, "stage {stage}"),
        }
    }
}

impl Goal {
    /// How the wait ends for a cluster that stands so; none where it goes on.
    fn ends(&self, state: State, ledger: Option<&Ledger>) -> Option<Exit> {
        let is_there = match self {
            Self::Done => state == State::Done,
            Self::Stage(stage) => ledger.is_some_and(|ledger| is_committed(ledger, stage)),
        };
        match state {
            _ if is_there => Some(Exit::Success),
            State::Held => Some(Exit::Stopped),
            State::Blocked => Some(Exit::Blocked),
            // What is done goes nowhere before the source branch asks for something.
            State::Done | State::Running | State::Waiting => None,
        }
    }
}

/// Whether the last rollout has this stage on the deploy branch.
fn is_committed(ledger: &Ledger, stage: &StageId) -> bool {
    let last = ledger.stages.iter().rev().find(|record| record.stage == *stage);
    last.is_some_and(|record| record.kind == StageRecordKind::Commit)
}

/// Waits, and says on standard error what for.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let planner = fleet::planner(&arguments.fleet)?;
    let reading = planner.read().map_err(fleet::explain)?;
    // A name that is nobody's is told at once.
    Opened { planner: planner.clone(), reading }.clusters(Some(&arguments.cluster))?;
    let clusters = arguments.access.open()?;
    crate::cli::run::verb::runtime()?.block_on(async {
        let waiting = Box::pin(wait(&planner, clusters.as_ref(), arguments));
        match timeout(arguments.timeout, waiting).await {
            Ok(ended) => ended,
            Err(_) => {
                let (name, goal) = (&arguments.cluster, &arguments.goal);
                output::note(&format!("{name}: the time is over, and it is not at {goal}"));
                output::note(&format!("hint: `stepgate why {name}` says what it waits for"));
                Ok(Exit::Waiting)
            }
        }
    })
}

async fn wait(planner: &Planner, clusters: &dyn Clusters, arguments: &Arguments) -> Result<Exit, CommandError> {
    let (name, interval) = (&arguments.cluster, Duration::from_secs(arguments.interval.max(1)));
    let mut said = String::new();
    let mut watch: Option<Watch> = None;
    loop {
        let reading = planner.read().map_err(fleet::explain)?;
        let watch = watch.get_or_insert_with(|| {
            let branches = vec![planner.source_branch().clone(), reading.layout.branch.clone()];
            Watch::start(planner.repository().clone(), WatchSettings::new(branches))
        });
        let view = planner.view(&reading, name)?;
        let explainer = Explainer::new(planner, &reading, clusters, &SystemClock);
        let explanation = Box::pin(explainer.explain(&view)).await?;
        let line = told(name, &explanation);
        match arguments.goal.ends(explanation.state, view.directory.ledger()) {
            Some(exit) => {
                output::print_text(&format!("{line}\n"))?;
                for help in explanation.help.iter().filter(|_| exit != Exit::Success) {
                    output::note(&format!("what helps: {help}"));
                }
                return Ok(exit);
            }
            None if line != said => {
                output::note(&line);
                said = line;
            }
            None => {}
        }
        // Whoever watches no more looks again after the interval all the same.
        if let Ok(None) = timeout(interval, watch.changed()).await {
            tokio::time::sleep(interval).await;
        }
    }
}

/// Where it stands, in one line.
fn told(cluster: &str, explanation: &Explanation) -> String {
    let stage = explanation.stage.as_ref().map(|stage| format!(" at {stage}")).unwrap_or_default();
    let reason = explanation.reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{cluster} is {}{stage}{reason}", explanation.state.word())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_done_or_a_stage() {
        assert_eq!("done".parse(), Ok(Goal::Done));
        assert_eq!("stage=workers/md-0".parse(), Ok(Goal::Stage("workers/md-0".parse().unwrap())));
        for wrong in ["", "stage", "stage=", "stage=no such stage", "state=done", "Done"] {
            assert!(wrong.parse::<Goal>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_wait_ends_where_people_have_to_do_something_first() {
        for (state, expected) in [
            (State::Done, Some(Exit::Success)),
            (State::Held, Some(Exit::Stopped)),
            (State::Blocked, Some(Exit::Blocked)),
            (State::Running, None),
            (State::Waiting, None),
        ] {
            assert_eq!(Goal::Done.ends(state, None), expected, "{state:?}");
        }
        assert_eq!(Goal::Stage("capi".parse().unwrap()).ends(State::Done, None), None);
    }
}
