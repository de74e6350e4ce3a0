//! One cluster's target, cut into the parts that stages commit.
//!
//! A part is the files that a stage finds and the files that it leaves. Parts follow from two trees alone, so the next process cuts
//! them the same way: what a stage has committed is no difference any more.

use std::collections::BTreeMap;

use overlays::{
    ClusterSpec, ComponentName, Note, ObjectSummary, RemovedVersion, RenderError, RenderedCluster, RenderedComponent,
    RenderedTree, SpecStage,
};
use rollout::{ClusterName, GroupName, RenderFailure, StageId, StageName};

use super::directory::{cluster_folder, flux_folder, path};
use crate::git::GitError;

/// What one stage changes in git.
#[derive(Clone, Debug)]
pub struct Part {
    /// The stage.
    pub stage: StageId,
    /// The component whose directory it changes; none for the cluster specification.
    pub component: Option<ComponentName>,
    /// Its files before, paths relative to the top of the deploy tree.
    pub before: RenderedTree,
    /// Its files after.
    pub after: RenderedTree,
    /// Of the files after that people have changed, what is rendered.
    pub rendered: RenderedTree,
    /// What the files after hold, for gates.
    pub objects: Vec<ObjectSummary>,
    /// What the renderer says about it.
    pub notes: Vec<Note>,
    /// Versions that disappear from definitions.
    pub removed_versions: Vec<RemovedVersion>,
    /// The component's version after it.
    pub version: Option<String>,
    /// Versions that are missing on the way; the plan is blocked while there are any.
    pub missing_hops: Vec<String>,
    /// Why it could not be rendered.
    pub error: Option<RenderFailure>,
    /// Why the cluster has no such stage.
    pub skipped: Option<String>,
    /// Whether the cluster's Flux objects are committed with it.
    pub carries_flux_objects: bool,
}

impl Part {
    pub(super) fn unchanged(stage: StageId, component: ComponentName, tree: RenderedTree) -> Self {
        Self {
            stage,
            component: Some(component),
            before: tree.clone(),
            after: tree,
            rendered: RenderedTree::new(),
            objects: Vec::new(),
            notes: Vec::new(),
            removed_versions: Vec::new(),
            version: None,
            missing_hops: Vec::new(),
            error: None,
            skipped: None,
            carries_flux_objects: false,
        }
    }
}

impl Part {
    /// The folders of the deploy tree whose files this part may change.
    pub fn scope(&self, cluster: &ClusterName) -> Vec<String> {
        let home = cluster_folder(cluster);
        let own = self.component.map_or(ComponentName::Cluster.directory(), ComponentName::directory);
        let mut scope = vec![format!("{home}/{own}")];
        if matches!(self.component, Some(ComponentName::Cilium | ComponentName::CiliumPreflight)) {
            scope.push(format!("{home}/{}", ComponentName::CiliumPreflight.directory()));
            scope.push(format!("{}/{}", flux_folder(cluster), preflight_file()));
        }
        if self.carries_flux_objects {
            scope.push(flux_folder(cluster));
        }
        scope
    }
}

/// A step of the cluster specification: one cumulative tree of its files.
#[derive(Clone, Debug)]
pub struct SpecificationStep {
    /// Which stage leads to it.
    pub stage: SpecStage,
    /// The files, paths relative to `clusters/<name>/`.
    pub tree: RenderedTree,
}

/// The file of the pre-pull's Flux object, below `flux/<cluster>/`: it comes and goes with the directory that it applies.
fn preflight_file() -> String {
    overlays::kustomization_file(ComponentName::CiliumPreflight)
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
/// [`GitError`] when a rendered path is refused as a path of the repository.
pub fn cut(
    cluster: &ClusterName,
    spec: &ClusterSpec,
    deployed: &RenderedTree,
    rendered: &RenderedCluster,
    worker_order: &[&str],
    steps: &[SpecificationStep],
) -> Result<Vec<Part>, GitError> {
    let home = cluster_folder(cluster);
    let mut parts = Vec::new();
    for (component, stage) in COMPONENTS {
        let before = deployed.below(&format!("{home}/{}", component.directory()));
        let Some(result) = rendered.components.get(&component) else {
            if let Some(reason) = rendered.skipped.get(&component) {
                let mut part = Part::unchanged(stage.into(), component, before);
                part.skipped = Some(reason.clone());
                parts.push(part);
            }
            continue;
        };
        match result {
            Err(error) => {
                let mut part = Part::unchanged(stage.into(), component, before);
                part.error = Some(failure(error));
                parts.push(part);
            }
            Ok(target) if component == ComponentName::Cilium => {
                parts.extend(cilium_parts(cluster, deployed, rendered, before, target)?);
            }
            Ok(target) => parts.extend(component_parts(&home, component, &stage, before, target)?),
        }
    }
    parts.extend(specification_parts(&home, deployed, spec, worker_order, steps)?);
    add_flux_objects(cluster, deployed, rendered, &mut parts)?;
    Ok(parts)
}

/// The hops and the last stage of one component, each starting from what the one before leaves.
fn component_parts(
    home: &str,
    component: ComponentName,
    stage: &StageName,
    deployed: RenderedTree,
    target: &RenderedComponent,
) -> Result<Vec<Part>, GitError> {
    let mut before = deployed;
    let mut parts = Vec::new();
    for hop in &target.hops {
        let after = absolute(home, &hop.tree)?;
        parts.push(Part {
            before: std::mem::replace(&mut before, after.clone()),
            after,
            objects: hop.objects.clone(),
            notes: hop.notes.clone(),
            removed_versions: hop.removed_versions.clone(),
            version: Some(hop.version.clone()),
            ..Part::unchanged(StageId::hop(stage.clone(), hop.version.clone()), component, RenderedTree::new())
        });
    }
    let after = absolute(home, &target.tree)?;
    parts.push(Part {
        before,
        after,
        objects: target.objects.clone(),
        notes: target.notes.clone(),
        removed_versions: target.removed_versions.clone(),
        version: target.version.clone(),
        missing_hops: target.missing_hops.clone(),
        ..Part::unchanged(stage.clone().into(), component, RenderedTree::new())
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
) -> Result<Vec<Part>, GitError> {
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
            parts.push(Part {
                before: std::mem::replace(&mut pulled, after.clone()),
                after,
                objects: preflight.objects.clone(),
                notes: preflight.notes.clone(),
                version: preflight.version.clone(),
                ..Part::unchanged(
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
    cluster: &ClusterSpec,
    worker_order: &[&str],
    steps: &[SpecificationStep],
) -> Result<Vec<Part>, GitError> {
    let mut before = deployed.below(&format!("{home}/{}", ComponentName::Cluster.directory()));
    let mut parts = Vec::new();
    for stage in specification_order(cluster, worker_order, steps) {
        let name = match &stage {
            SpecStage::Etcd => StageName::Etcd,
            SpecStage::ControlPlane => StageName::ControlPlane,
            SpecStage::Workers(group) => StageName::Workers(group_name(group)?),
        };
        let step = steps.iter().find(|step| step.stage == stage);
        let after = step.map_or_else(|| Ok(before.clone()), |step| absolute(home, &step.tree))?;
        parts.push(Part {
            component: None,
            before: std::mem::replace(&mut before, after.clone()),
            after,
            ..Part::unchanged(name.into(), ComponentName::Cluster, RenderedTree::new())
        });
    }
    Ok(parts)
}

/// Etcd, control plane, worker groups; the other way round where the steps go down.
fn specification_order(cluster: &ClusterSpec, worker_order: &[&str], steps: &[SpecificationStep]) -> Vec<SpecStage> {
    let place = |wanted: fn(&SpecStage) -> bool| steps.iter().position(|step| wanted(&step.stage));
    let workers = place(|stage| matches!(stage, SpecStage::Workers(_)));
    let control_plane = place(|stage| matches!(stage, SpecStage::ControlPlane));
    let etcd = cluster.external_etcd.map(|_| SpecStage::Etcd);
    let groups = worker_order.iter().map(|group| SpecStage::Workers((*group).to_owned()));
    if matches!((workers, control_plane), (Some(workers), Some(control_plane)) if workers < control_plane) {
        groups.chain([SpecStage::ControlPlane]).chain(etcd).collect()
    } else {
        etcd.into_iter().chain([SpecStage::ControlPlane]).chain(groups).collect()
    }
}

/// The Flux objects belong to the first part that there is: whatever is committed next can only be applied with them.
fn add_flux_objects(
    cluster: &ClusterName,
    deployed: &RenderedTree,
    rendered: &RenderedCluster,
    parts: &mut [Part],
) -> Result<(), GitError> {
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
    let Some(first) = parts.iter_mut().find(|part| part.skipped.is_none()) else { return Ok(()) };
    first.carries_flux_objects = true;
    first.before.extend(&before);
    first.after.extend(&after);
    if let Some(Err(error)) = rendered.components.get(&ComponentName::FluxObjects) {
        first.error.get_or_insert_with(|| failure(error));
    }
    Ok(())
}

/// The tree with all paths below `folder`.
fn absolute(folder: &str, tree: &RenderedTree) -> Result<RenderedTree, GitError> {
    let place = |(name, bytes): (&overlays::RepoPath, &std::sync::Arc<[u8]>)| {
        Ok((path(&format!("{folder}/{name}"))?, bytes.clone()))
    };
    tree.files.iter().map(place).collect::<Result<BTreeMap<_, _>, GitError>>().map(|files| RenderedTree { files })
}

fn group_name(group: &str) -> Result<GroupName, GitError> {
    group.parse().map_err(|error: rollout::InvalidIdentifier| GitError::Library {
        action: "name a worker group".to_owned(),
        message: error.to_string(),
    })
}

/// The tree that the last part leaves: all parts' files after, over what is deployed.
pub fn target_tree(deployed: &RenderedTree, parts: &[Part]) -> RenderedTree {
    let mut tree = deployed.clone();
    for part in parts {
        for path in part.before.files.keys() {
            tree.files.remove(path);
        }
        tree.extend(&part.after);
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> RenderedTree {
        let file = |(name, text): &(&str, &str)| (path(name).unwrap(), std::sync::Arc::from(text.as_bytes()));
        RenderedTree { files: files.iter().map(file).collect() }
    }

    fn part(before: RenderedTree, after: RenderedTree) -> Part {
        Part { before, after, ..Part::unchanged(StageName::Cilium.into(), ComponentName::Cilium, RenderedTree::new()) }
    }

    #[test]
    fn the_target_has_every_part_as_it_is_left_and_the_rest_as_it_is_deployed() {
        let deployed = tree(&[("clusters/a/one/x", "1"), ("clusters/a/one/gone", "1"), ("clusters/a/other/z", "1")]);
        let hop = tree(&[("clusters/a/one/x", "2"), ("clusters/a/one/hop", "2")]);
        let last = tree(&[("clusters/a/one/x", "3")]);
        let parts = [part(deployed.below("clusters/a/one"), hop.clone()), part(hop, last)];
        let expected = tree(&[("clusters/a/one/x", "3"), ("clusters/a/other/z", "1")]);
        assert_eq!(target_tree(&deployed, &parts), expected);
        assert_eq!(target_tree(&deployed, &[]), deployed);
    }

    #[test]
    fn a_part_changes_its_own_directory_and_the_flux_objects_that_it_carries() {
        let cluster: ClusterName = "a".parse().unwrap();
        let scope = |component: Option<ComponentName>, carries_flux_objects: bool| {
            let part = Part { component, carries_flux_objects, ..part(RenderedTree::new(), RenderedTree::new()) };
            part.scope(&cluster)
        };
        assert_eq!(scope(Some(ComponentName::CertManager), false), ["clusters/a/cert-manager"]);
        assert_eq!(scope(Some(ComponentName::Bundle), true), ["clusters/a/bundle", "flux/a"]);
        assert_eq!(scope(None, false), ["clusters/a/cluster"]);
        assert_eq!(
            scope(Some(ComponentName::Cilium), false),
            ["clusters/a/cilium", "clusters/a/cilium-preflight", "flux/a/cilium-preflight.yaml"]
        );
    }
}
