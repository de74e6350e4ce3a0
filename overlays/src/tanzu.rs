//! What a `TanzuKubernetesCluster` says of its machines, in every version of its interface.

mod addons;

use bundles::tanzu::DistributionVersion;
use yaml::Node;

pub use addons::{AddonState, RenderedAddon, workloads};
pub(crate) use addons::{kustomization_name, rendered as rendered_addons};

/// The one pool of v1alpha1; a converted cluster keeps this name.
pub(crate) const ONLY_POOL: &str = "workers";

/// The annotation of a rendered Cluster that names the image of its control plane.
pub const IMAGE: &str = "stepgate.dev/tanzu-image";

/// The annotation of templates of machines in memory that says what they stand for.
pub const MACHINE: &str = "stepgate.dev/tanzu-machine";

/// The label of a rendered `MachineDeployment` that names its node pool.
pub(crate) const GROUP_LABEL: &str = "stepgate.dev/worker-group";

/// The worker group of an object of Cluster API: the pool that it was rendered from, else its own name.
pub(crate) fn group_of(node: &Node, name: &str) -> String {
    let label = node.at(&["metadata", "labels"]).and_then(|labels| labels.get(GROUP_LABEL));
    label.and_then(Node::as_str).unwrap_or(name).to_owned()
}

const CONTROL_PLANE: &[&str] = &["spec", "topology", "controlPlane"];
const ONLY_WORKERS: &[&str] = &["spec", "topology", "workers"];
const POOLS: &[&str] = &["spec", "topology", "nodePools"];

/// Fields of a part that replace none of its machines.
const APART_FROM_MACHINES: [&str; 5] = ["count", "name", "nodeDrainTimeout", "replicas", "tkr"];

/// The control plane of a cluster, or one of its node pools.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineGroup {
    /// The release that its nodes are made of; none where that is no whole version.
    pub release: Option<DistributionVersion>,
    /// How many machines it has; none where an autoscaler decides.
    pub replicas: Option<u32>,
    /// The class of its virtual machines.
    pub class: Option<String>,
    /// The storage class of their disks.
    pub storage_class: Option<String>,
    /// Name and size of its own volumes.
    pub volumes: Vec<(String, String)>,
    /// What it is made with besides release and number.
    made_with: Vec<(String, Node)>,
}

impl MachineGroup {
    fn of(node: &Node, release: Option<DistributionVersion>) -> Self {
        let count = |key: &str| node.get(key).and_then(Node::as_i64).and_then(|count| u32::try_from(count).ok());
        let volumes = node.get("volumes").and_then(Node::as_sequence).unwrap_or_default().iter();
        let volume = |volume: &Node| Some((text(volume, &["name"])?, text(volume, &["capacity", "storage"])?));
        let entries = node.as_mapping().into_iter().flat_map(yaml::Mapping::iter);
        let is_of_machines = |key: &str| !APART_FROM_MACHINES.contains(&key);
        // One field under two names.
        let name = |key: &str| if key == "class" { "vmClass".to_owned() } else { key.to_owned() };
        let mut made_with: Vec<(String, Node)> = entries
            .filter(|entry| is_of_machines(entry.key.as_str()) && !entry.value.is_null())
            .map(|entry| (name(entry.key.as_str()), entry.value.clone()))
            .collect();
        made_with.sort_by(|left, right| left.0.cmp(&right.0));
        Self {
            release,
            replicas: count("replicas").or_else(|| count("count")),
            class: text(node, &["vmClass"]).or_else(|| text(node, &["class"])),
            storage_class: text(node, &["storageClass"]),
            volumes: volumes.filter_map(volume).collect(),
            made_with,
        }
    }

    /// Whether going from one to the other replaces machines.
    #[must_use]
    pub fn rolls_from(&self, before: &Self) -> bool {
        self.release != before.release || self.made_with != before.made_with
    }
}

fn text(root: &Node, path: &[&str]) -> Option<String> {
    root.at(path).and_then(Node::scalar_text).map(std::borrow::Cow::into_owned).filter(|text| !text.is_empty())
}

fn release(text: &str) -> Option<DistributionVersion> {
    text.parse().ok()
}

/// The release that the control plane of a `TanzuKubernetesCluster` names.
#[must_use]
pub fn release_of(root: &Node) -> Option<DistributionVersion> {
    let paths: [&[&str]; 3] = [
        &["spec", "topology", "controlPlane", "tkr", "reference", "name"],
        &["spec", "distribution", "fullVersion"],
        &["spec", "distribution", "version"],
    ];
    paths.into_iter().find_map(|path| text(root, path)).as_deref().and_then(release)
}

/// Its control plane.
#[must_use]
pub fn control_plane(root: &Node) -> MachineGroup {
    let empty = Node::default();
    MachineGroup::of(root.at(CONTROL_PLANE).unwrap_or(&empty), release_of(root))
}

/// Its node pools by name, in its order. A pool that names no release is made of that of the control plane.
#[must_use]
pub fn node_pools(root: &Node) -> Vec<(String, MachineGroup)> {
    let plane = release_of(root);
    if let Some(only) = root.at(ONLY_WORKERS).filter(|only| !only.is_null()) {
        return vec![(ONLY_POOL.to_owned(), MachineGroup::of(only, plane))];
    }
    let items = root.at(POOLS).and_then(Node::as_sequence).unwrap_or_default();
    let pool = |item: &Node| {
        let own = text(item, &["tkr", "reference", "name"]);
        let release = own.map_or_else(|| plane.clone(), |own| release(&own));
        Some((text(item, &["name"])?, MachineGroup::of(item, release)))
    };
    items.iter().filter_map(pool).collect()
}

/// What a cluster is beside its release and its parts: networks, storage, proxies, trust.
pub(crate) fn settings(root: &Node) -> Option<&Node> {
    root.at(&["spec", "settings"])
}

/// Whether an object is a `TanzuKubernetesCluster`.
#[must_use]
pub fn is_cluster(node: &Node) -> bool {
    let group = node.get("apiVersion").and_then(Node::as_str).and_then(|version| version.split_once('/'));
    node.get("kind").and_then(Node::as_str) == Some("TanzuKubernetesCluster")
        && group.is_some_and(|(group, _)| group == "run.tanzu.vmware.com")
}
