//! A `TanzuKubernetesCluster` without a Supervisor, as objects of Cluster API.
//!
//! Templates are named by what machines are made from. So whatever replaces a machine is another name, which Cluster API compares,
//! and nothing is edited in place that machines to come are made from.

mod addons;
mod control_plane;
mod infrastructure;
mod part;
mod pools;
mod refused;
mod template;

use std::sync::Arc;

use domain::{Problem, RepoPath};
use policy::{Policy, TanzuMode};
use serde_json::{Map, Value, json};
use yaml::{Limits, Node};

use super::records::Material;
use crate::fleet::kinds::cluster_api;
use crate::fleet::objects::{FoundObject, Objects};
use crate::{ClusterSpec, Places, RenderedTanzu, SpecFile};
use infrastructure::Infrastructure;
use part::Part;

/// The label of nodes that says the release which they are made of.
const RELEASE_LABEL: &str = "run.tanzu.vmware.com/kubernetesDistributionVersion";

/// The label of Cluster API's objects that says the same, as unified releases have it.
const RELEASE_OF_CLUSTER: &str = "run.tanzu.vmware.com/tkr";

/// The file of the objects below `cluster/`.
const FILE: &str = "cluster-api.yaml";

/// What a cluster is rendered from.
pub(super) struct Source<'a> {
    /// The `TanzuKubernetesCluster`, its releases written out.
    pub cluster: &'a Node,
    pub name: &'a str,
    pub namespace: &'a str,
    pub plane: &'a Material<'a>,
    /// The pools in their order, each with what its nodes are made from.
    pub pools: &'a [(String, Material<'a>)],
    pub infrastructure: Infrastructure,
}

/// Whether a cluster has no Supervisor.
pub(super) fn is_rendered(policy: &Policy, cluster: &str) -> bool {
    policy.tanzu_of(cluster).mode == TanzuMode::Render
}

/// Makes `cluster` one of Cluster API: its objects take the place of the `TanzuKubernetesCluster` in its files. Templates are apart
/// from them, since they outlive what they are named by.
pub(super) fn render(
    cluster: &mut ClusterSpec,
    plane: &Material<'_>,
    pools: &[(String, Material<'_>)],
    policy: &Policy,
    problems: &mut Vec<Problem>,
) {
    let node = Arc::clone(&cluster.node);
    let before = problems.len();
    problems.extend(refused::check(&node, cluster, plane));
    let addons = addons::chosen(&node, cluster, plane, policy.tanzu_of(&cluster.name), problems);
    if problems.iter().skip(before).any(Problem::is_error) {
        return;
    }
    let name = cluster.name.clone();
    let source = Source {
        cluster: &node,
        name: &name,
        namespace: if cluster.namespace.is_empty() { "default" } else { &cluster.namespace },
        plane,
        pools,
        infrastructure: Infrastructure::of(policy.tanzu_of(&name).infrastructure),
    };
    let is_template =
        |node: &Node| node.get("kind").and_then(Node::as_str).is_some_and(|kind| kind.ends_with("Template"));
    let (templates, objects): (Vec<Node>, Vec<Node>) = source.objects().into_iter().partition(is_template);
    let bytes: Arc<[u8]> = objects.iter().map(yaml::emit).collect::<Vec<_>>().join("---\n").into_bytes().into();
    let Ok(path) = RepoPath::new(FILE) else { return };
    let found = objects.iter().filter_map(|node| FoundObject::new(&path, &bytes, node.clone())).map(Arc::new);
    let found: Vec<Arc<FoundObject>> = found.collect();
    let index = Objects::new(&found);
    let Some(root) = found.first() else { return };
    let place = cluster.places.name.clone();
    match cluster_api::read(root, &index, problems) {
        Ok((rendered, _)) => {
            let mut files = vec![SpecFile { path, bytes: Arc::clone(&bytes) }];
            files.extend(beside(cluster));
            let places = Places { name: place, ..cluster.places.clone() };
            let tanzu = RenderedTanzu {
                release: plane.version.to_string(),
                image: plane.image.clone(),
                templates,
                label: plane.label.clone(),
                addons,
            };
            *cluster = ClusterSpec { places, files, tanzu: Some(Arc::new(tanzu)), ..rendered };
        }
        Err(problem) => {
            problems.push(Problem { path: Some(place.path.clone()), ..*problem }.at(place.line, place.column));
        }
    }
}

/// The files of a cluster without the documents that are rendered or recorded.
fn beside(cluster: &ClusterSpec) -> Vec<SpecFile> {
    let mut files = Vec::new();
    for file in &cluster.files {
        let objects = crate::objects_of(&file.bytes);
        let rest: Vec<&Node> = objects.iter().filter(|node| !crate::tanzu::is_cluster(node)).collect();
        if rest.len() == objects.len() {
            files.push(file.clone());
        } else if !rest.is_empty() {
            let bytes = rest.into_iter().map(yaml::emit).collect::<Vec<_>>().join("---\n").into_bytes().into();
            files.push(SpecFile { path: file.path.clone(), bytes });
        }
    }
    files
}

/// The value as a node.
fn node(value: &Value) -> Node {
    let parsed = yaml::parse(&value.to_string(), &Limits::default());
    parsed.ok().and_then(|documents| documents.into_iter().next()).map(|document| document.root).unwrap_or_default()
}

/// A reference as Cluster API has it since v1beta2.
fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({"apiGroup": group, "kind": kind, "name": name})
}

impl Source<'_> {
    /// Every object, the Cluster first.
    fn objects(&self) -> Vec<Node> {
        let plane = self.cluster.at(&["spec", "topology", "controlPlane"]).map(Part::read).unwrap_or_default();
        let mut objects = vec![self.root(), self.infrastructure_cluster()];
        objects.extend(self.control_plane(&plane));
        for (name, material) in self.pools {
            let part = self.pool_node(name).map(Part::read).unwrap_or_default();
            objects.extend(self.pool(name, &part, material));
        }
        objects.iter().map(node).collect()
    }

    /// What the specification says of a pool.
    fn pool_node(&self, name: &str) -> Option<&Node> {
        let topology = self.cluster.at(&["spec", "topology"])?;
        if name == crate::tanzu::ONLY_POOL
            && let Some(only) = topology.get("workers").filter(|only| !only.is_null())
        {
            return Some(only);
        }
        let items = topology.get("nodePools").and_then(Node::as_sequence)?;
        items.iter().find(|item| item.get("name").and_then(Node::as_str) == Some(name))
    }

    fn object(&self, api: (&str, &str), kind: &str, name: &str, spec: &Value) -> Value {
        let (group, version) = api;
        let labels = json!({"cluster.x-k8s.io/cluster-name": self.name});
        let metadata = json!({"name": name, "namespace": self.namespace, "labels": labels});
        json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": metadata, "spec": spec})
    }

    /// The Cluster.
    fn root(&self) -> Value {
        let settings = |path: &[&str]| {
            let path: Vec<&str> = ["spec", "settings", "network"].iter().chain(path).copied().collect();
            self.cluster.at(&path).filter(|node| !node.is_null()).map(crate::json::to_json)
        };
        let networks = |key: &str, default: &str| settings(&[key, "cidrBlocks"]).unwrap_or_else(|| json!([default]));
        let network = json!({
            "pods": {"cidrBlocks": networks("pods", "192.168.0.0/16")},
            "services": {"cidrBlocks": networks("services", "10.96.0.0/12")},
            "serviceDomain": settings(&["serviceDomain"]).unwrap_or_else(|| json!("cluster.local")),
        });
        let spec = json!({
            "clusterNetwork": network,
            "controlPlaneRef": reference(control_plane::GROUP, control_plane::KIND, &self.plane_name()),
            "infrastructureRef": reference(self.infrastructure.group(), self.infrastructure.cluster_kind(), self.name),
        });
        let written = |key: &str| {
            let mapping = self.cluster.at(&["metadata", key]).map(crate::json::to_json);
            mapping.and_then(|value| value.as_object().cloned()).unwrap_or_default()
        };
        let mut labels: Map<String, Value> = written("labels");
        labels.insert(RELEASE_OF_CLUSTER.to_owned(), self.plane.version.name().into());
        let mut annotations = written("annotations");
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        annotations.insert(crate::tanzu::IMAGE.to_owned(), self.plane.image.as_str().into());
        let metadata =
            json!({"name": self.name, "namespace": self.namespace, "labels": labels, "annotations": annotations});
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata, "spec": spec})
    }

    /// The labels by which nodes of a release are told, and what a pool adds.
    fn node_labels(&self, material: &Material<'_>, own: &[(String, String)]) -> String {
        let release = (RELEASE_LABEL.to_owned(), material.label.clone());
        let labels = std::iter::once(&release).chain(own).map(|(name, value)| format!("{name}={value}"));
        labels.collect::<Vec<_>>().join(",")
    }

    /// How a node registers.
    fn registration(&self, material: &Material<'_>, part: &Part) -> Value {
        let mut arguments = vec![json!({"name": "node-labels", "value": self.node_labels(material, &part.labels)})];
        let mut registration = Map::new();
        if self.infrastructure == Infrastructure::Vsphere {
            arguments.insert(0, json!({"name": "cloud-provider", "value": "external"}));
            registration.insert("name".to_owned(), json!("{{ ds.meta_data.hostname }}"));
        }
        registration.insert("kubeletExtraArgs".to_owned(), arguments.into());
        if !part.taints.is_empty() {
            registration.insert("taints".to_owned(), part.taints.clone().into());
        }
        registration.into()
    }
}
