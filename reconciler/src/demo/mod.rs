//! `stepgate demo`: a fleet repository, a bump, the real controller, and simulated clusters under a virtual clock.
//!
//! Everything but the clusters and the time is real: the repository, the rendering, the decisions, the commits. The second run on a
//! kept folder finds the fleet as the first left it and commits nothing.

mod fleet;
mod report;
mod run;

pub use fleet::FleetFiles;
pub use report::{ClusterResult, DemoEvent, DemoReport, HeldResult, StageResult};
pub use run::run;

use std::path::PathBuf;

use simulator::Break;

/// Of which kind the clusters of the built-in fleet are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DemoKind {
    /// A management cluster of EKS Anywhere with two workload clusters.
    #[default]
    EksAnywhere,
    /// A `TanzuKubernetesCluster` that is rendered for Cluster API.
    Tanzu,
}

/// What a demonstration runs on.
#[derive(Clone, Debug)]
pub struct DemoSettings {
    /// The folder; the repository is `fleet.git` in it.
    pub folder: PathBuf,
    /// Of which kind its clusters are, where no bundles are given.
    pub kind: DemoKind,
    /// Bundles manifests to go from and to; the built-in ones, when none are given.
    pub bundles: Option<(PathBuf, PathBuf)>,
    /// Where the manifests that these bundles name are.
    pub mirrors: Vec<PathBuf>,
    /// What goes wrong, and at which stage.
    pub broken: Option<Break>,
}
