//! From a fleet repository and a bundle to rendered trees of files.
//!
//! Everything here is pure: values in, values out. The files of the repository come through [`Files`], upstream
//! manifests through [`Manifests`] and Helm charts through [`Charts`]; the implementations that read git, a mirror
//! folder, the network or run `helm` live in the `stepgate` package.
//!
//! The way of one render: [`read_fleet`] finds bundles, clusters and policy in a commit; [`bundle_for`] picks the bundle
//! of one cluster; `render` makes the tree of files that the cluster's directory on the deploy branch should hold.

mod cluster;
mod document;
pub mod edit;
pub mod eksctl;
pub mod facts;
mod files;
mod fleet;
mod flux_settings;
#[cfg(test)]
mod fuzzed;
mod json;
mod note;
pub mod object;
mod remembered;
pub mod render;
mod source;
pub mod spec_rollout;
pub mod tanzu;
#[cfg(test)]
mod testing;
mod tree;
pub mod variables;

pub use cluster::{
    BundleReference, ClusterKind, ClusterSpec, Management, Place, Places, Provider, RenderedTanzu, SpecFile,
    WorkerGroup, WorkerGroupKind,
};
pub use files::{ContentId, EntryKind, FileEntry, Files, MemoryFiles, ReadError, Unusable, UnusablePath};
pub use fleet::{
    BundleFile, EksaReleaseFile, EksdReleaseFile, Fleet, FluxVersionInUse, ReadFiles, bundle_for, lives_in_a_namespace,
    read_fleet, read_fleet_remembering, uses_bundle,
};
pub use flux_settings::{FLUX_FIELDS, FluxFieldUse, FluxSettings};
pub use note::{Note, NoteKind, RemovedVersion, Weight};
pub use object::{CrdSummary, CrdVersion, ObjectId, ObjectSummary, WebhookSummary, objects_of};
pub use remembered::Remembered;
pub use render::{
    ComponentName, IntermediateVersion, RenderError, RenderRequest, RenderedCluster, RenderedComponent, UPGRADERS,
    asks_for_in_place, files_naming_upgraders, has_overlay, kustomization_file, made_upgraders, namespace_of,
    written_upgraders,
};
pub use source::{ChartError, ChartRequest, Charts, FetchError, Manifests};
pub use spec_rollout::{
    ClusterStage, SpecChange, SpecStage, cluster_stages, cluster_stages_back, immutable_changes, ordered_groups,
    spec_tree,
};
pub use tree::{DeployedTree, FileChange, RenderedTree, TreeDifference};
