//! Scenarios of machines: what the deploy branch says of them, and what a person does to them. Cluster API makes them in memory.

use anyhow::Context as _;
use domain::GroupName;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use rollout::{ControlPlaneExpectation, Expectation, KubeletVersions, MachineOrderRules, WorkersExpectation};
use serde_json::{Value, json};
use simulator::{ClusterShape, DesiredMachines, DesiredObject, Etcd, MachineStrategy, WorkerGroup};
use tests::servers::manifests::{kind, kind_in, list, set};
use tests::servers::{ApiServer, ClusterApi, Programs};

use super::scenario::{History, Scenario, Shape};
use crate::machines::{CLUSTER_KIND, MACHINE, provided, starts_after};

const OLD: &str = "v1.34.0";
const NEW: &str = "v1.35.0";

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";

/// How long machines take to come up: soon, or longer than anybody waits. Templates cannot be changed, so each has one for either.
const STARTUP: [&str; 2] = ["1s", "24h"];

/// The machines of a scenario at a version: the control plane first. None where it has none.
pub fn objects(scenario: &Scenario, version: u32) -> Vec<DesiredObject> {
    let bumped = if version > 1 { NEW } else { OLD };
    let startup = STARTUP[usize::from(scenario.history == History::Stuck && version == 2)];
    let machines = |name: &str, replicas, version: &str, startup: &str| DesiredMachines {
        namespace: scenario.name.clone(),
        name: name.to_owned(),
        replicas,
        version: version.to_owned(),
        template: format!("{name}-{startup}"),
        bootstrap_template: None,
    };
    let control_plane = |replicas, version: &str| DesiredObject::ControlPlane {
        machines: machines(&scenario.name, replicas, version, STARTUP[0]),
        kube_vip: None,
    };
    let workers = |group: &str, replicas, version: &str, startup: &str| DesiredObject::Workers {
        group: group.parse().unwrap(),
        machines: machines(group, replicas, version, startup),
    };
    match scenario.shape {
        Shape::ControlPlane if scenario.history == History::Paused => {
            vec![control_plane(1, bumped), workers("blue", 1, OLD, STARTUP[0])]
        }
        Shape::ControlPlane => vec![control_plane(3, bumped), workers("blue", 1, OLD, STARTUP[0])],
        Shape::Workers => {
            vec![control_plane(1, NEW), workers("blue", 2, bumped, startup), workers("green", 1, OLD, STARTUP[0])]
        }
        Shape::Cluster => vec![control_plane(1, bumped), workers("blue", 1, bumped, startup)],
        _ => Vec::new(),
    }
}

/// The cluster of a scenario of machines.
pub fn shape(scenario: &Scenario) -> Option<ClusterShape> {
    let mut shape = ClusterShape {
        name: scenario.name.parse().unwrap(),
        namespace: scenario.name.clone(),
        kubernetes_version: OLD.to_owned(),
        control_plane_replicas: 0,
        worker_groups: Vec::new(),
        etcd: Etcd::Stacked,
        strategy: MachineStrategy::Rolling,
    };
    for object in objects(scenario, 1) {
        match object {
            DesiredObject::ControlPlane { machines, .. } => shape.control_plane_replicas = machines.replicas,
            DesiredObject::Workers { group, machines } => {
                shape.worker_groups.push(WorkerGroup { name: group, replicas: machines.replicas });
            }
            _ => {}
        }
    }
    (shape.control_plane_replicas > 0).then_some(shape)
}

/// What a gate expects of a control plane, which is named as its cluster.
pub fn control_plane(machines: DesiredMachines) -> Expectation {
    Expectation::ControlPlane(ControlPlaneExpectation {
        namespace: machines.namespace,
        cluster: machines.name,
        version: machines.version,
        replicas: Some(machines.replicas),
        infrastructure_template: Some(machines.template),
        stacked_etcd: true,
        kubelet_versions: KubeletVersions::WhenReported,
        kube_vip: None,
        order: MachineOrderRules::default(),
        gate: policy::ControlPlaneGate::Whole,
    })
}

/// What a gate expects of a worker group.
pub fn workers(cluster: &str, group: GroupName, machines: DesiredMachines) -> Expectation {
    Expectation::Workers(WorkersExpectation {
        namespace: machines.namespace,
        cluster: cluster.to_owned(),
        group,
        version: machines.version,
        replicas: Some(machines.replicas),
        infrastructure_template: Some(machines.template),
        bootstrap_template: None,
        kubelet_versions: KubeletVersions::WhenReported,
    })
}

/// A person pauses the Cluster, or resumes it.
pub async fn pause(client: &Client, scenario: &Scenario, begins: bool) -> anyhow::Result<()> {
    let paused = Patch::Merge(json!({"spec": {"paused": begins}}));
    kind_in(client, CLUSTER_KIND, &scenario.name)
        .await?
        .patch(&scenario.name, &PatchParams::default(), &paused)
        .await?;
    Ok(())
}

/// A person deletes a machine of what the scenario bumps.
pub async fn delete_one(client: &Client, scenario: &Scenario) -> anyhow::Result<()> {
    let is_bumped = |machine: &&kube::api::DynamicObject| match scenario.shape {
        Shape::ControlPlane => machine.labels().contains_key("cluster.x-k8s.io/control-plane"),
        _ => machine.labels().get("cluster.x-k8s.io/deployment-name").is_some_and(|name| name == "blue"),
    };
    let machines = list(client, MACHINE, &scenario.name).await?;
    let machine = machines.iter().find(is_bumped).context("no machine to delete")?;
    kind_in(client, MACHINE, &scenario.name).await?.delete(&machine.name_any(), &DeleteParams::default()).await?;
    Ok(())
}

/// Cluster API, and what its provider of machines in memory comes with.
pub struct MachineProvider {
    provided: Vec<Value>,
    pub managers: ClusterApi,
}

impl MachineProvider {
    pub async fn start(programs: &Programs, server: &ApiServer) -> anyhow::Result<Self> {
        Ok(Self { provided: provided(programs)?, managers: ClusterApi::start(programs, server).await? })
    }

    /// With the gate of in-place updates open.
    pub async fn start_with_in_place_updates(programs: &Programs, server: &ApiServer) -> anyhow::Result<Self> {
        let managers = ClusterApi::start_with_in_place_updates(programs, server).await?;
        Ok(Self { provided: provided(programs)?, managers })
    }

    /// The objects that Flux applies for machines of this cluster; none for anything else.
    pub fn manifest(&self, cluster: &str, object: &DesiredObject) -> anyhow::Result<Vec<Value>> {
        match object {
            DesiredObject::ControlPlane { machines, .. } => self.control_plane(machines),
            DesiredObject::Workers { machines, .. } => self.workers(cluster, machines),
            _ => Ok(Vec::new()),
        }
    }

    /// The Cluster and its control plane, of the same name.
    fn control_plane(&self, machines: &DesiredMachines) -> anyhow::Result<Vec<Value>> {
        let DesiredMachines { namespace, name, .. } = machines;
        let mut spec =
            self.template("KubeadmControlPlaneTemplate", "in-memory-control-plane")?["spec"]["template"]["spec"]
                .clone();
        spec["replicas"] = json!(machines.replicas);
        spec["version"] = json!(machines.version);
        spec["machineTemplate"] =
            json!({"spec": {"infrastructureRef": reference(INFRASTRUCTURE, "DevMachineTemplate", &machines.template)}});
        let mut objects = self.machine_templates("in-memory-control-plane", machines)?;
        let cluster = &self.template("DevClusterTemplate", "in-memory-cluster")?["spec"]["template"]["spec"];
        let mut infrastructure = object(INFRASTRUCTURE, "DevCluster", (namespace, name), cluster);
        // The provider notes a port beside the annotations that there are, and fails where there are none.
        infrastructure["metadata"]["annotations"] = json!({"example.com/team": "tests"});
        objects.extend([
            object("cluster.x-k8s.io", "Cluster", (namespace, name), &json!({
                "clusterNetwork": {"services": {"cidrBlocks": ["10.128.0.0/12"]}, "pods": {"cidrBlocks": ["192.168.0.0/16"]},
                    "serviceDomain": "cluster.local"},
                "controlPlaneRef": reference(CONTROL_PLANE, "KubeadmControlPlane", name),
                "infrastructureRef": reference(INFRASTRUCTURE, "DevCluster", name),
            })),
            infrastructure,
            object(CONTROL_PLANE, "KubeadmControlPlane", (namespace, name), &spec),
        ]);
        Ok(objects)
    }

    fn workers(&self, cluster: &str, machines: &DesiredMachines) -> anyhow::Result<Vec<Value>> {
        let DesiredMachines { namespace, name, .. } = machines;
        let spec = json!({"clusterName": cluster, "replicas": machines.replicas, "template": {"spec": {
            "clusterName": cluster, "version": machines.version,
            "bootstrap": {"configRef": reference(BOOTSTRAP, "KubeadmConfigTemplate", name)},
            "infrastructureRef": reference(INFRASTRUCTURE, "DevMachineTemplate", &machines.template),
        }}});
        let mut workers = object("cluster.x-k8s.io", "MachineDeployment", (namespace, name), &spec);
        // A group may be behind its control plane by a minor version, and machines of it come and go.
        workers["metadata"]["annotations"] =
            json!({"machineset.cluster.x-k8s.io/skip-preflight-checks": "KubeadmVersionSkew"});
        let bootstrap = self.template("KubeadmConfigTemplate", "in-memory-default-worker-bootstraptemplate")?;
        let mut objects = self.machine_templates("in-memory-default-worker-machinetemplate", machines)?;
        objects.extend([object(BOOTSTRAP, "KubeadmConfigTemplate", (namespace, name), &bootstrap["spec"]), workers]);
        Ok(objects)
    }

    /// A template for each time to come up.
    fn machine_templates(&self, of: &str, machines: &DesiredMachines) -> anyhow::Result<Vec<Value>> {
        let template = self.template("DevMachineTemplate", of)?;
        let made = STARTUP.map(|startup| {
            let mut template = template.clone();
            set(
                &mut template,
                "/metadata",
                json!({"namespace": machines.namespace, "name": format!("{}-{startup}", machines.name)}),
            )?;
            starts_after(&mut template, startup)?;
            Ok(template)
        });
        made.into_iter().collect()
    }

    fn template(&self, kind_of: &str, name: &str) -> anyhow::Result<&Value> {
        let is_it = |object: &&Value| kind(object) == kind_of && object["metadata"]["name"] == name;
        self.provided.iter().find(is_it).with_context(|| format!("the provider comes without {kind_of} {name}"))
    }
}

fn object(group: &str, kind: &str, (namespace, name): (&str, &str), spec: &Value) -> Value {
    json!({"apiVersion": format!("{group}/v1beta2"), "kind": kind, "metadata": {"namespace": namespace, "name": name}, "spec": spec})
}

fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({"apiGroup": group, "kind": kind, "name": name})
}
