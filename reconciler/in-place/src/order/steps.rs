//! What the containers of a Pod tell of steps.

use jiff::Timestamp;

use super::{Container, ContainerState, Pod, World};
use crate::objects::{StepState, StepStatus};

/// What `stepgate-node` exits with when no attempt is left.
const TERMINAL: i32 = 4;

/// A step that fails as often is not tried again.
const MOST_ATTEMPTS: u32 = 3;

/// What a Pod tells of its steps.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// They go on.
    Underway,
    /// All have succeeded.
    Done,
    /// One has failed for good.
    Failed {
        /// Its name.
        step: String,
        /// Whether the node was changed.
        begun: bool,
        /// What it said.
        message: String,
    },
}

/// The steps as the Pod tells of them, after what was known of them before.
pub(super) fn read(pod: &Pod, before: &[StepStatus]) -> Vec<StepStatus> {
    let of = |container: &Container| {
        let known = before.iter().find(|known| known.name == container.name);
        status(container, known.cloned().unwrap_or_default())
    };
    pod.containers.iter().map(of).collect()
}

fn status(container: &Container, known: StepStatus) -> StepStatus {
    let attempts = known.attempts.max(container.failures);
    let failure = container.last_failure.as_ref();
    let is_over = failure.is_some_and(|failure| failure.exit_code == TERMINAL) || attempts >= MOST_ATTEMPTS;
    let mut status = StepStatus { name: container.name.clone(), attempts, ..known };
    match &container.state {
        ContainerState::Succeeded { started, finished, message } => {
            status.state = StepState::Succeeded;
            (status.started, status.finished) = (started.or(status.started), finished.or(status.finished));
            status.message.clone_from(message);
            return status;
        }
        ContainerState::Running { started } => {
            status.state = StepState::Running;
            status.started = started.or(status.started);
            return status;
        }
        ContainerState::Waiting(_) | ContainerState::Failed => {
            status.state = if is_over { StepState::Failed } else { StepState::Pending };
        }
    }
    if let Some(failure) = failure {
        status.finished = failure.finished.or(status.finished);
        status.message.clone_from(&failure.message);
    }
    if let ContainerState::Waiting(why) = &container.state
        && IMAGE_TROUBLES.contains(&why.as_str())
    {
        status.message = format!("its image cannot be had: {why}");
    }
    status
}

/// What kubelet says of an image that it cannot get.
const IMAGE_TROUBLES: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];

/// How it goes.
pub(super) fn course(pod: &Pod, steps: &[StepStatus], world: &World, now: Timestamp) -> Course {
    if pod.succeeded {
        return Course::Done;
    }
    // The first step brings files to the node and changes nothing.
    let begun = |step: &StepStatus| steps.first().is_some_and(|first| first.name != step.name);
    let failed =
        |step: &StepStatus, message: String| Course::Failed { step: step.name.clone(), begun: begun(step), message };
    for step in steps {
        if step.state == StepState::Failed {
            return failed(step, step.message.clone());
        }
        let is_late = step.started.is_some_and(|started| now.duration_since(started) > world.settings.step);
        if step.state == StepState::Running && is_late {
            let limit = world.settings.step.as_mins();
            return failed(
                step,
                format!("it runs for more than {limit} minutes: look at what its container and kubelet log"),
            );
        }
    }
    if pod.failed {
        let step = steps.iter().find(|step| step.state != StepState::Succeeded).or(steps.last());
        if let Some(step) = step {
            return failed(step, format!("its Pod has ended: {}", step.message));
        }
    }
    Course::Underway
}
