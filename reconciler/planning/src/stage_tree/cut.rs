//! Cutting a cluster's target into the parts that stages commit: each starts from what the one before it leaves.

use std::collections::BTreeMap;

use domain::{ClusterName, GroupName};
use overlays::{
    ClusterKind, ClusterSpec, ComponentName, RenderError, RenderedCluster, RenderedComponent, RenderedTree, SpecStage,
};
use rollout::{Ledger, LedgerState, RenderFailure, StageId, StageName, StageRecordKind};

use super::{StageTree, preflight_file, rendered_tanzu};
use crate::PathError;
use crate::directory::{cluster_folder, flux_folder, path};

/// A step of the cluster specification: one cumulative tree of its files.
#[derive(Clone, Debug)]
pub struct SpecificationStep {
    /// Which stage leads to it.
    pub stage: SpecStage,
    /// The files, paths relative to `clusters/<name>/`.
    pub tree: RenderedTree,
    /// The steps whose changes it has too.
    pub moves: Vec<SpecStage>,
}

const COMPONENTS: [(ComponentName, StageName); 6] = [
    (ComponentName::CertManager, StageName::CertManager),
    (ComponentName::Capi, StageName::Capi),
    (ComponentName::EksA, StageName::EksA),
    (ComponentName::Bundle, StageName::Bundle),
    (ComponentName::Cilium, StageName::Cilium),
    (ComponentName::Flux, StageName::Flux),
];

pub(super) fn failure(error: &RenderError) -> RenderFailure {
    RenderFailure { message: error.to_string(), help: error.hint().to_owned() }
}

/// The worker groups that a cluster does not have any more: they go by stages of their own, behind those that stay. One whose stage was
/// committed is still looked at until the rollout ends.
pub fn gone_groups(known: &[String], steps: &[SpecificationStep], ledger: Option<&Ledger>) -> Vec<String> {
    let stages = steps.iter().flat_map(|step| std::iter::once(&step.stage).chain(&step.moves));
    let of_steps = stages.filter_map(|stage| match stage {
        SpecStage::Workers(group) if !known.contains(group) => Some(group.clone()),
        SpecStage::Workers(_) | SpecStage::Addon(_) | SpecStage::Addons | SpecStage::Etcd | SpecStage::ControlPlane => {
            None
        }
    });
    let of_steps: Vec<String> = of_steps.collect();
    let running = ledger.filter(|ledger| ledger.state == LedgerState::Running);
    let records = running.map(|ledger| ledger.stages.as_slice()).unwrap_or_default().iter();
    let committed = records.filter(|record| record.kind == StageRecordKind::Commit);
    let mut gone: Vec<String> = Vec::new();
    for stage in committed.flat_map(|record| std::iter::once(&record.stage).chain(&record.carries)) {
        let StageName::Workers(group) = &stage.name else { continue };
        let group = group.to_string();
        if ![known, &of_steps, &gone].iter().any(|names| names.contains(&group)) {
            gone.push(group);
        }
    }
    gone.extend(of_steps);
    gone
}

/// Cuts the target into parts, in the order of the stages. `before` is the deployed specification: where the version of the control
/// plane is still above the target's, workers go before it, those that are there already included.
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
    before: Option<&ClusterSpec>,
) -> Result<Vec<StageTree>, PathError> {
    let mut parts = components(cluster, deployed, rendered)?;
    let goes_down = goes_down(steps) || before.is_some_and(|before| is_lower(spec, before));
    let order = specification_order(spec, worker_order, steps, goes_down);
    let specification = specification_parts(&cluster_folder(cluster), deployed, order, steps)?;
    parts.extend(rendered_tanzu::parts(&cluster_folder(cluster), deployed, rendered, specification, goes_down)?);
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
    let moved = steps.iter().flat_map(|step| std::iter::once(&step.stage).chain(&step.moves));
    let added = moved.filter(|component| is_added(component)).cloned();
    let groups = worker_order.iter().rev().map(|group| SpecStage::Workers((*group).to_owned()));
    let etcd = spec.external_etcd.map(|_| SpecStage::Etcd);
    let mut order: Vec<SpecStage> = added.chain(groups).chain(etcd).chain([SpecStage::ControlPlane]).collect();
    order.extend((spec.kind == ClusterKind::Tanzu).then_some(SpecStage::Addons));
    if spec.kind == ClusterKind::Eksctl {
        order = eksctl_order(spec, &worker_order.iter().rev().copied().collect::<Vec<_>>(), steps, true);
    }
    let specification = specification_parts(&cluster_folder(cluster), deployed, order, steps)?;
    let mut parts = rendered_tanzu::parts(&cluster_folder(cluster), deployed, target, specification, true)?;
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
        let name = stage_name(&stage)?;
        let step = steps.iter().find(|step| step.stage == stage);
        let carrier = steps.iter().find(|step| step.moves.contains(&stage)).map(|step| stage_name(&step.stage));
        let after = step.map_or_else(|| Ok(before.clone()), |step| absolute(home, &step.tree))?;
        parts.push(StageTree {
            component: None,
            before: std::mem::replace(&mut before, after.clone()),
            after,
            carried_by: carrier.transpose()?.map(StageId::from),
            ..StageTree::unchanged(name.into(), ComponentName::Cluster, RenderedTree::new())
        });
    }
    Ok(parts)
}

fn stage_name(stage: &SpecStage) -> Result<StageName, PathError> {
    Ok(match stage {
        SpecStage::Etcd => StageName::Etcd,
        SpecStage::Addons => StageName::Addons,
        SpecStage::ControlPlane => StageName::ControlPlane,
        SpecStage::Addon(name) => StageName::Addon(group_name(name)?),
        SpecStage::Workers(group) => StageName::Workers(group_name(group)?),
    })
}

/// Etcd, control plane, worker groups; the other way round where the steps go down.
fn specification_order(
    cluster: &ClusterSpec,
    worker_order: &[&str],
    steps: &[SpecificationStep],
    goes_down: bool,
) -> Vec<SpecStage> {
    let has_etcd = cluster.external_etcd.is_some() || steps.iter().any(|step| step.stage == SpecStage::Etcd);
    let etcd = has_etcd.then_some(SpecStage::Etcd);
    let groups = worker_order.iter().map(|group| SpecStage::Workers((*group).to_owned()));
    if cluster.kind == ClusterKind::Eksctl {
        return eksctl_order(cluster, worker_order, steps, goes_down);
    }
    let addons = (cluster.kind == ClusterKind::Tanzu).then_some(SpecStage::Addons);
    // One step has the whole change of such a cluster, and its first stage commits it.
    let takes_workers_first = |step: &SpecificationStep| {
        matches!(step.stage, SpecStage::Workers(_)) && step.moves.contains(&SpecStage::ControlPlane)
    };
    if addons.is_some() && steps.iter().any(takes_workers_first) {
        groups.chain([SpecStage::ControlPlane]).chain(addons).collect()
    } else if addons.is_none() && goes_down {
        groups.chain(etcd).chain([SpecStage::ControlPlane]).collect()
    } else {
        etcd.into_iter().chain(addons).chain([SpecStage::ControlPlane]).chain(groups).collect()
    }
}

/// Whether the control plane goes to an earlier version.
fn is_lower(target: &ClusterSpec, deployed: &ClusterSpec) -> bool {
    let version = |cluster: &ClusterSpec| cluster.kubernetes_version.parse::<bundles::KubernetesVersion>().ok();
    version(target).zip(version(deployed)).is_some_and(|(target, deployed)| target.order(&deployed).is_lt())
}

/// Whether workers go before the control plane.
fn goes_down(steps: &[SpecificationStep]) -> bool {
    let place = |wanted: fn(&SpecStage) -> bool| steps.iter().position(|step| wanted(&step.stage));
    let workers = place(|stage| matches!(stage, SpecStage::Workers(_)));
    // Where one step moves both, it is the one of etcd.
    let control_plane = place(|stage| matches!(stage, SpecStage::Etcd | SpecStage::ControlPlane));
    matches!((workers, control_plane), (Some(workers), Some(first)) if workers < first)
}

/// Those of a `ClusterConfig`, each node group followed by what it replaces.
fn eksctl_order(
    cluster: &ClusterSpec,
    worker_order: &[&str],
    steps: &[SpecificationStep],
    down: bool,
) -> Vec<SpecStage> {
    let is_known = |name: &str| cluster.worker_groups.iter().any(|group| group.name == name);
    let (known, mut old): (Vec<&str>, Vec<&str>) = worker_order.iter().copied().partition(|name| is_known(name));
    for step in steps {
        if let SpecStage::Workers(name) = &step.stage
            && !worker_order.contains(&name.as_str())
        {
            old.push(name);
        }
    }
    overlays::eksctl::sequence(&cluster.node, &known, &old, down)
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
pub(super) fn absolute(folder: &str, tree: &RenderedTree) -> Result<RenderedTree, PathError> {
    let place = |(name, bytes): (&domain::RepoPath, &std::sync::Arc<[u8]>)| {
        Ok((path(&format!("{folder}/{name}"))?, bytes.clone()))
    };
    tree.files.iter().map(place).collect::<Result<BTreeMap<_, _>, PathError>>().map(|files| RenderedTree { files })
}

fn group_name(group: &str) -> Result<GroupName, PathError> {
    group.parse().map_err(PathError::from)
}

#[cfg(test)]
mod tests {
    use overlays::MemoryFiles;

    use super::*;

    const FILE: &str = "clusters/depot/cluster/depot.yaml";

    /// A cluster of Cluster API with one worker group.
    fn cluster(version: &str) -> ClusterSpec {
        let text = format!(
            "\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {{name: depot, namespace: tenants}}
spec:
  controlPlaneRef: {{apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: depot}}
  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: depot}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {{name: depot, namespace: tenants}}
spec: {{replicas: 1, version: {version}, machineTemplate: {{spec: {{infrastructureRef: {{kind: DevMachineTemplate, name: a}}}}}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {{name: blue, namespace: tenants, labels: {{cluster.x-k8s.io/cluster-name: depot}}}}
spec: {{clusterName: depot, replicas: 1, template: {{spec: {{clusterName: depot, version: {version}}}}}}}
"
        );
        let file = ("clusters/depot/cluster.yaml".parse().unwrap(), text.into_bytes());
        let fleet = overlays::read_fleet(&[file].into_iter().collect::<MemoryFiles>());
        fleet.clusters.into_iter().find(|cluster| cluster.name == "depot").unwrap()
    }

    fn tree(text: &str) -> RenderedTree {
        let file = (path(FILE).unwrap(), std::sync::Arc::from(text.as_bytes()));
        RenderedTree { files: [file].into_iter().collect() }
    }

    fn step(stage: SpecStage, text: &str) -> SpecificationStep {
        let file = (path("cluster/depot.yaml").unwrap(), std::sync::Arc::from(text.as_bytes()));
        SpecificationStep { stage, tree: RenderedTree { files: [file].into_iter().collect() }, moves: Vec::new() }
    }

    fn workers() -> SpecStage {
        SpecStage::Workers("blue".to_owned())
    }

    /// The stages of a movement, each with what it leaves.
    fn stages(target: &str, before: &str, deployed: &str, steps: &[SpecificationStep]) -> Vec<(String, String)> {
        let (target, before) = (cluster(target), cluster(before));
        let name = "depot".parse().unwrap();
        let parts =
            cut(&name, &target, &tree(deployed), &RenderedCluster::default(), &["blue"], steps, Some(&before)).unwrap();
        let left = |part: &StageTree| String::from_utf8(part.after.get(FILE).unwrap().to_vec()).unwrap();
        parts.iter().map(|part| (part.stage.to_string(), left(part))).collect()
    }

    fn expected(stages: [(&str, &str); 2]) -> Vec<(String, String)> {
        stages.map(|(stage, text)| (stage.to_owned(), text.to_owned())).to_vec()
    }

    #[test]
    fn workers_go_down_before_the_control_plane_and_up_behind_it() {
        let down = [step(workers(), "workers"), step(SpecStage::ControlPlane, "both")];
        let found = stages("v1.34.1", "v1.34.2", "none", &down);
        assert_eq!(found, expected([("workers/blue", "workers"), ("control-plane", "both")]));
        let up = [step(SpecStage::ControlPlane, "plane"), step(workers(), "both")];
        let found = stages("v1.34.2", "v1.34.1", "none", &up);
        assert_eq!(found, expected([("control-plane", "plane"), ("workers/blue", "both")]));
    }

    /// Once its workers are committed nothing but the version that is deployed tells that the rollout goes down.
    #[test]
    fn a_control_plane_that_is_left_to_go_down_stays_behind_its_workers() {
        let left = [step(SpecStage::ControlPlane, "both")];
        let found = stages("v1.34.1", "v1.34.2", "workers", &left);
        assert_eq!(found, expected([("workers/blue", "workers"), ("control-plane", "both")]));
        let found = stages("v1.34.2", "v1.34.2", "workers", &left);
        assert_eq!(found, expected([("control-plane", "both"), ("workers/blue", "both")]));
    }
}
