//! What registries say of the images of a plan, as part of a reading of its cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::kubernetes::{PullContent, PullLogins};
use cluster::{Cluster, ClusterError, ObserveRequest};
use fetch::{ImageAnswer, Images, LoginAnswer, PullSecret};
use rollout::{Expectation, ImageReading, ImageState, LoginReading, LoginSource, Observation};
use secrecy::ExposeSecret as _;

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
    // What asks registries is large, and every caller up to the loop over clusters would hold it.
    let ask = Box::pin(ask(cluster, images, request, budget));
    let (mut observation, images) = tokio::join!(cluster.observe(request), ask);
    if let Some(inspection) = &mut observation.inspection {
        inspection.images = images;
    }
    observation
}

/// Asks for each image without the logins of its pods, and with these where that does not find it: a Secret is read only
/// where a registry asks for it.
async fn ask(
    cluster: &dyn Cluster,
    images: Option<&Images>,
    request: &ObserveRequest,
    budget: Duration,
) -> Vec<ImageReading> {
    let Some(images) = images else { return Vec::new() };
    let checks = request.expectations.iter().filter_map(|expectation| match expectation {
        Expectation::Checks(checks) => Some(&checks.images),
        _ => None,
    });
    let mut logins: BTreeMap<&String, BTreeSet<&LoginSource>> = BTreeMap::new();
    for image in checks.flatten() {
        for place in image.asked() {
            logins.entry(place).or_default().extend(&image.logins);
        }
    }
    let asked: Vec<String> = logins.keys().map(|place| (*place).clone()).collect();
    let answers = images.ask(&asked, budget).await;
    let wants = |answer: &Option<ImageAnswer>| {
        matches!(answer, Some(ImageAnswer::Refused { .. } | ImageAnswer::Missing { .. }))
    };
    let wanting = asked.iter().zip(&answers).filter(|(_, answer)| wants(answer));
    let wanting: BTreeMap<&String, &BTreeSet<&LoginSource>> = wanting
        .filter_map(|(place, _)| Some((place, logins.get(place).filter(|sources| !sources.is_empty())?)))
        .collect();
    let mut with = with_logins(cluster, images, &wanting, budget).await;
    let reading = |(image, answer): (&String, Option<ImageAnswer>)| match with.remove(image) {
        Some((Some(state), login)) => ImageReading { image: image.clone(), state, login: Some(login) },
        Some((None, login)) => ImageReading { image: image.clone(), state: state(answer), login: Some(login) },
        None => ImageReading { image: image.clone(), state: state(answer), login: None },
    };
    asked.iter().zip(answers).map(reading).collect()
}

/// What becomes of the logins of each image, and what is said with one.
async fn with_logins(
    cluster: &dyn Cluster,
    images: &Images,
    wanting: &BTreeMap<&String, &BTreeSet<&LoginSource>>,
    budget: Duration,
) -> BTreeMap<String, (Option<ImageState>, LoginReading)> {
    if wanting.is_empty() {
        return BTreeMap::new();
    }
    let sources: BTreeSet<LoginSource> =
        wanting.values().flat_map(|sources| sources.iter().copied().cloned()).collect();
    let read = match cluster.pull_logins(&sources, images.pull_secret_namespaces()).await {
        Ok(read) => read,
        Err(ClusterError::Simulated(_)) => return BTreeMap::new(),
        Err(error) => {
            let remedy = "see that the cluster can be read".to_owned();
            let unread = LoginReading::Unread { reason: error.to_string(), remedy };
            return wanting.keys().map(|place| ((*place).clone(), (None, unread.clone()))).collect();
        }
    };
    let held: Vec<(String, Held)> =
        wanting.iter().map(|(place, sources)| ((*place).clone(), held(sources, &read))).collect();
    let questions: Vec<(String, Vec<PullSecret>)> =
        held.iter().map(|(place, held)| (place.clone(), held.secrets.clone())).collect();
    let answers = images.ask_with(&questions, budget).await;
    held.into_iter().zip(answers).map(|((place, held), answer)| (place, told(held, answer))).collect()
}

/// What the sources of an image lead to.
#[derive(Default)]
struct Held {
    secrets: Vec<PullSecret>,
    /// What could not be read of them, the gravest first.
    problem: Option<LoginReading>,
}

fn held(sources: &BTreeSet<&LoginSource>, read: &PullLogins) -> Held {
    let mut held = Held::default();
    for login in sources.iter().filter_map(|source| read.get(*source)).flatten() {
        let name = login.secret.as_str();
        let secret = match &login.content {
            PullContent::DockerConfigJson(text) => PullSecret::docker_config_json(name, text.expose_secret()),
            PullContent::DockerCfg(text) => PullSecret::docker_cfg(name, text.expose_secret()),
            PullContent::OfHost { host, user, password } => {
                Ok(PullSecret::of_host(name, host, user.expose_secret(), password.expose_secret()))
            }
            PullContent::Absent => {
                held.problem.get_or_insert(LoginReading::Absent { secret: name.to_owned() });
                continue;
            }
            PullContent::Unread { reason, remedy } => {
                let (reason, remedy) = (reason.clone(), remedy.clone());
                held.problem = Some(LoginReading::Unread { reason, remedy });
                continue;
            }
        };
        match secret {
            Ok(secret) => held.secrets.push(secret),
            Err(reason) => {
                let reason = format!("Secret {name}: {reason}");
                let remedy = "make it anew as a Secret of type kubernetes.io/dockerconfigjson".to_owned();
                held.problem = Some(LoginReading::Unread { reason, remedy });
            }
        }
    }
    held
}

/// What is said with a login; where that is refused, or there is none, what could not be read may hold another.
fn told(held: Held, answer: LoginAnswer) -> (Option<ImageState>, LoginReading) {
    match answer {
        LoginAnswer::NotAsked => (Some(ImageState::NotAsked), LoginReading::Lacking),
        LoginAnswer::Lacking => (None, held.problem.unwrap_or(LoginReading::Lacking)),
        LoginAnswer::With { secret, answer: ImageAnswer::Refused { reason } } => {
            let is_unread = |problem: &LoginReading| matches!(problem, LoginReading::Unread { .. });
            let refused = LoginReading::Refused { secret };
            (Some(ImageState::Unknown { reason }), held.problem.filter(is_unread).unwrap_or(refused))
        }
        LoginAnswer::With { secret, answer } => (Some(state(Some(answer))), LoginReading::Used { secret }),
    }
}

fn state(answer: Option<ImageAnswer>) -> ImageState {
    match answer {
        None => ImageState::NotAsked,
        Some(ImageAnswer::Found { architectures }) => ImageState::Found { architectures },
        Some(ImageAnswer::Missing { reason }) => ImageState::Missing { reason },
        Some(ImageAnswer::Refused { reason } | ImageAnswer::Unknown { reason }) => ImageState::Unknown { reason },
    }
}
