//! A cluster and a Flux in memory under a virtual clock.
//!
//! A [`SimulatedCluster`] is given commits of a deploy branch and moments of time, and shows what the gates of the
//! `rollout` package read: Flux objects, Deployments, DaemonSets, control planes, MachineDeployments, machines, nodes. It
//! shows the traps of the real thing too: status that belongs to the generation before,
//! counts that are right while every machine is old, a control plane that looks complete while its last old machine goes.
//!
//! Architecture Invariant: nothing here does I/O or reads a clock. One seed and the same calls give the same observations on
//! every machine.

mod clock;
mod cluster;
mod desired;
mod fault;
pub mod model;
mod pace;
mod providers;
mod random;
mod schedule;
mod shape;

pub use cluster::{SimulatedCluster, UpgradeDefect, UpgradeFault};
pub use desired::{
    DeployedCommit, DesiredDefinition, DesiredKustomization, DesiredMachines, DesiredObject, DesiredPlainObject,
    DesiredState, DesiredVersion, DesiredWebhook, DesiredWorkload,
};
pub use fault::{Break, Fault, Injection, InvalidBreak, InvalidFault, Trigger};
pub use pace::{MachineKind, Pace};
pub use providers::as_other_providers;
pub use random::Random;
pub use shape::{ClusterShape, Etcd, MachineStrategy, WorkerGroup};
