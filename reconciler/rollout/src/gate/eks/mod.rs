//! A cluster of EKS, by what its own API server says: version, nodes by group, workloads of the system.
//!
//! Somebody else runs eksctl, and nothing in the cluster names a commit. So each gate asks for what its commit brings about
//! and what was not there before it; what was not read waits.

pub(in crate::gate) mod aws;
pub(in crate::gate) mod fargate;
pub(in crate::gate) mod leftovers;
pub(in crate::gate) mod updates;

use crate::expectation::{ADDON_NAMESPACE, AddonWorkload, EksExpectation, EksPart, addon_workload};
use crate::gate::findings::Findings;
use crate::gate::health::api_errors;
use crate::observation::{ConditionStatus, Node, NodeOrigin, Observation, Survey};
use crate::verdict::Reason;

pub(in crate::gate) fn check(expectation: &EksExpectation, observation: &Observation, findings: &mut Findings) {
    if !findings.was_read("Node", observation) {
        return;
    }
    match &expectation.part {
        EksPart::ControlPlane { version } => check_control_plane(version, observation, findings),
        EksPart::Addon { name, version } => {
            check_addon(name.as_str(), version.as_deref(), expectation, observation, findings);
        }
        EksPart::NodeGroup { name, version, nodes } => {
            check_group(name.as_str(), version.as_deref(), *nodes, observation, findings);
        }
        EksPart::NodeGroupGone { name } => check_gone(name.as_str(), observation, findings),
        EksPart::Fargate { version, restarts } => {
            fargate::check(version, *restarts, expectation.before.as_ref(), observation, findings);
        }
        EksPart::Leftovers { cluster, groups } => check_leftovers(cluster, groups, expectation, observation, findings),
    }
    check_system(expectation, observation, findings);
    if let Some(before) = &expectation.before {
        api_errors::check(before, observation, findings);
    }
    if let Some(reading) = &observation.eks {
        aws::check(expectation, reading, findings);
    }
}

/// Major and minor of a version such as `v1.33.4-eks-4096722`, `1.33` or `1.33+`.
pub(in crate::gate) fn minor(version: &str) -> Option<(u32, u32)> {
    let text = version.strip_prefix('v').unwrap_or(version);
    let mut parts = text.split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn check_control_plane(version: &str, observation: &Observation, findings: &mut Findings) {
    let subject = "API server";
    let help = "kubectl version";
    let Some(seen) = &observation.server_version else {
        let reason = observation.unread.get("Version").map_or("it was not read", String::as_str);
        findings.wait(Reason::on(subject, format!("its version is not known: {reason}")).field("/version").help(help));
        return;
    };
    if minor(seen).is_none() || minor(seen) != minor(version) {
        findings.wait(Reason::on(subject, format!("{seen}, {version} expected")).field("/version").help(help));
    } else {
        findings.settle(seen.clone());
        findings.fact(subject, seen.clone());
    }
    for node in &observation.nodes {
        let is_newer = node.kubelet_version.as_deref().and_then(minor) > minor(version);
        if is_newer {
            let kubelet = node.kubelet_version.clone().unwrap_or_default();
            let message = format!("kubelet {kubelet} is newer than the API server may be ({version})");
            findings.wait(Reason::on(subject_of(node), message).field("status.nodeInfo.kubeletVersion"));
        }
    }
}

fn subject_of(node: &Node) -> String {
    format!("Node {}", node.name)
}

/// What stands before the first dash of a version: add-ons and their images are built anew under other ends.
fn release(version: &str) -> &str {
    let text = version.strip_prefix('v').unwrap_or(version);
    text.split(['-', '+', '@']).next().unwrap_or(text)
}

fn check_addon(
    name: &str,
    version: Option<&str>,
    expectation: &EksExpectation,
    observation: &Observation,
    findings: &mut Findings,
) {
    let Some(workload) = addon_workload(name) else {
        findings.fact(format!("add-on {name}"), "its workloads are not known; the system's are ready");
        return;
    };
    let kind = workload.kind;
    if !findings.was_read(kind, observation) {
        return;
    }
    let subject = format!("{kind} {ADDON_NAMESPACE}/{}", workload.name);
    let help = format!("kubectl get {} {} -n {ADDON_NAMESPACE} -o yaml", kind.to_lowercase(), workload.name);
    let Some(running) = RunningAddon::of(workload, observation) else {
        findings.wait(Reason::on(subject, format!("not found, though it is what add-on {name} runs")).help(help));
        return;
    };
    let survey = observation.survey.as_ref();
    if !survey.is_some_and(|survey| is_excused(expectation, &subject, survey)) {
        running.check_rolled_out(&subject, &help, findings);
    }
    let images = running.images;
    let Some(version) = version.filter(|version| *version != "latest") else {
        findings.fact(format!("add-on {name}"), images.join(", "));
        return;
    };
    let tags: Vec<&str> = images.iter().filter_map(|image| Some(image.rsplit_once(':')?.1)).collect();
    if tags.iter().any(|tag| release(tag) == release(version)) {
        findings.settle(images.join(" "));
        findings.fact(format!("add-on {name}"), images.join(", "));
        return;
    }
    let message = format!("runs {}, {version} expected", images.join(", "));
    findings.wait(Reason::on(subject, message).field("spec.template.spec.containers[].image").help(help));
}

/// The workload of an add-on, as far as it tells that all of its pods are of its newest template.
struct RunningAddon<'a> {
    images: &'a [String],
    generation: i64,
    observed: Option<i64>,
    /// How many pods there are to be.
    wanted: u32,
    /// How many are of the newest template, and in which field.
    updated: (&'static str, Option<u32>),
    /// How many there are, those of before included; none where there is one on each node at most.
    all: Option<u32>,
}

impl<'a> RunningAddon<'a> {
    fn of(workload: AddonWorkload, observation: &'a Observation) -> Option<Self> {
        let is_it = |namespace: &str, name: &str| namespace == ADDON_NAMESPACE && name == workload.name;
        if workload.kind == "Deployment" {
            let mut deployments = observation.deployments.iter();
            let found = deployments.find(|known| is_it(&known.namespace, &known.name))?;
            return Some(Self {
                images: &found.images,
                generation: found.generation,
                observed: found.observed_generation,
                wanted: found.spec_replicas,
                updated: ("status.updatedReplicas", found.updated_replicas),
                all: found.replicas,
            });
        }
        let found = observation.daemon_sets.iter().find(|known| is_it(&known.namespace, &known.name))?;
        Some(Self {
            images: &found.images,
            generation: found.generation,
            observed: found.observed_generation,
            wanted: found.desired_scheduled.unwrap_or_default(),
            updated: ("status.updatedNumberScheduled", found.updated_scheduled),
            all: None,
        })
    }

    /// Pods of before are as ready as ever where the new image cannot be pulled.
    fn check_rolled_out(&self, subject: &str, help: &str, findings: &mut Findings) {
        findings.observed(subject, self.generation, self.observed, help);
        let (field, updated) = self.updated;
        let (updated, wanted) = (updated.unwrap_or_default(), self.wanted);
        if updated < wanted {
            let message = format!("{updated} of {wanted} pods are of its newest template");
            findings.wait(Reason::on(subject, message).field(field).help(help));
        } else if let Some(all) = self.all.filter(|all| *all > wanted) {
            let message = format!("{all}, {wanted} expected: pods of before are still there");
            findings.wait(Reason::on(subject, message).field("status.replicas").help(help));
        }
    }
}

fn nodes_of<'a>(group: &'a str, observation: &'a Observation) -> impl Iterator<Item = &'a Node> {
    observation
        .nodes
        .iter()
        .filter(move |node| matches!(&node.origin, Some(NodeOrigin::Group(known)) if known == group))
}

fn check_group(group: &str, version: Option<&str>, nodes: u32, observation: &Observation, findings: &mut Findings) {
    let subject = format!("node group {group}");
    let help = format!("kubectl get nodes -l alpha.eksctl.io/nodegroup-name={group}");
    let mut ready: u32 = 0;
    for node in nodes_of(group, observation) {
        let kubelet = node.kubelet_version.as_deref();
        if let Some(version) = version.filter(|version| kubelet.and_then(minor) != minor(version)) {
            let message = format!("kubelet {}, {version} expected", kubelet.unwrap_or("not reported"));
            findings.wait(Reason::on(subject_of(node), message).field("status.nodeInfo.kubeletVersion"));
        } else if node.ready != ConditionStatus::True {
            let message = format!("{}, True expected", node.ready);
            let help = format!("kubectl describe node {}", node.name);
            findings.wait(Reason::on(subject_of(node), message).field("status.conditions[Ready]").help(help));
        } else if node.unschedulable {
            let help = format!("kubectl uncordon {}", node.name);
            findings.wait(Reason::on(subject_of(node), "is cordoned").field("spec.unschedulable").help(help));
        } else {
            ready = ready.saturating_add(1);
        }
    }
    if ready < nodes {
        findings.wait(Reason::on(subject, format!("{ready} of {nodes} nodes are ready")).help(help));
    } else {
        findings.fact(subject, format!("{ready} nodes ready"));
    }
}

fn check_gone(group: &str, observation: &Observation, findings: &mut Findings) {
    let mut is_gone = true;
    for node in nodes_of(group, observation) {
        is_gone = false;
        let message = match node.unschedulable {
            true => format!("of group {group} is cordoned and still there"),
            false => format!("of group {group} is still there, and not cordoned"),
        };
        let help = format!("kubectl get pods -A --field-selector spec.nodeName={}", node.name);
        findings.wait(Reason::on(subject_of(node), message).help(help));
    }
    if is_gone {
        findings.fact(format!("node group {group}"), "no node is left");
    }
}

fn check_leftovers(
    cluster: &str,
    groups: &[String],
    expectation: &EksExpectation,
    observation: &Observation,
    findings: &mut Findings,
) {
    let before = expectation.before.as_ref().and_then(|before| before.strays.as_ref());
    let mut is_clean = true;
    for node in &observation.nodes {
        let subject = subject_of(node);
        let (message, help) = match &node.origin {
            Some(NodeOrigin::Group(group)) if groups.contains(group) => continue,
            Some(NodeOrigin::Group(group)) => (
                format!("is of node group {group}, which the cluster has no longer"),
                format!("eksctl delete nodegroup --cluster {cluster} --name {group} --drain"),
            ),
            Some(NodeOrigin::Fargate | NodeOrigin::Other(_)) => continue,
            None if before.is_some_and(|before| before.contains(&subject)) => {
                findings.fact(subject, "belongs to no node group, as before the rollout");
                continue;
            }
            None => (
                "belongs to no node group".to_owned(),
                format!(
                    "`kubectl drain {0} --ignore-daemonsets`, `kubectl delete node {0}`, and end its instance",
                    node.name
                ),
            ),
        };
        is_clean = false;
        findings.wait(Reason::on(subject, message).help(help));
    }
    if is_clean {
        findings.fact("nodes", format!("{}, none of a group that is gone", observation.nodes.len()));
    }
}

/// Nodes that belong to no group, in order, where others do; none where no node tells of a group.
pub(crate) fn strays(observation: &Observation) -> Option<Vec<String>> {
    let is_of_eks = observation.nodes.iter().any(|node| node.origin.is_some());
    let strays = observation.nodes.iter().filter(|node| node.origin.is_none()).map(subject_of);
    is_of_eks.then(|| {
        let mut strays: Vec<String> = strays.collect();
        strays.sort();
        strays
    })
}

/// Workloads of the system, and what runs on every node.
fn check_system(expectation: &EksExpectation, observation: &Observation, findings: &mut Findings) {
    let kinds = ["Deployment", "DaemonSet"];
    if !kinds.iter().all(|kind| findings.was_read(kind, observation)) {
        return;
    }
    let Some(survey) = &observation.survey else {
        findings.wait(Reason::on("workloads", "were not looked at yet"));
        return;
    };
    for broken in survey.broken.iter().filter(|name| is_of_system(name)) {
        if !is_excused(expectation, broken, survey) {
            let help = "kubectl get deployments,daemonsets,pods -A";
            findings.wait(Reason::on(broken.clone(), "is not ready").help(help));
        }
    }
}

fn is_of_system(workload: &str) -> bool {
    let is_in = workload.split_once(' ').is_some_and(|(_, rest)| rest.starts_with("kube-system/"));
    is_in || workload.starts_with("DaemonSet ")
}

fn is_excused(expectation: &EksExpectation, workload: &str, survey: &Survey) -> bool {
    expectation.before.as_ref().is_some_and(|before| before.excuses(workload, survey))
}

#[cfg(test)]
mod tests;
