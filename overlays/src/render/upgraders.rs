//! The ConfigMap that says with which image nodes are upgraded in place: made of the bundle's EKS-D releases and of the
//! repository that the policy names.

use std::collections::{BTreeMap, BTreeSet};

use bundles::{EksDReference, EksDVersion};
use policy::RolloutStrategy;
use yaml::{Mapping, Node};

use super::RenderRequest;
use crate::{BundleFile, ClusterKind, ClusterSpec, Fleet, SpecFile, objects_of};

/// The ConfigMap, in the namespace of the Clusters that it is for.
pub const UPGRADERS: &str = "in-place-upgraders";

/// What every annotation begins with that asks for upgrades in place.
const ASKS: &str = "inplace.stepgate.dev/";

/// Of files that are applied without a namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// The images that are made for the clusters of one manager: by namespace, then by version. A namespace in which people
/// have written the ConfigMap is left to them.
#[must_use]
pub fn made_upgraders(
    fleet: &Fleet,
    manager: &ClusterSpec,
    bundle: &BundleFile,
) -> BTreeMap<String, BTreeMap<String, String>> {
    let Some(repository) = &fleet.policy.upgraders else { return BTreeMap::new() };
    let sections = bundle.bundles.versions_bundles.iter();
    let known: BTreeSet<EksDVersion> =
        sections.filter_map(|section| section.eks_d.as_ref().and_then(EksDReference::version)).collect();
    let mut made: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for cluster in std::iter::once(manager).chain(fleet.managed_by(&manager.name)) {
        if cluster.kind != ClusterKind::ClusterApi || !asks_for_in_place(fleet, cluster) {
            continue;
        }
        let namespace = namespace_of(cluster);
        if written_upgraders(fleet, namespace).is_some() {
            continue;
        }
        let own = cluster.worker_groups.iter().map(|group| &group.kubernetes_version);
        let versions = own.chain([&cluster.kubernetes_version]);
        let releases = versions.filter_map(|version| version.parse().ok()).filter(|release| known.contains(release));
        let entries = releases.map(|release| (release.to_string(), format!("{repository}:{release}")));
        let entries: Vec<(String, String)> = entries.collect();
        if !entries.is_empty() {
            made.entry(namespace.to_owned()).or_default().extend(entries);
        }
    }
    made
}

/// The namespace of a cluster.
#[must_use]
pub fn namespace_of(cluster: &ClusterSpec) -> &str {
    if cluster.namespace.is_empty() { DEFAULT_NAMESPACE } else { &cluster.namespace }
}

/// The ConfigMap that people have written for a namespace, and its file.
#[must_use]
pub fn written_upgraders<'a>(fleet: &'a Fleet, namespace: &str) -> Option<(&'a SpecFile, Node)> {
    let is_it = |node: &Node| {
        let text = |path: &[&str]| node.at(path).and_then(Node::as_str);
        text(&["kind"]) == Some("ConfigMap")
            && text(&["metadata", "name"]) == Some(UPGRADERS)
            && text(&["metadata", "namespace"]).unwrap_or(DEFAULT_NAMESPACE) == namespace
    };
    let files = files_naming_upgraders(fleet);
    files.filter_map(|file| Some((file, objects_of(&file.bytes).into_iter().find(|node| is_it(node))?))).next()
}

/// The files that name the ConfigMap at all. Most do not, and are not read again.
pub fn files_naming_upgraders(fleet: &Fleet) -> impl Iterator<Item = &SpecFile> {
    fleet.clusters.iter().flat_map(|cluster| &cluster.files).filter(|file| has(&file.bytes, UPGRADERS))
}

fn has(bytes: &[u8], words: &str) -> bool {
    bytes.windows(words.len()).any(|window| window == words.as_bytes())
}

/// Whether any machines of a cluster are to be upgraded in place.
#[must_use]
pub fn asks_for_in_place(fleet: &Fleet, cluster: &ClusterSpec) -> bool {
    let groups = cluster.worker_groups.iter().map(|group| format!("workers/{}", group.name));
    let mut stages = std::iter::once("control-plane".to_owned()).chain(groups);
    let strategy = |stage: &str| fleet.policy.stage_policy(&cluster.name, stage).machines.strategy;
    stages.any(|stage| strategy(&stage) == Some(RolloutStrategy::InPlace))
        || cluster.files.iter().any(|file| has(&file.bytes, ASKS))
}

/// The `ConfigMap`s, with the file of each. What was made before stays: a node whose upgrade to it has begun finishes it.
pub(super) fn config_maps(request: &RenderRequest<'_>, bundle: &BundleFile) -> Vec<(String, Node)> {
    let made = made_upgraders(request.fleet, request.cluster, bundle);
    let config_map = |(namespace, mut images): (String, BTreeMap<String, String>)| {
        let file = format!("{UPGRADERS}-{namespace}.yaml");
        for (version, image) in deployed(request, &file) {
            images.entry(version).or_insert(image);
        }
        let metadata: Mapping = [("name", UPGRADERS), ("namespace", namespace.as_str())]
            .into_iter()
            .map(|(key, value)| (key.to_owned(), Node::from(value)))
            .collect();
        let mut data = Mapping::new();
        for (version, image) in images {
            data.insert(version, image);
        }
        let mut root = Mapping::new();
        root.insert("apiVersion", "v1");
        root.insert("kind", "ConfigMap");
        root.insert("metadata", metadata);
        root.insert("data", data);
        (file, Node::from(root))
    };
    made.into_iter().map(config_map).collect()
}

/// What the deployed one has.
fn deployed(request: &RenderRequest<'_>, file: &str) -> Vec<(String, String)> {
    let bytes = request.deployed.get(&format!("{}/{file}", super::ComponentName::Bundle.directory()));
    let objects = bytes.map(|bytes| objects_of(bytes)).unwrap_or_default();
    let data = objects.iter().filter_map(|node| node.get("data")?.as_mapping()).flatten();
    data.filter_map(|entry| Some((entry.key.to_string(), entry.value.as_str()?.to_owned()))).collect()
}
