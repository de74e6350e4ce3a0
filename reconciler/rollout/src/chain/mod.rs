//! Several rollouts on the way to one target: EKS Anywhere and Kubernetes go up one minor at a time.

mod search;
#[cfg(test)]
mod search_tests;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::stage::StageId;
use domain::GroupName;

pub use search::{ChainBundle, ChainGroup, ChainSearch, NoWay};

/// What one rollout of a chain leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainTarget {
    /// Kubernetes of the control plane, as the specification writes it: `1.33`.
    pub kubernetes: String,
    /// Kubernetes of the worker groups that have a version of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workers: BTreeMap<GroupName, String>,
    /// Name of the bundle.
    pub bundle: String,
    /// The version of EKS Anywhere that the bundle belongs to; none where nothing says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eksa: Option<String>,
    /// The stages that replace nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rolls: Vec<StageId>,
}

/// Rollouts that follow each other until a cluster is at what the source branch asks for.
///
/// The ledger keeps it: while a rollout runs, it leads to what it began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// Which of the rollouts it is, from 1.
    pub rollout: usize,
    /// What each of them leads to; the last one is what the source branch asks for.
    pub targets: Vec<ChainTarget>,
}

impl ChainTarget {
    /// Whether a cluster comes to the same versions.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.kubernetes, &self.workers, &self.bundle) == (&other.kubernetes, &other.workers, &other.bundle)
    }
}

impl fmt::Display for ChainTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Kubernetes {} with {}", self.kubernetes, self.bundle)?;
        match &self.eksa {
            Some(version) => write!(formatter, " ({version})"),
            None => Ok(()),
        }
    }
}

impl Chain {
    /// What the rollout leads to that it is about; none in a record that nobody has written like this.
    #[must_use]
    pub fn current(&self) -> Option<&ChainTarget> {
        self.targets.get(self.rollout.checked_sub(1)?)
    }

    /// What the last rollout leads to.
    #[must_use]
    pub fn end(&self) -> Option<&ChainTarget> {
        self.targets.last()
    }

    /// The targets up to the one of this rollout.
    #[must_use]
    pub fn reached(&self) -> &[ChainTarget] {
        self.targets.get(..self.rollout).unwrap_or(&self.targets)
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rollout {} of {}", self.rollout, self.targets.len())?;
        match self.end() {
            Some(end) => write!(formatter, " on the way to {end}"),
            None => Ok(()),
        }
    }
}
