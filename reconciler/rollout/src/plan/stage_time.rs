//! How long one stage takes, by what it took in rollouts that have ended: the ledger carries that on.

use std::collections::BTreeMap;
use std::fmt;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::StagePlan;
use super::expected_time::took;
use crate::ledger::{Ledger, LedgerState, StageRecordKind};
use crate::stage::StageName;

/// What stages took in rollouts that have ended, in seconds, the newest last: from the commit until the gate passed, soak included.
/// What single nodes took that were upgraded in place stands beside it, by `node/` and the stage.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PastDurations(BTreeMap<String, Vec<u64>>);

/// How many rollouts are remembered.
const ROLLOUTS: usize = 10;
/// How many nodes of a stage.
const NODES: usize = 50;
/// Begins the names of what single nodes took.
const NODE: &str = "node/";
/// Of how many stages: names of node groups change with their versions.
const STAGES: usize = 64;

impl PastDurations {
    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is known after the rollout of this ledger, as far as it has ended.
    #[must_use]
    pub fn after(ledger: &Ledger) -> Self {
        let mut all = ledger.durations.clone();
        let Some(ended) = ledger.finished_at.filter(|_| ledger.state == LedgerState::Done) else { return all };
        let mut counted: Vec<&StageName> = Vec::new();
        for record in ledger.stages.iter().rev().filter(|record| record.kind == StageRecordKind::Commit) {
            let name = &record.stage.name;
            if counted.contains(&name) {
                continue;
            }
            counted.push(name);
            all.nodes_of(ledger, name);
            let Some(took) = took(ledger, name, ended).and_then(|took| u64::try_from(took.as_secs()).ok()) else {
                continue;
            };
            let known = all.0.entry(name.to_string()).or_default();
            known.push(took);
            let surplus = known.len().saturating_sub(ROLLOUTS);
            known.drain(..surplus);
        }
        if all.0.len() > STAGES {
            let is_own = |name: &String| {
                let name = name.strip_prefix(NODE).unwrap_or(name);
                counted.iter().any(|counted| counted.to_string() == name)
            };
            all.0.retain(|name, _| is_own(name));
        }
        all
    }

    /// Takes up what nodes took in a stage, as the evidence of its gate says.
    fn nodes_of(&mut self, ledger: &Ledger, name: &StageName) {
        let Some(index) = ledger.stages.iter().rposition(|record| &record.stage.name == name) else { return };
        let evidence = match ledger.stages.get(index + 1) {
            Some(next) => next.opened_by.as_ref(),
            None => ledger.verified.as_ref(),
        };
        let seconds: Vec<u64> =
            evidence.into_iter().flat_map(|evidence| &evidence.facts).filter_map(|fact| fact.seconds).collect();
        if seconds.is_empty() {
            return;
        }
        let known = self.0.entry(format!("{NODE}{name}")).or_default();
        known.extend(seconds);
        let surplus = known.len().saturating_sub(NODES);
        known.drain(..surplus);
    }

    /// What nodes of a stage took; of a worker group that is not known, what those of any of them took.
    pub(super) fn of_nodes(&self, name: &StageName) -> Vec<u64> {
        if let Some(known) = self.0.get(&format!("{NODE}{name}")) {
            return known.clone();
        }
        let is_like = |other: &String| matches!(name, StageName::Workers(_)) && other.starts_with("node/workers/");
        self.0.iter().filter(|(other, _)| is_like(other)).flat_map(|(_, known)| known.clone()).collect()
    }

    /// What a stage took, in seconds, the newest last; of a worker group that is not known, what any of them took.
    #[must_use]
    pub fn of(&self, name: &StageName) -> Vec<u64> {
        let own = name.to_string();
        if let Some(known) = self.0.get(&own) {
            return known.clone();
        }
        let is_like = |other: &String| matches!(name, StageName::Workers(_)) && other.starts_with("workers/");
        self.0.iter().filter(|(other, _)| is_like(other)).flat_map(|(_, known)| known.clone()).collect()
    }
}

/// The 80th percentile: the smallest that four of five are not above.
pub(super) fn percentile(seconds: &[u64]) -> Option<SignedDuration> {
    let mut known = seconds.to_vec();
    known.sort_unstable();
    let rank = (known.len() * 4).div_ceil(5).saturating_sub(1);
    Some(SignedDuration::from_secs(i64::try_from(*known.get(rank)?).unwrap_or(i64::MAX)))
}

/// How long a stage takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageTime {
    /// The 80th percentile of what it took in so many rollouts.
    Past(SignedDuration, usize),
    /// What the team says.
    Given(SignedDuration),
    /// Nobody knows.
    Unknown,
}

impl StageTime {
    /// How long a stage takes, where `ledger` is that of its cluster.
    #[must_use]
    pub fn of(stage: &StagePlan, ledger: Option<&Ledger>) -> Self {
        let past = ledger.map(PastDurations::after).unwrap_or_default();
        let known = past.of(&stage.stage.name);
        match (percentile(&known), stage.policy.estimate) {
            (Some(took), _) => Self::Past(took, known.len()),
            (None, Some(estimate)) => Self::Given(SignedDuration::try_from(estimate).unwrap_or(SignedDuration::MAX)),
            (None, None) => Self::Unknown,
        }
    }

    /// The time, where it is known.
    #[must_use]
    pub fn known(self) -> Option<SignedDuration> {
        match self {
            Self::Past(takes, _) | Self::Given(takes) => Some(takes),
            Self::Unknown => None,
        }
    }
}

impl fmt::Display for StageTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Less than a minute is one.
        let minutes = |takes: &SignedDuration| takes.as_secs().saturating_add(59).div_euclid(60).max(1);
        match self {
            Self::Past(takes, count) => {
                write!(formatter, "it takes {} min, by the 80th percentile of {count} past", minutes(takes))
            }
            Self::Given(takes) => write!(formatter, "it takes {} min, by the `estimate` of the policy", minutes(takes)),
            Self::Unknown => formatter.write_str("nobody knows how long it takes"),
        }
    }
}
