//! One node: from nothing begun to proven, or back.

use jiff::Timestamp;

use super::steps::{self, Course};
use super::{
    Action, HealthCheck, Pause, Pod, PodPurpose, World, busy, busy_with, first_pending, inputs, owner, precheck, proof,
};
use crate::objects::{NamedObject, NodePhase, NodeUpgrade, NodeUpgradeStatus, Standing, StepState, conditions};

pub(super) fn decide(world: &World, upgrade: &NodeUpgrade, now: Timestamp) -> Vec<Action> {
    if upgrade.deleting {
        return Vec::new();
    }
    let object = NamedObject { name: upgrade.name.clone(), uid: upgrade.uid.clone() };
    if world.machine(&upgrade.spec.machine).is_none_or(|machine| machine.deleting) {
        return vec![Action::DeleteNode { upgrade: object }];
    }
    if upgrade.status.phase == NodePhase::Pending && !owner::is_wanted(world, upgrade) {
        return vec![Action::DeleteNode { upgrade: object }];
    }
    let mut next = Next { status: upgrade.status.clone(), before: Vec::new(), after: Vec::new() };
    match upgrade.status.phase {
        NodePhase::Pending => pending(world, upgrade, &object, &mut next, now),
        NodePhase::Running => running(world, upgrade, &object, &mut next, now),
        NodePhase::Proving => proving(world, upgrade, &mut next, now),
        NodePhase::RollingBack => rolling_back(world, upgrade, &object, &mut next, now),
        NodePhase::Completed => {
            if world.pods.get(&upgrade.name).is_some_and(|pod| !pod.deleting) {
                next.after.push(Action::DeletePod { upgrade: object.clone() });
            }
        }
        NodePhase::RolledBack | NodePhase::Failed => failed(world, upgrade, &object, &mut next),
    }
    next.finish(upgrade, object, now)
}

/// Where the node stands next, and what is done for it.
struct Next {
    status: NodeUpgradeStatus,
    /// Done before the status is written.
    before: Vec<Action>,
    /// Done once the status is written: what begins is on record first.
    after: Vec<Action>,
}

impl Next {
    fn go(&mut self, phase: NodePhase, message: impl Into<String>) {
        self.status.phase = phase;
        self.status.message = message.into();
    }

    fn finish(mut self, upgrade: &NodeUpgrade, object: NamedObject, now: Timestamp) -> Vec<Action> {
        let status = &mut self.status;
        if status.phase != upgrade.status.phase || status.phase_since.is_none() {
            status.phase_since = Some(now);
        }
        if status.phase != NodePhase::Proving {
            status.healthy_since = None;
        }
        status.completed = status.phase == NodePhase::Completed;
        let is_over = status.completed || status.phase.has_failed();
        status.finished = if is_over { status.finished.or(Some(now)) } else { None };
        let current = status.steps.iter().find(|step| step.state != StepState::Succeeded);
        status.step = current.filter(|_| status.phase == NodePhase::Running).map(|step| step.name.clone());
        status.observed_generation = upgrade.generation;
        let standing = match status.phase {
            NodePhase::Completed => Standing::Ready,
            NodePhase::RolledBack | NodePhase::Failed => Standing::Stalled,
            _ => Standing::Reconciling,
        };
        let (reason, generation) = (status.phase.as_str(), upgrade.generation);
        status.conditions = conditions(&status.conditions, standing, reason, &status.message, generation, now);
        let mut actions = self.before;
        if self.status != upgrade.status {
            actions.push(Action::WriteNode { upgrade: object, status: Box::new(self.status) });
        }
        actions.extend(self.after);
        actions
    }
}

/// The Pod of this very upgrade, and of this purpose.
fn pod<'a>(world: &'a World, upgrade: &NodeUpgrade, purpose: PodPurpose) -> Option<&'a Pod> {
    let is_it = |pod: &&Pod| pod.upgrade_uid == upgrade.uid && pod.purpose == purpose && !pod.deleting;
    world.pods.get(&upgrade.name).filter(is_it)
}

/// Has the Pod made; one that is in its place goes first.
fn ensure_pod(world: &World, upgrade: &NodeUpgrade, object: &NamedObject, purpose: PodPurpose, next: &mut Next) {
    let upgrade_object = object.clone();
    match world.pods.get(&upgrade.name) {
        Some(pod) if pod.deleting => {}
        Some(_) => next.after.push(Action::DeletePod { upgrade: upgrade_object }),
        None => {
            let anew = upgrade.status.retried.is_some();
            next.after.push(Action::EnsurePod { upgrade: upgrade_object, purpose, anew });
        }
    }
}

fn pending(world: &World, upgrade: &NodeUpgrade, object: &NamedObject, next: &mut Next, now: Timestamp) {
    let spec = &upgrade.spec;
    let Some(machine) = world.machine(&spec.machine) else { return };
    // Of what cannot be read nothing is known.
    let why_not = || inputs::why_not(world, machine, &spec.kubernetes_version);
    if let Some(why) = world.unreachable.is_none().then(why_not).flatten() {
        next.status.message = why;
        return;
    }
    if machine.files != spec.files {
        next.status.message = String::from("other files are wanted than when this was made: it is made anew");
        return;
    }
    if let Some(busy) = busy(world, Some(&spec.machine)) {
        next.status.message = busy_with(busy);
        return;
    }
    if let Some(first) = first_pending(world).filter(|first| first.name != upgrade.name) {
        next.status.message = format!("node {} goes first", first.spec.node);
        return;
    }
    if let Some(why) = precheck::why_not_now(world, machine, &spec.kubernetes_version) {
        next.status.message = why;
        return;
    }
    // What runs there of an upgrade that was deleted may not run beside this one.
    if let Some(pod) = world.pods.get(&upgrade.name) {
        next.status.message = String::from("the Pod of an upgrade before it has to go");
        if !pod.deleting {
            next.before.push(Action::DeletePod { upgrade: object.clone() });
        }
        return;
    }
    let looks = |check: &&HealthCheck| check.pause == Pause::None && check.machines.contains(&spec.machine.name);
    if let Some(check) = world.health_checks.iter().find(looks) {
        next.status.message = format!("MachineHealthCheck {} has to be paused", check.name);
        return;
    }
    next.status.kubelet_version_before = machine.node.as_ref().map(|node| node.kubelet_version.clone());
    next.status.started = Some(now);
    next.go(NodePhase::Running, format!("node {} goes to {}", spec.node, spec.kubernetes_version));
    ensure_pod(world, upgrade, object, PodPurpose::Upgrade, next);
}

fn running(world: &World, upgrade: &NodeUpgrade, object: &NamedObject, next: &mut Next, now: Timestamp) {
    let node = &upgrade.spec.node;
    if let Some(reason) = &world.unreachable {
        next.status.message = format!("the API server of cluster {} does not answer: {reason}", world.cluster);
        if is_late(upgrade, world, now) {
            next.go(NodePhase::Failed, format!("node {node}: {}", next.status.message.clone()));
        }
        return;
    }
    let Some(pod) = pod(world, upgrade, PodPurpose::Upgrade) else {
        ensure_pod(world, upgrade, object, PodPurpose::Upgrade, next);
        return;
    };
    next.status.steps = steps::read(pod, &upgrade.status.steps);
    match steps::course(pod, &next.status.steps, world, now) {
        Course::Underway => {
            let nothing_began = next.status.steps.iter().all(|step| step.started.is_none());
            if nothing_began && is_late(upgrade, world, now) {
                let told = next.status.steps.first().map(|step| step.message.clone()).unwrap_or_default();
                let help = format!("kubectl get pods -n kube-system --field-selector spec.nodeName={node} -o yaml");
                next.go(NodePhase::Failed, format!("nothing was begun: no step has started ({told}): {help}"));
                next.after.push(Action::DeletePod { upgrade: object.clone() });
                return;
            }
            let current = next.status.steps.iter().find(|step| step.state != StepState::Succeeded);
            if let Some(step) = current {
                let attempt = step.attempts.saturating_add(1);
                let told = if step.message.is_empty() { String::new() } else { format!(": {}", step.message) };
                next.status.message = format!("step {} (attempt {attempt} of 3){told}", step.name);
            }
        }
        Course::Done => next.go(NodePhase::Proving, format!("node {node} has to be proven")),
        Course::Failed { step, begun: false, message } => {
            next.go(NodePhase::Failed, format!("nothing was begun: step {step} failed: {message}"));
        }
        Course::Failed { step, begun: true, message } => {
            next.go(NodePhase::RollingBack, format!("step {step} failed: {message}"));
        }
    }
}

/// Whether nothing has begun there for longer than a step may take.
fn is_late(upgrade: &NodeUpgrade, world: &World, now: Timestamp) -> bool {
    let steps = upgrade.status.steps.iter().filter_map(|step| step.started);
    let newest = steps.chain(upgrade.status.phase_since).max();
    newest.is_some_and(|since| now.duration_since(since) > world.settings.step)
}

fn proving(world: &World, upgrade: &NodeUpgrade, next: &mut Next, now: Timestamp) {
    let node = &upgrade.spec.node;
    match proof::missing(world, upgrade) {
        None => {
            let since = *next.status.healthy_since.get_or_insert(now);
            next.status.message = format!("node {node} is healthy and has to stay so");
            if now.duration_since(since) >= world.settings.soak {
                next.go(NodePhase::Completed, format!("node {node} is proven at {}", upgrade.spec.kubernetes_version));
            }
        }
        Some(why) => {
            next.status.healthy_since = None;
            let since = upgrade.status.phase_since.unwrap_or(now);
            let is_late = now.duration_since(since) > world.settings.proof;
            if is_late {
                next.go(NodePhase::Failed, format!("node {node} is upgraded and not proven: {why}"));
            } else {
                next.status.message = why;
            }
        }
    }
}

fn rolling_back(world: &World, upgrade: &NodeUpgrade, object: &NamedObject, next: &mut Next, now: Timestamp) {
    if world.unreachable.is_some() {
        return;
    }
    let Some(pod) = pod(world, upgrade, PodPurpose::Rollback) else {
        if is_late(upgrade, world, now) {
            let node = &upgrade.spec.node;
            let why = upgrade.status.message.clone();
            let told = format!("{why}; node {node} is not undone: its Pod does not start: look at kubelet there");
            next.go(NodePhase::Failed, told);
            return;
        }
        ensure_pod(world, upgrade, object, PodPurpose::Rollback, next);
        return;
    };
    let back = steps::read(pod, &[]);
    let before = first_message(&upgrade.status.message);
    match steps::course(pod, &back, world, now) {
        Course::Underway => {}
        Course::Done => next.go(NodePhase::RolledBack, format!("{before}; the node is as it was before")),
        Course::Failed { message, .. } => {
            next.go(NodePhase::Failed, format!("{before}; the node is not undone and stays cordoned: {message}"));
        }
    }
}

/// Why it is being undone.
fn first_message(message: &str) -> &str {
    message.split("; the node is").next().unwrap_or(message)
}

fn failed(world: &World, upgrade: &NodeUpgrade, object: &NamedObject, next: &mut Next) {
    // kubelet would have its steps go on, beside another node.
    if let Some(pod) = world.pods.get(&upgrade.name) {
        if !pod.deleting {
            next.before.push(Action::DeletePod { upgrade: object.clone() });
        }
        return;
    }
    let Some(retry) = upgrade.retry.as_ref().filter(|retry| upgrade.status.retried.as_ref() != Some(retry)) else {
        return;
    };
    next.status = NodeUpgradeStatus {
        retried: Some(retry.clone()),
        conditions: upgrade.status.conditions.clone(),
        ..Default::default()
    };
    next.status.message = String::from("it is tried again");
}
