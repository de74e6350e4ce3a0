//! Cutting a cluster's target into the parts that stages commit: each starts from what the one before it leaves.

use std::collections::BTreeMap;

use domain::{ClusterName, GroupName};
use overlays::{ClusterSpec, ComponentName, RenderError, RenderedCluster, RenderedComponent, RenderedTree, SpecStage};
use rollout::{RenderFailure, StageId, StageName};

use super::{StageTree, preflight_file};
use crate::PathError;
use crate::directory::{cluster_folder, flux_folder, path};

/// A step of the cluster specification: one cumulative tree of its files.
#[derive(Clone, Debug)]
pub struct SpecificationStep {
    /// Which stage leads to it.
    pub stage: SpecStage,
    /// The files, paths relative to `clusters/<name>/`.
    pub tree: RenderedTree,
    /// Whether it has all of the control plane's step too.
    pub moves_control_plane: bool,
}

const COMPONENTS: [(ComponentName, StageName); 6] = [
    (ComponentName::CertManager, StageName::CertManager),
    (ComponentName::Capi, StageName::Capi),
    (ComponentName::EksA, StageName::EksA),
    (ComponentName::Bundle, StageName::Bundle),
    (ComponentName::Cilium, StageName::Cilium),
    (ComponentName::Flux, StageName::Flux),
];

fn failure(error: &RenderError) -> RenderFailure {
    RenderFailure { message: error.to_string(), help: error.hint().to_owned() }
}

/// Cuts the target into parts, in the order of the stages.
///
/// # Errors
/// [`PathError`] when a rendered path is refused as a path of the repository.
pub fn cut(
    cluster: &ClusterName,
    spec: &ClusterSpec,
    deployed: &RenderedTree,
    rendered: &RenderedCluster,
    worker_order: &[&str],
    steps: &[SpecificationStep],
) -> Result<Vec<StageTree>, PathError> {
    let mut parts = components(cluster, deployed, rendered)?;
    let order = specification_order(spec, worker_order, steps);
    parts.extend(specification_parts(&cluster_folder(cluster), deployed, order, steps)?);
    let first = parts.iter_mut().find(|part| part.skipped.is_none());
    add_flux_objects(cluster, deployed, rendered, first)?;
    Ok(parts)
}

/// As [`cut`], the other way round: the specification goes back first, from its last worker group on, then what was committed
/// last of the components.
///
/// # Errors
/// As [`cut`].
pub fn cut_back(
    cluster: &ClusterName,
    spec: &ClusterSpec,
    deployed: &RenderedTree,
    target: &RenderedCluster,
    worker_order: &[&str],
    steps: &[SpecificationStep],
) -> Result<Vec<StageTree>, PathError> {
    let is_added =
        |stage: &SpecStage| matches!(stage, SpecStage::Workers(group) if !worker_order.contains(&group.as_str()));
    // Groups that were not there before go first.
    let added = steps.iter().map(|step| step.stage.clone()).filter(is_added);
    let groups = worker_order.iter().rev().map(|group| SpecStage::Workers((*group).to_owned()));
    let etcd = spec.external_etcd.map(|_| SpecStage::Etcd);
    let order = added.chain(groups).chain(etcd).chain([SpecStage::ControlPlane]).collect();
    let mut parts = specification_parts(&cluster_folder(cluster), deployed, order, steps)?;
    parts.extend(components(cluster, deployed, target)?.into_iter().rev());
    // What applies a component has to be there before it, and goes after it.
    let folder = flux_folder(cluster);
    let wanted = target.components.get(&ComponentName::FluxObjects).and_then(|result| result.as_ref().ok());
    let mut wanted = wanted.into_iter().flat_map(|component| component.tree.files.keys());
    let comes = wanted.any(|path| deployed.get(&format!("{folder}/{path}")).is_none());
    let mut carriers = parts.iter_mut().filter(|part| part.skipped.is_none());
    let carrier = if comes { carriers.next() } else { carriers.next_back() };
    add_flux_objects(cluster, deployed, target, carrier)?;
    Ok(parts)
}

/// The parts of the components, in the order of their stages.
fn components(
    cluster: &ClusterName,
    deployed: &RenderedTree,
    rendered: &RenderedCluster,
) -> Result<Vec<StageTree>, PathError> {
    let home = cluster_folder(cluster);
    let mut parts = Vec::new();
    for (component, stage) in COMPONENTS {
        let before = deployed.below(&format!("{home}/{}", component.directory()));
        let Some(result) = rendered.components.get(&component) else {
            if let Some(reason) = rendered.skipped.get(&component) {
                let mut part = StageTree::unchanged(stage.into(), component, before);
                part.skipped = Some(reason.clone());
                parts.push(part);
            }
            continue;
        };
        match result {
            Err(error) => {
                let mut part = StageTree::unchanged(stage.into(), component, before);
                part.error = Some(failure(error));
                parts.push(part);
            }
            Ok(target) if component == ComponentName::Cilium => {
                parts.extend(cilium_parts(cluster, deployed, rendered, before, target)?);
            }
            Ok(target) => parts.extend(component_parts(&home, component, &stage, before, target)?),
        }
    }
    Ok(parts)
}

/// The hops and the last stage of one component, each starting from what the one before leaves.
fn component_parts(
    home: &str,
    component: ComponentName,
    stage: &StageName,
    deployed: RenderedTree,
    target: &RenderedComponent,
) -> Result<Vec<StageTree>, PathError> {
    let mut before = deployed;
    let mut parts = Vec::new();
    for hop in &target.hops {
        let after = absolute(home, &hop.tree)?;
        parts.push(StageTree {
            before: std::mem::replace(&mut before, after.clone()),
            after,
            objects: hop.objects.clone(),
            notes: hop.notes.clone(),
            removed_versions: hop.removed_versions.clone(),
            version: Some(hop.version.clone()),
            ..StageTree::unchanged(StageId::hop(stage.clone(), hop.version.clone()), component, RenderedTree::new())
        });
    }
    let after = absolute(home, &target.tree)?;
    parts.push(StageTree {
        before,
        after,
        objects: target.objects.clone(),
        notes: target.notes.clone(),
        removed_versions: target.removed_versions.clone(),
        version: target.version.clone(),
        missing_hops: target.missing_hops.clone(),
        ..StageTree::unchanged(stage.clone().into(), component, RenderedTree::new())
    });
    Ok(parts)
}

/// Cilium's parts: before the last one the pre-pull with its Flux object, which the last one takes away again.
fn cilium_parts(
    cluster: &ClusterName,
    deployed: &RenderedTree,
    rendered: &RenderedCluster,
    before: RenderedTree,
    target: &RenderedComponent,
) -> Result<Vec<StageTree>, PathError> {
    let home = cluster_folder(cluster);
    let object = path(&format!("{}/{}", flux_folder(cluster), preflight_file()))?;
    let mut parts = component_parts(&home, ComponentName::Cilium, &StageName::Cilium, before, target)?;
    let mut pulled = deployed.below(&format!("{home}/{}", ComponentName::CiliumPreflight.directory()));
    pulled.files.extend(deployed.get(object.as_str()).map(|bytes| (object.clone(), bytes.clone())));
    let Some(mut last) = parts.pop() else { return Ok(parts) };
    match rendered.components.get(&ComponentName::CiliumPreflight) {
        Some(Ok(preflight)) if last.before != last.after => {
            let mut after = absolute(&home, &preflight.tree)?;
            if let Some(Ok(objects)) = rendered.components.get(&ComponentName::FluxObjects) {
                after.files.extend(
                    objects
                        .tree
                        .get(&overlays::kustomization_file(ComponentName::CiliumPreflight))
                        .map(|bytes| (object, bytes.clone())),
                );
            }
            parts.push(StageTree {
                before: std::mem::replace(&mut pulled, after.clone()),
                after,
                objects: preflight.objects.clone(),
                notes: preflight.notes.clone(),
                version: preflight.version.clone(),
                ..StageTree::unchanged(
                    StageName::CiliumPreflight.into(),
                    ComponentName::CiliumPreflight,
                    RenderedTree::new(),
                )
            });
        }
        Some(Err(error)) => last.error = Some(failure(error)),
        Some(Ok(_)) | None => {}
    }
    last.before.extend(&pulled);
    parts.push(last);
    Ok(parts)
}

/// A part for every stage that the specification has, changed or not: the gate of a committed one is still asked for.
fn specification_parts(
    home: &str,
    deployed: &RenderedTree,
    order: Vec<SpecStage>,
    steps: &[SpecificationStep],
) -> Result<Vec<StageTree>, PathError> {
    let mut before = deployed.below(&format!("{home}/{}", ComponentName::Cluster.directory()));
    let mut parts = Vec::new();
    for stage in order {
        let name = match &stage {
            SpecStage::Etcd => StageName::Etcd,
            SpecStage::ControlPlane => StageName::ControlPlane,
            SpecStage::Workers(group) => StageName::Workers(group_name(group)?),
        };
        let step = steps.iter().find(|step| step.stage == stage);
        let is_carried = stage == SpecStage::ControlPlane && steps.iter().any(|step| step.moves_control_plane);
        let after = step.map_or_else(|| Ok(before.clone()), |step| absolute(home, &step.tree))?;
        parts.push(StageTree {
            component: None,
            before: std::mem::replace(&mut before, after.clone()),
            after,
            carried_by: is_carried.then(|| StageName::Etcd.into()),
            ..StageTree::unchanged(name.into(), ComponentName::Cluster, RenderedTree::new())
        });
    }
    Ok(parts)
}

/// Etcd, control plane, worker groups; the other way round where the steps go down.
fn specification_order(cluster: &ClusterSpec, worker_order: &[&str], steps: &[SpecificationStep]) -> Vec<SpecStage> {
    let place = |wanted: fn(&SpecStage) -> bool| steps.iter().position(|step| wanted(&step.stage));
    let workers = place(|stage| matches!(stage, SpecStage::Workers(_)));
    // Where one step moves both, it is the one of etcd.
    let control_plane = place(|stage| matches!(stage, SpecStage::Etcd | SpecStage::ControlPlane));
    let etcd = cluster.external_etcd.map(|_| SpecStage::Etcd);
    let groups = worker_order.iter().map(|group| SpecStage::Workers((*group).to_owned()));
    if matches!((workers, control_plane), (Some(workers), Some(control_plane)) if workers < control_plane) {
        groups.chain(etcd).chain([SpecStage::ControlPlane]).collect()
    } else {
        etcd.into_iter().chain([SpecStage::ControlPlane]).chain(groups).collect()
    }
}

/// The Flux objects belong to the first part that there is: whatever is committed next can only be applied with them.
fn add_flux_objects(
    cluster: &ClusterName,
    deployed: &RenderedTree,
    rendered: &RenderedCluster,
    carrier: Option<&mut StageTree>,
) -> Result<(), PathError> {
    let folder = flux_folder(cluster);
    let mut before = deployed.below(&folder);
    before.files.remove(format!("{folder}/{}", preflight_file()).as_str());
    let after = match rendered.components.get(&ComponentName::FluxObjects) {
        Some(Ok(component)) => {
            let mut tree = component.tree.clone();
            tree.files.remove(preflight_file().as_str());
            absolute(&folder, &tree)?
        }
        Some(Err(_)) | None => before.clone(),
    };
    let Some(first) = carrier else { return Ok(()) };
    first.carries_flux_objects = true;
    first.before.extend(&before);
    first.after.extend(&after);
    if let Some(Err(error)) = rendered.components.get(&ComponentName::FluxObjects) {
        first.error.get_or_insert_with(|| failure(error));
    }
    Ok(())
}

/// The tree with all paths below `folder`.
fn absolute(folder: &str, tree: &RenderedTree) -> Result<RenderedTree, PathError> {
    let place = |(name, bytes): (&domain::RepoPath, &std::sync::Arc<[u8]>)| {
        Ok((path(&format!("{folder}/{name}"))?, bytes.clone()))
    };
    tree.files.iter().map(place).collect::<Result<BTreeMap<_, _>, PathError>>().map(|files| RenderedTree { files })
}

fn group_name(group: &str) -> Result<GroupName, PathError> {
    group.parse().map_err(PathError::from)
}
