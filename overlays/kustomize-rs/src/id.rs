//! Names of objects: group, version, kind, name and namespace.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use yaml::Text;

/// Group, version and kind. In a selector, an empty part matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Gvk {
    /// API group; empty for core.
    pub group: Text,
    /// API version, for example `v1`.
    pub version: Text,
    /// Kind, for example `Deployment`.
    pub kind: Text,
}

impl Gvk {
    /// Splits `apiVersion` at its first slash.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = split_api_version(api_version);
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The `apiVersion` field.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Says whether an object with these fields is of this kind.
    pub(crate) fn is_written(&self, api_version: &str, kind: &str) -> bool {
        self.kind == kind && (&*self.group, &*self.version) == split_api_version(api_version)
    }

    /// Says whether every part that `selector` gives is equal.
    pub fn is_selected(&self, selector: &Gvk) -> bool {
        let fits = |part: &str, wanted: &str| wanted.is_empty() || part == wanted;
        fits(&self.kind, &selector.kind) && fits(&self.group, &selector.group) && fits(&self.version, &selector.version)
    }
}

/// Group and version.
fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl fmt::Display for Gvk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |part: &str, empty: &str| if part.is_empty() { empty.to_owned() } else { part.to_owned() };
        write!(
            formatter,
            "{}.{}.{}",
            or(&self.kind, "[noKind]"),
            or(&self.version, "[noVer]"),
            or(&self.group, "[noGrp]")
        )
    }
}

/// The name of one object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ResourceId {
    /// Group, version and kind, one for many objects.
    pub gvk: Arc<Gvk>,
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.namespace` as written, perhaps empty.
    pub namespace: Text,
    /// Known to live outside of namespaces.
    pub cluster_scoped: bool,
}

/// Namespace of objects that have none, in [`ResourceId::effective_namespace`].
const NO_NAMESPACE: &str = "_non_namespaceable_";

impl ResourceId {
    /// The namespace that counts: none for cluster-scoped kinds, `default` where the field is empty.
    pub fn effective_namespace(&self) -> &str {
        if self.cluster_scoped {
            NO_NAMESPACE
        } else if self.namespace.is_empty() {
            "default"
        } else {
            &self.namespace
        }
    }

    /// Says whether both name the same object.
    pub fn same_object(&self, other: &Self) -> bool {
        self.name == other.name && self.gvk == other.gvk && self.effective_namespace() == other.effective_namespace()
    }

    /// Says whether every part that `selector` gives is equal.
    pub fn is_selected_by(&self, selector: &Self) -> bool {
        (selector.name.is_empty() || selector.name == self.name)
            && (selector.namespace.is_empty() || selector.effective_namespace() == self.effective_namespace())
            && self.gvk.is_selected(&selector.gvk)
    }
}

/// A key under which names of the same object meet.
#[derive(Debug, Clone)]
pub(crate) struct SameObject(pub(crate) Arc<ResourceId>);

impl PartialEq for SameObject {
    fn eq(&self, other: &Self) -> bool {
        self.0.same_object(&other.0)
    }
}

impl Eq for SameObject {}

impl Hash for SameObject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.gvk.hash(state);
        self.0.name.hash(state);
        self.0.effective_namespace().hash(state);
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = if self.namespace.is_empty() { "[noNs]" } else { &self.namespace };
        write!(formatter, "{}/{}.{namespace}", self.gvk, self.name)
    }
}
