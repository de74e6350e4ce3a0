//! How long machines take to start.

use std::time::Duration;

use domain::GroupName;

/// Machines that are alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachineKind {
    /// Of the control plane.
    ControlPlane,
    /// Of a worker group.
    Workers(GroupName),
    /// Members of an external etcd.
    Etcd,
}

/// How long a machine takes from the order for its infrastructure until it is up: somewhere between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// No machine is faster.
    pub shortest: Duration,
    /// No machine is slower.
    pub longest: Duration,
}

impl Default for Pace {
    /// As machines in memory take it.
    fn default() -> Self {
        Self { shortest: Duration::from_secs(12), longest: Duration::from_secs(18) }
    }
}
