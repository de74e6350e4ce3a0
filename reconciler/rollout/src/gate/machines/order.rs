//! Which machine of a control plane goes when, while its stage runs: the one that holds the virtual address last, and
//! none before the machines that took the place of others are proven.
//!
//! Cluster API's controller does the work. It deletes machines first that are marked, and waits for a machine that it
//! may not drain. All that is decided here is which Machines carry which mark, from one reading: whoever decides again
//! after a crash finds the marks on the objects.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::expectation::ControlPlaneExpectation;
use crate::gate::findings::{Findings, object};
use crate::gate::machines::control_plane;
use crate::observation::{
    BRAKE, ConditionStatus, ControlPlane, ControlPlaneKind, DELETE_FIRST, Machine, MachineMark, Marked, Observation,
};
use crate::verdict::Reason;

/// What a mark does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// The machine goes before those without it.
    DeleteFirst,
    /// The machine is not drained while it is there.
    Brake,
}

impl MarkKind {
    /// The annotation.
    #[must_use]
    pub fn annotation(self) -> &'static str {
        match self {
            Self::DeleteFirst => DELETE_FIRST,
            Self::Brake => BRAKE,
        }
    }
}

/// A mark to be set on a Machine or taken away from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MarkChange {
    /// Namespace of the Machine.
    pub namespace: String,
    /// Its name.
    pub machine: String,
    /// Which mark.
    pub kind: MarkKind,
    /// What it says from now on; none takes ours away.
    pub mark: Option<MachineMark>,
}

/// What is to be changed, and what people should know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineOrder {
    /// Marks to be set and taken away, by machine.
    pub changes: Vec<MarkChange>,
    /// Why no machine is marked although one could be, and what brakes wait for.
    pub notes: Vec<Reason>,
}

/// A stage of a control plane that runs: what is expected, and what its marks say.
#[derive(Debug, Clone, Copy)]
pub struct RunningOrder<'a> {
    /// The control plane.
    pub expectation: &'a ControlPlaneExpectation,
    /// The rollout.
    pub rollout: &'a domain::RolloutId,
    /// When the stage has taken too long: from then on nothing of ours holds anything up.
    pub until: Timestamp,
}

/// The marks that Machines are to carry at this time, as changes of those that they carry in this reading. Without a running stage none is to.
#[must_use]
pub fn machine_order(
    cluster: &str,
    running: Option<RunningOrder<'_>>,
    observation: &Observation,
    now: Timestamp,
) -> MachineOrder {
    let running = running.filter(|running| now < running.until);
    let mut order = MachineOrder::default();
    let known = running.and_then(|running| Some((running, kubeadm(running.expectation, observation)?)));
    let rolling = known.map(|(running, control_plane)| Rolling::of(running, control_plane, observation, now));
    if let Some(rolling) = &rolling {
        order.notes.extend(rolling.unknown_holder.clone());
    }
    let own = observation.machines.iter().filter(|machine| machine.control_plane && machine.cluster == cluster);
    for machine in own {
        for kind in [MarkKind::DeleteFirst, MarkKind::Brake] {
            let wanted =
                rolling.as_ref().and_then(|rolling| rolling.wanted(machine, kind, observation, &mut order.notes));
            order.change(machine, kind, wanted);
        }
    }
    order
}

impl MachineOrder {
    fn change(&mut self, machine: &Machine, kind: MarkKind, wanted: Option<Wanted>) {
        let present = match kind {
            MarkKind::DeleteFirst => machine.delete_first.as_ref(),
            MarkKind::Brake => machine.brake.as_ref(),
        };
        let set = match (wanted, present) {
            // Others' marks are theirs.
            (_, Some(Marked::Others)) | (None, None) | (Some(Wanted::AsItIs), _) => return,
            (None, Some(Marked::Us { .. })) => None,
            (Some(Wanted::Mark(mark)), Some(Marked::Us { mark: known })) if known.is_same(&mark) => return,
            (Some(Wanted::Mark(mark)), _) => Some(mark),
        };
        let (namespace, machine) = (machine.namespace.clone(), machine.name.clone());
        self.changes.push(MarkChange { namespace, machine, kind, mark: set });
    }
}

enum Wanted {
    Mark(MachineMark),
    /// Whatever stands there.
    AsItIs,
}

/// A control plane whose machines are being replaced.
struct Rolling<'a> {
    running: RunningOrder<'a>,
    now: Timestamp,
    machines: Vec<&'a Machine>,
    outdated: Vec<&'a str>,
    /// The machine whose node holds the address; none where that is not known, or nothing says it.
    holder: Option<&'a str>,
    unknown_holder: Option<Reason>,
    /// What the machines that are new are not proven by yet.
    unproven: Option<Reason>,
}

impl<'a> Rolling<'a> {
    fn of(
        running: RunningOrder<'a>,
        control_plane: &ControlPlane,
        observation: &'a Observation,
        now: Timestamp,
    ) -> Self {
        let expectation = running.expectation;
        let machines: Vec<&Machine> = control_plane::machines_of(expectation, observation)
            .into_iter()
            .filter(|machine| machine.owner.as_deref() == Some(control_plane.name.as_str()))
            .collect();
        let (outdated, new): (Vec<&Machine>, Vec<&Machine>) =
            machines.iter().partition(|machine| is_outdated(machine, control_plane));
        let staying = outdated.iter().filter(|machine| !machine.deleting).count();
        let holder = expectation.lease().map(|lease| holder(lease, &machines, observation));
        let (holder, unknown_holder) = match holder {
            None => (None, None),
            Some(Ok(machine)) => (Some(machine.name.as_str()), None),
            // With one machine left there is no order any more.
            Some(Err(reason)) => (None, Some(reason).filter(|_| staying > 1)),
        };
        let mut findings = Findings::default();
        for machine in new.iter().filter(|machine| !machine.deleting) {
            control_plane::check_new_machine(expectation, machine, observation, &mut findings);
        }
        let outdated = outdated.iter().map(|machine| machine.name.as_str()).collect();
        Self { running, now, machines, outdated, holder, unknown_holder, unproven: findings.first_wait() }
    }

    fn wanted(
        &self,
        machine: &Machine,
        kind: MarkKind,
        observation: &Observation,
        notes: &mut Vec<Reason>,
    ) -> Option<Wanted> {
        let is_own = self.machines.iter().any(|own| own.name == machine.name && own.namespace == machine.namespace);
        if !is_own || !self.outdated.contains(&machine.name.as_str()) {
            return None;
        }
        match kind {
            MarkKind::DeleteFirst if machine.deleting => Some(Wanted::AsItIs),
            MarkKind::DeleteFirst => {
                let holder = self.holder?;
                let reason = format!("goes before {holder}, whose node holds the virtual address");
                (machine.name != holder).then(|| Wanted::Mark(self.mark(reason)))
            }
            MarkKind::Brake => self.brake(machine, observation, notes),
        }
    }

    /// A machine that is not deleted yet is kept; one that is, until those that are new are proven.
    fn brake(&self, machine: &Machine, observation: &Observation, notes: &mut Vec<Reason>) -> Option<Wanted> {
        if !self.running.expectation.order.brakes {
            return None;
        }
        let reason = "is not drained before the newest machine is proven".to_owned();
        if !machine.deleting {
            return Some(Wanted::Mark(self.mark(reason)));
        }
        let subject = object("Machine", &machine.namespace, &machine.name);
        let unread = ["Pod", "Node"].into_iter().find_map(|kind| observation.unread.get(kind));
        let unproven = self.unproven.clone().or_else(|| unread.map(|reason| Reason::new(reason.clone())))?;
        machine.brake.as_ref()?;
        let line =
            format!("kubectl annotate machines.cluster.x-k8s.io {} -n {} {BRAKE}-", machine.name, machine.namespace);
        let message = format!("is kept by {BRAKE} until the newest machine is proven: {unproven}");
        notes.push(Reason::on(subject, message).help(line));
        Some(Wanted::AsItIs)
    }

    fn mark(&self, reason: String) -> MachineMark {
        let RunningOrder { rollout, until, .. } = self.running;
        MachineMark { owner: MachineMark::OWNER.to_owned(), rollout: rollout.clone(), reason, since: self.now, until }
    }
}

/// The control plane that is expected, where Cluster API's own controller replaces its machines, and this reading tells all that matters.
fn kubeadm<'a>(expectation: &ControlPlaneExpectation, observation: &'a Observation) -> Option<&'a ControlPlane> {
    let kinds = ["KubeadmControlPlane", "Machine", "Cluster"];
    if kinds.iter().any(|kind| observation.unread.contains_key(*kind)) {
        return None;
    }
    observation.control_planes.iter().find(|known| {
        known.kind == ControlPlaneKind::Kubeadm
            && known.namespace == expectation.namespace
            && known.cluster == expectation.cluster
            && control_plane::is_referred_to(known, observation)
    })
}

/// Whether a machine is to be replaced: as its owner says, or as it differs from it.
pub(crate) fn is_outdated(machine: &Machine, control_plane: &ControlPlane) -> bool {
    let is_told = machine.conditions.get("UpToDate").is_some_and(|told| told.status == ConditionStatus::False);
    let is_of_another_version = machine.spec_version.as_deref() != Some(control_plane.spec_version.as_str());
    let templates = machine.infrastructure_template.as_ref().zip(control_plane.infrastructure_template.as_ref());
    is_told || is_of_another_version || templates.is_some_and(|(own, wanted)| own != wanted)
}

/// The machine whose node holds the address, or why that is not known.
fn holder<'a>(lease: &str, machines: &[&'a Machine], observation: &Observation) -> Result<&'a Machine, Reason> {
    let unknown = |what: String| {
        let message = format!("{what}: no machine is marked, and any of them may go first");
        Reason::on(format!("Lease kube-system/{lease}"), message)
            .help("kubectl get leases -n kube-system; stages.control-plane.lease in stepgate.yaml names it")
    };
    if let Some(reason) = observation.unread.get("Lease") {
        return Err(unknown(format!("could not be read: {reason}")));
    }
    let Some(address) = &observation.virtual_address else { return Err(unknown("is not there".to_owned())) };
    let Some(host) = &address.holder else { return Err(unknown("is held by nobody".to_owned())) };
    let holds =
        |machine: &&&Machine| machine.node.as_deref().is_some_and(|node| control_plane::is_same_host(node, host));
    machines
        .iter()
        .find(holds)
        .copied()
        .ok_or_else(|| unknown(format!("is held by {host}, which is no node of the control plane")))
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
