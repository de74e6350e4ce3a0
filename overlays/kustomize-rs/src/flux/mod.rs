//! What Flux does around kustomize: [`build`] gives the objects that kustomize-controller would apply for a
//! `Kustomization` object.
//!
//! 1. [`generate`] takes the `kustomization.yaml` in `spec.path`, or makes one over all manifests below, and adds the
//!    fields of the object: `targetNamespace`, `namePrefix`, `nameSuffix`, `patches`, `components`, `images`,
//!    `buildMetadata`.
//! 2. kustomize builds it: files from all of the source may be named and none from outside of it, in the order of the
//!    input.
//! 3. `${…}` is replaced in each object, as `postBuild` says. [`Template`] is the dialect.
//! 4. Objects that Flux leaves out silently are left out with a warning, and `commonMetadata` is set on the others.
//!
//! The behaviour is that of `github.com/fluxcd/pkg/kustomize` v1.35 and `github.com/fluxcd/pkg/envsubst` v1.7.1, which
//! kustomize-controller v1.9.6 is built from, its quirks included. Not done: decryption, which needs keys, and what the
//! controller does when it applies objects. What is encrypted with SOPS stays so: each such object is told in a warning,
//! and an encrypted Secret where the object has no `spec.decryption` is an error, as in Flux.
//!
//! ```
//! use kustomize_rs::MemoryFileSystem;
//! use kustomize_rs::flux::{Kustomization, Options, build};
//! use yaml::{Limits, parse};
//!
//! let mut files = MemoryFileSystem::new();
//! files.insert("apps/web.yaml", *b"apiVersion: v1\nkind: Service\nmetadata: {name: '${name:=web}'}\n");
//! let text = "
//! apiVersion: kustomize.toolkit.fluxcd.io/v1
//! kind: Kustomization
//! metadata: {name: apps}
//! spec: {path: ./apps, targetNamespace: team, postBuild: {substitute: {name: shop}}}
//! ";
//! let object = Kustomization::from_node(&parse(text, &Limits::default())?[0].root, "apps.yaml")?;
//! let resources = build(&files, &object, &Options::default())?;
//! assert_eq!(resources.to_yaml(), "apiVersion: v1\nkind: Service\nmetadata:\n  name: shop\n  namespace: team\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod encryption;
mod generate;
mod kustomization;
mod merge;
mod metadata;
mod readable;
mod shape;
mod substitute;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use encryption::is_encrypted;
pub use generate::{Generated, generate};
pub use kustomization::{
    CommonMetadata, Image, Kustomization, Patch, PostBuild, SourceKind, SubstituteReference, SubstituteStrategy, Target,
};
pub use substitute::{Expression, Missing, Operation, Part, Template, TemplateError, TemplateErrorKind};

use crate::error::BuildError;
use crate::fs::FileSystem;
use crate::load::{LoadRestrictor, Outside};
use crate::resource::Resources;
use crate::schema::BuiltinSchema;
use crate::transform::order::Order;

/// How to build for a Flux object.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How kustomize builds, and its limits. Order and load restriction are Flux's: as in the input, and none but the file
    /// system's own.
    pub build: crate::Options,
    /// What a variable without value means: the controller's feature gate `StrictPostBuildSubstitutions`.
    pub missing: Missing,
    /// The objects of `postBuild.substituteFrom`.
    pub sources: Sources,
}

/// Values of `ConfigMap` and `Secret` objects, all in the namespace of the Flux object.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sources(BTreeMap<(SourceKind, String), BTreeMap<String, String>>);

impl Sources {
    /// Adds an object; one of the same kind and name is replaced.
    pub fn insert(&mut self, kind: SourceKind, name: impl Into<String>, values: BTreeMap<String, String>) {
        self.0.insert((kind, name.into()), values);
    }

    fn get(&self, kind: SourceKind, name: &str) -> Option<&BTreeMap<String, String>> {
        self.0.get(&(kind, name.to_owned()))
    }
}

/// Names only: values may be secret.
impl std::fmt::Debug for Sources {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Builds what kustomize-controller applies for `object`; `files` is the source that the object refers to, already
/// without what the source's `.sourceignore` leaves out.
///
/// # Errors
/// What [`generate`] and [`crate::build`] refuse, an object without name, kind or API version or that Flux cannot read again,
/// an encrypted Secret without `spec.decryption`, and an expression that cannot be replaced; the message names the object and where it was read.
pub fn build(files: &dyn FileSystem, object: &Kustomization, options: &Options) -> Result<Resources, BuildError> {
    let generated = generate(files, object, &options.build)?;
    let build = crate::Options { order: Order::None, load_restrictor: LoadRestrictor::None, ..options.build.clone() };
    // Flux has the built-in schema loaded before every build.
    let mut resources = crate::build::build_loaded(
        files,
        &generated.directory,
        &build,
        Outside::default(),
        None,
        BuiltinSchema::Read,
        |loader| {
            // Several files are refused here as there.
            crate::accumulate::find(loader)?;
            let read = crate::kustomization::Kustomization::from_node(&generated.root, &generated.file);
            read.map(std::sync::Arc::new).map_err(|error| error.in_file(&generated.file))
        },
    )?;
    for resource in &resources.items {
        metadata::check_identity(resource)?;
        readable::check(resource)?;
    }
    let mut warnings = generated.warnings;
    encryption::check(&resources, object.decrypts, &mut warnings)?;
    if let Some(post_build) = &object.post_build {
        let limits = &options.build.limits;
        substitute::resources::substitute(&mut resources, post_build, &options.sources, options.missing, limits)?;
    }
    metadata::leave_out(&mut resources, &mut warnings);
    if let Some(common) = &object.common_metadata {
        metadata::set_common(&mut resources, common);
    }
    if object.decrypts {
        warnings.push("# Warning: `spec.decryption` is set; what is encrypted stays encrypted here.".to_owned());
    }
    resources.warnings.splice(0..0, warnings);
    Ok(resources)
}
