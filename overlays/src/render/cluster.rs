//! The cluster specification as people wrote it.

use super::{ComponentName, RenderError, RenderRequest, RenderedComponent};
use crate::note::Note;
use crate::object::ObjectSummary;
use crate::{objects_of, spec_rollout};

pub(super) fn render(request: &RenderRequest<'_>) -> Result<RenderedComponent, RenderError> {
    let tree = spec_rollout::spec_tree(&request.cluster.files);
    let objects: Vec<ObjectSummary> =
        tree.files.values().flat_map(|bytes| objects_of(bytes)).filter_map(|node| ObjectSummary::of(&node)).collect();
    let notes: Vec<Note> = spec_rollout::shared_machine_configs(request.cluster);
    Ok(RenderedComponent {
        name: ComponentName::Cluster,
        version: Some(request.cluster.kubernetes_version.clone()),
        tree,
        objects,
        notes,
        removed_versions: Vec::new(),
        hops: Vec::new(),
        missing_hops: Vec::new(),
    })
}
