//! Flux: the release's `install.yaml` with the images of the bundle.

use super::images::SectionImages;
use super::output::Directory;
use super::{ComponentName, RenderError, RenderRequest, RenderedComponent, build, upstream};
use crate::note::{Note, NoteKind, Weight};
use crate::object::ObjectSummary;

const NAME: ComponentName = ComponentName::Flux;

/// The address of the manifest of a Flux release. No bundle names it.
pub fn install_address(version: &str) -> String {
    let version = version.split('+').next().unwrap_or(version);
    format!("https://github.com/fluxcd/flux2/releases/download/{version}/install.yaml")
}

pub(super) fn render(request: &RenderRequest<'_>) -> Result<RenderedComponent, RenderError> {
    let Some(bundle) = request.bundle else { return Err(RenderError::Other("no bundle".to_owned())) };
    let section = upstream::section(request, bundle, "flux")?;
    let version = section.version.as_ref().map(ToString::to_string).unwrap_or_default();
    // No variables here: Flux's definitions hold `${var:=default}` as text.
    let manifest = upstream::fetch(request, "flux", &install_address(&version))?;
    let mut objects = build::build(request, NAME, std::slice::from_ref(&manifest))?.objects;
    let images = SectionImages::of(section);
    let report = super::pin_images(request, NAME, &mut objects, |_| &images);
    let mut notes = report.notes();
    notes.extend(upstream::unlocked(request, &[manifest]));
    if !report.other_releases.is_empty() {
        let differing: Vec<String> = report
            .other_releases
            .iter()
            .map(|(name, manifest, bundle)| format!("{name} {bundle} (manifest: {manifest})"))
            .collect();
        let message = format!(
            "manifest and images are of different releases: the definitions are those of Flux {}, the images are {}",
            version.split('+').next().unwrap_or_default(),
            differing.join(", ")
        );
        notes.push(Note::new(Weight::Risk, NoteKind::ImagesOfAnotherRelease, message));
    }
    notes.extend(versions_in_use(request, &objects.iter().filter_map(ObjectSummary::of).collect::<Vec<_>>()));
    let mut directory = Directory::new(NAME);
    directory.add("gotk-components.yaml", &objects.iter().collect::<Vec<_>>());
    super::finish(NAME, Some(version), directory, &super::deployed_objects(request, NAME), notes)
}

/// Files of the repository at versions that the target does not serve any more.
fn versions_in_use(request: &RenderRequest<'_>, target: &[ObjectSummary]) -> Vec<Note> {
    let definitions: Vec<_> = target.iter().filter_map(|object| object.crd.as_ref()).collect();
    let mut notes = Vec::new();
    for used in &request.fleet.flux_versions_in_use {
        let Some(definition) = definitions.iter().find(|crd| crd.group == used.group && crd.kind == used.kind) else {
            continue;
        };
        if definition.versions.iter().any(|version| version.served && version.name == used.version) {
            continue;
        }
        let served: Vec<&str> =
            definition.versions.iter().filter(|version| version.served).map(|version| version.name.as_str()).collect();
        let message = format!(
            "{}:{} uses {}/{}, which this Flux does not serve any more; move it to {} first",
            used.path,
            used.line,
            used.group,
            used.version,
            served.join(" or ")
        );
        notes.push(Note::new(Weight::Block, NoteKind::VersionInUse, message).object(&used.kind));
    }
    notes
}
