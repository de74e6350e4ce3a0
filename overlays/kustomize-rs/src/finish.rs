//! What happens once, at the root: hashes, references, variables, order, annotations.

use crate::accumulate::Build;
use crate::accumulator::Accumulator;
use crate::error::{BuildError, BuildErrorKind};
use crate::id::Gvk;
use crate::kustomization::Kustomization;
use crate::kustomization::spec::SortOptions;
use crate::object::{round_trip, type_mismatch};
use crate::options::Options;
use crate::refs;
use crate::resource::{Resource, Resources, provenance};
use crate::schema;
use crate::transform::order::{self, Order};
use crate::transform::{self, names, variables};

const ORDER_GIVEN_TWICE: &str = "Warning: Sorting order is set both in 'kustomization.yaml' ('sortOptions') and in a CLI \
                                 flag ('--reorder'). Using the kustomization file over the CLI flag.";

/// What happens once, at the root: hashes, references, variables, order, annotations.
pub(crate) fn finish(
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
