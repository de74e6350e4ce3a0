//! Images: those of the bundle take the place of those of the manifest, pinned by digest.
//!
//! Architecture Invariant: nothing rolls nodes by accident. Where the deployed file already names
//! the same repository and digest, that reference stays, whatever its tag; node templates keep
//! their bytes.

use std::collections::{BTreeMap, BTreeSet};

use bundles::{Artifact, ArtifactKind, Component, Digest, ImageReference};
use yaml::{Node, Value};

use crate::RenderedTree;
use crate::note::{Note, NoteKind, Weight};
use crate::object::{object_id, pod_path};

/// The images of one section, and how they are found.
#[derive(Clone, Debug)]
pub(super) struct SectionImages {
    /// By last path segment of the repository.
    by_name: BTreeMap<String, Image>,
    /// The image of the container `manager`, for manifests whose image has another name than the bundle's.
    main: Option<Image>,
}

#[derive(Clone, Debug)]
struct Image {
    reference: ImageReference,
    digest: Option<Digest>,
}

/// Names under which sections keep the image of their controller, best first.
const MAIN: [&str; 4] = ["clusterAPIController", "clusterController", "controller", "manager"];

impl SectionImages {
    pub fn of(component: &Component) -> Self {
        let image = |artifact: &Artifact| {
            let usable = artifact.kind == ArtifactKind::Image && !artifact.is_placeholder();
            let reference: ImageReference = usable.then(|| artifact.uri.parse().ok())??;
            Some(Image { digest: artifact.digest.or(reference.digest()), reference })
        };
        // A chart lies in the repository of its image (Cilium); it is no image of a container.
        let images: Vec<(&str, Image)> = component
            .artifacts
            .iter()
            .filter(|artifact| !artifact.name.to_ascii_lowercase().contains("chart"))
            .filter_map(|artifact| Some((artifact.name.as_str(), image(artifact)?)))
            .collect();
        let by_name =
            images.iter().map(|(_, image)| (last_segment(image.reference.repository()), image.clone())).collect();
        let main = MAIN.iter().find_map(|name| images.iter().find(|(key, _)| key == name));
        Self { by_name, main: main.map(|(_, image)| image.clone()) }
    }

    /// No images: nothing is replaced.
    pub fn none() -> Self {
        Self { by_name: BTreeMap::new(), main: None }
    }

    fn find(&self, reference: &ImageReference, container: Option<&str>) -> Option<&Image> {
        let name = last_segment(reference.repository());
        self.by_name.get(&name).or_else(|| self.main.as_ref().filter(|_| container == Some("manager")))
    }

    /// The reference of the main image, for manifests that take it from a variable.
    pub fn main_reference(&self) -> Option<String> {
        self.main.as_ref().map(|image| image.reference.to_string())
    }
}

fn last_segment(repository: &str) -> String {
    repository.rsplit('/').next().unwrap_or(repository).to_owned()
}

/// The references `repository[:tag]@sha256:…` of deployed files, by repository and digest.
#[derive(Clone, Debug, Default)]
pub(super) struct DeployedImages(BTreeMap<(String, Digest), BTreeSet<String>>);

impl DeployedImages {
    /// Collects the references in the files of `tree` below `folder`.
    pub fn below(tree: &RenderedTree, folder: &str) -> Self {
        let mut images = Self::default();
        for (_, bytes) in tree.files.iter().filter(|(path, _)| path.is_below(folder)) {
            images.add(&String::from_utf8_lossy(bytes));
        }
        images
    }

    fn add(&mut self, text: &str) {
        let delimiter =
            |character: char| character.is_whitespace() || matches!(character, '"' | '\'' | '=' | ',' | '{' | '}');
        for (at, _) in text.match_indices("@sha256:") {
            let start = text.get(..at).and_then(|before| before.rfind(delimiter)).map_or(0, |before| before + 1);
            let end = at + "@sha256:".len() + 64;
            let Some(reference) = text.get(start..end).and_then(|text| text.parse::<ImageReference>().ok()) else {
                continue;
            };
            if let Some(digest) = reference.digest() {
                let key = (reference.repository().to_owned(), digest);
                self.0.entry(key).or_default().insert(reference.to_string());
            }
        }
    }

    /// The deployed reference that says the same as `target`: same repository, same digest, and a tag of the same
    /// version. Tags of EKS Anywhere end in `-eks-a-<bundle number>`, which changes in every bundle and means nothing.
    pub fn kept(&self, target: &ImageReference, digest: Digest) -> Option<&str> {
        let deployed = self.0.get(&(target.repository().to_owned(), digest))?;
        let fits = |text: &&String| {
            let tag = text.parse::<ImageReference>().ok().and_then(|reference| reference.tag().map(str::to_owned));
            match (tag.as_deref(), target.tag()) {
                (Some(old), Some(new)) => old == new || same_version(old, new),
                (None, None) => true,
                _ => false,
            }
        };
        let same_tag =
            deployed.iter().find(|text| text.parse::<ImageReference>().is_ok_and(|old| old.tag() == target.tag()));
        same_tag.or_else(|| deployed.iter().find(fits)).map(String::as_str)
    }
}

/// Whether two tags over one digest mean one version: equal up to the suffix of the bundle, or without such a suffix.
fn same_version(old: &str, new: &str) -> bool {
    match (old.split_once("-eks-a-"), new.split_once("-eks-a-")) {
        (Some((old, _)), Some((new, _))) => old == new,
        (None, None) => true,
        _ => false,
    }
}

/// What became of the images of a manifest.
#[derive(Default)]
pub(super) struct PinReport {
    /// Name of an image, version in the manifest, version in the bundle, where they differ.
    pub other_releases: BTreeSet<(String, String, String)>,
    unmatched: BTreeSet<(String, String)>,
    unpinned: BTreeSet<(String, String)>,
    kept: BTreeSet<(String, String)>,
}

impl PinReport {
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        for (image, object) in &self.unmatched {
            let message = format!("image {image} is not in the bundle and stays as the manifest has it");
            notes.push(Note::new(Weight::Note, NoteKind::ImageUnmatched, message).object(object));
        }
        for (image, object) in &self.unpinned {
            let message = format!("image {image} has no digest in the bundle and is not pinned");
            notes.push(Note::new(Weight::Risk, NoteKind::ImageNotPinned, message).object(object));
        }
        for (kept, target) in &self.kept {
            let message = format!("{kept} is kept: {target} has the same digest");
            notes.push(Note::new(Weight::Note, NoteKind::ReferenceKept, message));
        }
        notes
    }
}

/// Puts the images of `section` into one object: containers, and arguments that hold an image reference.
pub(super) fn pin(node: &mut Node, section: &SectionImages, deployed: &DeployedImages, report: &mut PinReport) {
    let Some(id) = object_id(node) else { return };
    let Some(path) = pod_path(&id.kind) else { return };
    let object = id.to_string();
    let Some(pod) = path.iter().try_fold(node, |node, key| node.get_mut(key)) else { return };
    for key in ["initContainers", "containers"] {
        for container in pod.get_mut(key).and_then(Node::as_sequence_mut).into_iter().flatten() {
            let name = container.get("name").and_then(Node::as_str).map(str::to_owned);
            if let Some(image) = container.get_mut("image") {
                replace(image, section, name.as_deref(), deployed, &object, report);
            }
            for list in ["args", "command"] {
                for argument in container.get_mut(list).and_then(Node::as_sequence_mut).into_iter().flatten() {
                    replace_argument(argument, section, deployed, &object, report);
                }
            }
        }
    }
}

fn replace(
    node: &mut Node,
    section: &SectionImages,
    container: Option<&str>,
    deployed: &DeployedImages,
    object: &str,
    report: &mut PinReport,
) {
    let Some(text) = node.as_str() else { return };
    let Ok(reference) = text.parse::<ImageReference>() else { return };
    match section.find(&reference, container) {
        Some(image) => {
            let target = target(image, &reference, deployed, object, report);
            node.value = Value::String(target.into());
        }
        None => {
            report.unmatched.insert((text.to_owned(), object.to_owned()));
        }
    }
}

/// `--acme-http01-solver-image=quay.io/…:v1.19.3`: only what follows the first `=` (or the whole argument), and only when
/// its name is that of an image of the section.
fn replace_argument(
    node: &mut Node,
    section: &SectionImages,
    deployed: &DeployedImages,
    object: &str,
    report: &mut PinReport,
) {
    let Some(text) = node.as_str() else { return };
    let (flag, value) = match text.split_once('=') {
        Some((flag, value)) => (format!("{flag}="), value),
        None => (String::new(), text),
    };
    if !value.contains('/') {
        return;
    }
    let Ok(reference) = value.parse::<ImageReference>() else { return };
    if reference.tag().is_none() && reference.digest().is_none() {
        return;
    }
    if let Some(image) = section.find(&reference, None) {
        let target = target(image, &reference, deployed, object, report);
        node.value = Value::String(format!("{flag}{target}").into());
    }
}

fn target(
    image: &Image,
    upstream: &ImageReference,
    deployed: &DeployedImages,
    object: &str,
    report: &mut PinReport,
) -> String {
    if let (Some(old), Some(new)) = (upstream.tag().and_then(core), image.reference.tag().and_then(core))
        && old != new
        && old != "0.0.0"
    {
        report.other_releases.insert((last_segment(image.reference.repository()), old, new));
    }
    let Some(digest) = image.digest else {
        report.unpinned.insert((image.reference.to_string(), object.to_owned()));
        return image.reference.to_string();
    };
    let pinned = image.reference.clone().pinned(digest).to_string();
    match deployed.kept(&image.reference, digest) {
        Some(kept) if kept != pinned => {
            report.kept.insert((kept.to_owned(), pinned));
            kept.to_owned()
        }
        _ => pinned,
    }
}

/// `1.9.0` of `v1.9.0-eks-a-17`; `None` for tags that are no versions.
fn core(tag: &str) -> Option<String> {
    match bundles::Version::new(tag.split("-eks-a-").next().unwrap_or(tag)).form() {
        bundles::VersionForm::Semantic(version) => {
            Some(format!("{}.{}.{}", version.major, version.minor, version.patch))
        }
        bundles::VersionForm::EksD(_) | bundles::VersionForm::Opaque => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RenderedTree;
    use crate::object::objects_of;
    use domain::RepoPath;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn section(tag: &str) -> SectionImages {
        let bundle = format!(
            "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nspec:\n  number: 1\n  versionsBundles:\n  - \
             kubeVersion: \"1.30\"\n    thing:\n      version: v1\n      manager: {{name: m, uri: 'r.io/x/manager:{tag}', \
             imageDigest: {DIGEST}}}\n      solver: {{name: s, uri: 'r.io/x/solver:{tag}', imageDigest: {DIGEST}}}\n      \
             loose: {{name: l, uri: 'r.io/x/loose:{tag}', os: linux}}\n"
        );
        let bundles = bundles::manifest::parse_bundles("b", bundle.as_bytes()).unwrap();
        SectionImages::of(bundles.versions_bundles[0].component("thing").unwrap())
    }

    fn render(tag: &str, deployed: &str) -> (String, PinReport) {
        let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: n}\nspec: {template: {spec: \
                    {containers: [{name: manager, image: 'up.io/other:v1.0.0', args: ['--solver-image=up.io/solver:v1.2.3', \
                    '--url=https://up.io/solver', solver]}, {name: b, image: 'up.io/loose:v1'}, {name: c, image: \
                    'up.io/unknown:v1'}]}}}";
        let mut node = objects_of(text.as_bytes()).remove(0);
        let mut tree = RenderedTree::new();
        tree.insert(RepoPath::new("x/y.yaml").unwrap(), deployed.as_bytes().to_vec());
        let mut report = PinReport::default();
        pin(&mut node, &section(tag), &DeployedImages::below(&tree, "x"), &mut report);
        (crate::json::compact(&node), report)
    }

    #[test]
    fn images_and_arguments_take_the_images_of_the_bundle() {
        let (text, report) = render("v1.2.3-eks-a-17", "");
        assert!(text.contains(&format!("\"image\":\"r.io/x/manager:v1.2.3-eks-a-17@{DIGEST}\"")), "{text}");
        assert!(text.contains(&format!("\"--solver-image=r.io/x/solver:v1.2.3-eks-a-17@{DIGEST}\"")), "{text}");
        assert!(
            text.contains("\"--url=https://up.io/solver\",\"solver\"")
                && text.contains("r.io/x/loose:v1.2.3-eks-a-17\"")
        );
        let notes: Vec<_> = report.notes().iter().map(|note| note.kind).collect();
        assert_eq!(notes, [NoteKind::ImageUnmatched, NoteKind::ImageNotPinned]);
        let expected = ("manager".to_owned(), "1.0.0".to_owned(), "1.2.3".to_owned());
        assert!(report.other_releases.contains(&expected), "{:?}", report.other_releases);
    }

    #[test]
    fn another_tag_over_the_same_digest_keeps_the_deployed_reference() {
        let deployed = |tag: &str| format!("image: r.io/x/manager:{tag}@{DIGEST}\n");
        let (text, _) = render("v1.2.3-eks-a-18", &deployed("v1.2.3-eks-a-17"));
        assert!(text.contains("r.io/x/manager:v1.2.3-eks-a-17@") && text.contains("r.io/x/solver:v1.2.3-eks-a-18@"));
        for (old, why) in [
            (deployed("v1.2.2-eks-a-17"), "another version"),
            (deployed("v1.2.3-eks-a-17").replace("0123", "9999"), "another digest"),
            (deployed("v1.2.3-eks-a-17").replace("r.io", "s.io"), "another repository"),
        ] {
            assert!(render("v1.2.3-eks-a-18", &old).0.contains("r.io/x/manager:v1.2.3-eks-a-18@"), "{why}");
        }
    }
}
