//! Which objects a cluster's gates look at.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kube::core::{ApiResource, DynamicObject};

use super::ChangeScope;

/// The label by which Cluster API's objects name their cluster.
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// Which objects of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filter {
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
pub(crate) struct Interest {
    of: Vec<(ApiResource, Filter, ChangeScope)>,
}

impl Interest {
    /// These objects are looked at, and this is what has changed when one of them has.
    pub(crate) fn add(&mut self, resource: ApiResource, filter: Filter, extent: ChangeScope) {
        self.of.push((resource, filter, extent));
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.of.extend(other.of);
    }

    pub(super) fn resources(&self) -> impl Iterator<Item = &ApiResource> {
        self.of.iter().map(|(resource, ..)| resource)
    }

    /// What has changed when an object of this kind has.
    #[cfg(test)]
    pub(crate) fn extent_of(&self, kind: &str) -> Option<ChangeScope> {
        self.of.iter().find(|(resource, ..)| resource.kind == kind).map(|(.., extent)| *extent)
    }

    /// Where it is found by what it is about, with the widest extent of each.
    fn keys(&self) -> BTreeMap<Key, ChangeScope> {
        let mut keys = BTreeMap::new();
        for (resource, filter, extent) in &self.of {
            for key in filter.keys(&topic(resource)) {
                widen(&mut keys, key, *extent);
            }
        }
        keys
    }
}

fn widen<K: Ord>(extents: &mut BTreeMap<K, ChangeScope>, key: K, extent: ChangeScope) {
    let known = extents.entry(key).or_insert(extent);
    *known = extent.max(*known);
}

/// Resource and version as one word.
pub(super) fn topic(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.api_version)
}

/// What some objects have in common, of one topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    All(String),
    OfCluster(String, String),
    In(String, String),
    Named(String, String, String),
}

impl Key {
    fn topic(&self) -> &str {
        match self {
            Self::All(topic) | Self::OfCluster(topic, _) | Self::In(topic, _) | Self::Named(topic, ..) => topic,
        }
    }
}

/// Who is to be told of what: found by the object, whatever the number of clusters.
#[derive(Debug, Default)]
pub(super) struct Interests {
    by_cluster: BTreeMap<String, Interest>,
    by_key: HashMap<Key, BTreeMap<String, ChangeScope>>,
}

impl Interests {
    /// From now on this is what a cluster looks at.
    pub(super) fn set(&mut self, cluster: &str, interest: Interest) {
        if self.by_cluster.get(cluster) == Some(&interest) {
            return;
        }
        self.remove(cluster);
        for (key, extent) in interest.keys() {
            self.by_key.entry(key).or_default().insert(cluster.to_owned(), extent);
        }
        self.by_cluster.insert(cluster.to_owned(), interest);
    }

    /// A cluster looks at nothing any more.
    pub(super) fn remove(&mut self, cluster: &str) {
        let Some(interest) = self.by_cluster.remove(cluster) else { return };
        for key in interest.keys().into_keys() {
            if let Some(clusters) = self.by_key.get_mut(&key) {
                clusters.remove(cluster);
                if clusters.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }

    /// The topics that somebody looks at.
    pub(super) fn topics(&self) -> HashSet<String> {
        self.by_key.keys().map(|key| key.topic().to_owned()).collect()
    }

    /// The clusters that look at this object, and what of them has changed with it.
    pub(super) fn in_object(&self, topic: &str, object: &DynamicObject) -> BTreeMap<&str, ChangeScope> {
        let metadata = &object.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(CLUSTER_NAME)).unwrap_or(&name).clone();
        let topic = || topic.to_owned();
        let keys = [
            Key::All(topic()),
            Key::OfCluster(topic(), label),
            Key::In(topic(), namespace.clone()),
            Key::Named(topic(), namespace, name),
        ];
        let mut clusters = BTreeMap::new();
        for (cluster, extent) in keys.iter().filter_map(|key| self.by_key.get(key)).flatten() {
            widen(&mut clusters, cluster.as_str(), *extent);
        }
        clusters
    }

    /// The clusters that look at anything of this topic, and what of them has changed when it has.
    pub(super) fn in_topic(&self, wanted: &str) -> BTreeMap<&str, ChangeScope> {
        let widest = |interest: &Interest| {
            let looks = interest.of.iter().filter(|(resource, ..)| topic(resource) == wanted);
            looks.map(|(.., extent)| *extent).max()
        };
        let clusters = self.by_cluster.iter();
        clusters.filter_map(|(cluster, interest)| Some((cluster.as_str(), widest(interest)?))).collect()
    }
}

impl Filter {
    /// The objects of these namespaces and names.
    pub(crate) fn named<'a>(objects: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (namespace, name) in objects {
            named.entry(namespace.to_owned()).or_default().insert(name.to_owned());
        }
        Self::Named(named)
    }

    fn keys(&self, topic: &str) -> Vec<Key> {
        let topic = || topic.to_owned();
        match self {
            Self::All => vec![Key::All(topic())],
            Self::OfClusters(clusters) => {
                clusters.iter().map(|cluster| Key::OfCluster(topic(), cluster.clone())).collect()
            }
            Self::In(namespaces) => namespaces.iter().map(|namespace| Key::In(topic(), namespace.clone())).collect(),
            Self::Named(named) => {
                let of = |(namespace, names): (&String, &BTreeSet<String>)| {
                    let key = |name: &String| Key::Named(topic(), namespace.clone(), name.clone());
                    names.iter().map(key).collect::<Vec<_>>()
                };
                named.iter().flat_map(of).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::client::kind::{DEPLOYMENT, MACHINE, POD};

    fn object(metadata: &Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn interest(of: impl IntoIterator<Item = (ApiResource, Filter)>) -> Interest {
        Interest { of: of.into_iter().map(|(resource, filter)| (resource, filter, ChangeScope::More)).collect() }
    }

    #[test]
    fn whoever_looks_at_an_object_is_found_by_any_of_its_filters() {
        let (machines, deployments, pods) =
            (MACHINE.resource("v1beta2"), DEPLOYMENT.resource("v1"), POD.resource("v1"));
        let clusters = |names: &[&str]| Filter::OfClusters(names.iter().map(|name| (*name).to_owned()).collect());
        let mut interests = Interests::default();
        interests.set("one", interest([(machines.clone(), clusters(&["one"])), (pods.clone(), Filter::All)]));
        interests.set("all", interest([(machines.clone(), Filter::All)]));
        interests.set("two", interest([(deployments.clone(), Filter::named([("a", "app")]))]));
        interests.set("two", interest([(deployments.clone(), Filter::named([("b", "app")]))]));
        interests.set("gone", interest([(pods.clone(), Filter::In(BTreeSet::from(["a".to_owned()])))]));
        interests.remove("gone");

        let told = |resource: &ApiResource, metadata: Value| {
            interests.in_object(&topic(resource), &object(&metadata)).into_keys().collect::<Vec<_>>()
        };
        let labelled = |cluster: &str| json!({"name": "m", "namespace": "n", "labels": {CLUSTER_NAME: cluster}});
        assert_eq!(told(&machines, labelled("one")), ["all", "one"]);
        assert_eq!(told(&machines, labelled("other")), ["all"]);
        assert_eq!(told(&machines, json!({"name": "one", "namespace": "n"})), ["all", "one"]);
        assert_eq!(told(&deployments, json!({"name": "app", "namespace": "a"})), [""; 0]);
        assert_eq!(told(&deployments, json!({"name": "app", "namespace": "b"})), ["two"]);
        assert_eq!(told(&pods, json!({"name": "p", "namespace": "a"})), ["one"]);
        assert_eq!(interests.in_topic(&topic(&pods)).into_keys().collect::<Vec<_>>(), ["one"]);
        assert_eq!(interests.topics().len(), 3);
    }

    #[test]
    fn what_several_look_at_counts_as_the_widest_of_them() {
        let (deployments, pods) = (DEPLOYMENT.resource("v1"), POD.resource("v1"));
        let in_namespace = |name: &str| Filter::In(BTreeSet::from([name.to_owned()]));
        let mut of = Interest::default();
        of.add(pods.clone(), in_namespace("a"), ChangeScope::Gate);
        of.add(pods.clone(), in_namespace("b"), ChangeScope::Gate);
        of.add(pods.clone(), in_namespace("b"), ChangeScope::More);
        of.add(deployments.clone(), Filter::named([("a", "app")]), ChangeScope::Gate);
        let mut interests = Interests::default();
        interests.set("prod", of);
        let told = |resource: &ApiResource, namespace: &str| {
            let object = object(&json!({"name": "app", "namespace": namespace}));
            interests.in_object(&topic(resource), &object).get("prod").copied()
        };
        assert_eq!(
            ["a", "b", "c"].map(|namespace| told(&pods, namespace)),
            [Some(ChangeScope::Gate), Some(ChangeScope::More), None]
        );
        assert_eq!(told(&deployments, "a"), Some(ChangeScope::Gate));
        // What went while nobody watched may be any of them.
        let in_topic = |resource| interests.in_topic(&topic(resource)).get("prod").copied();
        assert_eq!([in_topic(&pods), in_topic(&deployments)], [Some(ChangeScope::More), Some(ChangeScope::Gate)]);
    }
}
