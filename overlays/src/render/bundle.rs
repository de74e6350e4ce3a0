//! The objects that say which versions there are: Bundles, `EKSARelease`, EKS-D releases, ConfigMap of upgrader images.

use std::collections::{BTreeMap, BTreeSet};

use bundles::{
    ArtifactKind, EksdSignatureVerdict, ImageReference, KubernetesMinor, KubernetesVersion, Manifest, SignatureVerdict,
    VersionsBundle,
};
use yaml::{Mapping, Node, emit};

use super::images::DeployedImages;
use super::output::Directory;
use super::{ComponentName, RenderError, RenderRequest, RenderedComponent, upstream};
use crate::edit::Edits;
use crate::note::{Note, NoteKind, Weight};
use crate::object::objects_of;
use crate::{BundleFile, ClusterKind, Provider, document, edit};

const NAME: ComponentName = ComponentName::Bundle;
const NAMESPACE: &str = "eksa-system";

pub(super) fn render(request: &RenderRequest<'_>) -> Result<RenderedComponent, RenderError> {
    let Some(bundle) = request.bundle else { return Err(RenderError::Other("no bundle".to_owned())) };
    let mut directory = Directory::new(NAME);
    let mut notes = Vec::new();
    let version = Some(bundle.bundles.name.clone());
    for (file, config_map) in super::upgraders::config_maps(request, bundle) {
        directory.add_text(&file, emit(&config_map));
    }
    // Nobody else knows what Bundles and releases are.
    if request.cluster.kind != ClusterKind::EksAnywhere {
        return super::finish(NAME, version, directory, &super::deployed_objects(request, NAME), notes);
    }
    directory.add_text("bundles.yaml", bundles_text(request, bundle, &mut notes)?);
    for file in &request.fleet.eksa_releases {
        if file.release.bundles_name.as_deref() == Some(bundle.bundles.name.as_str())
            && let Ok(bytes) = request.files.read(&file.path)
        {
            let text = own_document(&String::from_utf8_lossy(&bytes), &file.release.node);
            directory.add_text("eksa-release.yaml", in_namespace(&text)?);
        }
    }
    notes.extend(signature(&bundle.bundles));
    for (name, text) in eksd_releases(request, bundle)? {
        notes.extend(eksd_signature(&bundle.bundles, &name, &text));
        directory.add_text(&format!("{name}.yaml"), in_namespace(&text)?);
    }
    if let Some(config_map) = upgrader_images(request, bundle) {
        directory.add_text("upgrader-images.yaml", emit(&config_map));
    }
    super::finish(NAME, version, directory, &super::deployed_objects(request, NAME), notes)
}

/// A signature of the bundle that does not fit. EKS Anywhere refuses such a bundle; one without a signature is told nowhere,
/// since those of development builds have none.
fn signature(bundles: &bundles::Bundles) -> Option<Note> {
    let verdict = bundles::verify_signature(bundles);
    let message = format!("{}: {}; EKS Anywhere will refuse it", bundles.name, verdict.statement());
    matches!(verdict, SignatureVerdict::Invalid { .. })
        .then(|| Note::new(Weight::Risk, NoteKind::SignatureInvalid, message))
}

/// A release that is not the one that was signed for its channel.
fn eksd_signature(bundles: &bundles::Bundles, name: &str, text: &str) -> Option<Note> {
    let manifests = bundles::parse(name, text.as_bytes()).ok()?;
    let release = manifests.into_iter().find_map(|manifest| match manifest {
        Manifest::EksdRelease(release) => Some(release),
        Manifest::Bundles(_) | Manifest::EksaRelease(_) => None,
    })?;
    let verdict = bundles::verify_eksd_release(bundles, &release);
    let message = format!("{}; EKS Anywhere will refuse it in extended support", verdict.statement());
    matches!(verdict, EksdSignatureVerdict::Invalid { .. })
        .then(|| Note::new(Weight::Risk, NoteKind::SignatureInvalid, message).object(format!("Release {name}")))
}

/// The document of `text` that `node` was read from, without what else is in the file.
fn own_document(text: &str, node: &Node) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let ranges = document::split(text);
    let own = ranges.into_iter().find(|document| document.range.contains(&node.span.start()));
    own.and_then(|document| text.get(document.range)).unwrap_or(text).to_owned()
}

fn in_namespace(text: &str) -> Result<String, RenderError> {
    edit::insert_namespace(text, NAMESPACE)
        .map_err(|error| RenderError::Other(format!("cannot place an object in {NAMESPACE}: {error}")))
}

/// Sections and artifacts whose references EKS Anywhere writes into the templates of nodes: a changed text there rolls
/// every node, whatever the digest says.
fn reaches_nodes(component: &str, artifact: &str) -> bool {
    match component {
        "bottlerocketHostContainers" | "bottlerocketBootstrapContainers" | "haproxy" => true,
        "vSphere" => matches!(artifact, "kubeVip" | "manager" | "driver" | "syncer"),
        "nutanix" => matches!(artifact, "kubeVip" | "cloudProvider"),
        "snow" => matches!(artifact, "kubeVip" | "bottlerocketBootstrapSnow"),
        "tinkerbell" => artifact == "kubeVip" || artifact.starts_with("tinkerbellStack."),
        "cloudStack" => artifact == "kubeVip",
        _ => false,
    }
}

/// Where an image stands in a Bundles object: Kubernetes version, component, artifact.
type ImagePlace = (String, String, String);

/// The Bundles document as published, in its namespace. References that reach node templates keep the deployed text
/// where the digest is the same, so that a retagged image rolls no node.
fn bundles_text(
    request: &RenderRequest<'_>,
    bundle: &BundleFile,
    notes: &mut Vec<Note>,
) -> Result<String, RenderError> {
    let text = String::from_utf8_lossy(&bundle.bytes);
    let mut text = own_document(&text, &bundle.bundles.node);
    let before = deployed_references(request);
    let mut wanted: BTreeMap<ImagePlace, String> = BTreeMap::new();
    let mut kept = BTreeSet::new();
    for (place, (reference, digest)) in node_images(&bundle.bundles) {
        if let Some((old, old_digest)) = before.get(&place)
            && (old.repository(), *old_digest) == (reference.repository(), digest)
            && *old != reference
        {
            wanted.insert(place, old.to_string());
            kept.insert((old.to_string(), reference.to_string()));
        }
    }
    if !wanted.is_empty() {
        let versions =
            bundle.bundles.node.at(&["spec", "versionsBundles"]).and_then(Node::as_sequence).unwrap_or_default();
        let mut edits = Edits::new(&text);
        // `spec.versionsBundles.<n>.<component>.<artifact>.uri`
        edits.replace_strings(|path, _| {
            let [_, _, index, component, artifact @ .., last] = path else { return None };
            if last != "uri" {
                return None;
            }
            let version = versions.get(index.parse::<usize>().ok()?)?.get("kubeVersion")?.scalar_text()?;
            wanted.get(&(version.into_owned(), component.clone(), artifact.join("."))).cloned()
        });
        text =
            edits.apply().map_err(|error| RenderError::Other(format!("cannot keep deployed references: {error}")))?;
    }
    for (old, new) in kept {
        let message = format!("{old} is kept: {new} has the same digest and would roll every node");
        notes.push(Note::new(Weight::Note, NoteKind::ReferenceKept, message));
    }
    in_namespace(&text)
}

/// What nodes of one Kubernetes version are made of, in words: where two bundles say the same, nodes stay.
#[must_use]
pub fn node_parts(section: &VersionsBundle, provider: &Provider) -> String {
    let release = section.eks_d.as_ref().and_then(|release| {
        let version = release.kubernetes_version.as_ref()?;
        Some(format!("{version} {}", release.number?))
    });
    let mut parts: Vec<String> = release.into_iter().collect();
    let is_of_others = |component: &str| {
        let providers =
            [Provider::VSphere, Provider::Nutanix, Provider::Snow, Provider::Tinkerbell, Provider::CloudStack];
        providers.iter().any(|other| other != provider && other.bundle_component() == Some(component))
    };
    for component in section.components.iter().filter(|component| !is_of_others(&component.name)) {
        let images = component.artifacts.iter().filter(|artifact| artifact.kind == ArtifactKind::Image);
        for artifact in images.filter(|artifact| reaches_nodes(&component.name, &artifact.name)) {
            let content = artifact.digest.map_or_else(|| artifact.uri.clone(), |digest| digest.to_string());
            parts.push(format!("{}.{} {content}", component.name, artifact.name));
        }
    }
    parts.join(", ")
}

/// The images of a bundle that reach nodes and have a digest.
fn node_images(bundles: &bundles::Bundles) -> BTreeMap<ImagePlace, (ImageReference, bundles::Digest)> {
    let mut images = BTreeMap::new();
    for versions in &bundles.versions_bundles {
        for component in &versions.components {
            for artifact in component.artifacts.iter().filter(|artifact| artifact.kind == ArtifactKind::Image) {
                if let (true, Some(digest), Ok(reference)) = (
                    reaches_nodes(&component.name, &artifact.name),
                    artifact.digest,
                    artifact.uri.parse::<ImageReference>(),
                ) {
                    let version = versions.kubernetes_version.to_string();
                    images.insert((version, component.name.clone(), artifact.name.clone()), (reference, digest));
                }
            }
        }
    }
    images
}

/// Those of the deployed Bundles.
fn deployed_references(request: &RenderRequest<'_>) -> BTreeMap<ImagePlace, (ImageReference, bundles::Digest)> {
    let Some(bytes) = request.deployed.get("bundle/bundles.yaml") else { return BTreeMap::new() };
    let manifests = bundles::parse("bundle/bundles.yaml", bytes).unwrap_or_default();
    let deployed = manifests.into_iter().find_map(|manifest| match manifest {
        Manifest::Bundles(bundles) => Some(bundles),
        Manifest::EksaRelease(_) | Manifest::EksdRelease(_) => None,
    });
    deployed.as_ref().map(node_images).unwrap_or_default()
}

/// The EKS-D releases of every Kubernetes version that the cluster, or one it manages, uses; by name.
fn eksd_releases(request: &RenderRequest<'_>, bundle: &BundleFile) -> Result<BTreeMap<String, String>, RenderError> {
    let mut versions: BTreeSet<String> = BTreeSet::new();
    let managed = request.fleet.managed_by(&request.cluster.name);
    for cluster in std::iter::once(request.cluster).chain(managed) {
        versions.insert(cluster.kubernetes_version.clone());
        versions.extend(cluster.worker_groups.iter().map(|group| group.kubernetes_version.clone()));
    }
    versions.extend(on_the_way(request, bundle));
    let mut releases = BTreeMap::new();
    for version in versions {
        let Some(reference) = version
            .parse()
            .ok()
            .and_then(|version| bundle.bundles.versions_bundle(&version))
            .and_then(|versions| versions.eks_d.as_ref())
        else {
            continue;
        };
        let Some(url) = reference.manifest_url.as_deref() else { continue };
        let name = reference.name.clone().unwrap_or_else(|| format!("kubernetes-{version}"));
        if !name.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '.')) {
            return Err(RenderError::Other(format!("{name:?} is not a valid name for an EKS-D release")));
        }
        let in_repository = request.fleet.eksd_releases.iter().find(|file| file.release.name == name);
        let text = match in_repository {
            Some(file) => own_document(&String::from_utf8_lossy(&file.bytes), &file.release.node),
            None => upstream::fetch(request, "eksD", url)?.text,
        };
        releases.insert(name, text);
    }
    Ok(releases)
}

/// The Kubernetes versions that managed clusters go through by rollouts of their own: their management cluster has the releases before.
fn on_the_way(request: &RenderRequest<'_>, bundle: &BundleFile) -> Vec<String> {
    let managed = request.fleet.managed_by(&request.cluster.name);
    let chained = managed.filter(|cluster| request.fleet.policy.chains_upgrades(&cluster.name));
    let wanted =
        chained.filter_map(|cluster| Some(cluster.kubernetes_version.parse::<KubernetesVersion>().ok()?.minor()));
    let Some((lowest, highest)) = lowest_release(request).zip(wanted.max()) else { return Vec::new() };
    let minors = bundle.bundles.versions_bundles.iter().map(|section| section.kubernetes_version.minor());
    minors.filter(|minor| (lowest..=highest).contains(minor)).map(|minor| minor.to_string()).collect()
}

/// The lowest Kubernetes minor of which a release is deployed.
fn lowest_release(request: &RenderRequest<'_>) -> Option<KubernetesMinor> {
    let directory = request.deployed.below(NAME.directory());
    let objects = directory.files.values().flat_map(|bytes| objects_of(bytes));
    let releases = objects.filter(|node| node.get("kind").and_then(Node::as_str) == Some("Release"));
    let channel = |node: Node| node.at(&["spec", "channel"])?.as_str()?.replace('-', ".").parse().ok();
    releases.filter_map(channel).min()
}

/// The ConfigMap that EKS Anywhere's in-place upgrade looks its image up in: EKS-D version to upgrader image.
fn upgrader_images(request: &RenderRequest<'_>, bundle: &BundleFile) -> Option<Node> {
    let deployed = DeployedImages::below(request.deployed, NAME.directory());
    let mut data = Mapping::new();
    let mut images: BTreeMap<String, String> = BTreeMap::new();
    for versions in &bundle.bundles.versions_bundles {
        let (Some(version), Some(component)) =
            (versions.eks_d.as_ref().and_then(bundles::EksDReference::version), versions.component("upgrader"))
        else {
            continue;
        };
        let Some(artifact) = component.artifact("upgrader").filter(|artifact| !artifact.is_placeholder()) else {
            continue;
        };
        let image = match (artifact.digest, artifact.uri.parse::<ImageReference>()) {
            (Some(digest), Ok(reference)) => match deployed.kept(&reference, digest) {
                Some(kept) => kept.to_owned(),
                None => reference.pinned(digest).to_string(),
            },
            _ => artifact.uri.clone(),
        };
        images.insert(version.to_string(), image);
    }
    if images.is_empty() {
        return None;
    }
    for (version, image) in images {
        data.insert(version, image);
    }
    let metadata: Mapping = [("name", "in-place-upgrade"), ("namespace", NAMESPACE)]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Node::from(value)))
        .collect();
    let mut root = Mapping::new();
    root.insert("apiVersion", "v1");
    root.insert("kind", "ConfigMap");
    root.insert("metadata", metadata);
    root.insert("data", data);
    Some(Node::from(root))
}
