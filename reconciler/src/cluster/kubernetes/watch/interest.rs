//! Which objects a cluster's gates look at.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{ApiResource, DynamicObject};

/// The label by which Cluster API's objects name their cluster.
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// Which objects of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Filter {
    /// All of them.
    All,
    /// Those of these Cluster API clusters, by label or by their own name.
    OfClusters(BTreeSet<String>),
    /// Those in these namespaces.
    In(BTreeSet<String>),
    /// These: names by namespace, which is empty where there is none.
    Named(BTreeMap<String, BTreeSet<String>>),
}

/// What the gates of one cluster look at on one API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Interest {
    of: Vec<(ApiResource, Filter)>,
}

impl Interest {
    pub(in super::super) fn add(&mut self, resource: ApiResource, filter: Filter) {
        self.of.push((resource, filter));
    }

    pub(in super::super) fn extend(&mut self, other: Self) {
        self.of.extend(other.of);
    }

    pub(super) fn resources(&self) -> impl Iterator<Item = &ApiResource> {
        self.of.iter().map(|(resource, _)| resource)
    }

    /// Whether it is about objects of this resource at all.
    pub(super) fn names(&self, resource: &ApiResource) -> bool {
        self.of.iter().any(|(known, _)| known == resource)
    }

    /// Whether it is about this object.
    pub(super) fn matches(&self, resource: &ApiResource, object: &DynamicObject) -> bool {
        self.of.iter().any(|(known, filter)| known == resource && filter.matches(object))
    }
}

impl Filter {
    /// The objects of these namespaces and names.
    pub(in super::super) fn named<'a>(objects: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (namespace, name) in objects {
            named.entry(namespace.to_owned()).or_default().insert(name.to_owned());
        }
        Self::Named(named)
    }

    fn matches(&self, object: &DynamicObject) -> bool {
        let metadata = &object.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        match self {
            Self::All => true,
            Self::OfClusters(clusters) => {
                let label = metadata.labels.as_ref().and_then(|labels| labels.get(CLUSTER_NAME)).map(String::as_str);
                clusters.contains(label.unwrap_or(name))
            }
            Self::In(namespaces) => namespaces.contains(namespace),
            Self::Named(named) => named.get(namespace).is_some_and(|names| names.contains(name)),
        }
    }
}
