//! What people changed of a stage and had approved: a file that is committed as they want it, instead of as it is rendered.
//!
//! Architecture Invariant: an edit stays as long as what it was made of. It replaces one rendered file of one stage; once the source branch
//! renders that file otherwise, it is over. So the plan's digest binds every approval to the edited tree, as to any other.

use std::sync::Arc;

use domain::RepoPath;
use domain::{ClusterName, TreeDigest};
use overlays::{ComponentName, ObjectSummary, RenderedTree};
use rollout::{AcceptedEdit, StagePlan};

use crate::directory::{ClusterDirectory, cluster_folder};
use crate::stage_tree::StageTree;

/// An edit with the file as it is wanted.
pub type Edit = (AcceptedEdit, Arc<[u8]>);

/// The components whose manifests may be edited. A cluster's specification and its bundle decide about versions and the order of stages, and
/// belong into the source branch.
const EDITABLE: [ComponentName; 6] = [
    ComponentName::CertManager,
    ComponentName::Capi,
    ComponentName::EksA,
    ComponentName::Cilium,
    ComponentName::CiliumPreflight,
    ComponentName::Flux,
];

/// The edits of a ledger that are in its directory.
pub fn of_directory(directory: &ClusterDirectory) -> Vec<Edit> {
    let mut found = Vec::new();
    for edit in directory.ledger().into_iter().flat_map(|ledger| &ledger.edits) {
        if let Some(bytes) = directory.files.get(&edit.path)
            && file_digest(&edit.path, bytes).as_ref() == Some(&edit.edited)
        {
            found.push((edit.clone(), Arc::clone(bytes)));
        }
    }
    found
}

/// Puts edits in the place of what is rendered, where that is rendered still. The ones that hold. Of two for one file the later one counts.
pub fn apply(parts: &mut [StageTree], edits: &[Edit]) -> Vec<AcceptedEdit> {
    let mut accepted = Vec::new();
    for (place, (edit, bytes)) in edits.iter().enumerate() {
        let is_superseded = edits.iter().skip(place + 1).any(|(later, _)| later.path == edit.path);
        let part = parts.iter_mut().find(|part| part.stage == edit.stage && part.error.is_none());
        let Some(part) = part.filter(|_| !is_superseded) else { continue };
        let Some(rendered) = part.after.get(&edit.path).cloned() else { continue };
        if file_digest(&edit.path, &rendered).as_ref() != Some(&edit.rendered) {
            continue;
        }
        let Ok(path) = RepoPath::new(edit.path.clone()) else { continue };
        for object in overlays::objects_of(bytes).iter().filter_map(ObjectSummary::of) {
            if let Some(known) = part.objects.iter_mut().find(|known| is_same(known, &object)) {
                *known = object;
            }
        }
        part.rendered.insert(path.clone(), rendered);
        part.after.insert(path, Arc::clone(bytes));
        accepted.push(edit.clone());
    }
    accepted
}

/// What speaks against an edit of a file, in words that go on after its name; none where it may be taken up.
pub fn objection(
    cluster: &ClusterName,
    stage: &StagePlan,
    part: &StageTree,
    path: &str,
    after: Option<&Arc<[u8]>>,
) -> Option<String> {
    if !stage.policy.accept_edits {
        return Some(format!("stage {} of {cluster} accepts no edits (`acceptEdits` in stepgate.yaml)", stage.stage));
    }
    if !stage.one_way.is_empty() {
        return Some(format!("there is no way back from stage {}, so it is committed as it is rendered", stage.stage));
    }
    let component = part.component.filter(|component| EDITABLE.contains(component) && stage.stage.hop.is_none());
    let folder = component.map(|component| format!("{}/{}/", cluster_folder(cluster), component.directory()));
    if !folder.is_some_and(|folder| path.starts_with(&folder)) {
        return Some(format!("it is none of the manifests that stage {} renders", stage.stage));
    }
    let (Some(rendered), Some(after)) = (part.rendered.get(path).or_else(|| part.after.get(path)), after) else {
        return Some("files are neither added nor removed".to_owned());
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    if kustomize_rs::FILE_NAMES.contains(&name) {
        return Some("it is not a manifest".to_owned());
    }
    objects_differ(rendered, after)
}

/// Fields of objects may be edited, not which objects there are; nor what cannot be undone, nor secrets.
fn objects_differ(rendered: &[u8], after: &[u8]) -> Option<String> {
    let (old, new) = (overlays::objects_of(rendered), overlays::objects_of(after));
    let summaries = |nodes: &[_]| nodes.iter().map(ObjectSummary::of).collect::<Option<Vec<_>>>();
    let (Some(before), Some(now)) = (summaries(&old), summaries(&new)) else {
        return Some("it cannot be read as objects".to_owned());
    };
    let same = before.len() == now.len() && before.iter().zip(&now).all(|(one, other)| is_same(one, other));
    if !same || before.is_empty() {
        return Some("it does not hold the objects that are rendered, in their order".to_owned());
    }
    let is_fixed = |object: &ObjectSummary| ["CustomResourceDefinition", "Secret"].contains(&object.kind.as_str());
    let changed = old.iter().zip(&new).zip(&before).find(|((old, new), object)| is_fixed(object) && old != new);
    changed.map(|(_, object)| format!("{} {} is committed as it is rendered", object.kind, object.name))
}

fn is_same(one: &ObjectSummary, other: &ObjectSummary) -> bool {
    let id = |object: &ObjectSummary| {
        (object.api_version.clone(), object.kind.clone(), object.namespace.clone(), object.name.clone())
    };
    id(one) == id(other)
}

/// The digest of one file; none where its path is not a valid path.
pub fn file_digest(path: &str, bytes: &Arc<[u8]>) -> Option<TreeDigest> {
    let path = RepoPath::new(path.to_owned()).ok()?;
    let mut tree = RenderedTree::new();
    tree.insert(path, Arc::clone(bytes));
    Some(tree.digest())
}

#[cfg(test)]
mod tests {
    use rollout::StageName;

    use super::*;
    use crate::directory::path as repo_path;

    const FILE: &str = "clusters/a/cert-manager/x.yaml";

    fn manifest(replicas: u8, version: &str, secret: &str) -> String {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: x}}\nspec: {{replicas: {replicas}}}\n---\n\
             apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: d}}\nspec: {{group: {version}}}\n---\n\
             apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\ndata: {{a: {secret}}}\n"
        )
    }

    fn tree(file: &str, text: &str) -> RenderedTree {
        let mut tree = RenderedTree::new();
        tree.insert(repo_path(file).unwrap(), text.as_bytes().to_vec());
        tree
    }

    fn part(file: &str, text: &str) -> StageTree {
        let objects = overlays::objects_of(text.as_bytes()).iter().filter_map(ObjectSummary::of).collect();
        StageTree {
            before: RenderedTree::new(),
            after: tree(file, text),
            objects,
            ..StageTree::unchanged(StageName::CertManager.into(), ComponentName::CertManager, RenderedTree::new())
        }
    }

    fn stage(accept_edits: bool, one_way: &[&str]) -> StagePlan {
        let policy = policy::StagePolicy { accept_edits, ..policy::StagePolicy::default() };
        StagePlan {
            stage: StageName::CertManager.into(),
            state: rollout::StageState::Pending,
            changes: Vec::new(),
            reasons: Vec::new(),
            risks: Vec::new(),
            one_way: one_way.iter().map(|line| (*line).to_owned()).collect(),
            machines: 0,
            uncounted_machines: false,
            before: None,
            after: None,
            expectations: Vec::new(),
            deployed_expectations: Vec::new(),
            policy,
            carried_by: None,
            carries: Vec::new(),
        }
    }

    #[test]
    fn fields_may_be_edited_and_nothing_that_cannot_be_undone() {
        let (rendered, cluster) = (manifest(1, "v1", "one"), "a".parse().unwrap());
        let bytes = |text: String| Arc::<[u8]>::from(text.into_bytes());
        let check = |stage: &StagePlan, part: &StageTree, after: String| {
            objection(&cluster, stage, part, part.after.files.keys().next().unwrap().as_str(), Some(&bytes(after)))
        };
        let (yes, own) = (stage(true, &[]), part(FILE, &rendered));
        assert_eq!(check(&yes, &own, manifest(3, "v1", "one")), None);
        for (stage, after, wanted) in [
            (stage(false, &[]), manifest(3, "v1", "one"), "accepts no edits"),
            (stage(true, &["storage version"]), manifest(3, "v1", "one"), "no way back"),
            (stage(true, &[]), manifest(1, "v2", "one"), "CustomResourceDefinition d is committed as it is rendered"),
            (stage(true, &[]), manifest(1, "v1", "two"), "Secret s is committed as it is rendered"),
            (stage(true, &[]), "a: [".to_owned(), "does not hold the objects"),
            (stage(true, &[]), "kind: X\n".to_owned(), "cannot be read as objects"),
        ] {
            let why = check(&stage, &own, after).unwrap_or_default();
            assert!(why.contains(wanted), "{wanted}: {why}");
        }
        for file in ["clusters/a/cluster/x.yaml", "flux/a/cert-manager.yaml", "clusters/ab/cert-manager/x.yaml"] {
            let why = check(&yes, &part(file, &rendered), manifest(3, "v1", "one")).unwrap_or_default();
            assert!(why.contains("none of the manifests"), "{file}: {why}");
        }
        let why = check(&yes, &part("clusters/a/cert-manager/kustomization.yaml", &rendered), manifest(3, "v1", "one"));
        assert_eq!(why.as_deref(), Some("it is not a manifest"));
        assert!(
            objection(&cluster, &yes, &own, FILE, None).is_some_and(|why| why.contains("neither added nor removed"))
        );
        let specification = StageTree { component: None, ..part(FILE, &rendered) };
        assert!(check(&yes, &specification, manifest(3, "v1", "one")).is_some());
    }

    #[test]
    fn an_edit_holds_as_long_as_the_same_is_rendered_and_the_later_of_two_counts() {
        let (rendered, wanted, later) = (manifest(1, "v1", "a"), manifest(3, "v1", "a"), manifest(5, "v1", "a"));
        let digest = |text: &str| file_digest(FILE, &Arc::from(text.as_bytes())).unwrap();
        let edit = |to: &str| -> Edit {
            let accepted = AcceptedEdit {
                path: FILE.to_owned(),
                stage: StageName::CertManager.into(),
                rendered: digest(&rendered),
                edited: digest(to),
                by: vec!["A <a@x.org>".to_owned()],
            };
            (accepted, Arc::from(to.as_bytes()))
        };
        let edits = [edit(&wanted), edit(&later)];
        let mut parts = [part(FILE, &rendered)];
        assert_eq!(apply(&mut parts, &edits), [edits[1].0.clone()]);
        assert_eq!((&parts[0].after, &parts[0].rendered), (&tree(FILE, &later), &tree(FILE, &rendered)));
        assert_eq!(parts[0].objects[0].replicas, Some(5), "gates look for what is committed");
        let mut moved = [part(FILE, &manifest(1, "v2", "a"))];
        assert_eq!(apply(&mut moved, &edits), []);
        assert_eq!(moved[0].after, tree(FILE, &manifest(1, "v2", "a")));
    }
}
