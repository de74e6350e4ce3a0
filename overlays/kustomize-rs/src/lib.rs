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
mod bases;
mod budget;
mod builtin;
mod cache;
mod configuration_file;
mod error;
mod expression;
pub mod flux;
pub mod fs;
mod generate;
mod id;
mod kustomization;
mod loader;
mod merge;
mod object;
mod objects;
mod outside;
mod pattern;
mod provenance;
mod refs;
mod remote;
mod requirement;
mod resource;
mod resources;
mod schema;
mod selector;
mod steps;
mod transform;

use std::sync::Arc;

/// The reader and writer whose types the API of this crate uses.
pub use yaml;

pub use cache::Cache;
pub use error::{BuildError, BuildErrorKind};
#[cfg(feature = "disk")]
pub use fs::DiskFileSystem;
pub use fs::{FileError, FileSystem, MemoryFileSystem, SnapshotFileSystem};
pub use id::{Gvk, ResourceId};
pub use kustomization::FILE_NAMES;
pub use loader::LoadRestrictor;
pub use outside::{ChartPull, ChartRenderer, ChartTemplate, Outside, OutsideError, RemoteBases, SharedFileSystem};
pub use remote::RemoteRepository;
pub use resource::{Origin, Resource};
pub use resources::Resources;
pub use transform::order::Order;

use accumulate::{Accumulator, Build, BuiltinSchema};
use budget::Budget;
use kustomization::{Kustomization, SortOptions};
use loader::{Files, Loader};
use object::{round_trip, type_mismatch};
use transform::{names, order, variables};

/// Whether a kind of Kubernetes itself lives outside of namespaces; none where it is not one of Kubernetes' own.
#[must_use]
pub fn is_cluster_scoped(kind: &Gvk) -> Option<bool> {
    let schema = schema::Schema::builtin();
    schema.knows_scope(kind).then(|| schema.is_cluster_scoped(kind))
}

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

/// Builds the kustomization in the directory `root`; the empty path is the root of the file system.
pub fn build(files: &dyn FileSystem, root: &str, options: &Options) -> Result<Resources, BuildError> {
    build_with(files, root, options, Outside::default())
}

/// As [`build`], with charts or remote bases where `outside` has them on.
pub fn build_with(
    files: &dyn FileSystem,
    root: &str,
    options: &Options,
    outside: Outside<'_>,
) -> Result<Resources, BuildError> {
    build_loaded(files, root, options, outside, None, BuiltinSchema::Unread, accumulate::load)
}

/// As [`build_with`], and what is read is kept for other builds: a base that many overlays share is read once.
pub fn build_cached(
    files: &dyn FileSystem,
    root: &str,
    options: &Options,
    outside: Outside<'_>,
    cache: &Cache,
) -> Result<Resources, BuildError> {
    build_loaded(files, root, options, outside, Some(cache), BuiltinSchema::Unread, accumulate::load)
}

/// As [`build_with`], with the kustomization of `root` from elsewhere, and how far the built-in schema has been read before.
fn build_loaded(
    files: &dyn FileSystem,
    root: &str,
    options: &Options,
    outside: Outside<'_>,
    cache: Option<&Cache>,
    builtin: BuiltinSchema,
    load: impl FnOnce(&Loader<'_>) -> Result<Arc<Kustomization>, BuildError>,
) -> Result<Resources, BuildError> {
    let start = fs::join("", root).ok_or_else(|| {
        BuildError::new(BuildErrorKind::File, format!("the path `{root}` leads out of the file tree"))
    })?;
    let not_there = |what: &str| BuildError::new(BuildErrorKind::File, format!("`{root}` {what}"));
    if !files.is_dir(&start) {
        return Err(not_there("is no directory"));
    }
    let start = files.canonical(&start).map_err(|error| not_there(&format!("cannot be read: {error}")))?;
    let loader = Loader {
        files: Files::Borrowed(files),
        outside,
        remotes: Vec::new(),
        above: 0,
        restrictor: options.load_restrictor,
        limits: options.limits,
        depth: options.depth,
        chain: vec![start],
        budget: Budget::new(options.steps, options.growth),
        cache,
    };
    let kustomization = load(&loader)?;
    let mut build = Build {
        schema: schema::Schema::shared_builtin(),
        schema_is_set: false,
        builtin,
        chart_namespaces: Vec::new(),
        warnings: kustomization.warnings.clone(),
        tracks_origins: !kustomization.build_metadata.is_empty(),
        shows_origins: ["originAnnotations", "transformerAnnotations"]
            .iter()
            .any(|shown| kustomization.build_metadata.iter().any(|option| option == shown)),
        objects_left: options.objects,
    };
    build.use_schema(&loader, &kustomization)?;
    let accumulator = build.accumulate(&loader, &kustomization, Accumulator::new(&loader.budget), "")?;
    finish(accumulator, &kustomization, options, build)
}

const ORDER_GIVEN_TWICE: &str = "Warning: Sorting order is set both in 'kustomization.yaml' ('sortOptions') and in a CLI \
                                 flag ('--reorder'). Using the kustomization file over the CLI flag.";

/// What happens once, at the root: hashes, references, variables, order, annotations.
fn finish(
    accumulator: Accumulator,
    kustomization: &Kustomization,
    options: &Options,
    build: Build,
) -> Result<Resources, BuildError> {
    let Accumulator { mut resources, configuration, variables } = accumulator;
    let schema = &build.schema;
    names::add_hashes(&mut resources, schema)?;
    refs::fix(&mut resources, &configuration.name_reference, schema)?;
    let unused = variables::resolve(&mut resources, &variables, &configuration.var_reference)?;
    let mut warnings = build.warnings;
    if !unused.is_empty() {
        warnings.push(format!("well-defined vars that were never replaced: {}", unused.join(",")));
    }
    match (&kustomization.sort_options, options.order) {
        (Some(SortOptions::Legacy(legacy)), _) => order::sort_legacy(&mut resources, legacy.as_ref(), schema),
        (None, Order::Legacy) => order::sort_legacy(&mut resources, None, schema),
        (Some(SortOptions::Fifo), _) | (None, Order::None) => {}
    }
    if kustomization.sort_options.is_some() && options.order != Order::Legacy {
        warnings.push(ORDER_GIVEN_TWICE.to_owned());
    }
    let wants = |option: &str| kustomization.build_metadata.iter().any(|wanted| wanted == option);
    let is_kept = |resource: &Resource| options.include_local_config || !resource.is_local();
    if options.managed_by_label || wants("managedByLabel") {
        resources.items.retain(is_kept);
        let pair = ("app.kubernetes.io/managed-by".to_owned(), format!("kustomize-{}", options.version));
        let field = schema::FieldSpec::new(Gvk::default(), "metadata/labels", true);
        transform::labels::add(&mut resources.items, &[pair], &[field])?;
    }
    let (origins, transformations) = (wants("originAnnotations"), wants("transformerAnnotations"));
    let mut printed = Ok(0_usize);
    // All in one pass: there are more objects than a processor has at hand.
    resources.items.retain_mut(|resource| {
        let is_kept = is_kept(resource);
        if let (true, Ok(before)) = (is_kept, &printed) {
            let before = *before;
            resource.cluster_scoped = resource.id(schema).cluster_scoped;
            printed = finish_one(resource, origins, transformations).map(|size| before.saturating_add(4 + size));
        }
        is_kept
    });
    let printed = printed?;
    if printed > options.output {
        let message = format!("the output is larger than {} bytes", options.output);
        return Err(BuildError::new(BuildErrorKind::Limit, message).hint("build fewer objects at once"));
    }
    resources.warnings = warnings;
    resources.printed = printed;
    Ok(resources)
}

/// What happens to each object at the root; returns about how many bytes it has when printed.
fn finish_one(resource: &mut Resource, origins: bool, transformations: bool) -> Result<usize, BuildError> {
    if !resource.is_named() {
        let message = "an object has lost its `kind` or `metadata.name`";
        return Err(BuildError::transform(message).at(&resource.origin.file.clone(), resource.node.span));
    }
    provenance::finish(resource, origins, transformations)?;
    resource.node.ordinary_size().map_or_else(|| printable_size(resource), Ok)
}

/// Makes a tree printable in which something is out of the ordinary, and returns its size.
fn printable_size(resource: &mut Resource) -> Result<usize, BuildError> {
    round_trip::write_and_read(&mut resource.node).map_err(|error| error.in_file(&resource.origin.file))?;
    type_mismatch::refuse(&resource.node).map_err(|error| error.in_file(&resource.origin.file))?;
    if let Some(span) = resource.node.find_infinite() {
        let message = "a number that is infinite or none at all; JSON has no word for it";
        return Err(BuildError::transform(message).at(&resource.origin.file, span));
    }
    Ok(resource.node.printed_size())
}
