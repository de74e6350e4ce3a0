//! Deployments, rolled pod by pod with one pod more than wanted and none fewer.

use std::{collections::BTreeMap, time::Duration};

use rollout::{Condition, ConditionStatus};

use super::{
    Event, State, condition,
    pod::{Pod, PodState},
};
use crate::{clock::Moment, desired::DesiredWorkload};

/// `spec.progressDeadlineSeconds`, as the API server defaults it.
const PROGRESS_DEADLINE: Duration = Duration::from_secs(600);

#[derive(Debug, Clone)]
pub(super) struct Deployment {
    pub(super) spec: DesiredWorkload,
    pub(super) kustomization: String,
    pub(super) deleted: bool,
    pub(super) pods: Vec<Pod>,
    /// When a pod last became ready or the spec last changed.
    progressed_at: Moment,
    /// What its status says, as of its controller's last turn.
    published: rollout::Deployment,
}

impl Deployment {
    /// A Deployment that is to be created.
    pub(super) fn new(spec: DesiredWorkload, kustomization: &str, now: Moment) -> Self {
        let published = rollout::Deployment {
            namespace: spec.namespace.clone(),
            name: spec.name.clone(),
            generation: 1,
            spec_replicas: spec.replicas,
            images: spec.images.clone(),
            ..rollout::Deployment::default()
        };
        Self {
            spec,
            kustomization: kustomization.to_owned(),
            deleted: false,
            pods: Vec::new(),
            progressed_at: now,
            published,
        }
    }

    /// Takes a new spec; the status stays behind until its controller's next turn.
    pub(super) fn change(&mut self, spec: DesiredWorkload, now: Moment) {
        self.published.generation += 1;
        self.published.spec_replicas = spec.replicas;
        self.published.images.clone_from(&spec.images);
        self.spec = spec;
        self.progressed_at = now;
    }

    /// Whether its status says that it is rolled out: what Flux waits for.
    pub(super) fn is_settled(&self) -> bool {
        let wanted = Some(self.spec.replicas);
        self.published.observed_generation == Some(self.published.generation)
            && self.published.updated_replicas == wanted
            && self.published.replicas == wanted
            && self.published.available_replicas == wanted
    }

    /// Every pod it wants, ready, and the status that says so.
    pub(super) fn settle(&mut self, pods: Vec<Pod>, now: Moment) {
        self.pods = pods;
        self.publish(now);
    }

    pub(super) fn ready_pods(&self) -> usize {
        self.pods.iter().filter(|pod| pod.is_ready()).count()
    }

    /// The object as the API server shows it.
    pub(super) fn observed(&self) -> rollout::Deployment {
        rollout::Deployment { running: self.pods.iter().flat_map(Pod::containers).collect(), ..self.published.clone() }
    }

    fn runs_current(&self, pod: &Pod) -> bool {
        pod.runs(&self.spec.images, &self.spec.template)
    }

    fn publish(&mut self, now: Moment) {
        let live = || self.pods.iter().filter(|pod| pod.is_live());
        let total = number(live().count());
        let updated = number(live().filter(|pod| self.runs_current(pod)).count());
        let ready = number(live().filter(|pod| pod.is_ready()).count());
        let wanted = self.spec.replicas;
        let complete = updated == wanted && total == wanted && ready == wanted;
        let (progressing, reason) = if complete {
            (ConditionStatus::True, "NewReplicaSetAvailable")
        } else if now.since(self.progressed_at) >= PROGRESS_DEADLINE {
            (ConditionStatus::False, "ProgressDeadlineExceeded")
        } else {
            (ConditionStatus::True, "ReplicaSetUpdated")
        };
        // A quarter of the replicas, rounded down, may be missing.
        let available = ready >= wanted - wanted / 4;
        self.published.observed_generation = Some(self.published.generation);
        self.published.replicas = Some(total);
        self.published.updated_replicas = Some(updated);
        self.published.ready_replicas = Some(ready);
        self.published.available_replicas = Some(ready);
        self.published.conditions = BTreeMap::<String, Condition>::from([
            condition(
                "Available",
                if available { ConditionStatus::True } else { ConditionStatus::False },
                "MinimumReplicasAvailable",
                None,
            ),
            condition("Progressing", progressing, reason, None),
        ]);
    }
}

impl State {
    /// One turn of the Deployment controller for one Deployment: status first, then one act at most, as the real one
    /// writes what it saw before it acted.
    pub(super) fn reconcile_deployment(&mut self, index: usize) {
        let now = self.now;
        let Some(deployment) = self.deployments.get_mut(index) else { return };
        if deployment.deleted {
            return;
        }
        deployment.publish(now);
        let wanted = usize::try_from(deployment.spec.replicas).unwrap_or(usize::MAX);
        let live = deployment.pods.iter().filter(|pod| pod.is_live()).count();
        let current = deployment.pods.iter().filter(|pod| pod.is_live() && deployment.runs_current(pod)).count();
        let ready = deployment.ready_pods();
        if current < wanted && live <= wanted {
            let spec = deployment.spec.clone();
            let pod = self.start_pod(&spec, None, |id| Event::DeploymentPod(index, id));
            if let Some(deployment) = self.deployments.get_mut(index) {
                deployment.pods.push(pod);
            }
            self.plan_soon(Event::Deployment(index));
            self.plan_in(PROGRESS_DEADLINE, Event::Deployment(index));
            return;
        }
        // An old pod that is not ready may always go; a ready one only while enough others are.
        let old = deployment.pods.iter().position(|pod| {
            pod.is_live() && !pod.is_ready() && !pod.runs(&deployment.spec.images, &deployment.spec.template)
        });
        let surplus = if ready > wanted || (live > wanted && current > wanted) {
            deployment
                .pods
                .iter()
                .position(|pod| pod.is_live() && !pod.runs(&deployment.spec.images, &deployment.spec.template))
                .or_else(|| deployment.pods.iter().position(|pod| pod.is_live() && live > wanted))
        } else {
            None
        };
        if let Some(id) = old.or(surplus).and_then(|position| deployment.pods.get_mut(position)).map(|pod| {
            pod.state = PodState::Deleting;
            pod.id
        }) {
            let gone_in = self.random.between(Duration::from_secs(1), Duration::from_secs(3));
            self.plan_in(gone_in, Event::DeploymentPod(index, id));
            self.plan_soon(Event::Deployment(index));
        }
    }

    /// A pod of a Deployment becomes ready, or is gone.
    pub(super) fn deployment_pod(&mut self, index: usize, id: u64) {
        let now = self.now;
        let Some(deployment) = self.deployments.get_mut(index) else { return };
        let Some(position) = deployment.pods.iter().position(|pod| pod.id == id) else { return };
        let Some(pod) = deployment.pods.get_mut(position) else { return };
        match pod.state {
            PodState::Deleting => {
                deployment.pods.remove(position);
            }
            PodState::Starting | PodState::Pulling => {
                pod.state = PodState::Ready;
                deployment.progressed_at = now;
            }
            PodState::Crashing | PodState::Ready | PodState::Lost => return,
        }
        self.plan_soon(Event::Deployment(index));
    }
}

/// A count as Kubernetes writes it.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
