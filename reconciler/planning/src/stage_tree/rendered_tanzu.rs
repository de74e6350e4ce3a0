//! The parts that a rendered `TanzuKubernetesCluster` has besides its specification: add-ons, and templates of machines.
//!
//! Templates come with the first stage that refers to them, and go by a stage of their own when no machine is made from them any more.

use overlays::{ComponentName, RenderError, RenderedCluster, RenderedComponent, RenderedTree};
use rollout::StageName;

use super::StageTree;
use super::cut::{absolute, failure};
use crate::PathError;

/// The parts of the specification with those of add-ons and templates, in the order of the stages. Add-ons go first, on the way down
/// last, and with the cluster itself where there is none yet: nothing answers then that they could be applied to.
pub(super) fn parts(
    home: &str,
    deployed: &RenderedTree,
    rendered: &RenderedCluster,
    mut specification: Vec<StageTree>,
    down: bool,
) -> Result<Vec<StageTree>, PathError> {
    let is_new = deployed.below(&format!("{home}/{}", ComponentName::Cluster.directory())).is_empty();
    let mut prune = None;
    if let Some(result) = rendered.components.get(&ComponentName::Templates) {
        let (before, after) = trees(home, deployed, ComponentName::Templates, result)?;
        let mut both = before.clone();
        both.extend(&after);
        // Once they are there, no later stage has them too: what a stage leads to is the same from the first commit to the last.
        if before != both {
            carry(&mut specification, ComponentName::Templates, &before, &both);
        }
        prune = Some(part(StageName::Templates, ComponentName::Templates, both, after, result));
    }
    let mut addons = None;
    if let Some(result) = rendered.components.get(&ComponentName::Addons) {
        let (mut before, after) = trees(home, deployed, ComponentName::Addons, result)?;
        if is_new {
            carry(&mut specification, ComponentName::Addons, &before, &after);
            before = after.clone();
        }
        addons = Some(part(StageName::Addons, ComponentName::Addons, before, after, result));
    }
    let (first, last) = if down { (None, addons) } else { (addons, None) };
    Ok(first.into_iter().chain(specification).chain(last).chain(prune).collect())
}

/// The files of a component before and after; what could not be rendered stays as it is.
fn trees(
    home: &str,
    deployed: &RenderedTree,
    component: ComponentName,
    result: &Result<RenderedComponent, RenderError>,
) -> Result<(RenderedTree, RenderedTree), PathError> {
    let before = deployed.below(&format!("{home}/{}", component.directory()));
    let after = match result {
        Ok(target) => absolute(home, &target.tree)?,
        Err(_) => before.clone(),
    };
    Ok((before, after))
}

fn part(
    stage: StageName,
    component: ComponentName,
    before: RenderedTree,
    after: RenderedTree,
    result: &Result<RenderedComponent, RenderError>,
) -> StageTree {
    let unchanged = StageTree::unchanged(stage.into(), component, before);
    match result {
        Ok(target) => StageTree { after, objects: target.objects.clone(), notes: target.notes.clone(), ..unchanged },
        Err(error) => StageTree { error: Some(failure(error)), ..unchanged },
    }
}

/// Commits files of a component with the first stage of the specification that changes anything.
fn carry(specification: &mut [StageTree], component: ComponentName, before: &RenderedTree, after: &RenderedTree) {
    let moved = specification.iter().position(|part| part.before != part.after).unwrap_or(0);
    let Some(carrier) = specification.get_mut(moved) else { return };
    carrier.carries.push(component);
    carrier.before.extend(before);
    carrier.after.extend(after);
}

#[cfg(test)]
mod tests {
    use overlays::ComponentName;
    use rollout::StageId;

    use super::*;
    use crate::directory::path;

    const HOME: &str = "clusters/depot";

    fn tree(files: &[(&str, &str)]) -> RenderedTree {
        let file = |(name, text): &(&str, &str)| (path(name).unwrap(), std::sync::Arc::from(text.as_bytes()));
        RenderedTree { files: files.iter().map(file).collect() }
    }

    fn component(name: ComponentName, files: &[(&str, &str)]) -> Result<RenderedComponent, RenderError> {
        Ok(RenderedComponent {
            name,
            version: None,
            tree: tree(files),
            objects: Vec::new(),
            notes: Vec::new(),
            removed_versions: Vec::new(),
            hops: Vec::new(),
            missing_hops: Vec::new(),
        })
    }

    fn rendered(addon: &str, template: &str) -> RenderedCluster {
        let mut rendered = RenderedCluster::default();
        let addons = component(ComponentName::Addons, &[("addons/antrea/manifests.yaml", addon)]);
        rendered.components.insert(ComponentName::Addons, addons);
        let templates = component(ComponentName::Templates, &[(&format!("templates/{template}.yaml"), "a: 1\n")]);
        rendered.components.insert(ComponentName::Templates, templates);
        rendered
    }

    /// A part of the specification, and whether anything changes with it.
    fn specification(stage: &str, is_moved: bool) -> StageTree {
        let files = |text: &str| tree(&[("clusters/depot/cluster/cluster-api.yaml", text)]);
        let stage: StageId = stage.parse().unwrap();
        let (before, after) = (files("a: 1\n"), files(if is_moved { "a: 2\n" } else { "a: 1\n" }));
        StageTree { before, after, ..StageTree::unchanged(stage, ComponentName::Cluster, RenderedTree::new()) }
    }

    fn deployed() -> RenderedTree {
        tree(&[
            ("clusters/depot/cluster/cluster-api.yaml", "a: 1\n"),
            ("clusters/depot/addons/antrea/manifests.yaml", "v1"),
            ("clusters/depot/templates/old.yaml", "a: 1\n"),
        ])
    }

    fn stages(parts: &[StageTree]) -> Vec<String> {
        parts.iter().filter(|part| part.before != part.after).map(|part| part.stage.to_string()).collect()
    }

    fn has(tree: &RenderedTree, name: &str) -> bool {
        tree.get(&format!("{HOME}/{name}")).is_some()
    }

    #[test]
    fn templates_come_with_who_names_them_and_go_behind_the_last_pool() {
        let specification = vec![specification("control-plane", false), specification("workers/blue", true)];
        let parts = parts(HOME, &deployed(), &rendered("v1", "new"), specification, false).unwrap();
        assert_eq!(stages(&parts), ["workers/blue", "templates"]);
        let workers = parts.iter().find(|part| part.stage.to_string() == "workers/blue").unwrap();
        assert!(has(&workers.after, "templates/new.yaml") && has(&workers.after, "templates/old.yaml"));
        let last = parts.last().unwrap();
        assert!(has(&last.after, "templates/new.yaml") && !has(&last.after, "templates/old.yaml"));
    }

    #[test]
    fn what_a_stage_leads_to_is_the_same_when_the_one_before_is_committed() {
        let both = || vec![specification("control-plane", true), specification("workers/blue", true)];
        let first = parts(HOME, &deployed(), &rendered("v1", "new"), both(), false).unwrap();
        let mut deployed = deployed();
        deployed.extend(&first.iter().find(|part| part.stage.to_string() == "control-plane").unwrap().after);
        let left = vec![specification("control-plane", false), specification("workers/blue", true)];
        let second = parts(HOME, &deployed, &rendered("v1", "new"), left, false).unwrap();
        assert_eq!(stages(&second), ["workers/blue", "templates"]);
        for stage in ["workers/blue", "templates"] {
            let of = |parts: &[StageTree]| {
                parts.iter().find(|part| part.stage.to_string() == stage).map(|part| part.after.digest())
            };
            assert_eq!(of(&first), of(&second), "{stage}");
        }
    }

    #[test]
    fn add_ons_go_first_and_on_the_way_down_last() {
        let both = || vec![specification("control-plane", true), specification("workers/blue", true)];
        let up = parts(HOME, &deployed(), &rendered("v2", "new"), both(), false).unwrap();
        assert_eq!(stages(&up), ["addons", "control-plane", "workers/blue", "templates"]);
        let down = vec![specification("workers/blue", true), specification("control-plane", true)];
        let down = parts(HOME, &deployed(), &rendered("v2", "new"), down, true).unwrap();
        assert_eq!(stages(&down), ["workers/blue", "control-plane", "addons", "templates"]);
    }

    #[test]
    fn add_ons_of_a_new_cluster_come_with_it() {
        let new = vec![specification("control-plane", true)];
        let parts = parts(HOME, &RenderedTree::new(), &rendered("v1", "new"), new, false).unwrap();
        assert_eq!(stages(&parts), ["control-plane"]);
        let plane = parts.iter().find(|part| part.stage.to_string() == "control-plane").unwrap();
        assert!(has(&plane.after, "addons/antrea/manifests.yaml") && has(&plane.after, "templates/new.yaml"));
        let scope = plane.scope(&"depot".parse().unwrap());
        for folder in ["clusters/depot/addons", "clusters/depot/templates"] {
            assert!(scope.iter().any(|known| known == folder), "{scope:?}");
        }
    }
}
