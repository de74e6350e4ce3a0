//! What eksctl's `ClusterConfig` says: what eksctl refuses of it, its node groups, and which group replaces which.

mod fields;
mod group_name;
mod identities;
mod part;
mod sequence;
mod target;

use yaml::Node;

pub(crate) use fields::misread;
pub use group_name::{NodeGroupName, VersionedName, minor_of};
pub(crate) use identities::roles_with_path;
pub use part::{ConfigPart, config_of, groups_with_files};
pub(crate) use sequence::names;
pub use sequence::sequence;
pub use target::{Unnameable, eksctl_target};

use crate::{WorkerGroup, WorkerGroupKind};

/// Begins the annotations of a `ClusterConfig` that say what the name of a node group does not.
pub const ANNOTATION: &str = "nodegroup.stepgate.dev/";

/// The value of such an annotation of a group that keeps its version, whatever its cluster is at.
pub const KEPT: &str = "kept";

/// The lists of node groups, and what stands in each.
pub const GROUP_LISTS: [(&str, WorkerGroupKind); 2] =
    [("managedNodeGroups", WorkerGroupKind::ManagedNodeGroup), ("nodeGroups", WorkerGroupKind::NodeGroup)];

/// What becomes of a node group when its cluster goes to another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Succession {
    /// It is of this version, and another one replaces it.
    Versioned(VersionedName),
    /// It stays.
    Kept,
    /// Neither its name nor an annotation tells.
    Undecided,
}

impl Succession {
    /// The version that it was made at; none where that is not told.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        match self {
            Self::Versioned(name) => Some(name.version()),
            Self::Kept | Self::Undecided => None,
        }
    }
}

/// The node groups of a `ClusterConfig`, in its order, managed ones first: the list of each, its name and itself.
pub fn node_groups(root: &Node) -> impl Iterator<Item = (WorkerGroupKind, &str, &Node)> {
    GROUP_LISTS.iter().flat_map(|(list, kind)| {
        let items = root.get(list).and_then(Node::as_sequence).unwrap_or_default().iter();
        items.filter_map(|item| Some((*kind, item.get("name")?.as_str()?, item)))
    })
}

/// What the annotation of a node group says; none where it has none.
pub(crate) fn annotation<'a>(root: &'a Node, group: &str) -> Option<&'a Node> {
    root.at(&["metadata", "annotations"])?.get(&format!("{ANNOTATION}{group}"))
}

/// What becomes of a node group when its cluster goes to another version.
#[must_use]
pub fn succession(root: &Node, group: &str) -> Succession {
    let annotated = annotation(root, group).and_then(Node::scalar_text);
    match annotated.as_deref() {
        Some(KEPT) => Succession::Kept,
        Some(version) => match minor_of(version) {
            Some(minor) => Succession::Versioned(VersionedName::first(group, minor)),
            None => Succession::Undecided,
        },
        None => match NodeGroupName::of(group) {
            NodeGroupName::Versioned(name) => Succession::Versioned(name),
            NodeGroupName::Unversioned => Succession::Undecided,
        },
    }
}

/// What groups have in common that replace each other: of one that keeps its version, or tells of none, its name.
#[must_use]
pub fn stem(root: &Node, group: &str) -> String {
    match succession(root, group) {
        Succession::Versioned(name) => name.stem,
        Succession::Kept | Succession::Undecided => match NodeGroupName::of(group) {
            NodeGroupName::Versioned(name) => name.stem,
            NodeGroupName::Unversioned => group.to_owned(),
        },
    }
}

/// Name and version of the add-ons of a `ClusterConfig`, in its order.
pub fn addons(root: &Node) -> impl Iterator<Item = (&str, Option<String>)> {
    let items = root.get("addons").and_then(Node::as_sequence).unwrap_or_default().iter();
    items.filter_map(|item| {
        let version = item.get("version").and_then(Node::scalar_text).map(std::borrow::Cow::into_owned);
        Some((item.get("name")?.as_str()?, version.filter(|version| !version.is_empty())))
    })
}

/// The `ClusterConfig` of a name and region among documents.
pub(crate) fn is_same_cluster(root: &Node, other: &Node) -> bool {
    let of =
        |root: &Node, key: &str| root.at(&["metadata", key]).and_then(Node::scalar_text).map(|text| text.into_owned());
    let is_config = root.get("kind").and_then(Node::as_str) == Some("ClusterConfig");
    is_config && of(root, "name") == of(other, "name") && of(root, "region") == of(other, "region")
}

/// The node groups of a `ClusterConfig` as groups of workers, of a cluster at this version.
pub(crate) fn worker_groups(root: &Node, cluster: &str) -> Vec<WorkerGroup> {
    let count =
        |item: &Node, key: &str| item.get(key).and_then(Node::as_i64).and_then(|count| u32::try_from(count).ok());
    let group = |(kind, name, item): (WorkerGroupKind, &str, &Node)| {
        let own = succession(root, name).version();
        WorkerGroup {
            name: name.to_owned(),
            kind,
            object: None,
            own_kubernetes_version: own.is_some(),
            kubernetes_version: own.unwrap_or_else(|| cluster.to_owned()),
            replicas: count(item, "desiredCapacity").or_else(|| count(item, "minSize")),
            machine_config: None,
        }
    };
    node_groups(root).map(group).collect()
}
