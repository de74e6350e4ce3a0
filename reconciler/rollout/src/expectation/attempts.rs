//! How long a machine may take to come up.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use domain::GroupName;

/// Machines of a part of a cluster that come up in their time, or are made anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptsExpectation {
    /// Namespace of the Cluster API `Cluster`.
    pub namespace: String,
    /// Its name.
    pub cluster: String,
    /// Whose machines.
    #[serde(flatten)]
    pub part: AttemptedPart,
    /// The time of each attempt.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub limit: Duration,
    /// After how many failed attempts people wanted it tried again, as commits of the deploy branch say; the rollout fills it in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retried_after: Vec<u32>,
}

/// Whose machines are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "part")]
pub enum AttemptedPart {
    /// Those of the control plane.
    ControlPlane,
    /// Those of a worker group.
    Workers {
        /// The group.
        group: GroupName,
    },
}
