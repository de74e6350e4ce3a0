//! Cluster API objects, in v1beta2 and in v1beta1, where the new conditions lie under `status.v1beta2`.

pub(in crate::objects) mod contract;
pub(in crate::objects) mod extension_config;
pub(in crate::objects) mod in_place;
pub(in crate::objects) mod legacy;
pub(in crate::objects) mod machine_pool;
pub(in crate::objects) mod mark;
pub(in crate::objects) mod pause;

use std::collections::BTreeMap;

use domain::GroupName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::DynamicObject;
use rollout::{
    Condition, ControlPlane, ControlPlaneReference, EtcdadmCluster, Machine, MachineDeployment, MachineSet,
    MachineTopology,
};
use serde_json::Value;

use crate::objects::cluster_api::mark::marked;
use crate::objects::cluster_api::pause::pause_lease;
use crate::objects::fields::{
    annotation, at, conditions, count, creation_time, deleting, deletion_time, flag, generation, label, name,
    namespace, number, owner, text, time,
};

const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";
const ETCD_CLUSTER: &str = "cluster.x-k8s.io/etcd-cluster";
const PAUSED: &str = "cluster.x-k8s.io/paused";
const CLONED_FROM: &str = "cluster.x-k8s.io/cloned-from-name";
const TOPOLOGY_DEPLOYMENT_NAME: &str = "topology.cluster.x-k8s.io/deployment-name";
const WORKER_GROUP: &str = "stepgate.dev/worker-group";
const EKSA_CLUSTER_NAME: &str = "cluster.anywhere.eks.amazonaws.com/cluster-name";
const EKSA_NAMESPACE: &str = "eksa-system";

/// How an object's status is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contract {
    /// `status.readyReplicas` counts Machines that are Ready, conditions carry the generation they were computed from.
    V1Beta2,
    /// `status.readyReplicas` counts Nodes that are Ready; what v1beta2 would say lies under `status.v1beta2` since Cluster API 1.9.
    V1Beta1,
}

impl Contract {
    /// The contract of an `apiVersion` or of a bare version. Anything but v1beta1 and its elders is read as v1beta2.
    pub(crate) fn of(api_version: &str) -> Self {
        match api_version.rsplit('/').next() {
            Some("v1beta1" | "v1alpha4" | "v1alpha3") => Self::V1Beta1,
            _ => Self::V1Beta2,
        }
    }
}

/// Cluster API 1.9 reports v1beta2's conditions beside v1beta1's, and not yet all of them: how many machines are up to date tells what is
/// missing about a rollout.
fn completed(
    mut conditions: BTreeMap<String, Condition>,
    counts: &Value,
    replicas: Option<u32>,
    contract: Contract,
) -> BTreeMap<String, Condition> {
    match contract {
        Contract::V1Beta1 => {
            legacy::add_counted_rollout(replicas, count(counts, &["upToDateReplicas"]), &mut conditions);
        }
        Contract::V1Beta2 => {}
    }
    conditions
}

/// Where the counts and conditions of v1beta2 lie in an object.
enum Status<'a> {
    /// Here.
    Modern { counts: &'a Value, conditions: BTreeMap<String, Condition> },
    /// Nowhere: Cluster API below 1.9, all that is there is v1beta1's.
    Legacy,
}

fn status(data: &Value, contract: Contract) -> Status<'_> {
    let counts = match contract {
        Contract::V1Beta2 => {
            return Status::Modern {
                counts: at(data, &["status"]).unwrap_or(&Value::Null),
                conditions: conditions(data, &["status", "conditions"]),
            };
        }
        Contract::V1Beta1 => at(data, &["status", "v1beta2"]),
    };
    match counts {
        Some(counts) => Status::Modern { counts, conditions: conditions(counts, &["conditions"]) },
        None => Status::Legacy,
    }
}

/// A KubeadmControlPlane.
pub(crate) fn control_plane(object: &DynamicObject, contract: Contract) -> ControlPlane {
    let data = &object.data;
    let read = ControlPlane {
        namespace: namespace(object),
        name: name(object),
        cluster: cluster_name(object),
        rollout: annotation(object, rollout::MADE_IN).map(str::to_owned),
        generation: generation(object),
        observed_generation: number(data, &["status", "observedGeneration"]),
        paused: is_paused(object),
        paused_in_place: annotation(object, ::in_place::objects::LEASE).is_some(),
        deleting: deleting(object),
        spec_version: text(data, &["spec", "version"]).unwrap_or_default(),
        status_version: text(data, &["status", "version"]),
        spec_replicas: count(data, &["spec", "replicas"]),
        replicas: count(data, &["status", "replicas"]),
        infrastructure_template: text(data, &["spec", "machineTemplate", "spec", "infrastructureRef", "name"])
            .or_else(|| text(data, &["spec", "machineTemplate", "infrastructureRef", "name"])),
        ..ControlPlane::default()
    };
    match status(data, contract) {
        Status::Modern { counts, conditions } => ControlPlane {
            up_to_date_replicas: count(counts, &["upToDateReplicas"]),
            ready_replicas: count(counts, &["readyReplicas"]),
            available_replicas: count(counts, &["availableReplicas"]),
            conditions: completed(conditions, counts, read.replicas, contract),
            ..read
        },
        Status::Legacy => legacy::control_plane(read, object),
    }
}

/// A MachineDeployment.
pub(crate) fn machine_deployment(object: &DynamicObject, contract: Contract) -> MachineDeployment {
    let data = &object.data;
    let read = MachineDeployment {
        namespace: namespace(object),
        name: name(object),
        cluster: cluster_name(object),
        group: group(object),
        rollout: annotation(object, rollout::MADE_IN).map(str::to_owned),
        generation: generation(object),
        observed_generation: number(data, &["status", "observedGeneration"]),
        paused: is_paused(object),
        paused_in_place: annotation(object, ::in_place::objects::LEASE).is_some(),
        deleting: deleting(object),
        spec_version: text(data, &["spec", "template", "spec", "version"]),
        spec_replicas: count(data, &["spec", "replicas"]),
        replicas: count(data, &["status", "replicas"]),
        infrastructure_template: infrastructure_template(data),
        bootstrap_template: bootstrap_template(data),
        ..MachineDeployment::default()
    };
    match status(data, contract) {
        Status::Modern { counts, conditions } => MachineDeployment {
            up_to_date_replicas: count(counts, &["upToDateReplicas"]),
            ready_replicas: count(counts, &["readyReplicas"]),
            available_replicas: count(counts, &["availableReplicas"]),
            conditions: completed(conditions, counts, read.replicas, contract),
            ..read
        },
        Status::Legacy => legacy::machine_deployment(read, object),
    }
}

/// A `MachineSet`.
pub(crate) fn machine_set(object: &DynamicObject) -> MachineSet {
    let data = &object.data;
    MachineSet {
        namespace: namespace(object),
        name: name(object),
        machine_deployment: label(object, DEPLOYMENT_NAME)
            .map(str::to_owned)
            .or_else(|| owner(object, "MachineDeployment")),
        spec_version: text(data, &["spec", "template", "spec", "version"]),
        infrastructure_template: infrastructure_template(data),
        bootstrap_template: bootstrap_template(data),
        spec_replicas: count(data, &["spec", "replicas"]),
        replicas: count(data, &["status", "replicas"]),
    }
}

/// The object that a Machine is carried by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InfrastructureReference {
    /// API group.
    pub(crate) group: String,
    /// Kind.
    pub(crate) kind: String,
    /// Name; the namespace is the Machine's.
    name: String,
}

/// What a Machine names.
pub(crate) fn infrastructure_reference(object: &DynamicObject) -> Option<InfrastructureReference> {
    let field = |name: &str| text(&object.data, &["spec", "infrastructureRef", name]);
    // v1beta1 has a whole apiVersion.
    let group = field("apiGroup").or_else(|| Some(field("apiVersion")?.split_once('/')?.0.to_owned()))?;
    Some(InfrastructureReference { group, kind: field("kind")?, name: field("name")? })
}

/// The same for a Machine that is owned without a `MachineSet` in between: only its infrastructure machine tells its template.
pub(crate) fn infrastructure_of_owner(machine: &DynamicObject) -> Option<InfrastructureReference> {
    let direct = ["KubeadmControlPlane", "EtcdadmCluster"].iter().any(|kind| owner(machine, kind).is_some());
    infrastructure_reference(machine).filter(|_| direct)
}

/// Labels by which machines tell their node pool.
pub(in crate::objects) const POOL_LABELS: [&str; 2] =
    ["topology.cluster.x-k8s.io/deployment-name", "run.tanzu.vmware.com/node-pool"];

/// The infrastructure object of a Machine among those that were read; none where it names none, and none in it where that is not there.
pub(in crate::objects) fn infrastructure_of<'a>(
    machine: &DynamicObject,
    infrastructure: &'a [DynamicObject],
) -> Option<Option<&'a DynamicObject>> {
    let reference = infrastructure_reference(machine)?;
    let carries = |object: &&DynamicObject| {
        let types = object.types.as_ref();
        object.metadata.name.as_ref() == Some(&reference.name)
            && object.metadata.namespace == machine.metadata.namespace
            && types.is_some_and(|types| {
                types.kind == reference.kind && types.api_version.split('/').next() == Some(&reference.group)
            })
    };
    Some(infrastructure.iter().find(carries))
}

fn cloned_from(machine: &DynamicObject, infrastructure: &[DynamicObject]) -> Option<String> {
    annotation(infrastructure_of(machine, infrastructure)??, CLONED_FROM).map(str::to_owned)
}

/// A Machine. `machine_sets` are those of its namespace: they lead from a worker to its MachineDeployment and template. `infrastructure`
/// are infrastructure machines with their types: they lead from any other to its template.
pub(crate) fn machine(
    object: &DynamicObject,
    contract: Contract,
    machine_sets: &[MachineSet],
    infrastructure: &[DynamicObject],
) -> Machine {
    let data = &object.data;
    let namespace = namespace(object);
    let machine_set = owner(object, "MachineSet")
        .and_then(|owner| machine_sets.iter().find(|set| set.name == owner && set.namespace == namespace));
    let labelled = object.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(CONTROL_PLANE));
    let control_plane = owning_control_plane(object);
    Machine {
        cluster: cluster_name(object),
        name: name(object),
        // A machine that lost its label still belongs to the control plane that owns it.
        control_plane: labelled || control_plane.is_some(),
        owner: control_plane
            .or_else(|| label(object, DEPLOYMENT_NAME).map(str::to_owned))
            .or_else(|| machine_set.and_then(|set| set.machine_deployment.clone()))
            .or_else(|| owner(object, "EtcdadmCluster")),
        etcd_cluster: label(object, ETCD_CLUSTER).map(str::to_owned),
        addresses: if label(object, ETCD_CLUSTER).is_some() { addresses(data) } else { Vec::new() },
        pool: label(object, POOL_NAME).map(str::to_owned).or_else(|| owner(object, "MachinePool")),
        uid: object.metadata.uid.clone(),
        created_at: creation_time(object),
        rollout: annotation(object, rollout::MADE_IN).map(str::to_owned),
        generation: object.metadata.generation,
        deleting: deleting(object),
        deleted_at: deletion_time(object),
        spec_version: text(data, &["spec", "version"]),
        infrastructure_template: machine_set
            .and_then(|set| set.infrastructure_template.clone())
            .or_else(|| cloned_from(object, infrastructure)),
        node: text(data, &["status", "nodeRef", "name"]),
        kubelet_version: text(data, &["status", "nodeInfo", "kubeletVersion"]),
        phase: text(data, &["status", "phase"]),
        certificates_end: time(data, &["status", "certificatesExpiryDate"]),
        delete_first: marked(object, rollout::DELETE_FIRST),
        brake: marked(object, rollout::BRAKE),
        hardware: None,
        conditions: match status(data, contract) {
            Status::Modern { conditions, .. } => conditions,
            Status::Legacy => legacy::machine_conditions(object),
        },
        namespace,
    }
}

/// A Machine of Cluster API below 1.9 has no `UpToDate`: its owner's `MachinesUpToDate`, where that is True, speaks for it.
pub(crate) fn fill_in_legacy_machines(
    machines: &mut [Machine],
    control_planes: &[ControlPlane],
    deployments: &[MachineDeployment],
) {
    let owners = control_planes
        .iter()
        .map(|owner| (&owner.namespace, &owner.name, &owner.conditions))
        .chain(deployments.iter().map(|owner| (&owner.namespace, &owner.name, &owner.conditions)));
    let up_to_date: BTreeMap<_, _> = owners
        .filter_map(|(namespace, name, conditions)| Some(((namespace, name), conditions.get("MachinesUpToDate")?)))
        .filter(|(_, condition)| condition.status == rollout::ConditionStatus::True)
        .collect();
    for machine in machines.iter_mut().filter(|machine| legacy::is_legacy(&machine.conditions)) {
        let Some(owner) = machine.owner.as_ref() else { continue };
        if let Some(condition) = up_to_date.get(&(&machine.namespace, owner)) {
            machine.conditions.entry(String::from("UpToDate")).or_insert_with(|| (*condition).clone());
        }
    }
}

/// An `EtcdadmCluster`.
pub(crate) fn etcdadm_cluster(object: &DynamicObject) -> EtcdadmCluster {
    let data = &object.data;
    EtcdadmCluster {
        namespace: namespace(object),
        name: name(object),
        cluster: cluster_name(object),
        generation: generation(object),
        observed_generation: number(data, &["status", "observedGeneration"]),
        paused: is_paused(object),
        deleting: deleting(object),
        spec_replicas: count(data, &["spec", "replicas"]),
        // The provider writes the ready members here and leaves a zero out.
        ready_replicas: at(data, &["status"]).map(|status| count(status, &["replicas"]).unwrap_or_default()),
        ready: at(data, &["status"]).map(|status| flag(status, &["ready"]).unwrap_or_default()),
        creation_complete: flag(data, &["status", "creationComplete"]),
        conditions: conditions(data, &["status", "conditions"]),
        infrastructure_template: text(data, &["spec", "infrastructureTemplate", "name"]),
        version: etcd_version(data),
        paused_by_us: annotation(object, PAUSED).is_some_and(|words| words.starts_with(OUR_WORDS)),
        membership: None,
    }
}

/// How a pause of ours begins.
const OUR_WORDS: &str = "stepgate";

/// Whether somebody else has paused it, who ends that too.
pub(crate) fn is_paused_by_others(object: &DynamicObject) -> bool {
    annotation(object, PAUSED).is_some_and(|words| !words.starts_with(OUR_WORDS))
}

/// Addresses of a machine.
pub(crate) fn machine_addresses(object: &DynamicObject) -> Vec<String> {
    addresses(&object.data)
}

/// The version of etcd that members are made with: by its own field, or as the tag of the image of
/// Bottlerocket.
fn etcd_version(data: &Value) -> Option<String> {
    let config = ["spec", "etcdadmConfigSpec"];
    let of = |path: [&str; 2]| text(data, &[config.as_slice(), &path].concat());
    let image = || {
        let image = of(["bottlerocketConfig", "etcdImage"])?;
        let tag = image.rsplit_once('/').map_or(image.as_str(), |(_, name)| name).split_once(':')?.1.to_owned();
        Some(tag.split('@').next().unwrap_or_default().to_owned())
    };
    of(["cloudInitConfig", "version"]).or_else(image).filter(|version| !version.is_empty())
}

/// Where the members of an external etcd listen, as its object says.
pub(crate) fn etcd_endpoints(object: &DynamicObject) -> Vec<String> {
    let endpoints = text(&object.data, &["status", "endpoints"]).unwrap_or_default();
    endpoints.split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

fn addresses(data: &Value) -> Vec<String> {
    let known = at(data, &["status", "addresses"]).and_then(Value::as_array).into_iter().flatten();
    let mut addresses: Vec<String> = known.filter_map(|address| text(address, &["address"])).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// A Cluster.
pub(crate) fn cluster(object: &DynamicObject, contract: Contract) -> MachineTopology {
    let data = &object.data;
    MachineTopology {
        namespace: namespace(object),
        name: name(object),
        generation: object.metadata.generation,
        paused: is_paused(object),
        deleting: deleting(object),
        lease: pause_lease(object).map(rollout::Hold::from),
        attempts: annotation(object, rollout::ATTEMPTS).and_then(|text| serde_json::from_str(text).ok()),
        topology_version: text(data, &["spec", "topology", "version"]),
        control_plane: control_plane_reference(object),
        conditions: match status(data, contract) {
            Status::Modern { conditions, .. } => conditions,
            Status::Legacy => conditions(data, &["status", "conditions"]),
        },
    }
}

/// The control plane of any kind that controls a Machine. Its provider need not be of Cluster API's own API group.
fn owning_control_plane(machine: &DynamicObject) -> Option<String> {
    let owners = machine.metadata.owner_references.as_deref().unwrap_or_default();
    let is_control_plane = |kind: &str| kind.ends_with("ControlPlane");
    let controls = |owner: &&OwnerReference| owner.controller == Some(true) && is_control_plane(&owner.kind);
    owners.iter().find(controls).map(|owner| owner.name.clone()).or_else(|| owner(machine, "KubeadmControlPlane"))
}

/// What a Cluster refers to as its control plane: v1beta1 gives an `apiVersion`, v1beta2 an `apiGroup`.
pub(crate) fn control_plane_reference(cluster: &DynamicObject) -> Option<ControlPlaneReference> {
    let field = |name: &str| text(&cluster.data, &["spec", "controlPlaneRef", name]);
    let group = field("apiGroup").or_else(|| Some(field("apiVersion")?.split_once('/')?.0.to_owned()));
    Some(ControlPlaneReference {
        group: group.unwrap_or_else(|| CONTROL_PLANE_GROUP.to_owned()),
        kind: field("kind")?.into(),
        namespace: field("namespace").unwrap_or_else(|| namespace(cluster)),
        name: field("name")?,
    })
}

/// The name of the cluster that an object belongs to: by its label, its specification, or the Cluster that owns it.
pub(crate) fn cluster_name(object: &DynamicObject) -> String {
    label(object, CLUSTER_NAME)
        .map(str::to_owned)
        .or_else(|| text(&object.data, &["spec", "clusterName"]))
        .or_else(|| owner(object, "Cluster"))
        .unwrap_or_default()
}

pub(in crate::objects) fn is_paused(object: &DynamicObject) -> bool {
    annotation(object, PAUSED).is_some() || flag(&object.data, &["spec", "paused"]).unwrap_or_default()
}

pub(in crate::objects) fn infrastructure_template(data: &Value) -> Option<String> {
    text(data, &["spec", "template", "spec", "infrastructureRef", "name"])
}

pub(in crate::objects) fn bootstrap_template(data: &Value) -> Option<String> {
    text(data, &["spec", "template", "spec", "bootstrap", "configRef", "name"])
}

/// The worker group of a MachineDeployment: its name in the topology, or that of the node pool which it was rendered from; in EKS Anywhere, which names it `<cluster>-<group>`, that
/// group; else its own name.
fn group(object: &DynamicObject) -> Option<GroupName> {
    let name = name(object);
    let text = if let Some(named) = label(object, TOPOLOGY_DEPLOYMENT_NAME).or_else(|| label(object, WORKER_GROUP)) {
        named
    } else {
        let is_eksa =
            label(object, EKSA_CLUSTER_NAME).is_some() || object.metadata.namespace.as_deref() == Some(EKSA_NAMESPACE);
        let in_cluster =
            is_eksa.then(|| name.strip_prefix(&cluster_name(object)).and_then(|rest| rest.strip_prefix('-'))).flatten();
        in_cluster.filter(|group| !group.is_empty()).unwrap_or(&name)
    };
    text.parse().ok()
}

#[cfg(test)]
mod tests;
