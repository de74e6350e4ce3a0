//! A whole fleet in memory: source branch, deploy branch, clusters, people and the controller's loop around
//! [`rollout::step`].
//!
//! What a stage changes is a version number here; everything else follows from it: digests, objects, expectations. So whole
//! rollouts run without a process, a disk or a socket, and a [`Simulation`] can be cloned at any effect.

mod branch;
mod controller;
mod crash;
mod defect;
mod fleet;
mod invariant;
mod play;
mod scenario;
mod simulation;
mod violation;
mod waves;

pub use branch::{BranchCommit, ClusterTree, DeployBranch, LostRace, NewCommit, Parts, part_digest, tree_digest};
pub use controller::{Controller, Turn};
pub use crash::{Crash, Torn};
pub use defect::Defect;
pub use fleet::{ModelCluster, SourceCommit};
pub use play::{Played, play};
pub use scenario::{InvalidStory, Scenario, Story, in_place_scenario, scenario, tanzu_scenario, wave_scenario};
pub use simulation::{Happening, Simulation};
pub use violation::Violation;
pub use waves::ModelWave;
