//! Objects as a server holds them.

use serde_json::Value;

/// EKS Anywhere's group.
pub(super) const EKSA: &str = "anywhere.eks.amazonaws.com";

/// Cluster API's group.
pub(super) const CORE: &str = "cluster.x-k8s.io";

/// Where EKS Anywhere keeps what it makes.
pub(super) const EKSA_SYSTEM: &str = "eksa-system";

/// An object with its coordinates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object<'a> {
    pub(super) value: &'a Value,
    pub(super) group: &'a str,
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl<'a> Object<'a> {
    /// None of a value that is no object.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        let text = |path: &str| value.pointer(path).and_then(Value::as_str);
        Some(Self {
            value,
            group: text("/apiVersion")?.split_once('/').map_or("", |(group, _)| group),
            kind: text("/kind")?,
            namespace: text("/metadata/namespace").unwrap_or_default(),
            name: text("/metadata/name")?,
        })
    }

    pub(super) fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    pub(super) fn text(&self, path: &str) -> Option<&'a str> {
        self.value.pointer(path).and_then(Value::as_str)
    }

    pub(super) fn number(&self, path: &str) -> Option<i64> {
        self.value.pointer(path).and_then(Value::as_i64)
    }

    pub(super) fn label(&self, key: &str) -> Option<&'a str> {
        self.value.get("metadata")?.get("labels")?.get(key)?.as_str()
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.value.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }

    pub(super) fn owner_kinds(&self) -> impl Iterator<Item = &'a str> {
        let owners = self.value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        owners.into_iter().flatten().filter_map(|owner| owner.get("kind").and_then(Value::as_str))
    }

    /// The Cluster API cluster that it names.
    pub(super) fn cluster(&self) -> Option<&'a str> {
        self.text("/spec/clusterName").or_else(|| self.label("cluster.x-k8s.io/cluster-name"))
    }

    /// `Kind namespace/name`.
    pub(super) fn place(&self) -> String {
        match self.namespace {
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }
}
