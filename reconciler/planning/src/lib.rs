//! From a fleet, trees and the deploy branch's records to the input of a cluster's plan: what forbids it, the trees that its stages commit, what
//! their gates expect, and how far the clusters are that come before it.
//!
//! Architecture Invariant: everything here is a value or a pure function of values. What is read of git comes in, and errors are names that are
//! refused.

pub mod apis;
pub mod chain;
mod changes;
mod contract;
pub mod declared;
pub mod definitions;
pub mod difference;
mod directory;
pub mod edits;
mod eksctl;
mod error;
pub mod expectation;
pub mod facts;
#[cfg(test)]
mod fuzzed;
pub mod images;
pub mod machines;
pub mod overlay_conflicts;
pub mod people;
pub mod plan;
pub mod policies;
pub mod progress;
mod release_notes;
pub mod repository;
pub mod rollback;
pub mod signatures;
pub mod stage_tree;
pub mod support;
mod tanzu;
pub mod updates;
pub mod waivers;
pub mod wanted;

pub use directory::{ClusterDirectory, DeployedLedger, DirectoryIds, cluster_folder, flux_folder, ledger_path, path};
pub use eksctl::way_back::{EksWayBack, eks_way_back};
pub use eksctl::{EksctlWork, eksctl_names, eksctl_work, running_eks_part};
pub use error::PathError;
