//! What registries say of the images of a plan, as part of a reading of its cluster.

use std::time::Duration;

use cluster::{Cluster, ObserveRequest};
use fetch::{ImageAnswer, Images};
use rollout::{Expectation, ImageReading, ImageState, Observation};

use crate::reconcile::planner::ClusterView;

/// How long a pass begins to ask for images; what is left waits for the next one.
const OF_PASS: Duration = Duration::from_secs(3);

/// How long somebody waits who has asked for the checks alone.
const OF_VERB: Duration = Duration::from_secs(60);

/// Reads a cluster, and meanwhile asks for the images that the request names.
pub async fn observe(cluster: &dyn Cluster, view: &ClusterView, request: &ObserveRequest) -> Observation {
    observe_within(cluster, view.images.as_deref(), request, OF_PASS).await
}

/// The same, for as long as it takes.
pub async fn observe_patiently(cluster: &dyn Cluster, view: &ClusterView, request: &ObserveRequest) -> Observation {
    observe_within(cluster, view.images.as_deref(), request, OF_VERB).await
}

async fn observe_within(
    cluster: &dyn Cluster,
    images: Option<&Images>,
    request: &ObserveRequest,
    budget: Duration,
) -> Observation {
    let (mut observation, images) = tokio::join!(cluster.observe(request), ask(images, request, budget));
    if let Some(inspection) = &mut observation.inspection {
        inspection.images = images;
    }
    observation
}

async fn ask(images: Option<&Images>, request: &ObserveRequest, budget: Duration) -> Vec<ImageReading> {
    let Some(images) = images else { return Vec::new() };
    let checks = request.expectations.iter().filter_map(|expectation| match expectation {
        Expectation::Checks(checks) => Some(&checks.images),
        _ => None,
    });
    let mut asked: Vec<String> = checks.flatten().flat_map(|image| image.asked().cloned()).collect();
    asked.sort();
    asked.dedup();
    let answers = images.ask(&asked, budget).await;
    let reading = |(image, answer): (String, Option<ImageAnswer>)| ImageReading { image, state: state(answer) };
    asked.into_iter().zip(answers).map(reading).collect()
}

fn state(answer: Option<ImageAnswer>) -> ImageState {
    match answer {
        None => ImageState::NotAsked,
        Some(ImageAnswer::Found { architectures }) => ImageState::Found { architectures },
        Some(ImageAnswer::Missing { reason }) => ImageState::Missing { reason },
        Some(ImageAnswer::Unknown { reason }) => ImageState::Unknown { reason },
    }
}
