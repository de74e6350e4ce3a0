//! A control plane of another kind than KubeadmControlPlane, by Cluster API's contract for control-plane providers.
//!
//! Of the contract only `spec.version`, readiness and `status.version` can be relied on, and the last only where there are no machines to
//! look at. Whatever else a provider reports has to be as it should be; what it does not report is not asked for.

use std::cmp::Ordering;

use bundles::KubernetesVersion;

use crate::expectation::ControlPlaneExpectation;
use crate::gate::findings::{Findings, object};
use crate::gate::machines::control_plane;
use crate::gate::machines::{self, MachineConditions, MachineRule};
use crate::observation::{ConditionStatus, ControlPlane, Machine, Observation};
use crate::verdict::Reason;

/// Conditions of v1beta1 and v1beta2 that are True of a control plane that is rolled out.
const SETTLED: [&str; 12] = [
    "Ready",
    "Available",
    "Initialized",
    "ControlPlaneInitialized",
    "MachinesReady",
    "MachinesUpToDate",
    "MachinesSpecUpToDate",
    "MachinesCreated",
    "Resized",
    "EtcdClusterHealthy",
    "ControlPlaneComponentsHealthy",
    "CertificatesAvailable",
];

/// Ends of conditions that are True of a control plane that is on its way: `EKSControlPlaneUpdating` ends so too.
const UNDER_WAY: [&str; 10] = [
    "RollingOut",
    "ScalingUp",
    "ScalingDown",
    "Remediating",
    "Deleting",
    "Paused",
    "Updating",
    "Upgrading",
    "Creating",
    "Progressing",
];

/// How a control plane is judged, once it is found.
pub(in crate::gate) struct Subject<'a> {
    pub(in crate::gate) control_plane: &'a ControlPlane,
    pub(in crate::gate) expectation: &'a ControlPlaneExpectation,
    pub(in crate::gate) version: &'a KubernetesVersion,
}

impl Subject<'_> {
    fn name(&self) -> String {
        object(self.control_plane.kind.as_str(), &self.control_plane.namespace, &self.control_plane.name)
    }

    fn help(&self) -> String {
        let ControlPlane { kind, namespace, name, .. } = self.control_plane;
        format!("kubectl describe {} {name} -n {namespace}", kind.as_str().to_lowercase())
    }

    /// Whether it makes machines: a template for them tells, and so do those that it has.
    fn has_machines(&self, machines: &[&Machine]) -> bool {
        !self.control_plane.external && (!machines.is_empty() || self.control_plane.infrastructure_template.is_some())
    }
}

pub(in crate::gate) fn check(subject: &Subject<'_>, observation: &Observation, findings: &mut Findings) {
    let Subject { control_plane, expectation, .. } = subject;
    let machines = control_plane::machines_of(expectation, observation);
    control_plane::check_declared(control_plane, expectation, subject.version, findings);
    let (name, help) = (subject.name(), subject.help());
    if let Some(failure) = &control_plane.failure {
        findings.failing(Reason::on(&name, failure).field("status.failureMessage").help(&help));
    }
    if control_plane.observed_generation.is_some() {
        findings.observed(&name, control_plane.generation, control_plane.observed_generation, &help);
    }
    check_version(subject, &machines, findings);
    check_replicas(subject, &machines, findings);
    check_readiness(subject, findings);
    if subject.has_machines(&machines) {
        check_machines(subject, &machines, observation, findings);
    }
    findings.settle(format!("{name} generation {}", control_plane.generation));
    let observed = if control_plane.observed_generation.is_some() { "observed" } else { "not reported as observed" };
    findings
        .fact(name, format!("generation {} {observed}, at {}", control_plane.generation, control_plane.spec_version));
}

fn check_version(subject: &Subject<'_>, machines: &[&Machine], findings: &mut Findings) {
    let (control_plane, version) = (subject.control_plane, subject.version);
    let message = match &control_plane.status_version {
        // A managed service may name no more than the minor that it keeps at its newest patch.
        Some(status) if control_plane.external && version.is_met_as_far_as_both_are_known(status) => return,
        Some(status) if version.is_met_by_declared(status) => return,
        None if subject.has_machines(machines) => return,
        Some(status) => format!("{status}, {} expected", subject.expectation.version),
        None => format!(
            "not reported, {} expected: without it and without machines nothing tells what runs",
            subject.expectation.version
        ),
    };
    findings.wait(Reason::on(subject.name(), message).field("status.version").help(subject.help()));
}

fn check_replicas(subject: &Subject<'_>, machines: &[&Machine], findings: &mut Findings) {
    let ControlPlane { spec_replicas, replicas, up_to_date_replicas, ready_replicas, available_replicas, .. } =
        subject.control_plane;
    let (name, help) = (subject.name(), subject.help());
    if let (Some(expected), Some(_)) = (subject.expectation.replicas, spec_replicas) {
        findings.count(&name, "spec.replicas", *spec_replicas, expected, &help);
    }
    // A managed service has no replicas to count, and older providers of hosted ones count none.
    let counts = [replicas, up_to_date_replicas, ready_replicas].iter().any(|count| count.is_some());
    let Some(wanted) = spec_replicas.filter(|_| counts) else { return };
    if wanted == 0 {
        findings.wait(Reason::on(&name, "zero").field("spec.replicas").help(&help));
    }
    findings.count(&name, "status.replicas", *replicas, wanted, &help);
    findings.count(&name, "status.readyReplicas", *ready_replicas, wanted, &help);
    if up_to_date_replicas.is_some() || !subject.has_machines(machines) {
        findings.count(&name, "status.upToDateReplicas", *up_to_date_replicas, wanted, &help);
    }
    if available_replicas.is_some() {
        findings.count(&name, "status.availableReplicas", *available_replicas, wanted, &help);
    }
}

fn check_readiness(subject: &Subject<'_>, findings: &mut Findings) {
    let (name, help) = (subject.name(), subject.help());
    let control_plane = subject.control_plane;
    for (field, reported) in [
        ("status.ready", control_plane.ready),
        ("status.initialization.controlPlaneInitialized", control_plane.initialized),
    ] {
        if reported == Some(false) {
            findings.wait(Reason::on(&name, "false, true expected").field(field).help(&help));
        }
    }
    let conditions = &control_plane.conditions;
    let says_ready = ["Ready", "Available"].iter().any(|name| conditions.contains_key(*name));
    if !says_ready && control_plane.ready.is_none() {
        findings.wait(Reason::on(&name, "not reported").field("status.conditions[Available]").help(&help));
    }
    let generation = Some(control_plane.generation);
    for condition in conditions.keys() {
        let expected = if UNDER_WAY.iter().any(|end| condition.ends_with(end)) {
            ConditionStatus::False
        } else if SETTLED.contains(&condition.as_str()) {
            ConditionStatus::True
        } else {
            // What it means only its provider knows; readiness sums it up.
            continue;
        };
        findings.condition(&name, conditions, condition, expected, generation, &help);
    }
}

fn check_machines(subject: &Subject<'_>, machines: &[&Machine], observation: &Observation, findings: &mut Findings) {
    let expectation = subject.expectation;
    control_plane::check_owners(subject.control_plane, machines, findings);
    let help = control_plane::help_on_machines(expectation);
    let seen = u32::try_from(machines.len()).unwrap_or(u32::MAX);
    if let Some(replicas) = subject.control_plane.spec_replicas {
        findings.count(&subject.name(), "machines", Some(seen), replicas, &help);
    }
    let rule = MachineRule {
        version: Some(subject.version),
        version_text: &expectation.version,
        kubelet_versions: expectation.kubelet_versions,
        infrastructure_template: None,
        conditions: MachineConditions::OfContract,
    };
    machines::check(machines, &rule, observation, findings);
    findings.fact(subject.name(), format!("{seen} machines at {} on healthy nodes", expectation.version));
}

/// Whether a control plane that has no machines is known to be older than `version`.
pub(in crate::gate) fn is_older(control_plane: &ControlPlane, version: &KubernetesVersion) -> bool {
    let reported = control_plane.status_version.as_deref().and_then(|text| text.parse::<KubernetesVersion>().ok());
    reported.is_none_or(|reported| reported.order(version) == Ordering::Less)
}
