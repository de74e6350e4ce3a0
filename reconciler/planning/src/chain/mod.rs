//! Chained upgrades: the rollouts that lead a cluster of EKS Anywhere over several bundles and Kubernetes minors.
//!
//! A chain is searched when a rollout begins. From then on it stands in the ledger, so that the rollout leads to what it
//! began with, whatever is deployed by then and whatever is pushed.

mod candidates;
mod course;
mod target;

pub use course::{Asked, Course, course};
pub use target::{Unwritable, fleet_at};

#[cfg(test)]
mod tests;
