//! What was read of one cluster, as decisions want it.

use std::collections::BTreeMap;

use in_place::objects::{NamedObject, UPGRADERS};
use in_place::order::{
    self, Component, Cordon, Driver, HealthCheck, Holder, Machine, Node, Owner, OwnerKind, Release, Settings, World,
    kubeadm_config,
};
use kube::core::DynamicObject;
use rollout::ControlPlane;
use serde_json::Value;

use super::annotated;
use super::declined;
use super::etcd_leader;
use super::files;
use super::objects::{group_upgrade, node_upgrade};
use super::pods;
use super::snapshot::{ClusterKey, Snapshot, annotation, is_ours, namespace, text, waits_for_hook};
use super::workload::{Read, Reading};
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::CONFIG_MAP;
use crate::objects::{self, Contract};

/// On infrastructure machines: the template that they were made from.
pub(super) const CLONED_FROM: &str = "cluster.x-k8s.io/cloned-from-name";

/// On infrastructure machines: the kind of that template, with its group.
pub(super) const CLONED_FROM_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";

const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
const DEPLOYMENT: &str = "cluster.x-k8s.io/deployment-name";

/// On a Node that an upgrade has cordoned: the version that it goes to.
const CORDONED_FOR: &str = "inplace.stepgate.dev/cordoned-for";

pub(super) async fn read(
    management: &Connection,
    snapshot: &Snapshot,
    cluster: &ClusterKey,
    reading: &Reading,
    settings: Settings,
) -> Result<World, RequestError> {
    let nothing = Read::default();
    let own = reading.read.as_ref().unwrap_or(&nothing);
    let control_planes: Vec<&DynamicObject> = Snapshot::of(&snapshot.control_planes, cluster).collect();
    let deployments: Vec<&DynamicObject> = Snapshot::of(&snapshot.deployments, cluster).collect();
    let mut machines = Vec::new();
    for object in Snapshot::of(&snapshot.machines, cluster) {
        let owner = control_planes.iter().copied().find(|owner| is_controlled_by(object, owner));
        machines.push(machine(management, snapshot, object, owner, own).await?);
    }
    let sets: Vec<&DynamicObject> = Snapshot::of(&snapshot.sets, cluster).collect();
    let mut owners = Vec::new();
    for object in &control_planes {
        let declined = match is_ours(object) {
            true => Box::pin(declined::of_control_plane(management, snapshot, object)).await?,
            false => Vec::new(),
        };
        owners.push(Owner { declined, ..control_plane(object) });
    }
    for object in &deployments {
        let declined = match is_ours(object) {
            true => Box::pin(declined::of_workers(management, snapshot, object)).await?,
            false => Vec::new(),
        };
        owners.push(Owner { declined, ..deployment(object, &sets) });
    }
    let found = snapshot
        .clusters
        .iter()
        .find(|known| namespace(known) == cluster.0 && known.metadata.name.as_ref() == Some(&cluster.1));
    let paused = found.and_then(|found| found.data.pointer("/spec/paused")?.as_bool()).unwrap_or_default();
    let external_etcd = |object: &&DynamicObject| {
        let place = "/spec/kubeadmConfigSpec/clusterConfiguration/etcd/external";
        object.data.pointer(place).is_some_and(|value| !value.is_null())
    };
    let of_cluster = |name: &str| name == cluster.1;
    let in_namespace = |object: &&DynamicObject| namespace(object) == cluster.0;
    let nodes = snapshot.nodes.iter().filter(in_namespace).filter_map(node_upgrade);
    let groups = snapshot.groups.iter().filter(|(_, object)| in_namespace(&object));
    let groups = groups.filter_map(|(kind, object)| group_upgrade(*kind, object));
    let mut world = World {
        cluster: cluster.1.clone(),
        paused,
        stacked_etcd: !control_planes.iter().any(external_etcd),
        unreachable: reading.read.as_ref().err().cloned(),
        owners,
        machines,
        node_upgrades: nodes.filter(|upgrade| of_cluster(&upgrade.spec.cluster_name)).collect(),
        group_upgrades: groups.filter(|group| of_cluster(&group.spec.cluster_name)).collect(),
        health_checks: Snapshot::of(&snapshot.health_checks, cluster)
            .map(|check| health_check(check, Snapshot::of(&snapshot.machines, cluster)))
            .collect(),
        pods: pods::read(&own.upgraders),
        address_holder: own.address_holder.clone(),
        etcd_leader: Holder::Nobody,
        releases: releases(management, &cluster.0).await?,
        settings,
    };
    if let Some(own) = reading.connection.as_ref().filter(|_| reading.read.is_ok()) {
        world.etcd_leader = etcd_leader(own, &world).await;
    }
    Ok(world)
}

/// The machine whose member of etcd leads, where the order of machines goes by it: not where Cluster API chooses them.
async fn etcd_leader(own: &Connection, world: &World) -> Holder {
    let is_outdated = |machine: &Machine, owner: &Owner| {
        machine.owner.as_ref() == Some(&owner.object.name) && machine.version != owner.version
    };
    let mut owners = world.owners.iter().filter(|owner| owner.kind == OwnerKind::ControlPlane);
    let is_asked = owners.any(|owner| {
        owner.driver == Driver::Controller && world.machines.iter().any(|machine| is_outdated(machine, owner))
    });
    let members = world.machines.iter().filter(|machine| machine.control_plane);
    let members: Vec<(String, String)> = members
        .filter_map(|machine| Some((machine.object.name.clone(), machine.node.as_ref()?.name.clone())))
        .collect();
    if !world.stacked_etcd || !is_asked || members.len() < 2 {
        return Holder::Nobody;
    }
    etcd_leader::read(own, &members).await
}

/// The upgraders that a namespace's clusters have.
async fn releases(management: &Connection, namespace: &str) -> Result<BTreeMap<String, Release>, RequestError> {
    let found = management.get(&CONFIG_MAP.resource("v1"), Some(namespace), UPGRADERS).await?;
    let data = found.as_ref().and_then(|found| found.data.get("data")?.as_object()).into_iter().flatten();
    Ok(order::releases(data.filter_map(|(version, value)| Some((version.as_str(), value.as_str()?)))))
}

pub(super) fn named(object: &DynamicObject) -> NamedObject {
    NamedObject {
        name: object.metadata.name.clone().unwrap_or_default(),
        uid: object.metadata.uid.clone().unwrap_or_default(),
    }
}

fn driver(object: &DynamicObject) -> Driver {
    if is_ours(object) { Driver::Controller } else { Driver::ClusterApi }
}

/// Whether an owner has looked at its newest generation and found all machines as it wants them.
fn is_settled(generation: i64, observed: Option<i64>, counts: [Option<u32>; 3]) -> bool {
    let [wanted, all, up_to_date] = counts;
    observed == Some(generation) && wanted.is_some() && wanted == all && wanted == up_to_date
}

fn control_plane(object: &DynamicObject) -> Owner {
    let contract = Contract::of(object.types.as_ref().map_or("", |types| &types.api_version));
    let ControlPlane { generation, observed_generation, spec_replicas, replicas, up_to_date_replicas, .. } =
        objects::control_plane(object, contract);
    Owner {
        object: named(object),
        kind: OwnerKind::ControlPlane,
        driver: driver(object),
        version: text(object, "/spec/version").and_then(|text| text.parse().ok()),
        cluster_configuration: object.data.pointer("/spec/kubeadmConfigSpec/clusterConfiguration").cloned(),
        replicas: spec_replicas,
        pause: annotated::pause(object),
        up_to_date: is_settled(generation, observed_generation, [spec_replicas, replicas, up_to_date_replicas]),
        template_matches: true,
        deleting: object.metadata.deletion_timestamp.is_some(),
        declined: Vec::new(),
    }
}

fn deployment(object: &DynamicObject, sets: &[&DynamicObject]) -> Owner {
    let contract = Contract::of(object.types.as_ref().map_or("", |types| &types.api_version));
    let read = objects::machine_deployment(object, contract);
    let counts = [read.spec_replicas, read.replicas, read.up_to_date_replicas];
    let ours = sets.iter().filter(|set| is_controlled_by(set, object) && has_machines(set));
    Owner {
        object: named(object),
        kind: OwnerKind::Workers,
        driver: driver(object),
        version: text(object, "/spec/template/spec/version").and_then(|text| text.parse().ok()),
        cluster_configuration: None,
        replicas: read.spec_replicas,
        pause: annotated::pause(object),
        up_to_date: is_settled(read.generation, read.observed_generation, counts),
        template_matches: ours.into_iter().all(|set| has_template_of(set, object)),
        deleting: object.metadata.deletion_timestamp.is_some(),
        declined: Vec::new(),
    }
}

/// Whether it has machines, or is to have.
pub(super) fn has_machines(set: &DynamicObject) -> bool {
    let count = |place: &str| set.data.pointer(place).and_then(Value::as_u64).unwrap_or_default();
    count("/spec/replicas") > 0 || count("/status/replicas") > 0
}

/// Whether machines of a `MachineSet` are made as its MachineDeployment says: what that compares itself.
fn has_template_of(set: &DynamicObject, deployment: &DynamicObject) -> bool {
    ["version", "bootstrap", "infrastructureRef", "failureDomain"].iter().all(|field| {
        let place = format!("/spec/template/spec/{field}");
        set.data.pointer(&place) == deployment.data.pointer(&place)
    })
}

pub(super) fn is_controlled_by(object: &DynamicObject, owner: &DynamicObject) -> bool {
    let owners = object.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|known| known.controller == Some(true) && Some(&known.uid) == owner.metadata.uid.as_ref())
}

async fn machine(
    management: &Connection,
    snapshot: &Snapshot,
    object: &DynamicObject,
    control_plane: Option<&DynamicObject>,
    own: &Read,
) -> Result<Machine, RequestError> {
    let label = |key: &str| object.metadata.labels.as_ref()?.get(key).cloned();
    let owner = control_plane.map(|owner| named(owner).name).or_else(|| label(DEPLOYMENT));
    let version = text(object, "/spec/version").and_then(|text| text.parse().ok());
    let configuration_matches = match control_plane.filter(|owner| is_ours(owner)) {
        Some(owner) if text(object, "/spec/version") == text(owner, "/spec/version") => {
            matches(management, snapshot, object, owner).await?
        }
        // It is not at the version yet, and what it says beside that is changed with it.
        Some(_) | None => true,
    };
    let node = text(object, "/status/nodeRef/name");
    let node = node.and_then(|name| own.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name)));
    Ok(Machine {
        object: named(object),
        owner,
        control_plane: label(CONTROL_PLANE).is_some(),
        version,
        configuration_matches,
        files: in_place::files::known(&files::of_machine(management, snapshot, object).await?),
        created: object.metadata.creation_timestamp.as_ref().map(|time| time.0),
        deleting: object.metadata.deletion_timestamp.is_some(),
        updated_by_hook: waits_for_hook(object),
        skips_remediation: annotated::skips_remediation(object),
        node: node.map(|node| self::node(node, own)),
    })
}

/// Whether `KubeadmConfig` and infrastructure machine of a control-plane machine say what its owner would compute.
async fn matches(
    management: &Connection,
    snapshot: &Snapshot,
    machine: &DynamicObject,
    owner: &DynamicObject,
) -> Result<bool, RequestError> {
    if let Some(configuration) = configuration_of(snapshot, machine) {
        let current = configuration.data.get("spec").unwrap_or(&Value::Null);
        if wanted_configuration(owner, current).is_some_and(|wanted| compared(&wanted) != compared(current)) {
            return Ok(false);
        }
    }
    let template = template_of(owner);
    let Some(infrastructure) = super::adopt::infrastructure(management, machine).await? else { return Ok(true) };
    Ok(annotation(&infrastructure.1, CLONED_FROM).is_none_or(|known| Some(known) == template))
}

/// The template of the machines of a control plane.
pub(super) fn template_of(owner: &DynamicObject) -> Option<&str> {
    text(owner, "/spec/machineTemplate/spec/infrastructureRef/name")
        .or_else(|| text(owner, "/spec/machineTemplate/infrastructureRef/name"))
}

pub(super) fn configuration_of<'a>(snapshot: &'a Snapshot, machine: &DynamicObject) -> Option<&'a DynamicObject> {
    let name = text(machine, "/spec/bootstrap/configRef/name")?;
    let is_it =
        |known: &&DynamicObject| namespace(known) == namespace(machine) && known.metadata.name.as_deref() == Some(name);
    snapshot.configurations.iter().find(is_it)
}

/// The MachineDeployment of a machine.
pub(super) fn deployment_of<'a>(snapshot: &'a Snapshot, machine: &DynamicObject) -> Option<&'a DynamicObject> {
    let name = machine.metadata.labels.as_ref()?.get(DEPLOYMENT)?;
    let is_it =
        |known: &&DynamicObject| namespace(known) == namespace(machine) && known.metadata.name.as_ref() == Some(name);
    snapshot.deployments.iter().find(is_it)
}

/// What a control plane wants the `KubeadmConfig` of a machine to say.
pub(super) fn wanted_configuration(owner: &DynamicObject, current: &Value) -> Option<Value> {
    let version = text(owner, "/spec/version")?.parse().ok()?;
    Some(kubeadm_config(owner.data.pointer("/spec/kubeadmConfigSpec")?, current, &version))
}

/// Without what is empty, and without what Cluster API does not compare.
pub(super) fn compared(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for (parent, key) in [("/joinConfiguration", "discovery"), ("/clusterConfiguration", "dns")] {
        if let Some(parent) = spec.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.remove(key);
        }
    }
    without_empty(&spec)
}

fn without_empty(value: &Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    match value {
        Value::Object(map) => {
            let kept = map.iter().map(|(key, value)| (key.clone(), without_empty(value)));
            Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

fn node(object: &DynamicObject, own: &Read) -> Node {
    let name = object.metadata.name.clone().unwrap_or_default();
    let is_true = |kind: &str| {
        let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|known| known["type"] == kind && known["status"] == "True")
    };
    let info = |field: &str| text(object, &format!("/status/nodeInfo/{field}")).unwrap_or_default().to_owned();
    let is_cordoned = object.data.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default();
    let cordon = match (is_cordoned, annotation(object, CORDONED_FOR)) {
        (false, _) => Cordon::None,
        (true, Some(version)) => Cordon::Ours(version.to_owned()),
        (true, None) => Cordon::Others,
    };
    let is_here = |pod: &&DynamicObject| text(pod, "/spec/nodeName") == Some(&name);
    Node {
        ready: is_true("Ready"),
        disk_pressure: is_true("DiskPressure"),
        kubelet_version: info("kubeletVersion"),
        operating_system: info("operatingSystem"),
        os_image: info("osImage"),
        architecture: info("architecture"),
        cordon,
        components: own.components.iter().filter(is_here).filter_map(component).collect(),
        name,
    }
}

fn component(pod: &DynamicObject) -> Option<Component> {
    let name = pod.metadata.labels.as_ref()?.get("component")?.clone();
    let conditions = pod.data.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().any(|known| known["type"] == "Ready" && known["status"] == "True");
    Some(Component { name, ready })
}

fn health_check<'a>(check: &DynamicObject, machines: impl Iterator<Item = &'a DynamicObject>) -> HealthCheck {
    let selector = check.data.pointer("/spec/selector").cloned().unwrap_or_default();
    let labels =
        |machine: &DynamicObject| -> BTreeMap<String, String> { machine.metadata.labels.clone().unwrap_or_default() };
    let selected = machines.filter(|machine| objects::admits(&selector, Some(&labels(machine))));
    HealthCheck {
        name: check.metadata.name.clone().unwrap_or_default(),
        pause: annotated::pause(check),
        machines: selected.filter_map(|machine| machine.metadata.name.clone()).collect(),
    }
}
