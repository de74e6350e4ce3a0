//! One build, from its root to the finished objects.

use std::sync::Arc;

use crate::accumulate::{self, Build};
use crate::accumulator::Accumulator;
use crate::budget::Budget;
use crate::cache::Cache;
use crate::error::{BuildError, BuildErrorKind};
use crate::finish::finish;
use crate::fs::{self, FileSystem};
use crate::kustomization::Kustomization;
use crate::load::{Files, Loader, Outside};
use crate::options::Options;
use crate::resource::Resources;
use crate::schema::{BuiltinSchema, Schema};

/// Builds the kustomization in the directory `root`; the empty path is the root of the file system.
pub fn build(files: &dyn FileSystem, root: &str, options: &Options) -> Result<Resources, BuildError> {
    build_with(files, root, options, Outside::default())
}

/// Builds like [`build`], with the chart renderer and the remote bases of `outside`.
pub fn build_with(
    files: &dyn FileSystem,
    root: &str,
    options: &Options,
    outside: Outside<'_>,
) -> Result<Resources, BuildError> {
    build_loaded(files, root, options, outside, None, BuiltinSchema::Unread, accumulate::load)
}

/// Builds like [`build_with`] and keeps what it reads in `cache`: overlays share their bases.
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
pub(crate) fn build_loaded(
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
        return Err(not_there("is not a directory"));
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
        schema: Schema::shared_builtin(),
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
