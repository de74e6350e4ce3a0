//! Owners of machines that stay: Cluster API as it asks our extension, and as it is paused with a change.

use std::time::Duration;

use in_place::{
    admission,
    claims::Claims,
    hooks::{CanUpdate, Hook, ON_DECLINE, Objects, OnDecline, can_update},
    objects::{CONTROLLER, NodeAnswer, PAUSED, STRATEGY, answer},
    order::{Driver, Pause},
};
use serde_json::{Value, json};

use super::{Event, State};
use crate::{
    cluster::machine::{Machine, Owner},
    desired::DesiredMachines,
};

/// How soon an owner asks again that was not answered.
const AGAIN: Duration = Duration::from_secs(15);

/// What an owner's controller does about a machine that is not what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cluster) enum Way {
    /// The machine stays, and is updated or waited for.
    Stays,
    /// Another one takes its place.
    Replaced,
}

impl State {
    /// Whether we have paused an owner.
    pub(in crate::cluster) fn is_paused_in_place(&self, name: &str) -> bool {
        let upgrades = self.upgrades.as_ref();
        upgrades.is_some_and(|upgrades| matches!(upgrades.pauses.get(name), Some(Pause::Ours(_))))
    }

    /// Whether the API server lets a change of an owner through; one of ours is paused with it.
    pub(in crate::cluster) fn admits(&mut self, owner: Owner, after: &DesiredMachines) -> bool {
        if !self.is_driven_by_controller() {
            return true;
        }
        let now = self.now;
        let Some(before) = self.owner_spec(owner).filter(|before| *before != after).cloned() else { return true };
        let Some(upgrades) = &mut self.upgrades else { return true };
        if !upgrades.answers(now) {
            return false;
        }
        let kind = if owner == Owner::ControlPlane { "KubeadmControlPlane" } else { "MachineDeployment" };
        let paused = matches!(upgrades.pauses.get(&after.name), Some(Pause::Ours(_) | Pause::Others));
        let object = |spec: &DesiredMachines| {
            let mut annotations = json!({STRATEGY: CONTROLLER});
            if let Some(annotations) = annotations.as_object_mut().filter(|_| paused) {
                annotations.insert(PAUSED.to_owned(), json!("stepgate: "));
            }
            let spec = if owner == Owner::ControlPlane {
                let template = json!({"infrastructureRef": {"name": spec.template}});
                json!({"replicas": spec.replicas, "version": spec.version, "machineTemplate": {"spec": template}})
            } else {
                let template = json!({"version": spec.version, "infrastructureRef": {"name": spec.template}});
                json!({"replicas": spec.replicas, "template": {"spec": template}})
            };
            json!({"kind": kind, "metadata": {"name": after.name, "annotations": annotations}, "spec": spec})
        };
        let Some(lease) = admission::pause(&object(after), &object(&before), now.timestamp()) else { return true };
        upgrades.pauses.insert(after.name.clone(), Pause::Ours(lease));
        upgrades.adopted.insert(after.name.clone(), owner == Owner::ControlPlane);
        true
    }

    /// What an unpaused owner does about a machine that is not what it wants, all of its machines being well.
    pub(in crate::cluster) fn update_in_place(&mut self, owner: Owner, id: u64) -> Way {
        let now = self.now;
        let Some(spec) = self.owner_spec(owner).cloned() else { return Way::Replaced };
        let Some(upgrades) = &self.upgrades else { return Way::Replaced };
        if upgrades.driver == Driver::Controller {
            return Way::Replaced;
        }
        let event = match owner {
            Owner::Workers(index) => Event::Workers(index),
            Owner::ControlPlane | Owner::Etcd => Event::ControlPlane,
        };
        if !upgrades.answers(now) {
            self.plan_in(AGAIN, event);
            return Way::Stays;
        }
        let on_decline = upgrades.on_decline;
        let Some(machine) = self.machines.iter_mut().find(|machine| machine.id == id) else { return Way::Stays };
        let request = asked(owner, machine, &spec, on_decline);
        let answer = can_update(&request);
        if answer.get("status").and_then(Value::as_str) != Some("Success") {
            self.plan_in(AGAIN * 4, event);
            return Way::Stays;
        }
        if !Claims::of_request(&request).rejected().is_empty() {
            self.may_replace();
            return Way::Replaced;
        }
        machine.version.clone_from(&spec.version);
        machine.template.clone_from(&spec.template);
        machine.node.updating = true;
        self.plan_in(Duration::from_secs(1), Event::UpdateMachine(id));
        self.plan_in(Duration::from_secs(1), event);
        Way::Stays
    }

    /// Cluster API asks how far a machine is.
    pub(in crate::cluster) fn ask_for_update(&mut self, id: u64) {
        let now = self.now;
        let Some(upgrades) = &self.upgrades else { return };
        let Some(machine) = self.machines.iter_mut().find(|known| known.id == id && known.node.updating) else {
            return;
        };
        let is_done = upgrades.answers(now)
            && machine
                .version
                .parse()
                .is_ok_and(|version| answer(&upgrades.nodes, &machine.name, None, &version) == NodeAnswer::Done);
        if is_done {
            machine.node.updating = false;
            self.look_at_machines();
        } else {
            self.plan_in(AGAIN, Event::UpdateMachine(id));
        }
    }

    /// Whether an owner takes its machines for made from something else, whatever they say themselves.
    pub(in crate::cluster) fn has_another_template(&self, name: &str) -> bool {
        self.upgrades.as_ref().is_some_and(|upgrades| upgrades.adopted.get(name) == Some(&false))
    }
}

/// What Cluster API asks of a machine, or of its set.
fn asked(owner: Owner, machine: &Machine, spec: &DesiredMachines, on_decline: OnDecline) -> CanUpdate {
    let choice = match on_decline {
        OnDecline::Hold => "hold",
        OnDecline::Replace => "replace",
    };
    let hook = if owner == Owner::ControlPlane { Hook::CanUpdateMachine } else { Hook::CanUpdateMachineSet };
    let objects = |version: &str, template: &str| {
        let of = |spec: Value| match hook {
            Hook::CanUpdateMachineSet => {
                let metadata = json!({"annotations": {ON_DECLINE: choice}});
                json!({"metadata": {"name": machine.name}, "spec": {"template": {"metadata": metadata, "spec": spec}}})
            }
            Hook::Discovery | Hook::CanUpdateMachine | Hook::UpdateMachine => {
                json!({"metadata": {"name": machine.name, "annotations": {ON_DECLINE: choice}}, "spec": spec})
            }
        };
        Objects {
            machine: of(json!({"version": version})),
            infrastructure: of(json!({"template": template})),
            bootstrap: Some(of(json!({"clusterConfiguration": {}}))),
        }
    };
    let (current, desired) = (objects(&machine.version, &machine.template), objects(&spec.version, &spec.template));
    CanUpdate { hook, current, desired }
}
