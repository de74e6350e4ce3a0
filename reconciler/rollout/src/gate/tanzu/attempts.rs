//! Machines that do not come up: each has its time, and is made anew until the attempts are used up.
//!
//! Cluster API tries for ever. How often a stage has tried stands on the Cluster, so whoever decides after a crash counts
//! on; what is decided here is which machines an attempt gives up. Machines that are up stay, so that a new attempt goes on
//! where the last one stopped. People who have repaired what kept a machine grant as many attempts again.

use jiff::{SignedDuration, Timestamp};

use crate::effect::{ClusterAct, MachineOwner};
use crate::expectation::{AttemptedPart, AttemptsExpectation, Expectation};
use crate::gate::findings::{Findings, object};
use crate::gate::machines::order::is_outdated;
use crate::observation::{Attempts, FailedAttempt, Machine, MachineId, Observation};
use crate::plan::Plan;
use crate::stage::StageId;
use crate::verdict::Reason;
use domain::RolloutId;

/// How often it is tried before people are asked.
pub(crate) const TRIES: usize = 4;

/// Which stage tries, and since when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trying<'a> {
    /// Name of the cluster in the fleet.
    pub(crate) cluster: &'a str,
    /// What is expected.
    pub(crate) expectation: &'a AttemptsExpectation,
    /// The rollout.
    pub(crate) rollout: &'a RolloutId,
    /// The stage.
    pub(crate) stage: &'a StageId,
    /// When its commit landed: what took its time before does not count.
    pub(crate) since: Option<Timestamp>,
}

pub(in crate::gate) fn check(trying: Trying<'_>, observation: &Observation, findings: &mut Findings) {
    if !["Machine", "Cluster"].iter().all(|kind| findings.was_read(kind, observation)) {
        return;
    }
    let AttemptsExpectation { namespace, cluster, .. } = trying.expectation;
    let subject = object("Cluster", namespace, cluster);
    let failed = trying.failed(observation);
    let tries = trying.tries(failed);
    let missing = trying.without_node(observation);
    let Some(oldest) = missing.iter().min_by_key(|machine| trying.ends(machine)) else {
        if !failed.is_empty() {
            findings.fact(subject, format!("its machines came up in attempt {} of {tries}", attempt(failed, tries)));
        }
        return;
    };
    let help = format!("kubectl describe machine {} -n {namespace}", oldest.name);
    let subject = object("Machine", namespace, &oldest.name);
    let overdue = trying.overdue(&missing, observation.read_at);
    if failed.len() >= tries {
        if let Some(machine) = overdue.first() {
            let message = format!("updateFailed: no machine came up in {tries} attempts of {}", trying.limit());
            let help = format!(
                "find out what keeps it (`kubectl describe machine {} -n {namespace}`) and repair that, then `stepgate retry {} --yes`: \
                 this machine alone is made anew, {TRIES} times at most",
                machine.name, trying.cluster
            );
            findings.fail(Reason::on(object("Machine", namespace, &machine.name), message).help(help));
        } else {
            let message = format!("has no node yet, after {tries} attempts that failed");
            findings.underway(Reason::on(subject, message).field("status.nodeRef").help(help));
        }
        return;
    }
    let message = format!("has no node yet: attempt {} of {tries}, {} each", attempt(failed, tries), trying.limit());
    findings.underway(Reason::on(subject, message).field("status.nodeRef").help(help));
    // Until the attempt is over the stage is not.
    if let Some(end) = trying.ends(oldest).filter(|end| *end > observation.read_at) {
        findings.until(end);
    }
}

/// The number of the attempt that runs.
fn attempt(failed: &[FailedAttempt], tries: usize) -> usize {
    failed.len().saturating_add(1).min(tries)
}

/// What is to be done about machines whose time is over; none where nothing is. Done twice, it is as if done once.
pub(crate) fn act(trying: Trying<'_>, observation: &Observation) -> Option<ClusterAct> {
    if ["Machine", "Cluster"].iter().any(|kind| observation.unread.contains_key(*kind)) {
        return None;
    }
    let AttemptsExpectation { namespace, cluster, .. } = trying.expectation;
    let topology = observation.clusters.iter().find(|known| known.namespace == *namespace && known.name == *cluster)?;
    if topology.paused || topology.deleting {
        return None;
    }
    let mut failed = trying.failed(observation).to_vec();
    let is_known = |machine: &MachineId| failed.iter().any(|attempt| attempt.machines.contains(machine));
    let overdue = trying.overdue(&trying.without_node(observation), observation.read_at);
    let (known, new): (Vec<MachineId>, Vec<MachineId>) = overdue.iter().filter_map(|it| id(it)).partition(is_known);
    let tries = trying.tries(&failed);
    let is_used_up = failed.len() >= tries;
    let give_up = match (is_used_up, new.is_empty()) {
        (true, _) => return None,
        // The last one stays, for people to look at.
        (false, false) => {
            failed.push(FailedAttempt { at: observation.read_at, machines: new.clone() });
            if failed.len() < tries { new } else { Vec::new() }
        }
        // Whoever noted them down did not come to delete them, or was to leave the last one until people want another attempt.
        (false, true) if !known.is_empty() => known,
        (false, true) => return None,
    };
    let attempts = Attempts { rollout: trying.rollout.clone(), stage: trying.stage.clone(), failed };
    Some(ClusterAct::GiveUp { namespace: namespace.clone(), cluster: cluster.clone(), attempts, machines: give_up })
}

/// What this stage has made or changed and that does not say so yet; none where all does.
pub(crate) fn unsigned(trying: Trying<'_>, observation: &Observation) -> Option<ClusterAct> {
    let AttemptsExpectation { namespace, cluster, part, .. } = trying.expectation;
    let rollout = trying.rollout.to_string();
    let is_new = |machine: &&Machine| {
        machine.namespace == *namespace
            && machine.cluster == *cluster
            && machine.rollout.as_ref() != Some(&rollout)
            && !machine.deleting
            && trying.since.zip(machine.created_at).is_some_and(|(since, created)| created >= since)
            && is_wanted(machine, part, observation)
    };
    let machines: Vec<MachineId> = observation.machines.iter().filter(is_new).filter_map(id).collect();
    let owners = unsigned_owners(trying, observation);
    let (namespace, rollout) = (namespace.clone(), trying.rollout.clone());
    let is_needed = !machines.is_empty() || !owners.is_empty();
    is_needed.then_some(ClusterAct::Sign { namespace, rollout, machines, owners })
}

fn unsigned_owners(trying: Trying<'_>, observation: &Observation) -> Vec<MachineOwner> {
    let AttemptsExpectation { namespace, cluster, part, .. } = trying.expectation;
    let rollout = trying.rollout.to_string();
    let is_unsigned = |signed: &Option<String>, deleting: bool| signed.as_ref() != Some(&rollout) && !deleting;
    match part {
        AttemptedPart::ControlPlane => observation
            .control_planes
            .iter()
            .filter(|known| known.namespace == *namespace && known.cluster == *cluster)
            .filter(|known| is_unsigned(&known.rollout, known.deleting))
            .map(|known| MachineOwner::KubeadmControlPlane(known.name.clone()))
            .collect(),
        AttemptedPart::Workers { group } => observation
            .machine_deployments
            .iter()
            .filter(|known| known.namespace == *namespace && known.cluster == *cluster)
            .filter(|known| known.group.as_ref() == Some(group) && is_unsigned(&known.rollout, known.deleting))
            .map(|known| MachineOwner::MachineDeployment(known.name.clone()))
            .collect(),
    }
}

fn id(machine: &Machine) -> Option<MachineId> {
    Some(MachineId { name: machine.name.clone(), uid: machine.uid.clone()? })
}

/// How many attempts have failed in vain: none of those that there are is left, and the last machine still has no node.
#[must_use]
pub fn used_up(plan: &Plan, stage: &StageId, observation: &Observation) -> Option<u32> {
    let mut expectations = plan.stage(stage)?.expectations.iter();
    let expectation = expectations.find_map(|expectation| match expectation {
        Expectation::Attempts(expectation) => Some(expectation),
        _ => None,
    })?;
    let kinds = ["Machine", "Cluster"];
    if kinds.iter().any(|kind| observation.unread.contains_key(*kind)) {
        return None;
    }
    let (cluster, rollout) = (plan.cluster.as_str(), &plan.rollout_id);
    let trying = Trying { cluster, expectation, rollout, stage, since: None };
    let failed = trying.failed(observation);
    let last = failed.last().filter(|_| failed.len() >= TRIES)?;
    let is_left = |machine: &&Machine| id(machine).is_some_and(|id| last.machines.contains(&id));
    trying.without_node(observation).iter().find(|machine| is_left(machine))?;
    u32::try_from(failed.len()).ok()
}

impl Trying<'_> {
    /// How many attempts there are, with those that people have granted.
    fn tries(&self, failed: &[FailedAttempt]) -> usize {
        let granted = self.expectation.retried_after.iter().filter_map(|after| usize::try_from(*after).ok());
        // Whoever names more than have failed means attempts that are still to come.
        let last = granted.filter(|after| *after <= failed.len()).max().unwrap_or_default();
        last.saturating_add(TRIES)
    }

    /// Attempts of this stage that have failed.
    fn failed<'o>(&self, observation: &'o Observation) -> &'o [FailedAttempt] {
        let AttemptsExpectation { namespace, cluster, .. } = self.expectation;
        let mut known = observation.clusters.iter();
        let found = known.find(|known| known.namespace == *namespace && known.name == *cluster);
        let attempts = found.and_then(|cluster| cluster.attempts.as_ref());
        let own = attempts.filter(|known| known.rollout == *self.rollout && known.stage == *self.stage);
        own.map(|attempts| attempts.failed.as_slice()).unwrap_or_default()
    }

    /// Machines as they are wanted that have not come up.
    fn without_node<'o>(&self, observation: &'o Observation) -> Vec<&'o Machine> {
        let AttemptsExpectation { namespace, cluster, part, .. } = self.expectation;
        let is_missing = |machine: &&Machine| {
            machine.namespace == *namespace
                && machine.cluster == *cluster
                && machine.node.is_none()
                && !machine.deleting
                && is_wanted(machine, part, observation)
        };
        observation.machines.iter().filter(is_missing).collect()
    }

    /// When the time of a machine is over; none where nobody tells since when it is there.
    fn ends(&self, machine: &Machine) -> Option<Timestamp> {
        let created = machine.created_at?;
        let begun = self.since.map_or(created, |since| since.max(created));
        begun.checked_add(SignedDuration::try_from(self.expectation.limit).ok()?).ok()
    }

    fn overdue<'o>(&self, machines: &[&'o Machine], now: Timestamp) -> Vec<&'o Machine> {
        machines.iter().copied().filter(|machine| self.ends(machine).is_some_and(|end| end <= now)).collect()
    }

    fn limit(&self) -> String {
        let seconds = self.expectation.limit.as_secs();
        if seconds.is_multiple_of(60) { format!("{} min", seconds / 60) } else { format!("{seconds} s") }
    }
}

/// Whether a machine is made as its owner makes them now.
fn is_wanted(machine: &Machine, part: &AttemptedPart, observation: &Observation) -> bool {
    match part {
        AttemptedPart::ControlPlane => {
            let is_owner = |name: &str| machine.owner.as_deref() == Some(name);
            let mut known = observation.control_planes.iter();
            let owner = known.find(|known| known.namespace == machine.namespace && is_owner(&known.name));
            machine.control_plane && owner.is_some_and(|owner| !is_outdated(machine, owner))
        }
        AttemptedPart::Workers { group } => {
            let is_owner = |name: &str| machine.owner.as_deref() == Some(name);
            let mut known = observation.machine_deployments.iter();
            let owner = known.find(|known| known.namespace == machine.namespace && is_owner(&known.name));
            let is_same = |owner: &&crate::observation::MachineDeployment| {
                owner.group.as_ref() == Some(group)
                    && owner.spec_version == machine.spec_version
                    && owner.infrastructure_template == machine.infrastructure_template
            };
            !machine.control_plane && owner.as_ref().is_some_and(is_same)
        }
    }
}

#[cfg(test)]
#[path = "attempts_tests.rs"]
mod tests;
