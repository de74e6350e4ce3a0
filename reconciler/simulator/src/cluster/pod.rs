//! Pods of Deployments and DaemonSets.

use std::time::Duration;

use rollout::RunningImage;

use super::{Event, State};
use crate::{desired::DesiredWorkload, fault::Fault};

/// How long an image takes to pull under [`Fault::SlowImage`].
const SLOW_PULL: Duration = Duration::from_secs(600);

/// One pod.
#[derive(Debug, Clone)]
pub(super) struct Pod {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) images: Vec<String>,
    pub(super) template: String,
    /// The node it runs on, where that matters (DaemonSets).
    pub(super) node: Option<String>,
    pub(super) state: PodState,
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodState {
    /// Pulling images and starting.
    Starting,
    /// Pulling images that take very long.
    Pulling,
    /// Starting again and again.
    Crashing,
    Ready,
    /// Ready before, and on a node that has stopped reporting.
    Lost,
    /// Being deleted, and still there.
    Deleting,
}

impl Pod {
    pub(super) fn is_live(&self) -> bool {
        self.state != PodState::Deleting
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == PodState::Ready
    }

    /// Ready, or ready until its node stopped reporting.
    pub(super) fn was_ready(&self) -> bool {
        matches!(self.state, PodState::Ready | PodState::Lost)
    }

    pub(super) fn runs(&self, images: &[String], template: &str) -> bool {
        self.images == images && self.template == template
    }

    /// Its containers as its status reports them.
    pub(super) fn containers(&self) -> impl Iterator<Item = RunningImage> + '_ {
        let waiting = match self.state {
            PodState::Starting | PodState::Pulling => Some("ContainerCreating"),
            PodState::Crashing => Some("CrashLoopBackOff"),
            PodState::Ready | PodState::Lost | PodState::Deleting => None,
        };
        self.images.iter().map(move |image| RunningImage {
            pod: self.name.clone(),
            container: container_name(image),
            image: image.clone(),
            // The runtime knows an image's digest once it is pulled.
            digest: if waiting == Some("ContainerCreating") { None } else { running_digest(image) },
            ready: self.is_ready(),
            waiting: waiting.map(str::to_owned),
            deleting: !self.is_live(),
        })
    }
}

impl State {
    /// Starts a pod: it becomes ready after its images are pulled, unless a fault concerns one of them.
    pub(super) fn start_pod(
        &mut self,
        spec: &DesiredWorkload,
        node: Option<String>,
        ready: impl Fn(u64) -> Event,
    ) -> Pod {
        let new_image = spec.images.iter().any(|image| !self.known_images.contains(image));
        let (state, delay) = if new_image && self.is_active(Fault::FailingPod) {
            (PodState::Crashing, None)
        } else if new_image && self.is_active(Fault::SlowImage) {
            (PodState::Pulling, Some(SLOW_PULL))
        } else {
            (PodState::Starting, Some(self.random.between(Duration::from_secs(2), Duration::from_secs(8))))
        };
        let pod = self.new_pod(spec, node, state);
        if let Some(delay) = delay {
            self.plan_in(delay, ready(pod.id));
        }
        pod
    }

    /// A pod that is there, in the state given.
    pub(super) fn new_pod(&mut self, spec: &DesiredWorkload, node: Option<String>, state: PodState) -> Pod {
        self.last_id += 1;
        let name = format!("{}-{}", spec.name, self.random.suffix(5));
        Pod { id: self.last_id, name, images: spec.images.clone(), template: spec.template.clone(), node, state }
    }

    /// Pods that a fault held start as they would have.
    pub(super) fn resume_pods(&mut self) {
        let held = |pod: &mut Pod| {
            let held = matches!(pod.state, PodState::Crashing | PodState::Pulling);
            if held {
                pod.state = PodState::Starting;
            }
            held.then_some(pod.id)
        };
        let mut events = Vec::new();
        for (index, deployment) in self.deployments.iter_mut().enumerate() {
            events.extend(deployment.pods.iter_mut().filter_map(held).map(|id| Event::DeploymentPod(index, id)));
        }
        for (index, daemon_set) in self.daemon_sets.iter_mut().enumerate() {
            events.extend(daemon_set.pods.iter_mut().filter_map(held).map(|id| Event::DaemonSetPod(index, id)));
        }
        for event in events {
            let ready_in = self.random.between(Duration::from_secs(2), Duration::from_secs(8));
            self.plan_in(ready_in, event);
        }
    }
}

/// The last segment of an image's repository, which stands for the container's name.
fn container_name(image: &str) -> String {
    let repository = image.split('@').next().unwrap_or(image);
    let last = repository.rsplit('/').next().unwrap_or(repository);
    last.split(':').next().unwrap_or(last).to_owned()
}

/// The digest that a runtime reports for an image: the pinned one, and none where the reference pins none.
pub(super) fn running_digest(image: &str) -> Option<String> {
    image.split_once('@').map(|(_, digest)| digest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_named_after_its_image_and_reports_the_pinned_digest() {
        for (image, name, digest) in [
            ("registry.example:5000/a/controller:v1@sha256:ab", "controller", Some("sha256:ab")),
            ("controller", "controller", None),
            ("registry.example/a/b:v1", "b", None),
        ] {
            assert_eq!(container_name(image), name);
            assert_eq!(running_digest(image).as_deref(), digest);
        }
    }
}
