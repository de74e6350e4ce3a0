//! Machines one by one: the only proof of a rollout that counts and conditions cannot fake.

pub(in crate::gate) mod contract;
pub(in crate::gate) mod control_plane;
pub(in crate::gate) mod first_node;
pub(in crate::gate) mod order;
pub(in crate::gate) mod pool;
pub(in crate::gate) mod topology;
pub(in crate::gate) mod workers;

use bundles::KubernetesVersion;

use crate::expectation::KubeletVersions;
use crate::gate::findings::{Findings, object};
use crate::observation::{ConditionStatus, Machine, Node, Observation};
use crate::verdict::Reason;

/// What every machine of a control plane or worker group has to be.
pub(in crate::gate) struct MachineRule<'a> {
    /// The version of every machine; none where its owner names none.
    pub(in crate::gate) version: Option<&'a KubernetesVersion>,
    /// That version, in words.
    pub(in crate::gate) version_text: &'a str,
    /// Whether kubelet versions have to be known.
    pub(in crate::gate) kubelet_versions: KubeletVersions,
    /// Infrastructure template of every machine, where it is known.
    pub(in crate::gate) infrastructure_template: Option<&'a str>,
    /// Which conditions are asked for.
    pub(in crate::gate) conditions: MachineConditions,
}

/// Which conditions a machine has to report.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) enum MachineConditions {
    /// Those that Cluster API's own control plane and `MachineDeployments` see to.
    OfCoreProvider,
    /// Those that Cluster API itself sets: `UpToDate` is the owner's, and other providers need not set it.
    OfContract,
}

/// Waits unless every machine runs the version on a healthy node and none is on its way out.
pub(in crate::gate) fn check(
    machines: &[&Machine],
    rule: &MachineRule<'_>,
    observation: &Observation,
    findings: &mut Findings,
) {
    // Those of the new version first: an old machine only waits for one of these to be done.
    let is_new = |machine: &&&Machine| {
        rule.version.is_none_or(|wanted| machine.spec_version.as_ref().is_some_and(|it| wanted.is_met_by_declared(it)))
    };
    let (new, old): (Vec<&Machine>, Vec<&Machine>) = machines.iter().partition(is_new);
    for machine in new.into_iter().chain(old) {
        check_one(machine, rule, observation, findings);
    }
    let mut names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    names.sort_unstable();
    findings.settle(names.join(","));
}

/// Waits unless this machine does.
pub(in crate::gate) fn check_one(
    machine: &Machine,
    rule: &MachineRule<'_>,
    observation: &Observation,
    findings: &mut Findings,
) {
    let subject = object("Machine", &machine.namespace, &machine.name);
    let help = format!("kubectl describe machine {} -n {}", machine.name, machine.namespace);
    let is_met =
        |wanted: &KubernetesVersion| machine.spec_version.as_ref().is_some_and(|it| wanted.is_met_by_declared(it));
    if !rule.version.is_none_or(is_met) {
        let seen = machine.spec_version.as_deref().unwrap_or("not set");
        let message = format!("{seen}, {} expected", rule.version_text);
        findings.wait(Reason::on(&subject, message).field("spec.version").help(&help));
    }
    if machine.deleting {
        findings.wait(Reason::on(&subject, "is still being deleted").field("metadata.deletionTimestamp").help(&help));
    }
    check_cloned_from(&subject, machine, rule.infrastructure_template, &help, findings);
    let is_asked_for = |condition: &&str| match rule.conditions {
        MachineConditions::OfCoreProvider => true,
        MachineConditions::OfContract => *condition != "UpToDate" || machine.conditions.contains_key(*condition),
    };
    for condition in ["UpToDate", "NodeHealthy", "Ready"].into_iter().filter(is_asked_for) {
        findings.condition(&subject, &machine.conditions, condition, ConditionStatus::True, machine.generation, &help);
    }
    for condition in ["Updating", "Deleting"] {
        findings.condition_if_reported(&subject, &machine.conditions, condition, ConditionStatus::False, &help);
    }
    check_node(&subject, machine, rule, observation, &help, findings);
}

/// Waits unless an owner declares the version, or none is expected of it.
pub(in crate::gate) fn check_declared(
    subject: &str,
    declared: Option<&str>,
    version: Option<&KubernetesVersion>,
    expected: &str,
    help: &str,
    findings: &mut Findings,
) {
    let is_met = |wanted: &KubernetesVersion| declared.is_some_and(|it| wanted.is_met_by_declared(it));
    if !version.is_none_or(is_met) {
        let message = format!("{}, {expected} expected", declared.unwrap_or("not set"));
        findings.wait(Reason::on(subject, message).field("spec.template.spec.version").help(help));
    }
}

/// Waits if the machine is made from another infrastructure template than its owner's; says nothing where one of them is not known.
pub(in crate::gate) fn check_cloned_from(
    subject: &str,
    machine: &Machine,
    expected: Option<&str>,
    help: &str,
    findings: &mut Findings,
) {
    if let (Some(expected), Some(seen)) = (expected, &machine.infrastructure_template)
        && expected != seen
    {
        let field = "metadata.annotations[cluster.x-k8s.io/cloned-from-name]";
        findings.wait(Reason::on(subject, format!("made from {seen}, {expected} expected")).field(field).help(help));
    }
}

/// Waits unless an owner's template is the one that the deploy tree holds, where it holds one.
pub(in crate::gate) fn check_template(
    subject: &str,
    field: &str,
    seen: Option<&str>,
    expected: Option<&str>,
    help: &str,
    findings: &mut Findings,
) {
    if let Some(expected) = expected
        && seen != Some(expected)
    {
        let message = format!("{}, {expected} expected", seen.unwrap_or("not set"));
        findings.wait(Reason::on(subject, message).field(field).help(help));
    }
}

/// Waits for a node that was made from another release of the distribution: its kubelet names the build of Kubernetes alone.
pub(in crate::gate) fn check_release(
    node: &Node,
    version: &KubernetesVersion,
    expected: &str,
    findings: &mut Findings,
) {
    if let Some(release) = node.release.as_ref().filter(|release| version.is_contradicted_by_release(release)) {
        let message = format!("{release}, {expected} expected");
        let help = format!("kubectl describe node {}", node.name);
        let field = "metadata.labels[run.tanzu.vmware.com/kubernetesDistributionVersion]";
        findings.wait(Reason::on(format!("Node {}", node.name), message).field(field).help(help));
    }
}

fn check_node(
    subject: &str,
    machine: &Machine,
    rule: &MachineRule<'_>,
    observation: &Observation,
    help: &str,
    findings: &mut Findings,
) {
    let Some(name) = &machine.node else {
        findings.wait(Reason::on(subject, "not set").field("status.nodeRef").help(help));
        return;
    };
    let node = observation.nodes.iter().find(|node| &node.name == name);
    if node.is_none() && !observation.nodes.is_empty() && !observation.unread.contains_key("Node") {
        let message = format!("Node {name} is not there any more");
        findings.wait(Reason::on(subject, message).field("status.nodeRef").help(help));
    }
    if let Some(node) = node.filter(|node| node.ready != ConditionStatus::True) {
        let message = format!("{}, True expected", node.ready);
        let help = format!("kubectl describe node {name}");
        findings.wait(Reason::on(format!("Node {name}"), message).field("status.conditions[Ready]").help(help));
    }
    if let (Some(node), Some(version)) = (node, rule.version) {
        check_release(node, version, rule.version_text, findings);
    }
    let reported = machine.kubelet_version.as_deref().or_else(|| node.and_then(|node| node.kubelet_version.as_deref()));
    let field = "status.nodeInfo.kubeletVersion";
    match reported.filter(|version| !version.is_empty()) {
        Some(version) if rule.version.is_none_or(|wanted| wanted.is_met_by_kubelet(version)) => {}
        Some(version) => {
            let message = format!("{version}, {} expected", rule.version_text);
            findings.wait(Reason::on(subject, message).field(field).help(help));
        }
        None => match rule.kubelet_versions {
            KubeletVersions::Required => findings.wait(Reason::on(subject, "not reported").field(field).help(help)),
            KubeletVersions::WhenReported => {}
        },
    }
}
