//! Deployments and `DaemonSets` run what was rendered.

use std::collections::BTreeSet;

use crate::observation::{ConditionStatus, DaemonSet, Deployment, Observation, RunningImage};
use crate::verdict::Reason;

use super::findings::{Findings, describe, object};

pub(super) fn check_deployment(
    namespace: &str,
    name: &str,
    images: &[String],
    observation: &Observation,
    findings: &mut Findings,
) {
    if !findings.was_read("Deployment", observation) {
        return;
    }
    let subject = object("Deployment", namespace, name);
    let help = format!("kubectl describe deployment {name} -n {namespace}");
    let found = observation.deployments.iter().find(|known| known.namespace == namespace && known.name == name);
    let Some(deployment) = found else {
        findings.wait(Reason::on(subject, "not found").help(help));
        return;
    };
    if deployment.deleting {
        findings.fail(Reason::on(&subject, "is being deleted").field("metadata.deletionTimestamp").help(&help));
    }
    if deployment.paused {
        let help = format!("kubectl rollout resume deployment {name} -n {namespace}");
        findings.wait(Reason::on(&subject, "its rollout is paused").field("spec.paused").help(help));
    }
    findings.observed(&subject, deployment.generation, deployment.observed_generation, &help);
    check_deployment_status(&subject, deployment, &help, findings);
    check_images(&subject, images, &deployment.images, &help, findings);
    check_running(&subject, images, &deployment.running, deployment.spec_replicas, &help, findings);
    findings.settle(format!("{subject} generation {}", deployment.generation));
    findings.fact(subject, format!("{0} of {0} replicas updated and available", deployment.spec_replicas));
}

fn check_deployment_status(subject: &str, deployment: &Deployment, help: &str, findings: &mut Findings) {
    let progressing = deployment.conditions.get("Progressing");
    if let Some(progressing) = progressing.filter(|known| known.reason == "ProgressDeadlineExceeded") {
        findings.fail(Reason::on(subject, describe(progressing)).field("status.conditions[Progressing]").help(help));
    }
    if deployment.spec_replicas == 0 {
        findings.wait(Reason::on(subject, "scaled to zero").field("spec.replicas").help(help));
    }
    for (field, seen) in [
        ("status.updatedReplicas", deployment.updated_replicas),
        ("status.replicas", deployment.replicas),
        ("status.readyReplicas", deployment.ready_replicas),
        ("status.availableReplicas", deployment.available_replicas),
    ] {
        findings.count(subject, field, seen, deployment.spec_replicas, help);
    }
    findings.condition(subject, &deployment.conditions, "Available", ConditionStatus::True, None, help);
    findings.condition_if_reported(subject, &deployment.conditions, "ReplicaFailure", ConditionStatus::False, help);
}

pub(super) fn check_daemon_set(
    namespace: &str,
    name: &str,
    images: &[String],
    observation: &Observation,
    findings: &mut Findings,
) {
    if !findings.was_read("DaemonSet", observation) || !findings.was_read("Node", observation) {
        return;
    }
    let subject = object("DaemonSet", namespace, name);
    let help = format!("kubectl describe daemonset {name} -n {namespace}");
    let found = observation.daemon_sets.iter().find(|known| known.namespace == namespace && known.name == name);
    let Some(daemon_set) = found else {
        findings.wait(Reason::on(subject, "not found").help(help));
        return;
    };
    if daemon_set.deleting {
        findings.fail(Reason::on(&subject, "is being deleted").field("metadata.deletionTimestamp").help(&help));
    }
    findings.observed(&subject, daemon_set.generation, daemon_set.observed_generation, &help);
    let desired = check_daemon_set_status(&subject, daemon_set, !observation.nodes.is_empty(), &help, findings);
    check_images(&subject, images, &daemon_set.images, &help, findings);
    check_running(&subject, images, &daemon_set.running, desired, &help, findings);
    findings.settle(format!("{subject} generation {} desired {desired}", daemon_set.generation));
    findings.fact(subject, format!("{desired} of {desired} pods updated and available"));
}

fn check_daemon_set_status(
    subject: &str,
    daemon_set: &DaemonSet,
    has_nodes: bool,
    help: &str,
    findings: &mut Findings,
) -> u32 {
    let field = "status.desiredNumberScheduled";
    let desired = match daemon_set.desired_scheduled {
        None => {
            findings.wait(Reason::on(subject, "not set").field(field).help(help));
            0
        }
        // Zero of zero is no proof where there are nodes: the controller has not counted them yet, or no node fits.
        Some(0) if has_nodes => {
            findings.wait(Reason::on(subject, "0, although the cluster has nodes").field(field).help(help));
            0
        }
        Some(desired) => desired,
    };
    for (field, seen) in [
        ("status.updatedNumberScheduled", daemon_set.updated_scheduled),
        ("status.currentNumberScheduled", daemon_set.current_scheduled),
        ("status.numberReady", daemon_set.ready),
        ("status.numberAvailable", daemon_set.available),
    ] {
        // The API leaves these out while they are zero.
        findings.count(subject, field, seen.or((desired == 0).then_some(0)), desired, help);
    }
    desired
}

/// The template holds exactly the rendered images.
fn check_images(subject: &str, expected: &[String], template: &[String], help: &str, findings: &mut Findings) {
    if expected.is_empty() {
        return;
    }
    let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    let template: BTreeSet<&str> = template.iter().map(String::as_str).collect();
    let field = "spec.template.spec.containers[].image";
    for missing in expected.difference(&template) {
        findings.wait(Reason::on(subject, format!("{missing} is expected and not there")).field(field).help(help));
    }
    for foreign in template.difference(&expected) {
        findings.wait(Reason::on(subject, format!("{foreign} is there and not expected")).field(field).help(help));
    }
}

/// Every container that runs has the digest that was rendered, and enough pods run.
pub(super) fn check_running(
    subject: &str,
    expected: &[String],
    running: &[RunningImage],
    pods: u32,
    help: &str,
    findings: &mut Findings,
) {
    let digests: BTreeSet<&str> = expected.iter().filter_map(|image| digest(image)).collect();
    let by_reference: BTreeSet<&str> =
        expected.iter().filter(|image| digest(image).is_none()).map(|image| reference(image)).collect();
    let mut names = BTreeSet::new();
    // What does not run is the cause; pods that go on with what was there before only follow from it.
    let (troubled, others): (Vec<&RunningImage>, Vec<&RunningImage>) =
        running.iter().partition(|container| !container.deleting && !container.ready);
    for container in troubled.into_iter().chain(others) {
        let pod = format!("pod {}, container {}", container.pod, container.container);
        if container.deleting {
            findings.wait(Reason::on(subject, format!("{pod}: an earlier pod is still being deleted")).help(help));
            continue;
        }
        names.insert(container.pod.as_str());
        if let Some(waiting) = &container.waiting {
            let reason = Reason::on(subject, format!("{pod}: {waiting}"));
            findings.failing(reason.field("status.containerStatuses[].state.waiting").help(help));
        } else if !container.ready {
            findings.wait(
                Reason::on(subject, format!("{pod}: not ready")).field("status.containerStatuses[].ready").help(help),
            );
        }
        if expected.is_empty() || by_reference.contains(reference(&container.image)) {
            continue;
        }
        let field = "status.containerStatuses[].imageID";
        match container.digest.as_deref() {
            Some(digest) if digests.contains(digest) => {}
            Some(digest) => {
                findings.wait(
                    Reason::on(subject, format!("{pod}: runs {digest}, which was not rendered"))
                        .field(field)
                        .help(help),
                );
            }
            None => findings.wait(Reason::on(subject, format!("{pod}: reports no digest")).field(field).help(help)),
        }
    }
    let seen = u32::try_from(names.len()).unwrap_or(u32::MAX);
    if seen < pods {
        findings.wait(Reason::on(subject, format!("{seen} of {pods} pods report what they run")).help(help));
    }
    findings.settle(names.into_iter().collect::<Vec<_>>().join(","));
}

/// The digest of `repository:tag@sha256:…`; none where the reference has none.
fn digest(image: &str) -> Option<&str> {
    image.split_once('@').map(|(_, digest)| digest)
}

/// A reference as container runtimes report it: without the registry that is implied.
fn reference(image: &str) -> &str {
    let image = image.strip_prefix("docker.io/").unwrap_or(image);
    image.strip_prefix("library/").unwrap_or(image)
}
