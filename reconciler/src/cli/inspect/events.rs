//! `stepgate events`: what has happened to a fleet, in the order of time.

use std::time::Duration;

use clap::Args;
use domain::CommitId;
use jiff::{SignedDuration, Timestamp};

use crate::cli::FleetArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use crate::cli::common::when::Teller;
use crate::cli::terminal::screen;
use crate::report::{EventsReport, by_time, events_of, pushes_since};

/// Arguments of `stepgate events`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    /// The cluster; all, when left out.
    #[arg(add = crate::cli::common::names::clusters())]
    cluster: Option<String>,
    /// Only what happened so long ago at most, such as 30m or 48h.
    #[arg(long, value_name = "DURATION", value_parser = policy::parse_duration)]
    since: Option<Duration>,
    /// How many commits of each cluster are looked through.
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Report for EventsReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let headers = vec!["WHEN", "CLUSTER", "EVENT", "STAGE", "ROLLOUT", "COMMIT", "WHO", "MESSAGE"];
        let mut table = Table { headers, width: screen::width(), ..Table::default() };
        let teller = Teller::here();
        for event in &self.events {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            table.rows.push(vec![
                teller.when(event.time()),
                text(&event.cluster),
                event.event.clone(),
                text(&event.stage),
                text(&event.rollout),
                event.commit.chars().take(12).collect(),
                text(&event.who),
                event.message.clone(),
            ]);
        }
        if self.events.is_empty() {
            table.notes.push("nothing has happened".to_owned());
        }
        vec![(None, table)]
    }

    fn names(&self) -> Vec<String> {
        self.events.iter().map(|event| event.commit.clone()).collect()
    }
}

/// Prints the events.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.remark();
    let (mut events, mut exit) = (Vec::new(), Exit::Success);
    let mut sources: Vec<CommitId> = Vec::new();
    for name in opened.clusters(arguments.cluster.as_deref())? {
        match events_of(&opened.planner, &opened.reading, &name, arguments.limit) {
            Ok((found, source)) => {
                events.extend(found);
                sources.extend(source);
            }
            // Something has happened to the others all the same.
            Err(error) if arguments.cluster.is_none() => {
                output::note(&format!("error: cluster {name}: {error}"));
                exit = Exit::Error;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut pushed: Vec<String> = Vec::new();
    for source in sources {
        match pushes_since(&opened.planner, &opened.reading, &source) {
            Ok(found) => {
                for push in found {
                    if !pushed.contains(&push.commit) {
                        pushed.push(push.commit.clone());
                        events.push(push);
                    }
                }
            }
            Err(error) => output::note(&format!("warning: what was pushed after {source} is not told: {error}")),
        }
    }
    by_time(&mut events);
    if let Some(since) = arguments.since {
        let first = Timestamp::now().saturating_sub(SignedDuration::try_from(since)?)?;
        events.retain(|event| event.time() >= first);
    }
    output::print(arguments.output, &EventsReport { events })?;
    Ok(exit)
}
