//! `kustomize build` in Rust: the bytes of kustomize v5.8.1, without exec, plugins or network.
//!
//! [`build`] reads a directory of a [`FileSystem`] and returns the objects its kustomization makes:
//!
//! ```
//! use kustomize_rs::{MemoryFileSystem, Options, build};
//!
//! let mut files = MemoryFileSystem::new();
//! files.insert("base/kustomization.yaml", *b"resources: [service.yaml]\nnamePrefix: my-\n");
//! files.insert("base/service.yaml", *b"apiVersion: v1\nkind: Service\nmetadata: {name: web}\n");
//! let resources = build(&files, "base", &Options::default())?;
//! assert_eq!(resources.to_yaml(), "apiVersion: v1\nkind: Service\nmetadata:\n  name: my-web\n");
//! # Ok::<(), kustomize_rs::BuildError>(())
//! ```
//!
//! There is no global state: builds run in parallel. Every input is bounded by [`Options`].

mod accumulate;
mod accumulator;
mod budget;
mod build;
mod cache;
mod error;
mod finish;
pub mod flux;
pub mod fs;
mod generate;
mod id;
mod kustomization;
mod load;
mod merge;
mod object;
mod options;
mod refs;
mod resource;
mod schema;
mod select;
mod steps;
mod transform;

/// The reader and writer whose types the API of this crate uses.
pub use yaml;

pub use build::{build, build_cached, build_with};
pub use cache::Cache;
pub use error::{BuildError, BuildErrorKind};
#[cfg(feature = "disk")]
pub use fs::DiskFileSystem;
pub use fs::{FileError, FileSystem, MemoryFileSystem, SnapshotFileSystem};
pub use id::{Gvk, ResourceId};
pub use kustomization::FILE_NAMES;
pub use load::{
    ChartPull, ChartRenderer, ChartTemplate, LoadRestrictor, Outside, OutsideError, RemoteBases, RemoteRepository,
    SharedFileSystem,
};
pub use options::Options;
pub use resource::{Origin, Resource, Resources};
pub use transform::order::Order;

/// Returns whether a built-in Kubernetes kind is cluster-scoped, `None` for any other kind.
#[must_use]
pub fn is_cluster_scoped(kind: &Gvk) -> Option<bool> {
    let schema = schema::Schema::builtin();
    schema.knows_scope(kind).then(|| schema.is_cluster_scoped(kind))
}

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
