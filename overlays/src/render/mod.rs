//! From a cluster and its bundle to the trees of files of its components.
//!
//! Each component is rendered on its own and fails on its own. The pipeline of one: upstream manifest by its address
//! (checked against `bundles.lock`), variables where it is a provider's, kustomize with the team's overlay
//! `overlays/<component>/` and then the cluster's `clusters/<name>/overlays/<component>/`, images of the bundle pinned by
//! digest, files.
//!
//! Architecture Invariant: same inputs, same bytes. Rendering depends on the source tree, the
//! mirrored manifests and the deployed tree only.

mod build;
mod bundle;
mod capi;
mod cert_manager;
mod cilium;
mod cluster;
mod eks_a;
mod flux;
mod flux_objects;
mod hops;
mod images;
mod inventory;
mod needs;
mod network_policies;
mod output;
mod tanzu;
mod types;
mod upgraders;
mod upstream;

use yaml::Node;

use crate::facts;
use crate::object::objects_of;
use crate::{ClusterKind, Files, Note, RenderedTree};

use images::{DeployedImages, PinReport, SectionImages};
use output::Directory;

pub use bundle::node_parts;
pub use flux::install_address;
pub use flux_objects::{kustomization_file, kustomization_name};
pub use needs::needs;
pub use types::{
    ComponentName, IntermediateVersion, RenderError, RenderRequest, RenderedCluster, RenderedComponent,
    UnknownComponent,
};
pub use upgraders::{
    UPGRADERS, asks_for_in_place, files_naming_upgraders, made_upgraders, namespace_of, written_upgraders,
};

/// Renders the target of one cluster: every component that it has.
pub fn render(request: &RenderRequest<'_>) -> RenderedCluster {
    let mut rendered = RenderedCluster::default();
    let is_of_tanzu = |name: &ComponentName| matches!(name, ComponentName::Addons | ComponentName::Templates);
    for name in ComponentName::ALL.into_iter().filter(|name| request.cluster.tanzu.is_some() || !is_of_tanzu(name)) {
        match applies(request, name) {
            Ok(()) => {
                if let Some(result) = render_component(request, name).transpose() {
                    rendered.components.insert(name, result);
                } else {
                    rendered.skipped.insert(name, "the deployed agent runs the image of the target already".to_owned());
                }
            }
            Err(reason) => {
                rendered.skipped.insert(name, reason);
            }
        }
    }
    rendered
}

/// Renders one component; `None` when the cluster has it and there is nothing to render.
///
/// # Errors
/// [`RenderError`] says which manifest, overlay or value is in the way.
pub fn render_component(
    request: &RenderRequest<'_>,
    name: ComponentName,
) -> Result<Option<RenderedComponent>, RenderError> {
    match name {
        ComponentName::Bundle => bundle::render(request).map(Some),
        ComponentName::CertManager => cert_manager::render(request).map(Some),
        ComponentName::Capi => capi::render(request).map(Some),
        ComponentName::EksA => eks_a::render(request).map(Some),
        ComponentName::CiliumPreflight => cilium::render_preflight(request),
        ComponentName::Cilium => cilium::render(request).map(Some),
        ComponentName::Flux => flux::render(request).map(Some),
        ComponentName::Addons | ComponentName::Templates => tanzu::render(request, name).map(Some),
        ComponentName::Cluster => cluster::render(request).map(Some),
        ComponentName::FluxObjects => flux_objects::render(request).map(Some),
    }
}

/// Whether a cluster has a component; the reason when it has not.
fn applies(request: &RenderRequest<'_>, name: ComponentName) -> Result<(), String> {
    let cluster = request.cluster;
    if name == ComponentName::Cluster {
        return Ok(());
    }
    if matches!(name, ComponentName::Addons | ComponentName::Templates) {
        let reason = "it is not rendered from a TanzuKubernetesCluster".to_owned();
        return cluster.tanzu.as_ref().map(|_| ()).ok_or(reason);
    }
    if name == ComponentName::FluxObjects {
        if cluster.kind == ClusterKind::Eksctl {
            return Err("no API server serves a ClusterConfig".to_owned());
        }
        return match request.fleet.policy.apply {
            policy::Apply::Flux => Ok(()),
            policy::Apply::Direct => Err("Stepgate applies this fleet itself (apply: direct)".to_owned()),
            policy::Apply::Pipeline => Err("a pipeline applies this fleet (apply: pipeline)".to_owned()),
            policy::Apply::Eksctl => Err("eksctl applies this fleet (apply: eksctl)".to_owned()),
        };
    }
    if request.bundle.is_none() {
        return Err("this cluster follows no bundle".to_owned());
    }
    match name {
        ComponentName::Cilium | ComponentName::CiliumPreflight => {
            if !cluster.cilium {
                return Err("this cluster does not use Cilium".to_owned());
            }
            if cluster.skip_cilium_upgrade {
                return Err("Cilium is left alone (skipUpgrade: true)".to_owned());
            }
            Ok(())
        }
        _ if !cluster.is_management() => Err("the management cluster has it".to_owned()),
        // Of others the stage brings what their machines are upgraded in place with, and nothing else.
        ComponentName::Bundle if cluster.kind != ClusterKind::EksAnywhere && has_upgraders(request) => Ok(()),
        ComponentName::EksA | ComponentName::Bundle if cluster.kind != ClusterKind::EksAnywhere => {
            Err("this cluster is not EKS Anywhere's".to_owned())
        }
        _ => Ok(()),
    }
}

fn has_upgraders(request: &RenderRequest<'_>) -> bool {
    let made = |bundle| made_upgraders(request.fleet, request.cluster, bundle);
    request.bundle.is_some_and(|bundle| !made(bundle).is_empty())
}

/// Whether the repository has an overlay of a component, for this cluster or for all.
#[must_use]
pub fn has_overlay(files: &dyn Files, cluster: &str, component: ComponentName) -> bool {
    !build::overlay_folders(files, cluster, component).is_empty()
}

/// The objects of a component's directory as deployed.
fn deployed_objects(request: &RenderRequest<'_>, component: ComponentName) -> Vec<Node> {
    objects_in(request.deployed, component.directory())
}

fn objects_in(tree: &RenderedTree, folder: &str) -> Vec<Node> {
    let files = tree.files.iter().filter(|(path, _)| path.is_below(folder) && path.file_name() != "kustomization.yaml");
    files.filter(|(path, _)| path.is_yaml()).flat_map(|(_, bytes)| objects_of(bytes)).collect()
}

/// Pins the images of `objects`; `section` tells which section an object takes its images from.
fn pin_images<'s>(
    request: &RenderRequest<'_>,
    component: ComponentName,
    objects: &mut [Node],
    section: impl Fn(&Node) -> &'s SectionImages,
) -> PinReport {
    let deployed = DeployedImages::below(request.deployed, component.directory());
    let mut report = PinReport::default();
    for node in objects.iter_mut() {
        let section = section(node);
        images::pin(node, section, &deployed, &mut report);
    }
    report
}

/// Puts a component together: files, what they hold, and what is worth knowing compared with `deployed`.
fn finish(
    name: ComponentName,
    version: Option<String>,
    directory: Directory,
    deployed: &[Node],
    mut notes: Vec<Note>,
) -> Result<RenderedComponent, RenderError> {
    let comparison = facts::compare(deployed, directory.nodes());
    let (tree, objects) = directory.finish()?;
    notes.extend(comparison.notes);
    notes.sort_by(|left, right| right.weight.cmp(&left.weight).then_with(|| left.cmp(right)));
    notes.dedup();
    Ok(RenderedComponent {
        name,
        version,
        tree,
        objects,
        notes,
        removed_versions: comparison.removed_versions,
        hops: Vec::new(),
        missing_hops: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
