//! The eksctl and aws programs: what AWS says of a cluster is asked for through them, and stages of clusters are carried
//! out by eksctl.
//!
//! Which programs these are, is the operator's word: a file, its digest and its version. Nothing of the repository reaches it
//! but a `ClusterConfig`.
//!
//! Architecture Invariant: what is begun follows from what is there (`rollout::eksctl`). One run holds the lock of its
//! cluster for as long as it lives, whoever started it, so that nothing is begun beside it.

mod answers;
mod arguments;
mod asked;
mod aws;
mod aws_answers;
mod aws_network;
#[cfg(test)]
mod fuzzed;
mod output;
mod program;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::{ClusterName, CommitId};
use jiff::{SignedDuration, Timestamp};
use overlays::eksctl::{ConfigPart, config_of};
use rollout::eksctl::{EksctlAct, EksctlStep, EksctlVerb, next_act, refuses};
use rollout::{EksPart, EksReading, EksctlHold, EksctlOutcome, EksctlRun};
use yaml::Node;

pub use aws::{Aws, AwsQuestion};
pub use program::{EksctlError, PinnedProgram, ProgramKind};

use self::runs::{Runs, Start};
use crate::watch::Changes;

/// For so long an answer counts where gates look again: they do so every few seconds while nodes are drained.
const FRESH: SignedDuration = SignedDuration::from_secs(10);

/// When AWS was asked: the time, the newest run by then, and whether that was at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment {
    at: Timestamp,
    run: Option<(Timestamp, u32, bool)>,
}

impl Moment {
    fn of(run: Option<&EksctlRun>, at: Timestamp) -> Self {
        let is_at_work = |run: &EksctlRun| run.outcome == EksctlOutcome::Running;
        Self { at, run: run.map(|run| (run.started_at, run.attempt, is_at_work(run))) }
    }

    /// Whether an answer of this moment counts now. What a run did is in no answer of before its end.
    fn counts(&self, now: &Self) -> bool {
        self.run == now.run && now.at.duration_since(self.at).abs() <= FRESH
    }
}

/// The programs that the operator has named for clusters of EKS.
#[derive(Debug, Default)]
pub struct EksPrograms {
    /// eksctl.
    pub eksctl: Option<Eksctl>,
    /// The command line of AWS.
    pub aws: Option<Aws>,
}

/// Which cluster is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EksctlTarget {
    /// What it is called in the fleet.
    pub cluster: ClusterName,
    /// What AWS calls it.
    pub name: String,
    /// Its region.
    pub region: String,
}

impl EksctlTarget {
    /// Refuses what AWS cannot have named: it stands in a file of the repository, and in commands.
    fn check(&self) -> Result<(), String> {
        let is_word = |text: &str, others: &[u8]| {
            text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
        };
        if !is_word(&self.name, b"-_") {
            return Err(format!("{:?} is not a valid name of a cluster of EKS: mend metadata.name", self.name));
        }
        if !is_word(&self.region, b"-") {
            return Err(format!("{:?} is not a valid region of AWS: mend metadata.region", self.region));
        }
        Ok(())
    }
}

/// A commit that is to be carried out.
pub struct EksctlRequest<'a> {
    /// The cluster.
    pub target: EksctlTarget,
    /// The commit, and what its gate expects.
    pub step: EksctlStep,
    /// The deployed `ClusterConfig`.
    pub config: Node,
    /// Whether the deploy branch contains a commit since the rollout began.
    pub is_known: &'a (dyn Fn(&CommitId) -> bool + Sync),
    /// Whether the deploy branch is still where it was when this was decided.
    pub is_newest: &'a (dyn Fn() -> bool + Sync),
}

/// Asks AWS and carries out stages, by a pinned eksctl.
#[derive(Debug)]
pub struct Eksctl {
    program: PinnedProgram,
    runs: Runs,
    /// Why nothing is begun for a cluster.
    held: Mutex<BTreeMap<ClusterName, EksctlHold>>,
    /// What was asked last of each cluster, and when.
    asked: Mutex<BTreeMap<ClusterName, (Moment, EksReading)>>,
}

/// The first eksctl that takes a control plane back.
const TAKES_BACK: (u32, u32) = (0, 230);

/// Why this eksctl does not take a control plane back, and what helps; none where it does, or is not asked to.
fn cannot_take_back(
    verb: &EksctlVerb,
    step: &EksctlStep,
    reading: &EksReading,
    version: &str,
) -> Option<(String, Option<String>)> {
    let numbers = |text: &str| {
        let mut numbers = text.trim_start_matches('v').split('.').map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    let (EksctlVerb::UpgradeCluster, EksPart::ControlPlane { version: wanted }) = (verb, &step.part) else {
        return None;
    };
    let is = numbers(&reading.cluster.as_ref()?.version)?;
    let is_old = numbers(version).is_none_or(|version| version < TAKES_BACK);
    (numbers(wanted)? < is && is_old).then(|| {
        let reason = format!("eksctl {version} takes no control plane back from {}.{} to {wanted}", is.0, is.1);
        let help = format!(
            "name eksctl {}.{} or a later one, or let `aws eks update-cluster-version` do it: the gate sees it",
            TAKES_BACK.0, TAKES_BACK.1
        );
        (reason, Some(help))
    })
}

impl Eksctl {
    /// This program, whose runs are noted down in this folder and may take so long.
    #[must_use]
    pub fn new(program: PinnedProgram, folder: PathBuf, limit: Duration) -> Self {
        Self { program, runs: Runs::new(folder, limit), held: Mutex::default(), asked: Mutex::default() }
    }

    /// The same, telling whoever reads clusters of the end of each run, since nothing else need change then.
    #[must_use]
    pub fn telling(self, changes: Arc<Changes>) -> Self {
        Self { runs: self.runs.telling(changes), ..self }
    }

    /// What AWS says of a cluster, asked a moment ago at most, and what became of the newest run.
    pub async fn read(&self, target: &EksctlTarget, at: Timestamp) -> EksReading {
        let run = self.runs.last(&target.cluster);
        let now = Moment::of(run.as_ref().ok().and_then(Option::as_ref), at);
        let known = self.asked.lock().unwrap_or_else(PoisonError::into_inner).get(&target.cluster).cloned();
        match known {
            Some((asked, reading)) if asked.counts(&now) => self.with_run(target, run, reading),
            _ => self.read_anew(target, at).await,
        }
    }

    /// The same, asked now.
    async fn read_anew(&self, target: &EksctlTarget, at: Timestamp) -> EksReading {
        // Read first: what a run that has ended did is in the answers that follow, and not in those of before.
        let run = self.runs.last(&target.cluster);
        let moment = Moment::of(run.as_ref().ok().and_then(Option::as_ref), at);
        let reading = asked::ask(&self.program, target).await;
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.insert(target.cluster.clone(), (moment, reading.clone()));
        drop(asked);
        self.with_run(target, run, reading)
    }

    fn with_run(
        &self,
        target: &EksctlTarget,
        run: Result<Option<EksctlRun>, EksctlError>,
        mut reading: EksReading,
    ) -> EksReading {
        match run {
            Ok(run) => reading.run = run,
            Err(error) => drop(reading.unread.insert("the newest run of eksctl".to_owned(), error.to_string())),
        }
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        reading.held = held.get(&target.cluster).cloned();
        reading
    }

    /// Begins what a commit asks for, unless that is there, on its way, or not to be begun now. It does not wait for its end.
    pub async fn carry_out(&self, request: &EksctlRequest<'_>, at: Timestamp) {
        let reason = match self.try_to_carry_out(request, at).await {
            Ok(held) => held,
            Err(error) => Some((error.to_string(), error.help().map(str::to_owned))),
        };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match reason {
            Some((reason, help)) => {
                let hold = EksctlHold { part: request.step.part.clone(), reason, help };
                if held.get(&request.target.cluster) != Some(&hold) {
                    tracing::info!(cluster.name = %request.target.cluster, reason = %hold.reason, "eksctl is not started");
                }
                held.insert(request.target.cluster.clone(), hold);
            }
            None => drop(held.remove(&request.target.cluster)),
        }
    }

    /// Why nothing was begun, and what helps; none where that is as it should be.
    async fn try_to_carry_out(
        &self,
        request: &EksctlRequest<'_>,
        at: Timestamp,
    ) -> Result<Option<(String, Option<String>)>, EksctlError> {
        let EksctlRequest { target, step, .. } = request;
        let last = self.runs.last(&target.cluster)?;
        if let Some(EksctlAct::Wait { reason, help }) = refuses(step, last.as_ref(), request.is_known) {
            return Ok(Some((reason, help)));
        }
        // What is begun follows from what is there now.
        let reading = self.read_anew(target, at).await;
        let (verb, attempt) = match next_act(step, &reading, at) {
            EksctlAct::Nothing => return Ok(None),
            EksctlAct::Wait { reason, help } => return Ok(Some((reason, help))),
            EksctlAct::Run { verb, attempt } => (verb, attempt),
        };
        self.program.verify().await?;
        if let Some(held) = cannot_take_back(&verb, step, &reading, self.program.version()) {
            return Ok(Some(held));
        }
        let part = match &verb {
            EksctlVerb::UpgradeCluster | EksctlVerb::DeleteAddon { .. } | EksctlVerb::DeleteNodeGroup { .. } => {
                ConfigPart::ControlPlane
            }
            EksctlVerb::CreateAddon { name } | EksctlVerb::UpdateAddon { name } => ConfigPart::Addon(name.as_str()),
            EksctlVerb::CreateNodeGroup { name } => ConfigPart::NodeGroup(name.as_str()),
        };
        let config = yaml::emit(&config_of(&request.config, part));
        let start = Start { target, step, verb, attempt, config, at, last: reading.run.as_ref() };
        let is_begun = self.runs.begin(&self.program, start, request.is_newest)?;
        Ok((!is_begun).then(|| {
            (
                "the deploy branch has moved, or another eksctl is at work: what is there is looked at first"
                    .to_owned(),
                None,
            )
        }))
    }
}
