//! A control plane fully rolled out: not paused or going, at the generation it was asked for, all counts equal, all conditions at
//! that generation and as they should be, and every machine at the version with a node that runs it. Cluster API's own
//! `Available` means one healthy machine and a quorum of etcd.

use bundles::KubernetesVersion;
use policy::ControlPlaneGate;

use crate::expectation::{ControlPlaneExpectation, KubeVipExpectation};
use crate::gate::findings::{Findings, object};
use crate::gate::machines::contract;
use crate::gate::machines::first_node;
use crate::gate::machines::topology;
use crate::gate::machines::{self, MachineConditions, MachineRule};
use crate::gate::workload;
use crate::observation::{
    ConditionStatus, ControlPlane, ControlPlaneKind, ControlPlaneReference, Machine, Observation,
};
use crate::verdict::Reason;

pub(in crate::gate) fn check(
    expectation: &ControlPlaneExpectation,
    observation: &Observation,
    findings: &mut Findings,
) {
    let cluster = &expectation.cluster;
    let reference = reference_of(&expectation.namespace, cluster, observation);
    let kind = reference.map(|reference| reference.kind.clone()).unwrap_or_default();
    let kinds = [kind.as_str(), "Machine", "Cluster", "Node"];
    if !kinds.iter().all(|kind| findings.was_read(kind, observation)) {
        return;
    }
    let subject = object(kind.as_str(), &expectation.namespace, format!("of cluster {cluster}"));
    let Ok(version) = expectation.version.parse::<KubernetesVersion>() else {
        findings.fail(Reason::on(
            subject,
            format!("the expected version {:?} is not a valid Kubernetes version", expectation.version),
        ));
        return;
    };
    let found: Vec<&ControlPlane> = observation
        .control_planes
        .iter()
        .filter(|known| known.namespace == expectation.namespace && &known.cluster == cluster)
        .filter(|known| is_referred_to(known, observation))
        .collect();
    let [control_plane] = found.as_slice() else {
        let message =
            if found.is_empty() { "not found".to_owned() } else { format!("{} found, one expected", found.len()) };
        let help = format!(
            "kubectl get {} -n {} -l cluster.x-k8s.io/cluster-name={cluster}",
            kind.as_str().to_lowercase(),
            expectation.namespace
        );
        findings.wait(Reason::on(subject, message).help(help));
        return;
    };
    check_cluster(expectation, &version, observation, findings);
    match &control_plane.kind {
        ControlPlaneKind::Kubeadm if expectation.gate == ControlPlaneGate::FirstNode => {
            first_node::check(control_plane, expectation, &version, observation, findings);
        }
        ControlPlaneKind::Kubeadm => {
            check_control_plane(control_plane, expectation, &version, findings);
            check_machines(control_plane, expectation, &version, observation, findings);
        }
        ControlPlaneKind::Contract(_) => {
            let subject = contract::Subject { control_plane, expectation, version: &version };
            contract::check(&subject, observation, findings);
        }
    }
}

/// Whether a control plane is the one that its Cluster refers to, as far as that is known.
pub(in crate::gate) fn is_referred_to(known: &ControlPlane, observation: &Observation) -> bool {
    let reference = reference_of(&known.namespace, &known.cluster, observation);
    reference.is_none_or(|reference| known.kind == reference.kind && known.name == reference.name)
}

/// What the Cluster itself refers to as its control plane.
pub(in crate::gate) fn reference_of<'a>(
    namespace: &str,
    cluster: &str,
    observation: &'a Observation,
) -> Option<&'a ControlPlaneReference> {
    let found = observation.clusters.iter().find(|known| known.namespace == namespace && known.name == cluster);
    found.and_then(|cluster| cluster.control_plane.as_ref())
}

/// While a runtime hook blocks, or a webhook is down, the Cluster says the new version and the control plane keeps its old one, healthy.
fn check_cluster(
    expectation: &ControlPlaneExpectation,
    version: &KubernetesVersion,
    observation: &Observation,
    findings: &mut Findings,
) {
    let (namespace, name) = (&expectation.namespace, &expectation.cluster);
    let found = observation.clusters.iter().find(|known| &known.namespace == namespace && &known.name == name);
    let Some(cluster) = found else { return };
    let subject = object("Cluster", namespace, name);
    if cluster.paused {
        let help = format!(
            "kubectl patch clusters.cluster.x-k8s.io {name} -n {namespace} --type merge -p '{{\"spec\":{{\"paused\":false}}}}'"
        );
        findings.wait(Reason::on(&subject, "paused").field("spec.paused").help(help));
    }
    if cluster.deleting {
        findings.fail(Reason::on(&subject, "is being deleted").field("metadata.deletionTimestamp"));
    }
    let help = format!("kubectl get clusters.cluster.x-k8s.io {name} -n {namespace} -o yaml");
    if let Some(topology) = &cluster.topology_version
        && !version.is_met_by_declared(topology)
    {
        let message = format!("{topology}, {} expected", expectation.version);
        findings.wait(Reason::on(&subject, message).field("spec.topology.version").help(&help));
    }
    // What the topology holds back meanwhile is what comes after the first node.
    if expectation.gate.is_whole() {
        topology::check(&subject, cluster, &help, findings);
    }
}

/// What any kind of control plane is asked for: it is there, is not paused, and is to be at the version.
pub(in crate::gate) fn check_declared(
    control_plane: &ControlPlane,
    expectation: &ControlPlaneExpectation,
    version: &KubernetesVersion,
    findings: &mut Findings,
) {
    let ControlPlane { kind, namespace, name, .. } = control_plane;
    let subject = object(kind.as_str(), namespace, name);
    let kind = kind.as_str().to_lowercase();
    let help = format!("kubectl describe {kind} {name} -n {namespace}");
    if control_plane.deleting {
        findings.fail(Reason::on(&subject, "is being deleted").field("metadata.deletionTimestamp").help(&help));
    }
    if control_plane.paused {
        let help = match control_plane.paused_in_place {
            // Unpaused by hand, it would replace its machines.
            true => format!("kubectl get controlplanekubeadmupgrades,nodekubeadmupgrades -n {namespace}"),
            false => format!("kubectl annotate {kind} {name} -n {namespace} cluster.x-k8s.io/paused-"),
        };
        findings.paused(
            &subject,
            "metadata.annotations[cluster.x-k8s.io/paused]",
            control_plane.generation,
            control_plane.observed_generation,
            help,
        );
    }
    // A managed service may choose the version itself; its status tells which.
    let is_chosen = control_plane.spec_version.is_empty() && control_plane.external;
    if !is_chosen && !version.is_met_by_declared(&control_plane.spec_version) {
        let message = format!("{}, {} expected", control_plane.spec_version, expectation.version);
        findings.wait(Reason::on(&subject, message).field("spec.version").help(&help));
    }
}

fn check_control_plane(
    control_plane: &ControlPlane,
    expectation: &ControlPlaneExpectation,
    version: &KubernetesVersion,
    findings: &mut Findings,
) {
    let (namespace, name) = (&control_plane.namespace, &control_plane.name);
    let subject = object("KubeadmControlPlane", namespace, name);
    let help = format!("kubectl describe kubeadmcontrolplane {name} -n {namespace}");
    check_declared(control_plane, expectation, version, findings);
    findings.observed(&subject, control_plane.generation, control_plane.observed_generation, &help);
    match &control_plane.status_version {
        Some(status) if version.is_met_by_declared(status) => {}
        status => {
            let message = format!("{}, {} expected", status.as_deref().unwrap_or("not set"), expectation.version);
            findings.wait(Reason::on(&subject, message).field("status.version").help(&help));
        }
    }
    machines::check_template(
        &subject,
        "spec.machineTemplate.spec.infrastructureRef.name",
        control_plane.infrastructure_template.as_deref(),
        expectation.infrastructure_template.as_deref(),
        &help,
        findings,
    );
    check_replicas(&subject, control_plane, expectation, &help, findings);
    let generation = Some(control_plane.generation);
    for name in ["RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting"] {
        findings.condition(&subject, &control_plane.conditions, name, ConditionStatus::False, generation, &help);
    }
    findings.condition_if_reported(&subject, &control_plane.conditions, "Paused", ConditionStatus::False, &help);
    let stacked = expectation.stacked_etcd.then_some("EtcdClusterHealthy");
    let healthy =
        ["MachinesUpToDate", "MachinesReady", "Available", "ControlPlaneComponentsHealthy", "CertificatesAvailable"];
    for name in healthy.into_iter().chain(stacked) {
        findings.condition(&subject, &control_plane.conditions, name, ConditionStatus::True, generation, &help);
    }
    findings.settle(format!("{subject} generation {}", control_plane.generation));
    findings
        .fact(subject, format!("generation {} observed, at {}", control_plane.generation, control_plane.spec_version));
}

fn check_replicas(
    subject: &str,
    control_plane: &ControlPlane,
    expectation: &ControlPlaneExpectation,
    help: &str,
    findings: &mut Findings,
) {
    let Some(replicas) = control_plane.spec_replicas.filter(|replicas| *replicas > 0) else {
        findings.wait(Reason::on(subject, "not set or zero").field("spec.replicas").help(help));
        return;
    };
    if let Some(expected) = expectation.replicas {
        findings.count(subject, "spec.replicas", Some(replicas), expected, help);
    }
    for (field, seen) in [
        ("status.replicas", control_plane.replicas),
        ("status.upToDateReplicas", control_plane.up_to_date_replicas),
        ("status.readyReplicas", control_plane.ready_replicas),
        ("status.availableReplicas", control_plane.available_replicas),
    ] {
        findings.count(subject, field, seen, replicas, help);
    }
}

/// The machines of the cluster's control plane.
pub(in crate::gate) fn machines_of<'a>(
    expectation: &ControlPlaneExpectation,
    observation: &'a Observation,
) -> Vec<&'a Machine> {
    let is_of_cluster = |machine: &&Machine| {
        machine.control_plane && machine.namespace == expectation.namespace && machine.cluster == expectation.cluster
    };
    observation.machines.iter().filter(is_of_cluster).collect()
}

/// How a person looks at them.
pub(in crate::gate) fn help_on_machines(expectation: &ControlPlaneExpectation) -> String {
    let ControlPlaneExpectation { namespace, cluster, .. } = expectation;
    format!(
        "kubectl get machines -n {namespace} -l cluster.x-k8s.io/control-plane,cluster.x-k8s.io/cluster-name={cluster}"
    )
}

/// Waits for machines that belong to something else than the control plane.
pub(in crate::gate) fn check_owners(control_plane: &ControlPlane, machines: &[&Machine], findings: &mut Findings) {
    for machine in machines.iter().filter(|machine| machine.owner.as_deref() != Some(control_plane.name.as_str())) {
        let owner = machine.owner.as_deref().unwrap_or("nobody");
        let help = format!("kubectl describe machine {} -n {}", machine.name, machine.namespace);
        let machine = object("Machine", &machine.namespace, &machine.name);
        let message = format!("owned by {owner}, {} expected", control_plane.name);
        findings.wait(Reason::on(machine, message).field("metadata.ownerReferences").help(help));
    }
}

fn check_machines(
    control_plane: &ControlPlane,
    expectation: &ControlPlaneExpectation,
    version: &KubernetesVersion,
    observation: &Observation,
    findings: &mut Findings,
) {
    let subject = object("KubeadmControlPlane", &control_plane.namespace, &control_plane.name);
    let machines = machines_of(expectation, observation);
    let help = help_on_machines(expectation);
    let seen = u32::try_from(machines.len()).unwrap_or(u32::MAX);
    findings.count(&subject, "machines", Some(seen), control_plane.spec_replicas.unwrap_or(0), &help);
    check_owners(control_plane, &machines, findings);
    let rule = MachineRule {
        version: Some(version),
        version_text: &expectation.version,
        kubelet_versions: expectation.kubelet_versions,
        infrastructure_template: control_plane.infrastructure_template.as_deref(),
        conditions: MachineConditions::OfCoreProvider,
    };
    machines::check(&machines, &rule, observation, findings);
    if expectation.stacked_etcd {
        for machine in &machines {
            let subject = object("Machine", &machine.namespace, &machine.name);
            findings.condition_if_reported(
                &subject,
                &machine.conditions,
                "EtcdMemberHealthy",
                ConditionStatus::True,
                &help,
            );
        }
    }
    if let Some(kube_vip) = &expectation.kube_vip {
        let lease = expectation.lease().unwrap_or(KubeVipExpectation::LEASE);
        check_kube_vip(kube_vip, lease, &machines, observation, findings);
    }
    findings.fact(subject, format!("{seen} machines at {} on healthy nodes", expectation.version));
}

/// Whether both name one host: with its domain or without, since whoever holds the address says its host's name in either form.
pub(crate) fn is_same_host(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What a machine has to be that took the place of another, before the next one goes: its node, its API server, its etcd member and its kube-vip.
pub(in crate::gate) fn check_new_machine(
    expectation: &ControlPlaneExpectation,
    machine: &Machine,
    observation: &Observation,
    findings: &mut Findings,
) {
    let subject = object("Machine", &machine.namespace, &machine.name);
    let help = format!("kubectl describe machine {} -n {}", machine.name, machine.namespace);
    let member = expectation.stacked_etcd.then_some("EtcdMemberHealthy");
    for condition in ["NodeHealthy", "APIServerPodHealthy"].into_iter().chain(member) {
        findings.condition(&subject, &machine.conditions, condition, ConditionStatus::True, machine.generation, &help);
    }
    let Some(node) = &machine.node else {
        findings.wait(Reason::on(subject, "not set").field("status.nodeRef").help(help));
        return;
    };
    if let Some(kube_vip) = expectation.kube_vip.as_ref().filter(|_| findings.was_read("Pod", observation)) {
        check_kube_vip_on(node, kube_vip, observation, findings);
    }
}

/// kube-vip runs with its image on this node.
fn check_kube_vip_on(node: &str, kube_vip: &KubeVipExpectation, observation: &Observation, findings: &mut Findings) {
    let pod = observation.pods.iter().find(|pod| pod.application == "kube-vip" && pod.node.as_deref() == Some(node));
    let subject = format!("kube-vip on node {node}");
    let help = format!("kubectl get pods -n kube-system --field-selector spec.nodeName={node}");
    let Some(pod) = pod else {
        findings.wait(Reason::on(subject, "no such pod").help(help));
        return;
    };
    if !pod.ready {
        findings.wait(Reason::on(&subject, "not ready").field("status.conditions[Ready]").help(&help));
    }
    workload::check_running(&subject, kube_vip.image.as_slice(), &pod.running, 1, &help, findings);
}

/// kube-vip runs with its image on every control-plane node, and one of them holds the address.
fn check_kube_vip(
    kube_vip: &KubeVipExpectation,
    lease: &str,
    machines: &[&Machine],
    observation: &Observation,
    findings: &mut Findings,
) {
    if !findings.was_read("Pod", observation) || !findings.was_read("Lease", observation) {
        return;
    }
    let nodes: Vec<&str> = machines.iter().filter_map(|machine| machine.node.as_deref()).collect();
    for node in &nodes {
        check_kube_vip_on(node, kube_vip, observation, findings);
    }
    let help = format!("kubectl get lease {lease} -n kube-system -o yaml");
    match observation.virtual_address.as_ref().and_then(|address| address.holder.as_deref()) {
        Some(holder) if nodes.iter().any(|node| is_same_host(node, holder)) => {
            findings.fact("virtual address", format!("held by {holder}"));
        }
        Some(holder) => {
            let message = format!("held by {holder}, which is not a control-plane node of this version");
            findings.wait(Reason::on("virtual address", message).field("spec.holderIdentity").help(help));
        }
        None => findings.wait(Reason::on("virtual address", "held by nobody").field("spec.holderIdentity").help(help)),
    }
}
