//! DaemonSets, rolled node by node.

use std::time::Duration;

use super::{
    Event, State,
    deployment::number,
    pod::{Pod, PodState},
};
use crate::desired::DesiredWorkload;

#[derive(Debug, Clone)]
pub(super) struct DaemonSet {
    pub(super) spec: DesiredWorkload,
    pub(super) kustomization: String,
    pub(super) deleted: bool,
    pub(super) pods: Vec<Pod>,
    /// What its status says, as of its controller's last turn.
    published: rollout::DaemonSet,
}

impl DaemonSet {
    /// A DaemonSet that is to be created.
    pub(super) fn new(spec: DesiredWorkload, kustomization: &str) -> Self {
        let published = rollout::DaemonSet {
            namespace: spec.namespace.clone(),
            name: spec.name.clone(),
            generation: 1,
            images: spec.images.clone(),
            ..rollout::DaemonSet::default()
        };
        Self { spec, kustomization: kustomization.to_owned(), deleted: false, pods: Vec::new(), published }
    }

    /// Takes a new spec; the status stays behind until its controller's next turn.
    pub(super) fn change(&mut self, spec: DesiredWorkload) {
        self.published.generation += 1;
        self.published.images.clone_from(&spec.images);
        self.spec = spec;
    }

    /// Whether its status says that it is rolled out: what Flux waits for.
    pub(super) fn is_settled(&self) -> bool {
        let wanted = self.published.desired_scheduled;
        self.published.observed_generation == Some(self.published.generation)
            && wanted.is_some()
            && self.published.updated_scheduled == wanted
            && self.published.available == wanted
    }

    /// The object as the API server shows it.
    pub(super) fn observed(&self) -> rollout::DaemonSet {
        rollout::DaemonSet { running: self.pods.iter().flat_map(Pod::containers).collect(), ..self.published.clone() }
    }

    /// A pod on every node, ready, and the status that says so.
    pub(super) fn settle(&mut self, pods: Vec<Pod>) {
        let nodes = pods.len();
        self.pods = pods;
        self.publish(nodes);
    }

    fn publish(&mut self, nodes: usize) {
        let live = || self.pods.iter().filter(|pod| pod.is_live());
        let ready = Some(number(live().filter(|pod| pod.is_ready()).count()));
        let current = Some(number(live().count()));
        let updated = Some(number(live().filter(|pod| pod.runs(&self.spec.images, &self.spec.template)).count()));
        self.published.observed_generation = Some(self.published.generation);
        self.published.desired_scheduled = Some(number(nodes));
        self.published.current_scheduled = current;
        self.published.updated_scheduled = updated;
        self.published.ready = ready;
        self.published.available = ready;
        self.published.misscheduled = Some(0);
    }
}

impl State {
    /// One turn of the DaemonSet controller for one DaemonSet.
    pub(super) fn reconcile_daemon_set(&mut self, index: usize) {
        let nodes = self.node_names();
        let Some(daemon_set) = self.daemon_sets.get_mut(index) else { return };
        if daemon_set.deleted {
            return;
        }
        // Pods of a node that is gone go with it.
        daemon_set.pods.retain(|pod| pod.node.as_ref().is_some_and(|node| nodes.contains(node)));
        daemon_set.publish(nodes.len());
        let empty: Vec<String> = nodes
            .iter()
            .filter(|node| !daemon_set.pods.iter().any(|pod| pod.node.as_ref() == Some(node)))
            .cloned()
            .collect();
        if !empty.is_empty() {
            let spec = daemon_set.spec.clone();
            for node in empty {
                let pod = self.start_pod(&spec, Some(node), |id| Event::DaemonSetPod(index, id));
                if let Some(daemon_set) = self.daemon_sets.get_mut(index) {
                    daemon_set.pods.push(pod);
                }
            }
            self.plan_soon(Event::DaemonSet(index));
            return;
        }
        // `maxUnavailable: 1`: an old pod goes when every other is ready; one that is not ready goes first.
        let unavailable = daemon_set.pods.iter().filter(|pod| !pod.is_ready()).count();
        let (images, template) = (&daemon_set.spec.images, &daemon_set.spec.template);
        let old = |pod: &Pod| pod.is_live() && !pod.runs(images, template);
        let position = if unavailable == 0 {
            daemon_set.pods.iter().position(old)
        } else {
            daemon_set.pods.iter().position(|pod| old(pod) && !pod.is_ready())
        };
        if let Some(id) = position.and_then(|position| daemon_set.pods.get_mut(position)).map(|pod| {
            pod.state = PodState::Deleting;
            pod.id
        }) {
            let gone_in = self.random.between(Duration::from_secs(1), Duration::from_secs(2));
            self.plan_in(gone_in, Event::DaemonSetPod(index, id));
            self.plan_soon(Event::DaemonSet(index));
        }
    }

    /// A pod of a DaemonSet becomes ready, or is gone.
    pub(super) fn daemon_set_pod(&mut self, index: usize, id: u64) {
        let Some(daemon_set) = self.daemon_sets.get_mut(index) else { return };
        let Some(position) = daemon_set.pods.iter().position(|pod| pod.id == id) else { return };
        let Some(pod) = daemon_set.pods.get_mut(position) else { return };
        match pod.state {
            PodState::Deleting => {
                daemon_set.pods.remove(position);
            }
            PodState::Starting | PodState::Pulling => pod.state = PodState::Ready,
            PodState::Crashing | PodState::Ready | PodState::Lost => return,
        }
        self.plan_soon(Event::DaemonSet(index));
    }

    /// Every DaemonSet looks at the nodes again.
    pub(super) fn nodes_changed(&mut self) {
        for index in 0..self.daemon_sets.len() {
            self.plan_soon(Event::DaemonSet(index));
        }
    }
}
