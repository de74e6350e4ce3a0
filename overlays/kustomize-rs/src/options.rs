//! How to build, and how much a build may cost.

use crate::load::LoadRestrictor;
use crate::transform::order::Order;

/// How to build, and how much a build may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The order of the output where the kustomization has no `sortOptions`.
    pub order: Order,
    /// Which files a kustomization may name.
    pub load_restrictor: LoadRestrictor,
    /// Bounds for every file that is read.
    pub limits: yaml::Limits,
    /// Longest chain of kustomizations that contain one another.
    pub depth: usize,
    /// Objects in all files together.
    pub objects: usize,
    /// Work of one build, each step about as much as looking at one node: at most some seconds. A build has no clock, so
    /// this stands for time.
    pub steps: u64,
    /// Bytes that all files, objects and values made by a build take together, whether they are still held or not.
    pub growth: u64,
    /// Bytes of the output, quotes and escapes not counted.
    pub output: usize,
    /// Label all objects as `buildMetadata: [managedByLabel]` does.
    pub managed_by_label: bool,
    /// Version in the label of `buildMetadata: [managedByLabel]`, after `kustomize-`.
    pub version: String,
    /// Keep objects with the annotation `config.kubernetes.io/local-config`.
    pub include_local_config: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            order: Order::Legacy,
            load_restrictor: LoadRestrictor::RootOnly,
            limits: yaml::Limits::default(),
            depth: 100,
            objects: 1_000_000,
            steps: 500_000_000,
            growth: 384 << 20,
            output: 128 << 20,
            managed_by_label: false,
            version: "(devel)".into(),
            include_local_config: false,
        }
    }
}

impl Options {
    /// The defaults without limits on files, work and memory, for trees that are trusted. Nesting stays bounded.
    #[must_use]
    pub fn unlimited() -> Self {
        let most = usize::MAX;
        let depth = yaml::Limits::default().depth;
        Self {
            limits: yaml::Limits { bytes: most, documents: most, nodes: most, depth },
            objects: most,
            steps: u64::MAX,
            growth: u64::MAX,
            output: most,
            ..Self::default()
        }
    }
}
