//! How long a node takes that is upgraded in place, by what nodes took in rollouts that have ended.

use std::fmt;

use jiff::SignedDuration;

use super::StagePlan;
use super::stage_time::{PastDurations, percentile};
use crate::ledger::Ledger;

/// How long one node takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeTime {
    /// The 80th percentile of what so many nodes took.
    Past(SignedDuration, usize),
    /// What the team says of the stage, divided by its machines.
    Given(SignedDuration),
    /// Nobody knows.
    Unknown,
}

impl NodeTime {
    /// How long each node of a stage takes, where `ledger` is that of its cluster; none where no machine stays.
    #[must_use]
    pub fn of(stage: &StagePlan, ledger: Option<&Ledger>) -> Option<Self> {
        if !stage.reasons.iter().any(|reason| reason.starts_with(StagePlan::IN_PLACE)) {
            return None;
        }
        let past = ledger.map(PastDurations::after).unwrap_or_default();
        let known = past.of_nodes(&stage.stage.name);
        let given = || {
            let estimate = SignedDuration::try_from(stage.policy.estimate?).ok()?;
            estimate.checked_div(i32::try_from(stage.machines.max(1)).ok()?)
        };
        Some(match (percentile(&known), given()) {
            (Some(takes), _) => Self::Past(takes, known.len()),
            (None, Some(takes)) => Self::Given(takes),
            (None, None) => Self::Unknown,
        })
    }
}

impl fmt::Display for NodeTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Less than a minute is one.
        let minutes = |takes: &SignedDuration| takes.as_secs().saturating_add(59).div_euclid(60).max(1);
        match self {
            Self::Past(takes, count) => {
                let (minutes, plural) = (minutes(takes), if *count == 1 { "" } else { "s" });
                write!(formatter, "a node takes {minutes} min, by the 80th percentile of {count} node{plural} before")
            }
            Self::Given(takes) => {
                write!(formatter, "a node takes {} min, by the `estimate` of the policy", minutes(takes))
            }
            Self::Unknown => formatter.write_str(
                "nobody knows how long a node takes: no rollout before tells, and the stage has no `estimate`",
            ),
        }
    }
}
