//! `TanzuKubernetesCluster` and eksctl's `ClusterConfig`.

use yaml::Node;

use super::clusters::ReadCluster;
use super::objects::{FoundObject, Objects, count, field};
use crate::{ClusterKind, ClusterSpec, Management, Places, Provider, WorkerGroup, WorkerGroupKind};
use domain::Problem;

/// `run.tanzu.vmware.com`: v1alpha2 and v1alpha3 name Tanzu releases, v1alpha1 a version and one size of workers.
pub(super) fn read_tanzu<'a>(
    object: &'a FoundObject,
    _: &Objects<'a>,
    _: &mut Vec<Problem>,
) -> Result<ReadCluster<'a>, Box<Problem>> {
    let empty = Node::default();
    let spec = object.node.get("spec").unwrap_or(&empty);
    let release: &[&str] = &["topology", "controlPlane", "tkr", "reference", "name"];
    // The hint, and what it was resolved to, which counts where both are there.
    let (full, hint): (&[&str], &[&str]) = (&["distribution", "fullVersion"], &["distribution", "version"]);
    let named = [release, full, hint].into_iter().find_map(|path| Some((field(spec, path)?, path)));
    let Some((version, path)) = named else {
        let message = format!("TanzuKubernetesCluster {:?} names no Tanzu Kubernetes release", object.name);
        return Err(Box::new(object.problem(&["spec"], &object.name, message)));
    };
    let pools = spec.at(&["topology", "nodePools"]).and_then(Node::as_sequence).unwrap_or_default();
    let mut worker_groups: Vec<WorkerGroup> = pools
        .iter()
        .filter_map(|pool| {
            let own = field(pool, &["tkr", "reference", "name"]);
            let (name, replicas) = (field(pool, &["name"])?, count(pool, &["replicas"]));
            Some(group(WorkerGroupKind::NodePool, name, own, version.clone(), replicas))
        })
        .collect();
    if worker_groups.is_empty() && spec.at(&["topology", "workers"]).is_some() {
        let replicas = count(spec, &["topology", "workers", "count"]);
        worker_groups.push(group(WorkerGroupKind::NodePool, "workers".to_owned(), None, version.clone(), replicas));
    }
    let control_plane_count = count(spec, &["topology", "controlPlane", "replicas"])
        .or_else(|| count(spec, &["topology", "controlPlane", "count"]));
    let path: Vec<&str> = std::iter::once("spec").chain(path.iter().copied()).collect();
    Ok(spec_of(
        object,
        ClusterKind::Tanzu,
        Provider::VSphere,
        Facts { kubernetes_version: version, version_path: &path, control_plane_count, worker_groups },
    ))
}

/// `eksctl.io`: `metadata.version`, node groups managed and not.
pub(super) fn read_eksctl<'a>(
    object: &'a FoundObject,
    _: &Objects<'a>,
    _: &mut Vec<Problem>,
) -> Result<ReadCluster<'a>, Box<Problem>> {
    let Some(version) = field(&object.node, &["metadata", "version"]) else {
        let message = format!("ClusterConfig {:?} has no metadata.version", object.name);
        let problem = object.problem(&["metadata"], &object.name, message);
        return Err(Box::new(
            problem.hint("write version: \"1.30\" under metadata; eksctl's default changes with eksctl"),
        ));
    };
    let groups = |key: &str, kind: WorkerGroupKind| -> Vec<WorkerGroup> {
        let items = object.node.get(key).and_then(Node::as_sequence).unwrap_or_default().iter();
        let of = |item: &Node| {
            let (name, own) = (field(item, &["name"])?, field(item, &["version"]));
            Some(group(kind, name, own, version.clone(), count(item, &["desiredCapacity"])))
        };
        items.filter_map(of).collect()
    };
    let mut worker_groups = groups("nodeGroups", WorkerGroupKind::NodeGroup);
    worker_groups.extend(groups("managedNodeGroups", WorkerGroupKind::ManagedNodeGroup));
    Ok(spec_of(
        object,
        ClusterKind::Eksctl,
        Provider::Other("eksctl".to_owned()),
        Facts {
            kubernetes_version: version,
            version_path: &["metadata", "version"],
            control_plane_count: None,
            worker_groups,
        },
    ))
}

struct Facts<'a> {
    kubernetes_version: String,
    version_path: &'a [&'a str],
    control_plane_count: Option<u32>,
    worker_groups: Vec<WorkerGroup>,
}

fn spec_of<'a>(object: &'a FoundObject, kind: ClusterKind, provider: Provider, facts: Facts<'_>) -> ReadCluster<'a> {
    let cluster = ClusterSpec {
        name: object.name.clone(),
        namespace: object.namespace.clone(),
        kind,
        management: Management::Undeclared,
        provider,
        external_etcd: None,
        control_plane_count: facts.control_plane_count,
        control_plane: None,
        bundle_reference: None,
        paused: false,
        skip_cilium_upgrade: true,
        cilium: false,
        places: Places {
            name: object.place_of(&["metadata", "name"]),
            kubernetes_version: Some(object.place_of(facts.version_path)),
            bundle_reference: None,
        },
        kubernetes_version: facts.kubernetes_version,
        worker_groups: facts.worker_groups,
        node: object.node.clone(),
        files: Vec::new(),
    };
    (cluster, vec![object])
}

fn group(
    kind: WorkerGroupKind,
    name: String,
    own: Option<String>,
    cluster: String,
    replicas: Option<u32>,
) -> WorkerGroup {
    WorkerGroup {
        name,
        kind,
        object: None,
        own_kubernetes_version: own.is_some(),
        kubernetes_version: own.unwrap_or(cluster),
        replicas,
        machine_config: None,
    }
}
