//! The pods that leave the nodes which a rollout replaces, and the budgets that decide when.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DynamicObject;
use rollout::{DisruptionBudget, EvictedPod, MachinePool, RollingNodes};
use serde_json::Value;

use super::rooms;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{
    Kind, MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET, PERSISTENT_VOLUME, POD_DISRUPTION_BUDGET,
};
use crate::client::request::Selection;
use crate::objects;

/// The annotation of pods that a kubelet runs from its own files.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The label of Machines that stand for an instance of a MachinePool.
const POOL: &str = "cluster.x-k8s.io/pool-name";

/// The label of everything that belongs to a cluster.
const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";

/// Pods and budgets, as far as they matter to these nodes.
pub(super) async fn evictions(
    own: &Connection,
    nodes: &BTreeMap<String, bool>,
    pods: &[DynamicObject],
) -> Result<(Vec<EvictedPod>, Vec<DisruptionBudget>), RequestError> {
    let budgets = own.list(&POD_DISRUPTION_BUDGET, Some("v1"), None, None).await?;
    let volumes = own.list(&PERSISTENT_VOLUME, Some("v1"), None, None).await?;
    let claims = local_claims(&volumes);
    let by_namespace = Budgets::of(&budgets);
    let evicted: Vec<EvictedPod> = pods.iter().filter_map(|pod| evicted(pod, nodes, &by_namespace, &claims)).collect();
    let covered: BTreeSet<(&str, &str)> = evicted
        .iter()
        .flat_map(|pod| pod.budgets.iter().map(|budget| (pod.namespace.as_str(), budget.as_str())))
        .collect();
    let budgets =
        budgets.iter().map(budget).filter(|known| covered.contains(&(known.namespace.as_str(), known.name.as_str())));
    Ok((evicted.clone(), budgets.collect()))
}

/// Names of the nodes whose machines the rollout replaces, and whether their drain ends by itself.
pub(super) async fn nodes(
    management: &Connection,
    rolling: &RollingNodes,
) -> Result<BTreeMap<String, bool>, RequestError> {
    let served = management.lately_served_versions().await?;
    let labels = format!("{CLUSTER}={}", rolling.cluster);
    let selection = Selection { labels: Some(&labels), ..Selection::default() };
    let list = async |kind: &'static Kind| management.list_selected(kind, served.version_of(kind), selection).await;
    let deployments = list(&MACHINE_DEPLOYMENT).await?;
    let groups: BTreeSet<String> = deployments
        .iter()
        .map(|object| objects::machine_deployment(object, objects::Contract::V1Beta2))
        .filter(|known| known.group.as_ref().is_some_and(|group| rolling.groups.contains(group)))
        .map(|known| known.name)
        .collect();
    let sets: Vec<_> = list(&MACHINE_SET).await?.iter().map(objects::machine_set).collect();
    let pools: Vec<_> = list(&MACHINE_POOL).await?.iter().map(objects::machine_pool).collect();
    let rolls = |pool: &&MachinePool| pool.group.as_ref().is_some_and(|group| rolling.groups.contains(group));
    let pools: Vec<&MachinePool> = pools.iter().filter(rolls).collect();
    // Without a Machine for each, whoever makes the instances takes them away: no budget keeps it from that for ever.
    let mut nodes: BTreeMap<String, bool> =
        pools.iter().flat_map(|pool| pool.nodes.iter().flatten()).map(|node| (node.clone(), true)).collect();
    for object in list(&MACHINE).await? {
        // Owner and node are written alike in every version.
        let machine = objects::machine(&object, objects::Contract::V1Beta2, &sets, &[]);
        let labels = object.metadata.labels.as_ref();
        let pool = labels.and_then(|labels| labels.get(POOL));
        let is_of_pool = pool.is_some_and(|name| pools.iter().any(|pool| pool.name == *name));
        let is_of_group = machine.owner.as_ref().is_some_and(|owner| groups.contains(owner)) || is_of_pool;
        if let Some(node) = machine.node.filter(|_| is_of_group || (rolling.control_plane && machine.control_plane)) {
            nodes.insert(node, drain_ends(&object));
        }
    }
    Ok(nodes)
}

/// Whether Cluster API gives up draining the Machine's node at some time: by neither field, it never does.
fn drain_ends(machine: &DynamicObject) -> bool {
    let seconds = machine.data.pointer("/spec/deletion/nodeDrainTimeoutSeconds").and_then(Value::as_i64);
    let duration = machine.data.pointer("/spec/nodeDrainTimeout").and_then(Value::as_str);
    seconds.is_some_and(|seconds| seconds > 0)
        || duration.is_some_and(|text| text.contains(|sign| matches!(sign, '1'..='9')))
}

/// A pod that a drain evicts; none for what it leaves: other nodes, `DaemonSets`, mirrors, what has ended.
fn evicted(
    pod: &DynamicObject,
    nodes: &BTreeMap<String, bool>,
    budgets: &Budgets<'_>,
    claims: &BTreeSet<(String, String)>,
) -> Option<EvictedPod> {
    let text = |path: &str| pod.data.pointer(path).and_then(Value::as_str);
    let node = text("/spec/nodeName")?;
    let drain_ends = *nodes.get(node)?;
    let has_ended = matches!(text("/status/phase"), Some("Succeeded" | "Failed" | "Pending"));
    if has_ended || pod.metadata.deletion_timestamp.is_some() || !is_drained(pod) {
        return None;
    }
    Some(judged(pod, node, drain_ends, budgets, claims))
}

/// Budgets by their namespace: a pod is held against those of its own alone.
pub(crate) struct Budgets<'a>(BTreeMap<&'a str, Vec<&'a DynamicObject>>);

impl<'a> Budgets<'a> {
    pub(crate) fn of(budgets: &'a [DynamicObject]) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<&DynamicObject>> = BTreeMap::new();
        for budget in budgets {
            by_namespace.entry(budget.metadata.namespace.as_deref().unwrap_or_default()).or_default().push(budget);
        }
        Self(by_namespace)
    }

    fn of_namespace(&self, namespace: &str) -> &[&'a DynamicObject] {
        self.0.get(namespace).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Whether a drain moves a pod: it leaves mirrors, and what `DaemonSets` make.
pub(crate) fn is_drained(pod: &DynamicObject) -> bool {
    let metadata = &pod.metadata;
    let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let is_mirror = metadata.annotations.as_ref().is_some_and(|known| known.contains_key(MIRROR));
    !is_mirror && controller.is_none_or(|it| it.kind != "DaemonSet")
}

/// What decides about the eviction of a pod, whatever its phase.
pub(crate) fn judged(
    pod: &DynamicObject,
    node: &str,
    drain_ends: bool,
    budgets: &Budgets<'_>,
    claims: &BTreeSet<(String, String)>,
) -> EvictedPod {
    let metadata = &pod.metadata;
    let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let selects = |budget: &&&DynamicObject| {
        // Of the version that is read, an empty selector selects every pod.
        let selector = budget.data.pointer("/spec/selector");
        selector.is_some_and(|selector| objects::admits(selector, metadata.labels.as_ref()))
    };
    let volumes = pod.data.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let is_local = |volume: &Value| {
        let claim = volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str);
        volume
            .get("emptyDir")
            .is_some_and(|directory| directory.get("medium").and_then(Value::as_str) != Some("Memory"))
            || claim.is_some_and(|claim| claims.contains(&(namespace.clone(), claim.to_owned())))
    };
    let conditions = pod.data.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_ready = |condition: &Value| {
        condition.get("type") == Some(&"Ready".into()) && condition.get("status") == Some(&"True".into())
    };
    EvictedPod {
        name: metadata.name.clone().unwrap_or_default(),
        node: node.to_owned(),
        has_controller: controller.is_some(),
        ready: { conditions }.any(is_ready),
        drain_ends,
        local_data: { volumes }.any(is_local),
        grace: pod
            .data
            .pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_u64)
            .and_then(|it| it.try_into().ok())
            .unwrap_or(30),
        requests: rooms::requests(pod),
        budgets: budgets
            .of_namespace(&namespace)
            .iter()
            .filter(selects)
            .filter_map(|budget| budget.metadata.name.clone())
            .collect(),
        namespace,
    }
}

/// Namespace and name of the claims whose volume lies on one node.
fn local_claims(volumes: &[DynamicObject]) -> BTreeSet<(String, String)> {
    let is_local = |volume: &&DynamicObject| {
        ["/spec/local", "/spec/hostPath"].iter().any(|path| volume.data.pointer(path).is_some())
    };
    let claim = |volume: &DynamicObject| {
        let text = |key: &str| {
            volume.data.pointer(&format!("/spec/claimRef/{key}")).and_then(Value::as_str).map(str::to_owned)
        };
        Some((text("namespace")?, text("name")?))
    };
    volumes.iter().filter(is_local).filter_map(claim).collect()
}

/// A budget, as its status tells.
pub(crate) fn budget(object: &DynamicObject) -> DisruptionBudget {
    let number = |name: &str| {
        let value = object.data.pointer(&format!("/status/{name}")).and_then(Value::as_u64);
        value.and_then(|value| value.try_into().ok()).unwrap_or(0)
    };
    let observed = object.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
    DisruptionBudget {
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
        expected: number("expectedPods"),
        healthy: number("currentHealthy"),
        desired: number("desiredHealthy"),
        allowed: number("disruptionsAllowed"),
        always_allows_unhealthy: object.data.pointer("/spec/unhealthyPodEvictionPolicy").and_then(Value::as_str)
            == Some("AlwaysAllow"),
        is_stale: observed.unwrap_or(0) < object.metadata.generation.unwrap_or(0),
        refuses_since: objects::refuses_since(object),
    }
}
