//! What a rendered `TanzuKubernetesCluster` has besides its specification: add-ons, and templates of machines.

use std::collections::{BTreeMap, BTreeSet};

use yaml::{Node, emit};

use super::{ComponentName, RenderError, RenderRequest, RenderedComponent};
use crate::note::{Note, NoteKind, Weight};
use crate::object::{ObjectId, ObjectSummary, object_id, objects_of};
use crate::tanzu::AddonState;
use crate::{RenderedTanzu, RenderedTree};
use domain::RepoPath;

/// The file of an add-on's objects, in its folder.
const MANIFESTS: &str = "manifests.yaml";

pub(super) fn render(request: &RenderRequest<'_>, name: ComponentName) -> Result<RenderedComponent, RenderError> {
    let mut notes = Vec::new();
    let tree = match request.cluster.tanzu.as_deref() {
        Some(tanzu) if name == ComponentName::Templates => templates(tanzu)?,
        Some(tanzu) => addons(request, tanzu, &mut notes)?,
        None => RenderedTree::new(),
    };
    let nodes = tree.files.values().flat_map(|bytes| objects_of(bytes));
    Ok(RenderedComponent {
        name,
        version: request.cluster.tanzu.as_ref().map(|tanzu| tanzu.release.clone()),
        objects: nodes.filter_map(|node| ObjectSummary::of(&node)).collect(),
        tree,
        notes,
        removed_versions: Vec::new(),
        hops: Vec::new(),
        missing_hops: Vec::new(),
    })
}

fn path(text: String) -> Result<RepoPath, RenderError> {
    RepoPath::new(text).map_err(|error| RenderError::Other(error.to_string()))
}

/// One file a template, so that each comes and goes by itself.
fn templates(tanzu: &RenderedTanzu) -> Result<RenderedTree, RenderError> {
    let mut tree = RenderedTree::new();
    for template in &tanzu.templates {
        let Some(id) = object_id(template) else { continue };
        let folder = ComponentName::Templates.directory();
        let file = path(format!("{folder}/{}-{}.yaml", id.kind.to_lowercase(), id.name))?;
        tree.insert(file, emit(template).into_bytes());
    }
    Ok(tree)
}

/// A folder for each add-on, which Flux applies by itself. What is deployed of one that cannot be read, or that the image brings no
/// longer, stays.
fn addons(
    request: &RenderRequest<'_>,
    tanzu: &RenderedTanzu,
    notes: &mut Vec<Note>,
) -> Result<RenderedTree, RenderError> {
    let folder = ComponentName::Addons.directory();
    let deployed = request.deployed.below(folder);
    let before: BTreeMap<String, RenderedTree> = addon_names(&deployed)
        .into_iter()
        .map(|name| (name.clone(), deployed.below(&format!("{folder}/{name}"))))
        .collect();
    let mut tree = RenderedTree::new();
    let mut note = |weight, message: String| notes.push(Note::new(weight, NoteKind::Information, message));
    for addon in &tanzu.addons {
        let known = before.get(&addon.name);
        match &addon.state {
            AddonState::Rendered { objects, remarks } => {
                let text = objects.iter().map(emit).collect::<Vec<_>>().join("---\n");
                tree.insert(path(format!("{folder}/{}/{MANIFESTS}", addon.name))?, text.into_bytes());
                for remark in remarks {
                    note(Weight::Note, format!("add-on {}: {remark}", addon.name));
                }
                for id in known.map(|known| left(known, objects)).unwrap_or_default() {
                    note(
                        Weight::Note,
                        format!("add-on {}: {id} is shipped no longer, and stays in the cluster", addon.name),
                    );
                }
            }
            AddonState::Unreadable(why) => {
                note(Weight::Risk, format!("add-on {}: error: {why}; what is deployed of it stays", addon.name));
                known.into_iter().for_each(|known| tree.extend(known));
            }
            AddonState::Unmanaged => note(Weight::Note, format!("add-on {}: unmanaged", addon.name)),
        }
    }
    for (name, known) in &before {
        if !tanzu.addons.iter().any(|addon| addon.name == *name) {
            note(Weight::Note, format!("add-on {name} is shipped no longer by image {}, and is kept", tanzu.image));
            tree.extend(known);
        }
    }
    Ok(tree)
}

/// Objects that were applied and are not any more.
fn left(before: &RenderedTree, objects: &[Node]) -> Vec<ObjectId> {
    let wanted: BTreeSet<ObjectId> = objects.iter().filter_map(object_id).collect();
    let known = before.files.values().flat_map(|bytes| objects_of(bytes)).filter_map(|node| object_id(&node));
    known.filter(|id| !wanted.contains(id)).collect()
}

/// The names of the add-ons in a tree of the component.
pub(super) fn addon_names(tree: &RenderedTree) -> BTreeSet<String> {
    let name = |path: &RepoPath| path.segments().nth(1).map(str::to_owned);
    tree.files.keys().filter_map(name).collect()
}
