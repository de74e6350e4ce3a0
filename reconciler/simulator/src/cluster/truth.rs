//! What is really so, however it is read: the oracle of the crash harness.

use policy::ControlPlaneGate;

use super::{
    State,
    machine::{Machine, Owner, Phase},
    pod::Pod,
};
use crate::desired::{DesiredMachines, DesiredObject, DesiredWorkload};

impl State {
    /// What the head of the deploy branch says and the cluster is not, object by object.
    pub(super) fn unfinished(&self, gate: ControlPlaneGate) -> Vec<String> {
        let Some(head) = self.flux.branch.last() else { return Vec::new() };
        let mut unfinished = Vec::new();
        let mut objects = head.desired.kustomizations.iter().flat_map(|wanted| &wanted.objects);
        let rolls = objects.any(|object| {
            let is_of_control_plane = matches!(object, DesiredObject::ControlPlane { .. });
            is_of_control_plane && self.differs(object, ControlPlaneGate::Whole)
        });
        let gate = if rolls { gate } else { ControlPlaneGate::Whole };
        for wanted in &head.desired.kustomizations {
            let known = self.flux.kustomizations.iter().find(|known| {
                !known.deleted && known.spec.namespace == wanted.namespace && known.spec.name == wanted.name
            });
            match known {
                Some(known) if known.spec.objects == wanted.objects => {}
                _ => unfinished.push(format!("Kustomization {}/{}", wanted.namespace, wanted.name)),
            }
            unfinished
                .extend(wanted.objects.iter().filter(|object| self.differs(object, gate)).map(ToString::to_string));
        }
        unfinished
    }

    fn differs(&self, object: &DesiredObject, gate: ControlPlaneGate) -> bool {
        match object {
            DesiredObject::Deployment(wanted) => {
                let same = |spec: &DesiredWorkload| spec.namespace == wanted.namespace && spec.name == wanted.name;
                let known = self.deployments.iter().find(|known| !known.deleted && same(&known.spec));
                let count = usize::try_from(wanted.replicas).unwrap_or(usize::MAX);
                pods_differ(known.iter().flat_map(|known| &known.pods), wanted, count)
            }
            DesiredObject::DaemonSet(wanted) => {
                let same = |spec: &DesiredWorkload| spec.namespace == wanted.namespace && spec.name == wanted.name;
                let known = self.daemon_sets.iter().find(|known| !known.deleted && same(&known.spec));
                let nodes = self.node_names();
                let on_nodes = |pod: &&Pod| pod.node.as_ref().is_some_and(|node| nodes.contains(node));
                if gate == ControlPlaneGate::FirstNode {
                    // Nodes come and go beside the stage, and each new one begins without its pods.
                    let live = known.iter().flat_map(|known| &known.pods).filter(|pod| pod.is_live());
                    return live.filter(on_nodes).any(|pod| !pod.runs(&wanted.images, &wanted.template));
                }
                pods_differ(known.iter().flat_map(|known| &known.pods).filter(on_nodes), wanted, nodes.len())
            }
            DesiredObject::ControlPlane { machines, .. } if gate == ControlPlaneGate::FirstNode => {
                !self.is_first_node_through(machines)
            }
            DesiredObject::ControlPlane { machines, .. } => self.machines_differ(Owner::ControlPlane, machines),
            DesiredObject::Workers { group, machines } => {
                let index = self.workers.iter().position(|workers| workers.group == *group);
                index.is_none_or(|index| self.machines_differ(Owner::Workers(index), machines))
            }
            DesiredObject::Etcd(machines) => self.machines_differ(Owner::Etcd, machines),
            DesiredObject::CustomResourceDefinition(wanted) => !self.definitions.iter().any(|known| {
                let versions = wanted.versions.iter().map(|version| &version.name);
                known.name == wanted.name && known.established && known.versions.iter().eq(versions)
            }),
            DesiredObject::Webhook(wanted) => {
                !self.webhooks.iter().any(|known| known.spec == *wanted && known.injected)
            }
            DesiredObject::Object(wanted) => !self.objects.keys().any(|known| {
                known.kind == wanted.kind && known.namespace == wanted.namespace && known.name == wanted.name
            }),
        }
    }

    /// Every machine is the wanted one and up, and no other is left. Whether a node reports at this moment is not asked.
    /// Whether a machine of the control plane runs as it is wanted, and one of before is gone.
    fn is_first_node_through(&self, wanted: &DesiredMachines) -> bool {
        let machines = || self.machines.iter().filter(|machine| machine.owner == Owner::ControlPlane);
        let is_new = |machine: &&Machine| machine.is(&wanted.version, &wanted.template);
        let old = machines().filter(|machine| !is_new(machine)).count();
        let runs = |machine: &Machine| machine.phase == Phase::Running && !machine.deleting;
        old < usize::try_from(wanted.replicas).unwrap_or(usize::MAX) && machines().filter(is_new).any(runs)
    }

    fn machines_differ(&self, owner: Owner, wanted: &DesiredMachines) -> bool {
        let machines: Vec<&Machine> =
            self.machines.iter().filter(|machine| machine.owner == owner && !machine.orphaned).collect();
        let done = |machine: &&Machine| {
            machine.is(&wanted.version, &wanted.template)
                && machine.phase == Phase::Running
                && !machine.deleting
                && machine.runs_what_it_says()
        };
        machines.len() != usize::try_from(wanted.replicas).unwrap_or(usize::MAX) || !machines.iter().all(done)
    }
}

fn pods_differ<'a>(pods: impl Iterator<Item = &'a Pod>, wanted: &DesiredWorkload, count: usize) -> bool {
    let mut live = 0;
    for pod in pods.filter(|pod| pod.is_live()) {
        if !pod.runs(&wanted.images, &wanted.template) || !pod.was_ready() {
            return true;
        }
        live += 1;
    }
    live != count
}
