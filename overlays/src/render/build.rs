//! From upstream manifests and the team's overlays to objects, by kustomize.

use std::collections::BTreeMap;

use kustomize_rs::yaml::{self, Limits, Node};

use super::upstream::Upstream;
use super::{ComponentName, RenderError, RenderRequest};
use crate::object::{ObjectId, object_id, open_list};
use crate::{Files, RepoPath};

/// The folders of a component's overlays, weak to strong, that the repository has.
pub(super) fn overlay_folders(files: &dyn Files, cluster: &str, component: ComponentName) -> Vec<RepoPath> {
    let paths = files.paths();
    [format!("overlays/{}", component.overlay()), format!("clusters/{cluster}/overlays/{}", component.overlay())]
        .into_iter()
        .filter(|folder| paths.iter().any(|entry| entry.path.is_below(folder)))
        .filter_map(|folder| RepoPath::new(folder).ok())
        .collect()
}

/// What came out of a build, and from where.
pub(super) struct Built {
    /// The objects, in order.
    pub objects: Vec<Node>,
    /// Index of the manifest that an object came from; nothing for what overlays add.
    pub origins: BTreeMap<ObjectId, usize>,
}

/// The objects of `manifests`, in order, after the overlays of `component`.
pub(super) fn build(
    request: &RenderRequest<'_>,
    component: ComponentName,
    manifests: &[Upstream],
) -> Result<Built, RenderError> {
    let folders = overlay_folders(request.files, &request.cluster.name, component);
    if let Some(folder) = folders.into_iter().next() {
        let message = "overlays are not supported yet".to_owned();
        return Err(RenderError::Overlay { path: folder, message });
    }
    let mut built = Built { objects: Vec::new(), origins: BTreeMap::new() };
    for (index, manifest) in manifests.iter().enumerate() {
        let objects = parse(manifest)?;
        built.origins.extend(objects.iter().filter_map(object_id).map(|id| (id, index)));
        built.objects.extend(objects);
    }
    Ok(built)
}

/// The objects of one manifest.
fn parse(manifest: &Upstream) -> Result<Vec<Node>, RenderError> {
    let documents = yaml::parse(&manifest.text, &Limits::default()).map_err(|error| RenderError::Manifest {
        uri: manifest.uri.clone(),
        line: error.line,
        column: error.column,
        message: error.message,
    })?;
    Ok(documents.into_iter().flat_map(|document| open_list(document.root)).collect())
}
