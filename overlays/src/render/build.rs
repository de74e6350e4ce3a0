//! From upstream manifests and the team's overlays to objects, by kustomize.
//!
//! The upstream manifests become a base; the team's overlay is given that base as its first resource, and the cluster's
//! overlay is given the team's. An overlay is an ordinary kustomization (or Component) folder of the repository: it may hold
//! patches, generators, transformers, more resources.

use std::collections::BTreeMap;

use kustomize_rs::{BuildErrorKind, FILE_NAMES, MemoryFileSystem, Options, Resources};
use yaml::{Limits, Mapping, Node, Rules, Value, emit};

use super::upstream::Upstream;
use super::{ComponentName, RenderError, RenderRequest};
use crate::object::{ObjectId, object_id};
use crate::{EntryKind, FileEntry, Files, Unusable};
use domain::RepoPath;

/// The folder of the base. No path of a repository can be below `.git`, so nothing can collide with it.
const BASE: &str = ".git/upstream";

/// The folders of a component's overlays, weak to strong, that the repository has.
pub(super) fn overlay_folders(files: &dyn Files, cluster: &str, component: ComponentName) -> Vec<RepoPath> {
    [format!("overlays/{}", component.overlay()), format!("clusters/{cluster}/overlays/{}", component.overlay())]
        .into_iter()
        .filter(|folder| !files.below(folder).is_empty())
        .filter_map(|folder| RepoPath::new(folder).ok())
        .collect()
}

/// An overlay of which something is not read says something else than what stands in the repository.
fn readable(request: &RenderRequest<'_>, component: ComponentName) -> Result<(), RenderError> {
    let own = format!("clusters/{}/overlays/{}", request.cluster.name, component.overlay());
    let shared = format!("overlays/{}", component.overlay());
    for unusable in request.files.unusable_paths() {
        let Unusable::Unreadable { message, .. } = &unusable.reason else { continue };
        let path = unusable.path.as_str();
        let holds = |folder: &String| {
            let inside = |outer: &str, inner: &str| {
                inner.strip_prefix(outer).is_some_and(|it| it.is_empty() || it.starts_with('/'))
            };
            inside(path, folder) || inside(folder, path)
        };
        if let (true, Ok(path)) = ([&own, &shared].into_iter().any(holds), RepoPath::new(path)) {
            return Err(failed(&path, format!("the overlay cannot be read: {message}")));
        }
    }
    Ok(())
}

/// What came out of a build, and from where.
pub(super) struct Built {
    /// The objects, in order.
    pub objects: Vec<Node>,
    /// Index of the manifest that an object came from; nothing for what overlays add.
    pub origins: BTreeMap<ObjectId, usize>,
}

/// The objects of `manifests` after the overlays of `component`, in the order of kustomize.
pub(super) fn build(
    request: &RenderRequest<'_>,
    component: ComponentName,
    manifests: &[Upstream],
) -> Result<Built, RenderError> {
    let folders = overlay_folders(request.files, &request.cluster.name, component);
    readable(request, component)?;
    let mut base = MemoryFileSystem::new();
    for (index, manifest) in manifests.iter().enumerate() {
        base.insert(&format!("{BASE}/{index}.yaml"), manifest.text.as_bytes().to_vec());
    }
    let names: Vec<Node> = (0..manifests.len()).map(|index| Node::from(format!("{index}.yaml"))).collect();
    let kustomization = Node::from(Mapping::from_iter([("resources".to_owned(), Node::from(names))]));
    base.insert(&format!("{BASE}/kustomization.yaml"), emit(&kustomization).into_bytes());

    if folders.is_empty() {
        return run(&base, BASE).map(|resources| built(&resources)).map_err(|error| manifest_error(manifests, &error));
    }
    // Nearly always an overlay stays in its own folders; only one that reaches further costs the whole repository.
    let near: Vec<FileEntry> = std::iter::once("overlays")
        .chain(folders.iter().map(RepoPath::as_str).filter(|folder| !folder.starts_with("overlays/")))
        .flat_map(|folder| request.files.below(folder).into_owned())
        .collect();
    match layered(request, &base, &folders, &near)? {
        Err(error) if error.kind == BuildErrorKind::File => {
            match layered(request, &base, &folders, &request.files.paths())? {
                Ok(resources) => Ok(built(&resources)),
                Err(error) => Err(overlay_error(manifests, &folders, &error)),
            }
        }
        Ok(resources) => Ok(built(&resources)),
        Err(error) => Err(overlay_error(manifests, &folders, &error)),
    }
}

/// Builds the strongest overlay over the others, with `entries` of the repository.
fn layered(
    request: &RenderRequest<'_>,
    base: &MemoryFileSystem,
    folders: &[RepoPath],
    entries: &[FileEntry],
) -> Result<Result<Resources, kustomize_rs::BuildError>, RenderError> {
    let mut files = base.clone();
    for entry in entries {
        if entry.kind == EntryKind::File
            && let Ok(bytes) = request.files.read(&entry.path)
        {
            files.insert(entry.path.as_str(), bytes);
        }
    }
    let mut below = BASE.to_owned();
    for folder in folders {
        let path = kustomization_of(request.files, folder)?;
        let bytes = request.files.read(&path).map_err(|error| failed(&path, error.to_string()))?;
        let text = with_resource(&path, &bytes, &relative(folder, &below))?;
        files.insert(path.as_str(), text.into_bytes());
        below = folder.to_string();
    }
    Ok(run(&files, &below))
}

/// Charts and remote bases stay off: what a fleet repository says is not trusted.
fn run(files: &MemoryFileSystem, directory: &str) -> Result<Resources, kustomize_rs::BuildError> {
    let resources = kustomize_rs::build(files, directory, &Options::default());
    #[cfg(test)]
    super::tests::kustomize::note(files, directory, &resources);
    resources
}

fn failed(path: &RepoPath, message: impl Into<String>) -> RenderError {
    RenderError::Overlay { path: path.clone(), message: message.into() }
}

/// The kustomization file of an overlay folder.
fn kustomization_of(files: &dyn Files, folder: &RepoPath) -> Result<RepoPath, RenderError> {
    let mut found = FILE_NAMES.iter().filter_map(|name| folder.join(name).ok());
    found
        .find(|path| files.entry(path).is_some_and(|entry| entry.kind == EntryKind::File))
        .ok_or_else(|| failed(folder, "the overlay has no kustomization.yaml; add one that names its patches"))
}

/// The kustomization with `resource` as its first resource.
fn with_resource(path: &RepoPath, bytes: &[u8], resource: &str) -> Result<String, RenderError> {
    let parsed = yaml::decode(bytes).and_then(|text| yaml::parse_with(&text, &Limits::default(), Rules::V2));
    let documents = parsed.map_err(|error| failed(path, error.to_string()))?;
    let mut root = match documents.as_slice() {
        [] => Node::from(Mapping::new()),
        [document] => document.root.clone(),
        _ => return Err(failed(path, "a kustomization is one document")),
    };
    let Some(mapping) = root.as_mapping_mut() else { return Err(failed(path, "a kustomization is a mapping")) };
    // An overlay stands over something; as a Component it could not.
    mapping.remove("kind");
    mapping.remove("apiVersion");
    let resources = mapping.get_or_insert_with("resources", || Node::from(Vec::new()));
    if resources.is_null() {
        resources.value = Value::Sequence(Vec::new().into());
    }
    match resources.as_sequence_mut() {
        Some(items) => items.insert(0, Node::from(resource)),
        None => return Err(failed(path, "resources must be a list")),
    }
    Ok(emit(&root))
}

/// The way from one folder to another.
fn relative(from: &RepoPath, to: &str) -> String {
    let up = "../".repeat(from.segments().count());
    format!("{up}{to}")
}

fn built(resources: &Resources) -> Built {
    let mut built = Built { objects: Vec::with_capacity(resources.len()), origins: BTreeMap::new() };
    for resource in resources.iter() {
        let origin = resource.origin().file.strip_prefix(BASE).and_then(|rest| rest.strip_prefix('/'));
        let index = origin.and_then(|name| name.strip_suffix(".yaml")).and_then(|name| name.parse().ok());
        if let (Some(id), Some(index)) = (object_id(resource.node()), index) {
            built.origins.insert(id, index);
        }
        built.objects.push(resource.node().clone());
    }
    built
}

/// Errors in the base are errors of the upstream manifest.
fn manifest_error(manifests: &[Upstream], error: &kustomize_rs::BuildError) -> RenderError {
    let file = error.file.as_deref().and_then(|file| file.strip_prefix(BASE)?.strip_prefix('/')?.strip_suffix(".yaml"));
    let manifest = file.and_then(|name| name.parse::<usize>().ok()).and_then(|index| manifests.get(index));
    match manifest {
        Some(manifest) => RenderError::Manifest {
            uri: manifest.uri.clone(),
            line: error.line,
            column: error.column,
            message: error.message.clone(),
        },
        None => RenderError::Other(error.to_string()),
    }
}

fn overlay_error(manifests: &[Upstream], folders: &[RepoPath], error: &kustomize_rs::BuildError) -> RenderError {
    if error.file.as_deref().is_some_and(|file| file.starts_with(BASE)) {
        return manifest_error(manifests, error);
    }
    match folders.last() {
        Some(folder) => failed(folder, error.to_string()),
        None => RenderError::Other(error.to_string()),
    }
}
