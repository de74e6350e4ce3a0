//! A `MachinePool` fully rolled out: at its generation, in phase Running, all counts equal, and every node of it at the version.
//!
//! Right after a version bump its status is that of before and looks finished. Nodes tell: the infrastructure need not make a Machine for each.

use bundles::KubernetesVersion;

use crate::expectation::{KubeletVersions, WorkersExpectation};
use crate::gate::findings::{Findings, object};
use crate::gate::machines;
use crate::observation::{ConditionStatus, Machine, MachinePool, Observation};
use crate::verdict::Reason;

/// Conditions of v1beta1 and v1beta2 that are True of a pool that is rolled out.
const SETTLED: [&str; 8] = [
    "Ready",
    "Available",
    "BootstrapReady",
    "BootstrapConfigReady",
    "InfrastructureReady",
    "ReplicasReady",
    "MachinesReady",
    "MachinesUpToDate",
];

/// Conditions that are True of a pool that is on its way.
const UNDER_WAY: [&str; 6] = ["RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting", "Paused"];

pub(in crate::gate) fn check(
    pool: &MachinePool,
    expectation: &WorkersExpectation,
    version: Option<&KubernetesVersion>,
    observation: &Observation,
    findings: &mut Findings,
) {
    let (namespace, name) = (&pool.namespace, &pool.name);
    let subject = object("MachinePool", namespace, name);
    let help = format!("kubectl describe machinepool {name} -n {namespace}");
    check_declared(pool, expectation, version, &subject, &help, findings);
    findings.observed(&subject, pool.generation, pool.observed_generation, &help);
    check_phase(pool, &subject, &help, findings);
    let Some(replicas) = pool.spec_replicas.or(pool.replicas) else {
        findings.wait(Reason::on(&subject, "not set").field("spec.replicas").help(&help));
        return;
    };
    findings.count(&subject, "status.replicas", Some(pool.replicas.unwrap_or_default()), replicas, &help);
    findings.count(&subject, "status.readyReplicas", Some(pool.ready_replicas.unwrap_or_default()), replicas, &help);
    if pool.up_to_date_replicas.is_some() {
        findings.count(&subject, "status.upToDateReplicas", pool.up_to_date_replicas, replicas, &help);
    }
    for condition in pool.conditions.keys() {
        let expected = if SETTLED.contains(&condition.as_str()) {
            ConditionStatus::True
        } else if UNDER_WAY.contains(&condition.as_str()) {
            ConditionStatus::False
        } else {
            continue;
        };
        findings.condition(&subject, &pool.conditions, condition, expected, Some(pool.generation), &help);
    }
    let seen = check_nodes(pool, replicas, expectation, version, observation, findings);
    check_machines(pool, expectation, version, observation, findings);
    findings.settle(format!("{subject} generation {}", pool.generation));
    let seen = match seen {
        Some(seen) => format!("{seen} ready nodes{}", expectation.at_version()),
        None => format!("{replicas} ready replicas{}; its nodes were not read", expectation.at_version()),
    };
    findings.fact(subject, seen);
}

fn check_declared(
    pool: &MachinePool,
    expectation: &WorkersExpectation,
    version: Option<&KubernetesVersion>,
    subject: &str,
    help: &str,
    findings: &mut Findings,
) {
    if pool.deleting {
        findings.fail(Reason::on(subject, "is being deleted").field("metadata.deletionTimestamp").help(help));
    }
    if pool.paused {
        let help = format!("kubectl annotate machinepool {} -n {} cluster.x-k8s.io/paused-", pool.name, pool.namespace);
        let field = "metadata.annotations[cluster.x-k8s.io/paused]";
        findings.paused(subject, field, pool.generation, pool.observed_generation, help);
    }
    machines::check_declared(subject, pool.spec_version.as_deref(), version, &expectation.version, help, findings);
    for (field, seen, expected) in [
        ("infrastructureRef", &pool.infrastructure_template, &expectation.infrastructure_template),
        ("bootstrap.configRef", &pool.bootstrap_template, &expectation.bootstrap_template),
    ] {
        let field = format!("spec.template.spec.{field}.name");
        machines::check_template(subject, &field, seen.as_deref(), expected.as_deref(), help, findings);
    }
}

/// A pool that has failed stays so until somebody looks after it; any other phase than Running is on its way there.
fn check_phase(pool: &MachinePool, subject: &str, help: &str, findings: &mut Findings) {
    let field = "status.phase";
    match pool.phase.as_deref() {
        Some("Running") => {}
        Some("Failed") => {
            let message = pool.failure.as_ref().map_or_else(|| "Failed".to_owned(), |why| format!("Failed: {why}"));
            findings.fail(Reason::on(subject, message).field(field).help(help));
            return;
        }
        Some(phase) => {
            findings.wait(Reason::on(subject, format!("{phase}, Running expected")).field(field).help(help));
        }
        None => findings.wait(Reason::on(subject, "not set, Running expected").field(field).help(help)),
    }
    if let Some(failure) = &pool.failure {
        findings.failing(Reason::on(subject, failure).field("status.failureMessage").help(help));
    }
}

/// How many nodes the pool has, each of them ready and at the version; none where no nodes were read at all.
fn check_nodes(
    pool: &MachinePool,
    replicas: u32,
    expectation: &WorkersExpectation,
    version: Option<&KubernetesVersion>,
    observation: &Observation,
    findings: &mut Findings,
) -> Option<usize> {
    let subject = object("MachinePool", &pool.namespace, &pool.name);
    let help = format!("kubectl get machinepool {} -n {} -o yaml", pool.name, pool.namespace);
    let Some(names) = &pool.nodes else {
        if !observation.nodes.is_empty() && replicas > 0 {
            findings.wait(Reason::on(subject, "not set").field("status.nodeRefs").help(help));
        }
        return None;
    };
    let seen = u32::try_from(names.len()).unwrap_or(u32::MAX);
    findings.count(&subject, "status.nodeRefs", Some(seen), replicas, &help);
    if observation.nodes.is_empty() {
        return None;
    }
    for name in names {
        let subject = format!("Node {name}");
        let help = format!("kubectl describe node {name}");
        let Some(node) = observation.nodes.iter().find(|node| &node.name == name) else {
            findings.wait(Reason::on(subject, "not found").help(help));
            continue;
        };
        if node.ready != ConditionStatus::True {
            let message = format!("{}, True expected", node.ready);
            findings.wait(Reason::on(&subject, message).field("status.conditions[Ready]").help(&help));
        }
        let Some(version) = version else { continue };
        machines::check_release(node, version, &expectation.version, findings);
        let field = "status.nodeInfo.kubeletVersion";
        match node.kubelet_version.as_deref().filter(|reported| !reported.is_empty()) {
            Some(reported) if version.is_met_by_kubelet(reported) => {}
            Some(reported) => {
                let message = format!("{reported}, {} expected", expectation.version);
                findings.wait(Reason::on(subject, message).field(field).help(help));
            }
            None => match expectation.kubelet_versions {
                KubeletVersions::Required => findings.wait(Reason::on(subject, "not reported").field(field).help(help)),
                KubeletVersions::WhenReported => {}
            },
        }
    }
    findings.settle(names.iter().map(String::as_str).collect::<Vec<_>>().join(","));
    Some(names.len())
}

/// Machines of the pool, where its infrastructure makes them: none is on its way out, and each has a node.
fn check_machines(
    pool: &MachinePool,
    expectation: &WorkersExpectation,
    version: Option<&KubernetesVersion>,
    observation: &Observation,
    findings: &mut Findings,
) {
    let is_of_pool =
        |machine: &&Machine| machine.namespace == pool.namespace && machine.pool.as_deref() == Some(pool.name.as_str());
    for machine in observation.machines.iter().filter(is_of_pool) {
        let subject = object("Machine", &machine.namespace, &machine.name);
        let help = format!("kubectl describe machine {} -n {}", machine.name, machine.namespace);
        if machine.deleting {
            let reason = Reason::on(&subject, "is still being deleted");
            findings.wait(reason.field("metadata.deletionTimestamp").help(&help));
        }
        // The infrastructure need not write the version onto them.
        let is_other = |declared: &&String| version.is_some_and(|wanted| !wanted.is_met_by_declared(declared));
        if let Some(declared) = machine.spec_version.as_ref().filter(is_other) {
            let message = format!("{declared}, {} expected", expectation.version);
            findings.wait(Reason::on(&subject, message).field("spec.version").help(&help));
        }
        if machine.node.is_none() {
            findings.wait(Reason::on(&subject, "not set").field("status.nodeRef").help(&help));
        }
    }
}
