//! EKS Anywhere's definitions, then its controller.

use yaml::Node;

use super::images::SectionImages;
use super::output::Directory;
use super::{ComponentName, RenderError, RenderRequest, RenderedComponent, build, upstream};

const NAME: ComponentName = ComponentName::EksA;

pub(super) fn render(request: &RenderRequest<'_>) -> Result<RenderedComponent, RenderError> {
    let Some(bundle) = request.bundle else { return Err(RenderError::Other("no bundle".to_owned())) };
    let section = upstream::section(request, bundle, "eksa")?;
    let manifest = upstream::manifest(request, bundle, section, "components")?;
    let mut objects = build::build(request, NAME, std::slice::from_ref(&manifest))?.objects;
    let images = SectionImages::of(section);
    let report = super::pin_images(request, NAME, &mut objects, |_| &images);
    let is_definition = |node: &&Node| node.get("kind").and_then(Node::as_str) == Some("CustomResourceDefinition");
    let mut directory = Directory::new(NAME);
    directory.add("eksa-crds.yaml", &objects.iter().filter(is_definition).collect::<Vec<_>>());
    directory.add("eksa-components.yaml", &objects.iter().filter(|node| !is_definition(node)).collect::<Vec<_>>());
    let version = section.version.as_ref().map(ToString::to_string);
    let mut notes = report.notes();
    notes.extend(upstream::unlocked(request, &[manifest]));
    super::finish(NAME, version, directory, &super::deployed_objects(request, NAME), notes)
}
