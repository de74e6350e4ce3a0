//! cert-manager.

use yaml::Node;

use super::images::SectionImages;
use super::output::Directory;
use super::{
    ComponentName, IntermediateVersion, RenderError, RenderRequest, RenderedComponent, build, hops, inventory, upstream,
};
use crate::{BundleFile, ClusterKind};

const NAME: ComponentName = ComponentName::CertManager;
const SECTION: &str = "certManager";

pub(super) fn render(request: &RenderRequest<'_>) -> Result<RenderedComponent, RenderError> {
    let Some(bundle) = request.bundle else { return Err(RenderError::Other("no bundle".to_owned())) };
    let deployed = super::deployed_objects(request, NAME);
    let section = upstream::section(request, bundle, SECTION)?;
    let target = section.version.as_ref().map(bundles::Version::as_str).unwrap_or_default();
    let way = hops::between(
        request,
        SECTION,
        hops::deployed_version(&deployed, "app.kubernetes.io/version").as_deref(),
        target,
    );
    let mut rendered_hops = Vec::new();
    let mut before = deployed;
    for step in &way.steps {
        let (hop, objects) = render_at(request, step, &before)?;
        before = objects;
        rendered_hops.push(IntermediateVersion {
            version: hop.version.unwrap_or_default(),
            bundle: step.bundles.name.clone(),
            tree: hop.tree,
            objects: hop.objects,
            notes: hop.notes,
            removed_versions: hop.removed_versions,
        });
    }
    let (mut component, _) = render_at(request, bundle, &before)?;
    component.hops = rendered_hops;
    component.missing_hops = way.missing;
    Ok(component)
}

fn render_at(
    request: &RenderRequest<'_>,
    bundle: &BundleFile,
    before: &[Node],
) -> Result<(RenderedComponent, Vec<Node>), RenderError> {
    let section = upstream::section(request, bundle, SECTION)?;
    let manifest = upstream::manifest(request, bundle, section, "manifest")?;
    let mut objects = build::build(request, NAME, std::slice::from_ref(&manifest))?.objects;
    let images = SectionImages::of(section);
    let report = super::pin_images(request, NAME, &mut objects, |_| &images);
    let version = section.version.as_ref().map(ToString::to_string);
    // Elsewhere cert-manager may be somebody's own, which clusterctl must not take for its.
    if request.cluster.kind == ClusterKind::EksAnywhere {
        let version = version.as_deref().unwrap_or_default();
        objects.iter_mut().for_each(|object| inventory::mark_cert_manager(object, version));
    }
    let mut directory = Directory::new(NAME);
    directory.add("cert-manager.yaml", &objects.iter().collect::<Vec<_>>());
    let mut notes = report.notes();
    notes.extend(upstream::unlocked(request, std::slice::from_ref(&manifest)));
    let component = super::finish(NAME, version, directory, before, notes)?;
    Ok((component, objects))
}
