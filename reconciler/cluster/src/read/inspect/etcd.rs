//! Alarms of etcd, and the size of its databases: of an external one by its members, of one on the control-plane
//! machines by the API server that it serves.

use std::collections::BTreeSet;

use kube::core::DynamicObject;
use rollout::{EtcdAlarm, EtcdDatabase, EtcdDisk, EtcdInspection, ObjectReference};
use serde::Deserialize;
use serde_json::Value;

use crate::client::concurrent::concurrently;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{ETCDADM_CLUSTER, MACHINE, POD};
use crate::client::request::{Selection, ServedVersions};
use crate::client::review;
use crate::objects;
use crate::read::etcd::{self, Asked};
use crate::read::metrics;

/// What API servers call the size of etcd's database: since 1.28, since 1.26 and before.
const SIZES: [&str; 3] =
    ["apiserver_storage_size_bytes", "apiserver_storage_db_total_size_in_bytes", "etcd_db_total_size_in_bytes"];

/// The quota of an etcd that is not told another one.
const DEFAULT_QUOTA: u64 = 2 << 30;

/// What is known of the etcd of a cluster, by its namespace and name; nothing where nobody made it with Cluster API.
pub(super) async fn inspect(
    management: &Connection,
    own: &Connection,
    cluster: Option<&(String, String)>,
) -> Result<EtcdInspection, RequestError> {
    let Some((namespace, name)) = cluster else { return Ok(EtcdInspection::default()) };
    let served = management.lately_served_versions().await?;
    let labels = format!("cluster.x-k8s.io/cluster-name={name}");
    let version = served.version_of(&ETCDADM_CLUSTER);
    let external = management.list(&ETCDADM_CLUSTER, version, Some(namespace), Some(&labels)).await?;
    if external.is_empty() {
        return Ok(stacked(own).await);
    }
    let machines = machines(management, &served, &labels, namespace).await?;
    let mut found = EtcdInspection::default();
    for object in &external {
        let mut addresses = objects::etcd_endpoints(object);
        let etcd = object.metadata.name.as_deref();
        let own = machines.iter().filter(|machine| machine.etcd_cluster.as_deref() == etcd);
        addresses.extend(own.flat_map(|machine| machine.addresses.iter().cloned()));
        let asked = Asked { namespace, cluster: name, addresses };
        match etcd::storage(management, &asked).await {
            Ok(storage) => add(&mut found, storage, &machines),
            Err(reason) => found.unread.push(format!("etcd's members could not be asked: {reason}")),
        }
    }
    Ok(found)
}

async fn machines(
    management: &Connection,
    served: &ServedVersions,
    labels: &str,
    namespace: &str,
) -> Result<Vec<rollout::Machine>, RequestError> {
    let selection = Selection { labels: Some(labels), ..Selection::default() };
    let listed = management.list_selected(&MACHINE, served.version_of(&MACHINE), selection).await?;
    // Addresses and labels are written alike in every version.
    let machines = listed.iter().map(|object| objects::machine(object, objects::Contract::V1Beta2, &[], &[]));
    Ok(machines.filter(|machine| machine.namespace == namespace).collect())
}

fn add(found: &mut EtcdInspection, storage: etcd::Storage, machines: &[rollout::Machine]) {
    let machine = |member: &etcd::Member| {
        let is_it = |machine: &&rollout::Machine| machine.addresses.iter().any(|known| member.hosts.contains(known));
        machines.iter().find(is_it).map(|machine| ObjectReference {
            api_version: String::from("cluster.x-k8s.io/v1beta2"),
            kind: MACHINE.kind.to_owned(),
            namespace: Some(machine.namespace.clone()),
            name: machine.name.clone(),
        })
    };
    found.alarms.extend(storage.alarms.into_iter().map(|alarm| EtcdAlarm {
        object: machine(&alarm.member),
        member: alarm.member.name,
        alarm: alarm.name,
    }));
    found.databases.extend(storage.databases.into_iter().map(|database| EtcdDatabase {
        object: machine(&database.member),
        size: database.size,
        in_use: database.in_use,
        quota: database.quota,
    }));
    found.unread.extend(storage.unread);
}

/// The API server tells the size of the member that it uses, and the Pods of etcd their quota.
async fn stacked(own: &Connection) -> EtcdInspection {
    let pods = own.list(&POD, Some("v1"), Some("kube-system"), Some("component=etcd"));
    let (pods, text) = futures::join!(pods, own.text("/metrics", "read metrics"));
    let mut found = EtcdInspection::default();
    let pods = pods.unwrap_or_else(|error| {
        found.unread.push(format!("etcd's Pods could not be read: {error}"));
        Vec::new()
    });
    disks(own, &pods, &mut found).await;
    let smallest = pods.iter().map(|pod| (quota(pod), pod)).min_by_key(|(quota, _)| *quota);
    match text {
        Ok(text) => match SIZES.iter().flat_map(|name| metrics::values(&text, name)).max() {
            Some(size) => found.databases.push(EtcdDatabase {
                object: smallest.map(|(_, pod)| reference(pod)),
                size,
                in_use: None,
                quota: smallest.map(|(quota, _)| quota),
            }),
            None => found.unread.push(String::from("the API server does not tell the size of etcd's database")),
        },
        Err(error) => found.unread.push(format!("the size of etcd's database could not be read: {error}")),
    }
    found
}

/// What kubelets tell of the disks of nodes that run a member, where this program may ask them.
async fn disks(own: &Connection, pods: &[DynamicObject], found: &mut EtcdInspection) {
    let of_pod = |pod: &DynamicObject| pod.data.pointer("/spec/nodeName").and_then(Value::as_str).map(str::to_owned);
    let nodes: BTreeSet<String> = pods.iter().filter_map(of_pod).collect();
    if nodes.is_empty() {
        return;
    }
    let unknown = "how much disk is free where etcd writes to could not be read";
    match review::may_ask_kubelets(own).await {
        Ok(true) => {}
        Ok(false) => {
            found.unread.push(format!("{unknown}: it takes `get` of nodes/proxy, which the role does not have"));
            return;
        }
        Err(error) => {
            found.unread.push(format!("{unknown}: {error}"));
            return;
        }
    }
    let ask = async |node: String| {
        let (path, attempt) = (format!("/api/v1/nodes/{node}/proxy/stats/summary"), "read the statistics of a node");
        let summary: Summary = own.parsed(attempt, &own.text(&path, attempt).await?)?;
        let Filesystem { available, capacity } = summary.node.fs;
        Ok::<_, RequestError>(EtcdDisk { node, available, capacity })
    };
    for answer in concurrently(nodes.into_iter().map(ask).collect()).await {
        match answer {
            Ok(disk) => found.disks.push(disk),
            Err(error) => found.unread.push(format!("{unknown}: {error}")),
        }
    }
}

/// What is read of `/stats/summary` (`k8s.io/kubelet/pkg/apis/stats/v1alpha1`).
#[derive(Deserialize)]
struct Summary {
    node: NodeStatistics,
}

#[derive(Deserialize)]
struct NodeStatistics {
    fs: Filesystem,
}

#[derive(Deserialize)]
struct Filesystem {
    #[serde(rename = "availableBytes")]
    available: u64,
    #[serde(rename = "capacityBytes")]
    capacity: u64,
}

/// The quota that a Pod of etcd is started with.
fn quota(pod: &DynamicObject) -> u64 {
    let containers = pod.data.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let set = containers.flat_map(|container| {
        let words = ["command", "args"].iter().flat_map(|key| container.get(*key).and_then(Value::as_array));
        let flag = words.flatten().filter_map(|word| word.as_str()?.strip_prefix("--quota-backend-bytes="));
        let variables = container.get("env").and_then(Value::as_array).into_iter().flatten();
        let is_quota = |variable: &&Value| variable.get("name") == Some(&"ETCD_QUOTA_BACKEND_BYTES".into());
        let variable = variables.filter(is_quota).filter_map(|variable| variable.get("value")?.as_str());
        flag.chain(variable).filter_map(|text| text.parse::<u64>().ok())
    });
    // Zero stands for the default.
    { set }.find(|quota| *quota > 0).unwrap_or(DEFAULT_QUOTA)
}

fn reference(pod: &DynamicObject) -> ObjectReference {
    ObjectReference {
        api_version: String::from("v1"),
        kind: POD.kind.to_owned(),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone().unwrap_or_default(),
    }
}
