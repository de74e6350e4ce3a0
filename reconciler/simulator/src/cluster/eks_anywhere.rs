//! EKS Anywhere's controller: it writes Cluster API's objects from the `Cluster` that Flux applies, in its own time and order.
//!
//! External etcd first, then the control plane once etcd is ready, then the workers once the control plane is; only then does its status
//! say that the generation is carried out (`aws/eks-anywhere`, `controllers/cluster_controller.go`). Without such a `Cluster` the objects are written at once.

use std::time::Duration;

use domain::GroupName;
use rollout::{ConditionStatus, ObjectReference};

use super::{Event, State};
use crate::{
    desired::{DesiredObject, DesiredPlainObject},
    fault::Fault,
};

/// API group of EKS Anywhere.
const GROUP: &str = "anywhere.eks.amazonaws.com";

/// Ends of the kinds that a `Cluster` refers to and its controller counts.
const CHILDREN: [&str; 5] = ["DatacenterConfig", "MachineConfig", "TemplateConfig", "OIDCConfig", "AWSIamConfig"];

/// What the status of the `Cluster` says.
#[derive(Debug, Clone)]
pub(super) struct EksaCluster {
    reference: ObjectReference,
    observed: Option<i64>,
    reconciled: Option<i64>,
    children: Option<i64>,
}

/// An object of which only its presence is observed.
#[derive(Debug, Clone)]
pub(super) struct PlainObject {
    content: String,
    pub(super) generation: i64,
}

fn is_of_eks_anywhere(reference: &ObjectReference) -> bool {
    reference.api_version.split('/').next() == Some(GROUP)
}

fn is_cluster(reference: &ObjectReference) -> bool {
    is_of_eks_anywhere(reference) && reference.kind == "Cluster"
}

fn is_child(reference: &ObjectReference) -> bool {
    is_of_eks_anywhere(reference) && CHILDREN.iter().any(|end| reference.kind.ends_with(end))
}

impl State {
    /// An object that is new or different is there from now on.
    pub(super) fn put(&mut self, spec: &DesiredPlainObject) {
        let reference = super::presence::reference(spec);
        if is_cluster(&reference) && self.eksa.as_ref().is_none_or(|known| known.reference != reference) {
            let reference = reference.clone();
            self.eksa = Some(EksaCluster { reference, observed: None, reconciled: None, children: None });
        }
        let known = self
            .objects
            .entry(reference.clone())
            .or_insert_with(|| PlainObject { content: spec.content.clone(), generation: 1 });
        if known.content != spec.content {
            known.content.clone_from(&spec.content);
            known.generation += 1;
        }
        if is_cluster(&reference) || is_child(&reference) {
            self.notice_specification();
        }
    }

    /// The controller will take a turn: what it works from has changed.
    pub(super) fn notice_specification(&mut self) {
        let (least, most) = if self.is_active(Fault::ControllerSlow) { (60_000, 240_000) } else { (500, 3_000) };
        let notices_in = self.random.between(Duration::from_millis(least), Duration::from_millis(most));
        self.plan_controller_turn(notices_in);
    }

    /// Plans a turn, unless an earlier one is planned.
    fn plan_controller_turn(&mut self, delay: Duration) {
        let due = self.now + delay;
        if self.controller_due.is_none_or(|planned| due < planned) {
            self.controller_due = Some(due);
            self.schedule.plan(due, Event::MachineObjects);
        }
    }

    /// A turn of the controller: it goes as far as the cluster lets it, and comes back for the rest.
    pub(super) fn write_machine_objects(&mut self) {
        if self.controller_due != Some(self.now) {
            return;
        }
        self.controller_due = None;
        if !self.write_in_order() {
            let again_in = self.random.between(Duration::from_secs(10), Duration::from_secs(30));
            self.plan_controller_turn(again_in);
        }
    }

    /// Whether everything was carried out.
    fn write_in_order(&mut self) -> bool {
        let applied = self.applied_machine_objects();
        let generation =
            self.eksa.as_ref().and_then(|known| self.objects.get(&known.reference)).map(|known| known.generation);
        let children =
            self.objects.iter().filter(|(reference, _)| is_child(reference)).map(|(_, known)| known.generation).sum();
        for object in &applied {
            if let DesiredObject::Etcd(machines) = object {
                self.change_etcd(machines.clone());
            }
        }
        if let Some(eksa) = &mut self.eksa {
            eksa.observed = generation;
            if self.etcd.as_ref().is_some_and(|etcd| !etcd.is_settled()) {
                return false;
            }
        }
        for object in &applied {
            if let DesiredObject::ControlPlane { machines, kube_vip } = object
                && !self.change_control_plane(machines.clone(), kube_vip.clone())
            {
                return false;
            }
        }
        if self.eksa.is_some() && self.control_plane.as_ref().is_some_and(|control_plane| !control_plane.is_available())
        {
            return false;
        }
        if self.eksa.is_some() {
            // A group that the specification does not have any more is deleted.
            let is_wanted = |group: &GroupName| {
                let mut objects = applied.iter();
                objects.any(|object| matches!(object, DesiredObject::Workers { group: known, .. } if known == group))
            };
            let unwanted = self.workers.iter().enumerate().filter(|(_, workers)| !is_wanted(&workers.group));
            let unwanted: Vec<usize> = unwanted.map(|(index, _)| index).collect();
            unwanted.into_iter().for_each(|index| self.delete_workers(index));
        }
        let mut is_whole = true;
        for object in applied {
            if let DesiredObject::Workers { group, machines } = object {
                is_whole &= self.write_workers(group, machines);
            }
        }
        if !is_whole {
            return false;
        }
        if let Some(eksa) = &mut self.eksa {
            eksa.reconciled = generation;
            eksa.children = Some(children);
        }
        true
    }

    fn applied_machine_objects(&self) -> Vec<DesiredObject> {
        let is_wanted = |object: &&DesiredObject| {
            matches!(
                object,
                DesiredObject::ControlPlane { .. } | DesiredObject::Workers { .. } | DesiredObject::Etcd(_)
            )
        };
        let known = self.flux.kustomizations.iter().filter(|kustomization| !kustomization.deleted);
        known.flat_map(|kustomization| &kustomization.spec.objects).filter(is_wanted).cloned().collect()
    }

    /// Everything that is installed was carried out long ago.
    pub(super) fn settle_specification(&mut self) {
        self.controller_due = None;
        let objects = &self.objects;
        let Some(eksa) = &mut self.eksa else { return };
        eksa.observed = objects.get(&eksa.reference).map(|known| known.generation);
        eksa.reconciled = eksa.observed;
        let children = objects.iter().filter(|(reference, _)| is_child(reference));
        eksa.children = Some(children.map(|(_, known)| known.generation).sum());
    }

    /// The `Cluster` as the API server shows it.
    pub(super) fn observed_eksa_cluster(&self) -> Option<rollout::EksaCluster> {
        let known = self.eksa.as_ref()?;
        let object = self.objects.get(&known.reference)?;
        Some(rollout::EksaCluster {
            namespace: known.reference.namespace.clone().unwrap_or_default(),
            name: known.reference.name.clone(),
            generation: object.generation,
            observed_generation: known.observed,
            reconciled_generation: known.reconciled,
            children_reconciled_generation: known.children,
            ..rollout::EksaCluster::default()
        })
    }
}

impl super::control_plane::ControlPlane {
    /// What the controller asks before it goes on to the workers. While a rollout changes no version it holds from the beginning.
    fn is_available(&self) -> bool {
        let published = self.observed(false, false);
        published.observed_generation == Some(published.generation)
            && published.status_version.as_ref() == Some(&published.spec_version)
            && published.conditions.get("Available").is_some_and(|condition| condition.status == ConditionStatus::True)
    }
}
