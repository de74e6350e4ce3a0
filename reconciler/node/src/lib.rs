//! Upgrades Kubernetes on the node it runs on: file by file, each whole at the old or the new version at any moment,
//! and step by step, each of which may be called again after any crash. `reconciler/docs/node-upgrader.md` tells how.
//!
//! What is current is read off the node. The journal on the node orders the steps and tells what was done; it never
//! stands for a look at the node.

pub mod api;
pub mod cli;
pub mod files;
#[cfg(test)]
mod fuzzed;
pub mod host;
pub mod journal;
mod proof;
pub mod run;
pub mod step;
mod steps;
pub mod version;
mod work;

pub use steps::status;
pub use work::Choices;
