//! A KubeadmControlPlane of which the first node is through: one new machine proven by its node, its API server, its etcd member and
//! its kube-vip, and one old machine gone. The rest rolls on beside the next stages, and `verify` waits for all of it (Cluster API,
//! KubeadmControlPlane: it goes on by itself).

use bundles::KubernetesVersion;

use crate::expectation::ControlPlaneExpectation;
use crate::gate::findings::{Findings, object};
use crate::gate::machines::control_plane;
use crate::gate::machines::order::is_outdated;
use crate::gate::machines::{self, MachineConditions, MachineRule};
use crate::observation::{ConditionStatus, ControlPlane, Machine, Observation};
use crate::verdict::Reason;

pub(in crate::gate) fn check(
    control_plane: &ControlPlane,
    expectation: &ControlPlaneExpectation,
    version: &KubernetesVersion,
    observation: &Observation,
    findings: &mut Findings,
) {
    let (namespace, name) = (&control_plane.namespace, &control_plane.name);
    let subject = object("KubeadmControlPlane", namespace, name);
    let help = format!("kubectl describe kubeadmcontrolplane {name} -n {namespace}");
    control_plane::check_declared(control_plane, expectation, version, findings);
    findings.observed(&subject, control_plane.generation, control_plane.observed_generation, &help);
    machines::check_template(
        &subject,
        "spec.machineTemplate.spec.infrastructureRef.name",
        control_plane.infrastructure_template.as_deref(),
        expectation.infrastructure_template.as_deref(),
        &help,
        findings,
    );
    // Neither tells how far it is: a quorum is there, and no machine is being repaired.
    let generation = Some(control_plane.generation);
    let conditions = &control_plane.conditions;
    for condition in ["Available", "CertificatesAvailable"] {
        findings.condition(&subject, conditions, condition, ConditionStatus::True, generation, &help);
    }
    for condition in ["Remediating", "Deleting"] {
        findings.condition(&subject, conditions, condition, ConditionStatus::False, generation, &help);
    }
    let machines = control_plane::machines_of(expectation, observation);
    let (old, mut new): (Vec<&Machine>, Vec<&Machine>) =
        machines.iter().partition(|machine| is_outdated(machine, control_plane));
    new.retain(|machine| !machine.deleting);
    check_old(&subject, control_plane, expectation, &old, findings);
    check_new(&subject, control_plane, expectation, version, &new, observation, findings);
    findings.settle(format!("{subject} generation {}", control_plane.generation));
}

/// Waits until there are fewer old machines than there were before the first one went.
fn check_old(
    subject: &str,
    control_plane: &ControlPlane,
    expectation: &ControlPlaneExpectation,
    old: &[&Machine],
    findings: &mut Findings,
) {
    let help = control_plane::help_on_machines(expectation);
    let Some(replicas) = control_plane.spec_replicas.filter(|replicas| *replicas > 0) else {
        findings.wait(Reason::on(subject, "not set or zero").field("spec.replicas").help(help));
        return;
    };
    let left = u32::try_from(old.len()).unwrap_or(u32::MAX);
    if left >= replicas {
        findings.wait(Reason::on(subject, format!("{left} old machines, {} at most", replicas - 1)).help(help));
        return;
    }
    let Some(rest) = old.first() else {
        findings.fact(subject, "no old machine is left");
        return;
    };
    let rest = if left == 1 { format!("Machine {} is", rest.name) } else { format!("{left} old machines are") };
    findings.fact(subject, format!("{rest} left of {replicas}"));
}

/// Waits until one of the new machines is proven.
fn check_new(
    subject: &str,
    control_plane: &ControlPlane,
    expectation: &ControlPlaneExpectation,
    version: &KubernetesVersion,
    new: &[&Machine],
    observation: &Observation,
    findings: &mut Findings,
) {
    let rule = MachineRule {
        version: Some(version),
        version_text: &expectation.version,
        kubelet_versions: expectation.kubelet_versions,
        infrastructure_template: control_plane.infrastructure_template.as_deref(),
        conditions: MachineConditions::OfCoreProvider,
    };
    let prove = |machine: &Machine, findings: &mut Findings| {
        machines::check_one(machine, &rule, observation, findings);
        control_plane::check_new_machine(expectation, machine, observation, findings);
    };
    let is_proven = |machine: &&&Machine| {
        let mut trial = Findings::default();
        prove(machine, &mut trial);
        trial.holds()
    };
    if let Some(proven) = new.iter().find(is_proven) {
        let fact = format!("at {} on healthy node {}", expectation.version, proven.node.as_deref().unwrap_or_default());
        findings.fact(object("Machine", &proven.namespace, &proven.name), fact);
        return;
    }
    match new.first() {
        Some(machine) => prove(machine, findings),
        None => {
            let message = format!("no machine is at {} yet", expectation.version);
            findings.wait(Reason::on(subject, message).help(control_plane::help_on_machines(expectation)));
        }
    }
}
