//! What a plan's bundle changes of what the team's overlays set: the components that have overlays, rendered before and after, with and without
//! them.

use std::collections::BTreeMap;

use overlays::{
    BundleFile, ClusterSpec, ComponentName, Files, Fleet, MemoryFiles, RenderRequest, RenderedCluster, RenderedTree,
};
use planning::overlay_conflicts::{Sides, conflicts};

use super::Planner;
use crate::reconcile::cache::inputs::SourceReading;

/// The components that overlays are about.
const COMPONENTS: [ComponentName; 5] =
    [ComponentName::CertManager, ComponentName::Capi, ComponentName::EksA, ComponentName::Cilium, ComponentName::Flux];

/// One side of the comparison.
struct Side<'a> {
    fleet: &'a Fleet,
    files: &'a dyn Files,
    cluster: &'a ClusterSpec,
    bundle: &'a BundleFile,
}

impl Planner {
    /// A line for each conflict, by component. Where a component cannot be compared, that is told in their place.
    pub(super) fn overlay_conflicts(
        &self,
        base: Option<&SourceReading>,
        source: &SourceReading,
        cluster: &ClusterSpec,
        bundle: Option<&BundleFile>,
        rendered: &RenderedCluster,
        allow: &[String],
    ) -> BTreeMap<ComponentName, Vec<String>> {
        let before = base.and_then(|base| {
            let cluster = base.fleet.cluster(&cluster.name)?;
            let bundle = overlays::bundle_for(&base.fleet, cluster).ok()?;
            Some(Side { fleet: base.fleet.as_ref(), files: base.files.as_ref(), cluster, bundle })
        });
        let after =
            bundle.map(|bundle| Side { fleet: source.fleet.as_ref(), files: source.files.as_ref(), cluster, bundle });
        let (Some(before), Some(after)) = (before, after) else { return BTreeMap::new() };
        let same_section = before.cluster.kubernetes_minor() == after.cluster.kubernetes_minor();
        if same_section && before.bundle.bytes == after.bundle.bytes {
            return BTreeMap::new();
        }
        let has_overlay = |name: &ComponentName| {
            rendered.components.contains_key(name) && overlays::has_overlay(before.files, &cluster.name, *name)
        };
        let told = COMPONENTS.into_iter().filter(has_overlay).map(|name| {
            let found = self.compare(&before, &after, name, allow).unwrap_or_else(|reason| {
                vec![format!("the overlay of {name} was not compared with what upstream changed: {reason}")]
            });
            (name, found)
        });
        told.filter(|(_, found)| !found.is_empty()).collect()
    }

    fn compare(
        &self,
        before: &Side<'_>,
        after: &Side<'_>,
        name: ComponentName,
        allow: &[String],
    ) -> Result<Vec<String>, String> {
        let none = MemoryFiles::default();
        let rendered = |side: &Side<'_>, files: &dyn Files| self.component(side, files, name, allow);
        let (base_before, with_before) = (rendered(before, &none)?, rendered(before, before.files)?);
        let (base_after, with_after) = (rendered(after, &none)?, rendered(after, after.files)?);
        let sides =
            Sides { base_before: &base_before, before: &with_before, base_after: &base_after, after: &with_after };
        conflicts(&sides).map_err(|error| error.to_string())
    }

    fn component(
        &self,
        side: &Side<'_>,
        files: &dyn Files,
        name: ComponentName,
        allow: &[String],
    ) -> Result<RenderedTree, String> {
        let (manifests, charts) = (self.sources.manifests(side.fleet, allow), self.sources.charts(side.fleet, allow));
        let request = RenderRequest {
            fleet: side.fleet,
            cluster: side.cluster,
            bundle: Some(side.bundle),
            // What is deployed changes versions on the way and references that are kept, on one side alone.
            deployed: &RenderedTree::default(),
            manifests: manifests.as_ref(),
            charts: charts.as_ref(),
            files,
        };
        let rendered = overlays::render::render_component(&request, name).map_err(|error| error.to_string())?;
        Ok(rendered.map(|component| component.tree).unwrap_or_default())
    }
}
