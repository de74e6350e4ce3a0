//! A control plane fully rolled out: not paused or going, at the generation it was asked for, all counts equal, all conditions at
//! that generation and as they should be, and every machine at the version with a node that runs it. Cluster API's own
//! `Available` means one healthy machine and a quorum of etcd.

use crate::expectation::{ControlPlaneExpectation, KubeVipExpectation};
use crate::kubernetes::KubernetesVersion;
use crate::observation::{ConditionStatus, ControlPlane, Machine, Observation};
use crate::verdict::Reason;

use super::findings::{Findings, object};
use super::machines::{self, MachineRule};
use super::topology;
use super::workload;

pub(super) fn check(expectation: &ControlPlaneExpectation, observation: &Observation, findings: &mut Findings) {
    let kinds = ["KubeadmControlPlane", "Machine", "Cluster", "Node"];
    if !kinds.iter().all(|kind| findings.was_read(kind, observation)) {
        return;
    }
    let cluster = &expectation.cluster;
    let subject = object("KubeadmControlPlane", &expectation.namespace, format!("of cluster {cluster}"));
    let Some(version) = KubernetesVersion::parse(&expectation.version) else {
        findings.fail(Reason::on(
            subject,
            format!("the expected version {:?} is no Kubernetes version", expectation.version),
        ));
        return;
    };
    let found: Vec<&ControlPlane> = observation
        .control_planes
        .iter()
        .filter(|known| known.namespace == expectation.namespace && &known.cluster == cluster)
        .collect();
    let [control_plane] = found.as_slice() else {
        let message =
            if found.is_empty() { "not found".to_owned() } else { format!("{} found, one expected", found.len()) };
        let help = format!(
            "kubectl get kubeadmcontrolplane -n {} -l cluster.x-k8s.io/cluster-name={cluster}",
            expectation.namespace
        );
        findings.wait(Reason::on(subject, message).help(help));
        return;
    };
    check_cluster(expectation, &version, observation, findings);
    check_control_plane(control_plane, expectation, &version, findings);
    check_machines(control_plane, expectation, &version, observation, findings);
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
    topology::check(&subject, cluster, &help, findings);
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
    if control_plane.deleting {
        findings.fail(Reason::on(&subject, "is being deleted").field("metadata.deletionTimestamp").help(&help));
    }
    if control_plane.paused {
        let help = format!("kubectl annotate kubeadmcontrolplane {name} -n {namespace} cluster.x-k8s.io/paused-");
        findings.paused(
            &subject,
            "metadata.annotations[cluster.x-k8s.io/paused]",
            control_plane.generation,
            control_plane.observed_generation,
            help,
        );
    }
    if !version.is_met_by_declared(&control_plane.spec_version) {
        let message = format!("{}, {} expected", control_plane.spec_version, expectation.version);
        findings.wait(Reason::on(&subject, message).field("spec.version").help(&help));
    }
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

fn check_machines(
    control_plane: &ControlPlane,
    expectation: &ControlPlaneExpectation,
    version: &KubernetesVersion,
    observation: &Observation,
    findings: &mut Findings,
) {
    let subject = object("KubeadmControlPlane", &control_plane.namespace, &control_plane.name);
    let machines: Vec<&Machine> = observation
        .machines
        .iter()
        .filter(|machine| {
            machine.control_plane
                && machine.namespace == expectation.namespace
                && machine.cluster == expectation.cluster
        })
        .collect();
    let help = format!(
        "kubectl get machines -n {} -l cluster.x-k8s.io/control-plane,cluster.x-k8s.io/cluster-name={}",
        expectation.namespace, expectation.cluster
    );
    let seen = u32::try_from(machines.len()).unwrap_or(u32::MAX);
    findings.count(&subject, "machines", Some(seen), control_plane.spec_replicas.unwrap_or(0), &help);
    for machine in machines.iter().filter(|machine| machine.owner.as_deref() != Some(control_plane.name.as_str())) {
        let owner = machine.owner.as_deref().unwrap_or("nobody");
        let machine = object("Machine", &machine.namespace, &machine.name);
        let message = format!("owned by {owner}, {} expected", control_plane.name);
        findings.wait(Reason::on(machine, message).field("metadata.ownerReferences").help(&help));
    }
    let rule = MachineRule {
        version,
        version_text: &expectation.version,
        kubelet_versions: expectation.kubelet_versions,
        infrastructure_template: control_plane.infrastructure_template.as_deref(),
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
        check_kube_vip(kube_vip, &machines, observation, findings);
    }
    findings.fact(subject, format!("{seen} machines at {} on healthy nodes", expectation.version));
}

/// Whether both name one host: with its domain or without, since whoever holds the address says its host's name in either form.
fn is_same_host(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// kube-vip runs with its image on every control-plane node, and one of them holds the address.
fn check_kube_vip(
    kube_vip: &KubeVipExpectation,
    machines: &[&Machine],
    observation: &Observation,
    findings: &mut Findings,
) {
    if !findings.was_read("Pod", observation) || !findings.was_read("Lease", observation) {
        return;
    }
    let nodes: Vec<&str> = machines.iter().filter_map(|machine| machine.node.as_deref()).collect();
    for node in &nodes {
        let pod =
            observation.pods.iter().find(|pod| pod.application == "kube-vip" && pod.node.as_deref() == Some(*node));
        let subject = format!("kube-vip on node {node}");
        let help = format!("kubectl get pods -n kube-system --field-selector spec.nodeName={node}");
        let Some(pod) = pod else {
            findings.wait(Reason::on(subject, "no such pod").help(help));
            continue;
        };
        if !pod.ready {
            findings.wait(Reason::on(&subject, "not ready").field("status.conditions[Ready]").help(&help));
        }
        workload::check_running(&subject, kube_vip.image.as_slice(), &pod.running, 1, &help, findings);
    }
    let help = format!("kubectl get lease {} -n kube-system -o yaml", KubeVipExpectation::LEASE);
    match observation.virtual_address.as_ref().and_then(|address| address.holder.as_deref()) {
        Some(holder) if nodes.iter().any(|node| is_same_host(node, holder)) => {
            findings.fact("virtual address", format!("held by {holder}"));
        }
        Some(holder) => {
            let message = format!("held by {holder}, which is no control-plane node of this version");
            findings.wait(Reason::on("virtual address", message).field("spec.holderIdentity").help(help));
        }
        None => findings.wait(Reason::on("virtual address", "held by nobody").field("spec.holderIdentity").help(help)),
    }
}
