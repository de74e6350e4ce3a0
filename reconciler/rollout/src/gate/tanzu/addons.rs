//! Add-ons of a rendered `TanzuKubernetesCluster`: applied, and then running on nodes of their release.

use crate::expectation::{AddonsExpectation, ExpectedAddon, ExpectedAddonState};
use crate::gate::findings::{Findings, describe, object};
use crate::gate::flux;
use crate::observation::{ConditionStatus, Observation};
use crate::verdict::{Binding, Reason};

/// Each add-on by itself: what is wrong with one says nothing of the others.
pub(in crate::gate) fn check_applied(
    expectation: &AddonsExpectation,
    binding: Option<&Binding>,
    observation: &Observation,
    findings: &mut Findings,
) {
    for addon in &expectation.addons {
        let subject = format!("add-on {}", addon.name);
        match &addon.state {
            ExpectedAddonState::Unmanaged => findings.fact(subject, "unmanaged"),
            ExpectedAddonState::Unreadable { message } => {
                let help = format!(
                    "record its image anew, or list {} under tanzu.unmanaged in stepgate.yaml; its other add-ons go on",
                    addon.name
                );
                findings.failing(Reason::on(subject, format!("error: {message}")).help(help));
            }
            ExpectedAddonState::Applied { kustomization: None } => {
                findings.fact(subject, format!("applied at {}", addon.version));
            }
            ExpectedAddonState::Applied { kustomization: Some(place) } => {
                check_kustomization(addon, place, binding, observation, findings);
            }
        }
    }
}

fn check_kustomization(
    addon: &ExpectedAddon,
    (namespace, name): &(String, String),
    binding: Option<&Binding>,
    observation: &Observation,
    findings: &mut Findings,
) {
    if !findings.was_read("Kustomization", observation) {
        return;
    }
    let subject = format!("add-on {}", addon.name);
    let help = format!("flux get kustomization {name} -n {namespace}");
    let mut known = observation.flux.kustomizations.iter();
    let found = known.find(|known| known.namespace == *namespace && known.name == *name);
    let Some(found) = found else {
        findings.wait(Reason::on(subject, "pending: Flux has not heard of it yet").help(help));
        return;
    };
    let is_applied = binding.is_none_or(|binding| flux::has_applied(found, binding));
    match &found.ready {
        Some(ready) if ready.status == ConditionStatus::True && is_applied => {
            findings.fact(subject, format!("applied at {}", addon.version));
        }
        Some(ready) if ready.status == ConditionStatus::False => {
            findings.wait(Reason::on(subject, format!("error: {}", describe(ready))).help(help));
        }
        Some(_) | None => findings.wait(Reason::on(subject, "pending: Flux is at it").help(help)),
    }
}

/// Pods of a DaemonSet by node: nodes of before keep theirs until they go, and what runs on nodes of the release is ready.
pub(in crate::gate) fn check_pods(
    (namespace, name): (&str, &str),
    release: &str,
    observation: &Observation,
    findings: &mut Findings,
) {
    if !findings.was_read("DaemonSet", observation) || !findings.was_read("Node", observation) {
        return;
    }
    let subject = object("DaemonSet", namespace, name);
    let help = format!("kubectl get pods -n {namespace} -o wide");
    let mut known = observation.daemon_sets.iter();
    let Some(found) = known.find(|known| known.namespace == namespace && known.name == name) else {
        findings.wait(Reason::on(subject, "not found").help(help));
        return;
    };
    findings.observed(&subject, found.generation, found.observed_generation, &help);
    let desired = found.desired_scheduled.unwrap_or_default();
    findings.count(&subject, "status.currentNumberScheduled", found.current_scheduled, desired, &help);
    let (mut new, mut old) = (0_u32, 0_u32);
    let is_of_release =
        |name: &str| observation.nodes.iter().any(|node| node.name == name && node.release.as_deref() == Some(release));
    for pod in &found.pods {
        // A node keeps the pod that it was made with: which template that has tells whether it is a new one.
        if pod.template != found.template {
            old = old.saturating_add(1);
            continue;
        }
        new = new.saturating_add(1);
        if !pod.ready && is_of_release(&pod.node) {
            let message = format!("pod {} on node {}: not ready", pod.pod, pod.node);
            findings.wait(Reason::on(&subject, message).help(&help));
        }
    }
    findings.settle(format!("{subject} template {}", found.template.as_deref().unwrap_or_default()));
    findings.fact(subject, format!("{new} pods of its template, {old} of earlier ones"));
}
