//! One worker group fully rolled out: each MachineDeployment by itself, and never on counts alone.
//!
//! For about a second after a version bump a MachineDeployment reports `observedGeneration == generation`, equal counts, `RollingOut` False and
//! `MachinesUpToDate` True with every machine old: five of six recorded upgrades did. Its machines' own `spec.version` tells.

use std::cmp::Ordering;

use bundles::KubernetesVersion;

use crate::expectation::WorkersExpectation;
use crate::gate::findings::{Findings, object};
use crate::gate::machines::contract;
use crate::gate::machines::pool;
use crate::gate::machines::topology;
use crate::gate::machines::{self, MachineConditions, MachineRule};
use crate::observation::{
    ConditionStatus, ControlPlane, ControlPlaneKind, Machine, MachineDeployment, MachinePool, Observation,
};
use crate::verdict::Reason;
use domain::GroupName;

pub(in crate::gate) fn check(expectation: &WorkersExpectation, observation: &Observation, findings: &mut Findings) {
    let kinds = ["MachineDeployment", "MachinePool", "MachineSet", "Machine", "Cluster", "Node"];
    if !kinds.iter().all(|kind| findings.was_read(kind, observation)) {
        return;
    }
    let WorkersExpectation { namespace, cluster, group, .. } = expectation;
    let subject = format!("worker group {group} of cluster {cluster}");
    let version = match expectation.version.as_str() {
        "" => None,
        text => match text.parse::<KubernetesVersion>() {
            Ok(version) => Some(version),
            Err(_) => {
                let message = format!("the expected version {text:?} is not a valid Kubernetes version");
                findings.fail(Reason::on(subject, message));
                return;
            }
        },
    };
    let version = version.as_ref();
    let found: Vec<&MachineDeployment> = observation
        .machine_deployments
        .iter()
        .filter(|known| {
            &known.namespace == namespace && &known.cluster == cluster && known.group.as_ref() == Some(group)
        })
        .collect();
    let pools: Vec<&MachinePool> = observation
        .machine_pools
        .iter()
        .filter(|known| {
            &known.namespace == namespace && &known.cluster == cluster && known.group.as_ref() == Some(group)
        })
        .collect();
    let help = format!(
        "kubectl get machinedeployments,machinepools -n {namespace} -l cluster.x-k8s.io/cluster-name={cluster}"
    );
    if found.is_empty() && pools.is_empty() {
        findings.wait(Reason::on(subject, "no MachineDeployment and no MachinePool found").help(help));
        return;
    }
    if let Some(expected) = expectation.replicas {
        let declared =
            found.iter().map(|known| known.spec_replicas).chain(pools.iter().map(|known| known.spec_replicas));
        let declared = declared.flatten().fold(0u32, u32::saturating_add);
        findings.count(&subject, "spec.replicas", Some(declared), expected, &help);
    }
    check_cluster(expectation, observation, findings);
    if let Some(version) = version {
        check_control_plane_first(expectation, version, observation, findings);
    }
    for machine_deployment in found {
        check_machine_deployment(machine_deployment, expectation, version, observation, findings);
    }
    for pool in pools {
        pool::check(pool, expectation, version, observation, findings);
    }
}

/// A group that goes is gone with its last machine: what is deleted in the background may leave those for a while.
pub(in crate::gate) fn check_gone(
    namespace: &str,
    cluster: &str,
    group: &GroupName,
    observation: &Observation,
    findings: &mut Findings,
) {
    let kinds = ["MachineDeployment", "MachinePool", "MachineSet", "Machine"];
    if !kinds.iter().all(|kind| findings.was_read(kind, observation)) {
        return;
    }
    // Its object bears its name, for EKS Anywhere behind that of the cluster.
    let names = [group.to_string(), format!("{cluster}-{group}")];
    let is_of_group = |owner: Option<&String>| owner.is_some_and(|owner| names.contains(owner));
    let is_beside = |other: &str, of: &str| other == namespace && of == cluster;
    // Where its object is one of the specification, nobody else deletes it; of others, their controller does.
    let help = |kind: &str, name: &str, is_deleted: bool| match name == group.as_str() && !is_deleted {
        true => format!("kubectl delete {kind} {name} -n {namespace}"),
        false => format!("kubectl get machines -n {namespace} -l cluster.x-k8s.io/cluster-name={cluster}"),
    };
    let deployments = observation
        .machine_deployments
        .iter()
        .filter(|known| is_beside(&known.namespace, &known.cluster) && known.group.as_ref() == Some(group))
        .map(|known| {
            (
                object("MachineDeployment", &known.namespace, &known.name),
                help("machinedeployment", &known.name, known.deleting),
            )
        });
    let pools = observation
        .machine_pools
        .iter()
        .filter(|known| is_beside(&known.namespace, &known.cluster) && known.group.as_ref() == Some(group))
        .map(|known| {
            (object("MachinePool", &known.namespace, &known.name), help("machinepool", &known.name, known.deleting))
        });
    let machines = observation
        .machines
        .iter()
        .filter(|known| is_beside(&known.namespace, &known.cluster) && !known.control_plane)
        .filter(|known| is_of_group(known.owner.as_ref()) || is_of_group(known.pool.as_ref()))
        .map(|known| (object("Machine", &known.namespace, &known.name), help("machine", &known.name, true)));
    let left: Vec<(String, String)> = deployments.chain(pools).chain(machines).collect();
    for (subject, help) in &left {
        findings.wait(Reason::on(subject, "still there, though its worker group goes").help(help));
    }
    if left.is_empty() {
        findings.fact(format!("worker group {group} of cluster {cluster}"), "gone");
    }
}

fn check_cluster(expectation: &WorkersExpectation, observation: &Observation, findings: &mut Findings) {
    let (namespace, name) = (&expectation.namespace, &expectation.cluster);
    let found = observation.clusters.iter().find(|known| &known.namespace == namespace && &known.name == name);
    let Some(cluster) = found else { return };
    let subject = object("Cluster", namespace, name);
    let help = format!("kubectl get clusters.cluster.x-k8s.io {name} -n {namespace} -o yaml");
    topology::check(&subject, cluster, &help, findings);
    if cluster.paused {
        let help = format!(
            "kubectl patch clusters.cluster.x-k8s.io {name} -n {namespace} --type merge -p '{{\"spec\":{{\"paused\":false}}}}'"
        );
        findings.wait(Reason::on(subject, "paused").field("spec.paused").help(help));
    }
}

/// A kubelet is never newer than the API servers it talks to.
fn check_control_plane_first(
    expectation: &WorkersExpectation,
    version: &KubernetesVersion,
    observation: &Observation,
    findings: &mut Findings,
) {
    let of_cluster = |machine: &&Machine| {
        machine.control_plane && machine.namespace == expectation.namespace && machine.cluster == expectation.cluster
    };
    for machine in observation.machines.iter().filter(of_cluster) {
        let seen = machine.spec_version.as_deref().and_then(|text| text.parse::<KubernetesVersion>().ok());
        if seen.is_none_or(|seen| seen.order(version) == Ordering::Less) {
            let subject = object("Machine", &machine.namespace, &machine.name);
            let seen = machine.spec_version.as_deref().unwrap_or("not set");
            let message =
                format!("{seen} on the control plane, at least {} expected before workers", expectation.version);
            let help = format!("kubectl describe machine {} -n {}", machine.name, machine.namespace);
            findings.wait(Reason::on(subject, message).field("spec.version").help(help));
        }
    }
    // A control plane without machines has but its own word.
    let is_managed = |known: &&ControlPlane| {
        let has_machines = observation.machines.iter().any(|machine| of_cluster(&machine));
        known.namespace == expectation.namespace
            && known.cluster == expectation.cluster
            && known.kind != ControlPlaneKind::Kubeadm
            && !has_machines
    };
    for known in observation.control_planes.iter().filter(is_managed) {
        if contract::is_older(known, version) {
            let subject = object(known.kind.as_str(), &known.namespace, &known.name);
            let seen = known.status_version.as_deref().unwrap_or("not reported");
            let message =
                format!("{seen} on the control plane, at least {} expected before workers", expectation.version);
            let kind = known.kind.as_str().to_lowercase();
            let help = format!("kubectl describe {kind} {} -n {}", known.name, known.namespace);
            findings.wait(Reason::on(subject, message).field("status.version").help(help));
        }
    }
}

fn check_machine_deployment(
    deployment: &MachineDeployment,
    expectation: &WorkersExpectation,
    version: Option<&KubernetesVersion>,
    observation: &Observation,
    findings: &mut Findings,
) {
    let (namespace, name) = (&deployment.namespace, &deployment.name);
    let subject = object("MachineDeployment", namespace, name);
    let help = format!("kubectl describe machinedeployment {name} -n {namespace}");
    if deployment.deleting {
        findings.fail(Reason::on(&subject, "is being deleted").field("metadata.deletionTimestamp").help(&help));
    }
    if deployment.paused {
        let help = match deployment.paused_in_place {
            // Unpaused by hand, it would replace its machines.
            true => format!("kubectl get workerskubeadmupgrades,nodekubeadmupgrades -n {namespace}"),
            false => format!(
                "kubectl patch machinedeployment {name} -n {namespace} --type merge -p '{{\"spec\":{{\"paused\":false}}}}'"
            ),
        };
        findings.paused(&subject, "spec.paused", deployment.generation, deployment.observed_generation, help);
    }
    machines::check_declared(
        &subject,
        deployment.spec_version.as_deref(),
        version,
        &expectation.version,
        &help,
        findings,
    );
    for (field, seen, expected) in [
        ("infrastructureRef", &deployment.infrastructure_template, &expectation.infrastructure_template),
        ("bootstrap.configRef", &deployment.bootstrap_template, &expectation.bootstrap_template),
    ] {
        let field = format!("spec.template.spec.{field}.name");
        machines::check_template(&subject, &field, seen.as_deref(), expected.as_deref(), &help, findings);
    }
    findings.observed(&subject, deployment.generation, deployment.observed_generation, &help);
    let Some(replicas) = deployment.spec_replicas else {
        findings.wait(Reason::on(&subject, "not set").field("spec.replicas").help(&help));
        return;
    };
    for (field, seen) in [
        ("status.replicas", deployment.replicas),
        ("status.upToDateReplicas", deployment.up_to_date_replicas),
        ("status.readyReplicas", deployment.ready_replicas),
        ("status.availableReplicas", deployment.available_replicas),
    ] {
        findings.count(&subject, field, seen, replicas, &help);
    }
    let generation = Some(deployment.generation);
    for name in ["RollingOut", "ScalingUp", "ScalingDown", "Remediating"] {
        findings.condition(&subject, &deployment.conditions, name, ConditionStatus::False, generation, &help);
    }
    for name in ["Deleting", "Paused"] {
        findings.condition_if_reported(&subject, &deployment.conditions, name, ConditionStatus::False, &help);
    }
    for name in ["MachinesUpToDate", "MachinesReady", "Available"] {
        findings.condition(&subject, &deployment.conditions, name, ConditionStatus::True, generation, &help);
    }
    check_machine_sets(deployment, version, observation, findings);
    check_machines(deployment, replicas, expectation, version, observation, findings);
    findings.settle(format!("{subject} generation {}", deployment.generation));
    findings.fact(subject, format!("{replicas} machines{} on healthy nodes", expectation.at_version()));
}

/// Every `MachineSet` but the newest is empty.
fn check_machine_sets(
    deployment: &MachineDeployment,
    version: Option<&KubernetesVersion>,
    observation: &Observation,
    findings: &mut Findings,
) {
    let owned = |set: &&crate::observation::MachineSet| {
        set.namespace == deployment.namespace && set.machine_deployment.as_deref() == Some(deployment.name.as_str())
    };
    for set in observation.machine_sets.iter().filter(owned) {
        let is_met =
            |wanted: &KubernetesVersion| set.spec_version.as_ref().is_some_and(|it| wanted.is_met_by_declared(it));
        let same_version = version.is_none_or(is_met);
        let same_template = [
            (&deployment.infrastructure_template, &set.infrastructure_template),
            (&deployment.bootstrap_template, &set.bootstrap_template),
        ]
        .into_iter()
        .all(|(expected, seen)| expected.is_none() || seen.is_none() || expected == seen);
        let machines = set.replicas.unwrap_or(0).max(set.spec_replicas.unwrap_or(0));
        if !(same_version && same_template) && machines > 0 {
            let subject = object("MachineSet", &set.namespace, &set.name);
            let message = format!("an earlier set, still has {machines} machines");
            let help = format!("kubectl describe machineset {} -n {}", set.name, set.namespace);
            findings.wait(Reason::on(subject, message).field("status.replicas").help(help));
        }
    }
}

fn check_machines(
    deployment: &MachineDeployment,
    replicas: u32,
    expectation: &WorkersExpectation,
    version: Option<&KubernetesVersion>,
    observation: &Observation,
    findings: &mut Findings,
) {
    let subject = object("MachineDeployment", &deployment.namespace, &deployment.name);
    let help = format!(
        "kubectl get machines -n {} -l cluster.x-k8s.io/deployment-name={}",
        deployment.namespace, deployment.name
    );
    let machines: Vec<&Machine> = observation
        .machines
        .iter()
        .filter(|machine| {
            !machine.control_plane
                && machine.namespace == deployment.namespace
                && machine.owner.as_deref() == Some(deployment.name.as_str())
        })
        .collect();
    let seen = u32::try_from(machines.len()).unwrap_or(u32::MAX);
    findings.count(&subject, "machines", Some(seen), replicas, &help);
    let rule = MachineRule {
        version,
        version_text: &expectation.version,
        kubelet_versions: expectation.kubelet_versions,
        infrastructure_template: deployment.infrastructure_template.as_deref(),
        conditions: MachineConditions::OfCoreProvider,
    };
    machines::check(&machines, &rule, observation, findings);
}
