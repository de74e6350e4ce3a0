//! What the gate of one stage says in the course of a scenario, and that in words without what differs from one cluster to the next: names of pods and machines, commits, and the words
//! that others put into conditions.

use std::sync::LazyLock;
use std::time::Duration;

use domain::{CommitId, RolloutId};
use jiff::Timestamp;
use policy::StagePolicy;
use regex::Regex;
use rollout::{Binding, Expectation, Gate, GateHistory, GateVerdict, Landing, Observation, Reason, StageId};

/// The gate of one scenario, and what it has said since the last step.
pub struct Judge {
    stage: StageId,
    rollout: RolloutId,
    policy: StagePolicy,
    pub expectations: Vec<Expectation>,
    binding: Binding,
    history: GateHistory,
    /// What the gate was about since the last step, each word once where it lasts: [`word`].
    pub course: Vec<String>,
}

impl Judge {
    pub fn new(commit: CommitId, expectations: Vec<Expectation>, at: Timestamp) -> Self {
        let soak = Duration::from_secs(1);
        Self {
            stage: "cert-manager".parse().unwrap(),
            rollout: "0123456789ab".parse().unwrap(),
            policy: StagePolicy { soak, timeout: Duration::from_secs(3600), ..StagePolicy::default() },
            expectations,
            binding: Binding {
                commit: commit.clone(),
                lineage: vec![commit].into(),
                committed_at: at,
                landing: Landing::Pushed,
            },
            history: GateHistory::default(),
            course: Vec::new(),
        }
    }

    /// A commit of this scenario, which the gate is bound to from now on.
    pub fn commit(&mut self, commit: CommitId, expectations: Vec<Expectation>, at: Timestamp) {
        let committed = Self::new(commit, expectations, at);
        (self.binding, self.expectations) = (committed.binding, committed.expectations);
    }

    /// A later commit of others on the same branch.
    pub fn follow(&mut self, commit: CommitId) {
        let lineage = &self.binding.lineage;
        self.binding.lineage = lineage.grown(lineage.len(), [commit]);
    }

    /// What the gate says of one more reading.
    pub fn evaluate(&mut self, observation: &Observation, now: Timestamp) -> GateVerdict {
        let gate = Gate {
            cluster: "test",
            identity: None,
            stage: &self.stage,
            rollout: &self.rollout,
            expectations: &self.expectations,
            binding: Some(&self.binding),
            policy: &self.policy,
        };
        let held = gate.held(observation, now).map(|settled| (gate.key(), settled));
        self.history =
            self.history.record(observation.read_at, held.into_iter().collect(), self.policy.maximum_age, now);
        gate.evaluate(Some(observation), &self.history, now)
    }

    /// What the gate says of one more reading, in words.
    pub fn read(&mut self, observation: &Observation, now: Timestamp) -> String {
        let verdict = self.evaluate(observation, now);
        if let Some(word) = word(&verdict).filter(|word| self.course.last() != Some(word)) {
            self.course.push(word);
        }
        said(&verdict)
    }
}

/// What a verdict is about first, without values, which differ from one moment to the next: the object and the field. None where the gate
/// wants to be asked once more, since that depends on when it is asked.
pub fn word(verdict: &GateVerdict) -> Option<String> {
    let about = |reason: &Reason| match &reason.field {
        Some(field) => format!("{} {field}", reason.object),
        None => format!("{} {}", reason.object, reason.message.split([':', ';']).next().unwrap_or_default()),
    };
    let text = match verdict {
        GateVerdict::Pass { .. } => "pass".to_owned(),
        GateVerdict::Wait { reason, .. } if reason.object.is_empty() && reason.message.starts_with("healthy") => {
            return None;
        }
        GateVerdict::Wait { reason, .. } => format!("wait: {}", about(reason)),
        GateVerdict::Fail { reasons } => format!("fail: {}", reasons.first().map(about).unwrap_or_default()),
    };
    static NUMBERS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[0-9]+\b").unwrap());
    Some(NUMBERS.replace_all(&general(&text), "N").into_owned())
}

/// A text without what differs from one cluster to the next.
fn general(text: &str) -> String {
    static OTHERS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
        [
            (r"\b[0-9a-f]{40}\b", "COMMIT"),
            (r"pod [a-z0-9-]+, ", "pod POD, "),
            (r"\b(Machine|MachineSet) ([a-z0-9-]+)/[a-z0-9-]+", "$1 $2/NAME"),
            (r"\b(True|False|Unknown) \((\w+): .*?\)(, \w+ expected)?(;|$)", "$1 ($2)$3$4"),
            (r"cannot be (called|reached): [^;]*", "cannot be $1"),
        ]
        .map(|(pattern, words)| (Regex::new(pattern).unwrap(), words))
        .into()
    });
    OTHERS.iter().fold(text.to_owned(), |text, (pattern, words)| pattern.replace_all(&text, *words).into_owned())
}

/// A verdict in words that are the same on every cluster.
fn said(verdict: &GateVerdict) -> String {
    general(&match verdict {
        GateVerdict::Pass { .. } => "pass".to_owned(),
        GateVerdict::Wait { reason, .. } => format!("wait: {reason}"),
        GateVerdict::Fail { reasons } => {
            let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            format!("fail: {}", reasons.join("; "))
        }
    })
}
