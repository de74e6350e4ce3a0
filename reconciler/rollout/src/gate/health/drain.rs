//! What keeps nodes from being drained while they roll, and what fails beside them: the pod, the budget, the owner, the
//! node, since when, and what helps. Nothing is forced.
//!
//! These reasons never make a gate wait by themselves: what is told is why it waits longer than it need.

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;

use jiff::Timestamp;

use crate::eviction::{EvictionAnswer, eviction_answer};
use crate::gate::findings::Findings;
use crate::observation::{
    DisruptionBudget, DrainReading, DrainedPod, DrainingNode, FailingPod, ForcedPods, Observation, Serving,
    Termination, UnattachedVolume,
};
use crate::verdict::Reason;

/// How long a volume may take to be attached before it is told.
const ATTACHING: jiff::SignedDuration = jiff::SignedDuration::from_secs(120);

/// Adds what keeps nodes, where the gate waits anyway. What failed before `committed_at` is not of this stage.
pub(in crate::gate) fn check(observation: &Observation, committed_at: Option<Timestamp>, findings: &mut Findings) {
    let Some(drains) = &observation.drains else { return };
    for forced in &drains.forced {
        let ForcedPods { namespace, budget, rollout, group, pods } = forced;
        let seen = format!("{pods} pods of {group} were deleted past it for rollout {rollout}");
        findings.fact(format!("PodDisruptionBudget {namespace}/{budget}"), seen);
    }
    if !findings.waits() {
        return;
    }
    let is_new =
        |since: Option<Timestamp>| since.is_none_or(|since| committed_at.is_none_or(|committed| since >= committed));
    for pod in drains.failing.iter().filter(|pod| is_new(pod.since)) {
        findings.failing(failing(pod));
    }
    kept_nodes(observation).into_iter().for_each(|reason| findings.failing(reason));
    for volume in drains.unattached.iter().filter(|volume| is_new(volume.since)) {
        let waited = volume.since.map(|since| observation.read_at.duration_since(since));
        if volume.failed || waited.is_some_and(|waited| waited > ATTACHING) {
            findings.failing(unattached(volume));
        }
    }
    for unread in &drains.unread {
        findings.dependent(Reason::new(format!("whether drains are held up is not known: {unread}")));
    }
}

/// The pods that keep nodes from being drained, each with why, and what helps.
#[must_use]
pub fn kept_nodes(observation: &Observation) -> Vec<Reason> {
    let Some(drains) = &observation.drains else { return Vec::new() };
    let kept = drains.nodes.iter().flat_map(|node| {
        let on_node = drains.pods.iter().filter(|pod| pod.pod.node == node.name);
        on_node.filter_map(|pod| kept(pod, node, drains, observation.read_at))
    });
    kept.collect()
}

/// Why a pod keeps its node; none where it goes.
fn kept(pod: &DrainedPod, node: &DrainingNode, drains: &DrainReading, now: Timestamp) -> Option<Reason> {
    if let Some(termination) = &pod.termination {
        return (now > termination.due).then(|| lingers(pod, node, termination, now));
    }
    let goes_at_once = matches!(pod.phase.as_str(), "Succeeded" | "Failed" | "Pending");
    let subject = subject(pod);
    let from = format!("its eviction from Node {}", node.name);
    match eviction_answer(&pod.pod, goes_at_once, &drains.budgets) {
        EvictionAnswer::Goes => None,
        EvictionAnswer::Stale(budget) => {
            let message = format!("{from} is put off by PodDisruptionBudget {}: its status is stale", name(budget));
            let help = "see that kube-controller-manager runs: its disruption controller keeps the status of budgets";
            Some(Reason::on(subject, message).help(help))
        }
        EvictionAnswer::SeveralBudgets(budgets) => {
            let since = told_since(node.since);
            let message = format!(
                "{from} is refused{since} (500), and is as long as several PodDisruptionBudgets select it: {}",
                budgets.join(", ")
            );
            let help = format!("let one budget select it: `kubectl get pdb -n {} -o wide`", pod.pod.namespace);
            Some(Reason::on(subject, message).help(help))
        }
        EvictionAnswer::Refused(budget) => {
            // The budget may have refused for long before its node was to go.
            let since = told_since(node.since.max(budget.refuses_since));
            let DisruptionBudget { desired, expected, healthy, .. } = budget;
            let message = format!(
                "{from} is refused{since} by PodDisruptionBudget {}: {healthy} of {expected} pods are healthy and \
                 {desired} are asked for",
                name(budget)
            );
            Some(Reason::on(subject, message).help(remedy(pod, budget)))
        }
    }
}

/// What helps against a budget that lets none go.
fn remedy(pod: &DrainedPod, budget: &DisruptionBudget) -> String {
    let DisruptionBudget { namespace, name, expected, healthy, desired, .. } = budget;
    if healthy < desired || (healthy < expected && desired < expected) {
        let lenient = "'{\"spec\":{\"unhealthyPodEvictionPolicy\":\"AlwaysAllow\"}}'";
        return format!(
            "mend the pods that are not ready, or let them go: `kubectl patch pdb {name} -n {namespace} --type merge \
             -p {lenient}`"
        );
    }
    let more = expected.saturating_add(1);
    let raise = match &pod.serving {
        Some(Serving::Knative(service)) => format!(
            "kubectl annotate services.serving.knative.dev {service} -n {namespace} \
             autoscaling.knative.dev/min-scale={more} --overwrite"
        ),
        Some(Serving::Kserve(service)) => format!(
            "kubectl patch inferenceservices {service} -n {namespace} --type merge -p \
             '{{\"spec\":{{\"predictor\":{{\"minReplicas\":{more}}}}}}}'"
        ),
        None => match pod.owner.split_once(' ') {
            Some((kind @ ("Deployment" | "StatefulSet" | "ReplicaSet"), owner)) => {
                let owner = owner.rsplit('/').next().unwrap_or(owner);
                format!("kubectl scale {} {owner} -n {namespace} --replicas={more}", kind.to_lowercase())
            }
            _ => format!("kubectl delete pod {} -n {namespace} (it is gone until it is made anew)", pod.pod.name),
        },
    };
    format!("{raise}, or let the budget {namespace}/{name} allow one: maxUnavailable: 1")
}

/// A pod that is there although its grace is over.
fn lingers(pod: &DrainedPod, node: &DrainingNode, termination: &Termination, now: Timestamp) -> Reason {
    let Termination { since, due } = termination;
    let over = now.duration_since(*due).as_secs();
    let (name, namespace) = (&pod.pod.name, &pod.pod.namespace);
    let message = format!("keeps Node {}: terminating since {since}, {over} s longer than its grace", node.name);
    if !pod.finalizers.is_empty() {
        let message = format!("{message}, by its finalizers {}", pod.finalizers.join(", "));
        let help = format!(
            "see why whoever set them does not take them away: `kubectl get pod {name} -n {namespace} -o yaml`"
        );
        return Reason::on(subject(pod), message).field("metadata.finalizers").help(help);
    }
    if !node.is_reachable {
        let message = format!("{message}; its kubelet cannot be heard, so that nobody can say that it has ended");
        let help = format!(
            "bring the node back; if the machine is off for certain: kubectl taint node {} \
             node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
            node.name
        );
        return Reason::on(subject(pod), message).help(help);
    }
    let help = format!(
        "see what its containers, preStop hook or volumes wait for: `kubectl describe pod {name} -n {namespace}`"
    );
    Reason::on(subject(pod), message).help(help)
}

fn failing(pod: &FailingPod) -> Reason {
    let FailingPod { namespace, name, owner, container, image, restarts, .. } = pod;
    let on = pod.node.as_ref().map(|node| format!(" on Node {node}")).unwrap_or_default();
    let subject = format!("Pod {namespace}/{name}");
    match &pod.waiting {
        Some(reason) => {
            let message = format!("of {owner}{on}: container {container} waits: {reason} ({image})");
            Reason::on(subject, message).help(format!("kubectl describe pod {name} -n {namespace}"))
        }
        None => {
            let message = format!("of {owner}{on}: container {container} was started again, {restarts} times in all");
            Reason::on(subject, message).help(format!("kubectl logs {name} -n {namespace} -c {container} --previous"))
        }
    }
}

fn unattached(volume: &UnattachedVolume) -> Reason {
    let UnattachedVolume { volume: name, node, since, failed } = volume;
    let how = if *failed { "cannot be attached" } else { "is not attached" };
    let message = format!("{how} to Node {node}{}", told_since(*since));
    let help = format!("`kubectl get volumeattachments` and `kubectl describe pv {name}` say why");
    Reason::on(format!("PersistentVolume {name}"), message).help(help)
}

fn subject(pod: &DrainedPod) -> String {
    format!("Pod {}/{} of {}", pod.pod.namespace, pod.pod.name, pod.owner)
}

fn name(budget: &DisruptionBudget) -> String {
    format!("{}/{}", budget.namespace, budget.name)
}

fn told_since(since: Option<Timestamp>) -> String {
    since.map(|since| format!(" since {since}")).unwrap_or_default()
}
