//! When stages begin, what they wait for, and how long.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::reconcile::{ClusterOutcome, ClusterPass};

/// Waits that are shorter are not told.
const SHORTEST: SignedDuration = SignedDuration::from_secs(5);

/// How many waits of a stage are told: the longest ones.
const TOLD: usize = 3;

/// One stage of a rehearsal.
#[derive(Clone, Debug)]
pub(super) struct StageRun {
    /// Its name.
    pub(super) stage: String,
    /// When it was first waited for, or committed, from the beginning.
    pub(super) begun: SignedDuration,
    /// When it was committed last, from the beginning; none where it puts nothing into git.
    pub(super) committed: Option<SignedDuration>,
    /// Whether it was taken back.
    pub(super) reverted: bool,
    /// How many facts opened it.
    pub(super) facts: usize,
    /// How long it was waited for before its commit, and after.
    pub(super) took: SignedDuration,
    waits: Vec<Wait>,
}

/// Something that was waited for.
#[derive(Clone, Debug)]
struct Wait {
    what: String,
    last: String,
    until: Option<Timestamp>,
    took: SignedDuration,
}

/// Something that a stage waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitReport {
    /// What for, as it was said last.
    pub reason: String,
    /// How long, in seconds.
    pub seconds: i64,
    /// Until when, where that was known from the beginning, RFC 3339.
    pub until: Option<String>,
}

impl StageRun {
    /// The longest of what it waited for.
    pub(super) fn waits(&self) -> Vec<WaitReport> {
        let mut waits: Vec<&Wait> = self.waits.iter().filter(|wait| wait.took >= SHORTEST).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.took));
        let told = |wait: &&Wait| WaitReport {
            reason: wait.last.clone(),
            seconds: wait.took.as_secs(),
            until: wait.until.map(|until| until.to_string()),
        };
        waits.iter().take(TOLD).map(told).collect()
    }
}

/// The stages in the order in which they began.
#[derive(Clone, Debug)]
pub(super) struct StageWatch {
    begun: Timestamp,
    stages: Vec<StageRun>,
    last: Option<(String, Timestamp)>,
}

impl StageWatch {
    /// A watch that begins now.
    pub(super) fn new(begun: Timestamp) -> Self {
        Self { begun, stages: Vec::new(), last: None }
    }

    /// Those that began so far.
    pub(super) fn stages(&self) -> &[StageRun] {
        &self.stages
    }

    /// The stage that was committed last, and when.
    pub(super) fn last_commit(&self) -> Option<(&str, Timestamp)> {
        self.last.as_ref().map(|(stage, at)| (stage.as_str(), *at))
    }

    /// Takes up a pass that began at `from`, after which nothing is looked at before `until`.
    pub(super) fn note(&mut self, pass: &ClusterPass, from: Timestamp, until: Timestamp) {
        for committed in &pass.committed {
            let since = from.duration_since(self.begun);
            if let Some(stage) = self.stage(&committed.stage.to_string(), from) {
                stage.committed = Some(since);
                stage.reverted |= committed.reverted;
                stage.facts = committed.evidence.len();
            }
            self.last = Some((committed.stage.to_string(), from));
        }
        let took = until.duration_since(from);
        let name = pass.outcome.stage().map(ToString::to_string);
        let name = name.or_else(|| pass.committed.last().map(|committed| committed.stage.to_string()));
        let Some(stage) = name.and_then(|name| self.stage(&name, from)) else { return };
        stage.took = stage.took.saturating_add(took);
        if !pass.committed.is_empty() {
            return;
        }
        let ends = match &pass.outcome {
            ClusterOutcome::Waiting { until, .. } => *until,
            _ => None,
        };
        stage.wait(&pass.outcome, ends, took);
    }

    /// A stage, which begins at this moment unless it has.
    fn stage(&mut self, name: &str, at: Timestamp) -> Option<&mut StageRun> {
        if !self.stages.iter().any(|stage| stage.stage == name) {
            self.stages.push(StageRun {
                stage: name.to_owned(),
                begun: at.duration_since(self.begun),
                committed: None,
                reverted: false,
                facts: 0,
                took: SignedDuration::ZERO,
                waits: Vec::new(),
            });
        }
        self.stages.iter_mut().find(|stage| stage.stage == name)
    }
}

impl StageRun {
    fn wait(&mut self, outcome: &ClusterOutcome, until: Option<Timestamp>, took: SignedDuration) {
        let (what, last) = match outcome {
            ClusterOutcome::Waiting { reason, .. } if !reason.object.is_empty() => {
                (reason.object.clone(), format!("{}: {}", reason.object, reason.message))
            }
            ClusterOutcome::Waiting { reason, .. } => {
                let kind = reason.message.split(|character: char| character.is_ascii_digit()).next();
                (kind.unwrap_or_default().to_owned(), reason.message.clone())
            }
            ClusterOutcome::Held { reasons, .. } => {
                let first = reasons.first().map(ToString::to_string).unwrap_or_default();
                ("held".to_owned(), format!("held: {first}"))
            }
            ClusterOutcome::Done | ClusterOutcome::Blocked { .. } | ClusterOutcome::Failed { .. } => return,
        };
        match self.waits.iter_mut().find(|wait| wait.what == what) {
            Some(wait) => {
                wait.took = wait.took.saturating_add(took);
                wait.last = last;
                wait.until = wait.until.or(until);
            }
            None => self.waits.push(Wait { what, last, until, took }),
        }
    }
}
