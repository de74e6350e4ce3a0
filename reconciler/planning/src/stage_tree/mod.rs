//! One cluster's target, cut into the parts that stages commit.
//!
//! A part is the files that a stage finds and the files that it leaves. Parts follow from two trees alone, so the next process cuts
//! them the same way: what a stage has committed is no difference any more.

mod cut;
mod rendered_tanzu;

use domain::ClusterName;
use overlays::{ComponentName, Note, ObjectSummary, RemovedVersion, RenderedTree};
use rollout::{RenderFailure, StageId};

pub use cut::{SpecificationStep, cut, cut_back, gone_groups};

use crate::directory::{cluster_folder, flux_folder};

/// What one stage changes in git.
#[derive(Clone, Debug)]
pub struct StageTree {
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
    /// Components whose files are committed with those of its own.
    pub carries: Vec<ComponentName>,
    /// The stage whose commit moves this one too; its files are then the same before and after.
    pub carried_by: Option<StageId>,
}

impl StageTree {
    /// A stage that leaves its files as they are.
    pub fn unchanged(stage: StageId, component: ComponentName, tree: RenderedTree) -> Self {
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
            carries: Vec::new(),
            carried_by: None,
        }
    }

    /// Whether anything changes with it, by its own commit or by the one that moves it too.
    pub fn is_moved(&self) -> bool {
        self.before != self.after || self.carried_by.is_some()
    }
}

impl StageTree {
    /// The folders of the deploy tree whose files this part may change.
    pub fn scope(&self, cluster: &ClusterName) -> Vec<String> {
        let home = cluster_folder(cluster);
        let own = self.component.map_or(ComponentName::Cluster.directory(), ComponentName::directory);
        let mut scope = vec![format!("{home}/{own}")];
        if matches!(self.component, Some(ComponentName::Cilium | ComponentName::CiliumPreflight)) {
            scope.push(format!("{home}/{}", ComponentName::CiliumPreflight.directory()));
            scope.push(format!("{}/{}", flux_folder(cluster), preflight_file()));
        }
        scope.extend(self.carries.iter().map(|component| format!("{home}/{}", component.directory())));
        if self.carries_flux_objects {
            scope.push(flux_folder(cluster));
        }
        scope
    }
}

/// The file of the pre-pull's Flux object, below `flux/<cluster>/`: it comes and goes with the directory that it applies.
fn preflight_file() -> String {
    overlays::kustomization_file(ComponentName::CiliumPreflight)
}

/// The tree that the last part leaves: all parts' files after, over what is deployed.
pub fn target_tree(deployed: &RenderedTree, parts: &[StageTree]) -> RenderedTree {
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
    use rollout::StageName;

    use super::*;
    use crate::directory::path;

    fn tree(files: &[(&str, &str)]) -> RenderedTree {
        let file = |(name, text): &(&str, &str)| (path(name).unwrap(), std::sync::Arc::from(text.as_bytes()));
        RenderedTree { files: files.iter().map(file).collect() }
    }

    fn part(before: RenderedTree, after: RenderedTree) -> StageTree {
        StageTree {
            before,
            after,
            ..StageTree::unchanged(StageName::Cilium.into(), ComponentName::Cilium, RenderedTree::new())
        }
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
            let part = StageTree { component, carries_flux_objects, ..part(RenderedTree::new(), RenderedTree::new()) };
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
