//! The clusters of a fleet repository in memory: what the deploy branch says of them, under a virtual clock.
//!
//! `stepgate demo` runs on all of a fleet, `stepgate rehearse` on one cluster of somebody's.

mod deployed;
mod fleet;

pub use fleet::{SimulatedFleet, Simulation};

use std::collections::BTreeMap;

use domain::GroupName;

/// How many machines run where no specification tells: with an autoscaler, or where a number is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineCounts {
    /// Of the control plane.
    pub control_plane: Option<u32>,
    /// Of each worker group.
    pub workers: BTreeMap<GroupName, u32>,
}
