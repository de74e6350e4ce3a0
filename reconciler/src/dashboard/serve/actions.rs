//! What people do on the dashboard: what can be done to a cluster, and doing it.
//!
//! Three fences stand before a form: the cookie that other sites' requests do not carry, the browser's own word on where a request comes
//! from (`guard`), and a mark that only pages of the same session bear. The plan that stood on the page is a fourth, for people in a hurry.

use std::time::Duration;

use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use domain::PlanDigest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::router::{Answer, Dashboard, unread};
use crate::dashboard::access::{Reader, Refusal};
use crate::dashboard::detail::DetailError;
use crate::dashboard::pages;
use crate::reconcile::actions::{self, Acting, Action, ActionError, Done, Offered, Verb};

/// How long a cluster is held where nobody says how long.
const HELD: Duration = Duration::from_secs(60 * 60);

/// The longest reason, in characters.
const LONGEST_REASON: usize = 1000;

/// What can be done to a cluster, by whoever asks.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::dashboard) struct OffersReport {
    /// The cluster.
    pub(in crate::dashboard) cluster: String,
    /// As whom whoever asks would act; null where nobody acts here.
    pub(in crate::dashboard) person: Option<String>,
    /// One a verb.
    pub(in crate::dashboard) offers: Vec<OfferReport>,
}

/// Whether one verb can be said.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::dashboard) struct OfferReport {
    /// The verb.
    pub(in crate::dashboard) verb: Verb,
    /// Whether whoever asks may say it.
    pub(in crate::dashboard) allowed: bool,
    /// What it would do.
    pub(in crate::dashboard) offered: Offered,
}

/// A form, as a page or a program sends it.
#[derive(Debug, Deserialize)]
struct Sent {
    /// The plan that stood on the page.
    plan: String,
    /// The mark of the session's pages.
    #[serde(default)]
    mark: String,
    #[serde(default)]
    reason: String,
    /// How long a cluster is held.
    #[serde(default)]
    lasts: String,
    /// What it goes back to.
    #[serde(default)]
    to: String,
    /// Whether a rollback ends.
    #[serde(default)]
    ends: String,
}

/// What was done, as a program reads it.
#[derive(Debug, Serialize)]
struct DoneReport {
    commit: Option<String>,
    told: Vec<String>,
}

/// The pages below a cluster that act.
pub(super) fn routes() -> Router<Dashboard> {
    Router::new()
        .route("/clusters/{cluster}/actions", get(shown))
        .route("/clusters/{cluster}/actions.json", get(told))
        .route("/clusters/{cluster}/actions/{verb}", post(act))
}

async fn offers(dashboard: &Dashboard, reader: &Reader, cluster: &str) -> Answer<OffersReport> {
    let access = dashboard.access();
    let person = dashboard.actors().and_then(|_| access.person(reader));
    let name = cluster.to_owned();
    let (_, found) = dashboard
        .read(move |snapshot| {
            let (planner, row) = (&snapshot.fleet.planner, snapshot.row(&name));
            row.ok_or_else(|| DetailError::NoCluster(name.clone()))?;
            let unread = |error: String| DetailError::Unread(error);
            let reading = planner.read().map_err(|error| unread(error.to_string()))?;
            let view = planner.view(&reading, &name).map_err(|error| unread(error.to_string()))?;
            Ok(actions::offers(planner, &reading, &view, Timestamp::now()))
        })
        .await?;
    let mut offers = Vec::new();
    for (verb, offered) in found {
        let allowed = person.is_some() && access.may(reader, verb, cluster).await.map_err(refused)?;
        offers.push(OfferReport { verb, allowed, offered });
    }
    let person = person.map(|person| person.identity.to_string());
    Ok(OffersReport { cluster: cluster.to_owned(), person, offers })
}

async fn shown(
    State(dashboard): State<Dashboard>,
    Extension(reader): Extension<Reader>,
    Path(cluster): Path<String>,
) -> Answer<Response> {
    let report = offers(&dashboard, &reader, &cluster).await?;
    let mark = dashboard.access().form(&reader);
    let snapshot = dashboard.snapshot()?;
    Ok(pages::actions(&snapshot, &report, mark.as_deref()).into_response())
}

async fn told(
    State(dashboard): State<Dashboard>,
    Extension(reader): Extension<Reader>,
    Path(cluster): Path<String>,
) -> Answer<Response> {
    Ok(Json(offers(&dashboard, &reader, &cluster).await?).into_response())
}

async fn act(
    State(dashboard): State<Dashboard>,
    Extension(reader): Extension<Reader>,
    Path((cluster, verb)): Path<(String, String)>,
    headers: HeaderMap,
    Form(sent): Form<Sent>,
) -> Answer<Response> {
    let access = dashboard.access();
    let Some(verb) = Verb::of(&verb) else { return Err(said(StatusCode::NOT_FOUND, "there is no such action").into()) };
    if !access.is_form(&reader, &sent.mark) {
        let told = "this form is not of a page of this session: open the page again";
        return Err(said(StatusCode::FORBIDDEN, told).into());
    }
    let (Some(actors), Some(person)) = (dashboard.actors(), access.person(&reader)) else {
        let told = "nobody acts here: it is not known who you are, or this dashboard only reads";
        return Err(said(StatusCode::FORBIDDEN, told).into());
    };
    if !access.may(&reader, verb, &cluster).await.map_err(refused)? {
        let told = format!("you may not {} rollouts.stepgate.dev of cluster {cluster}", verb.word());
        return Err(said(StatusCode::FORBIDDEN, &told).into());
    }
    let Ok(plan) = sent.plan.parse::<PlanDigest>() else {
        return Err(said(StatusCode::BAD_REQUEST, "the form names no plan").into());
    };
    let action = action(verb, &sent).map_err(|told| said(StatusCode::BAD_REQUEST, &told))?;
    let snapshot = dashboard.snapshot()?;
    if snapshot.row(&cluster).is_none() {
        return Err(said(StatusCode::NOT_FOUND, "there is no such cluster").into());
    }
    let (planner, now) = (&snapshot.fleet.planner, Timestamp::now());
    let acting = Acting { by: &person.identity, place: &person.place, plan: &plan };
    let done = actions::perform(planner, &actors.clusters, &cluster, &action, acting, now);
    let outcome = Box::pin(done).await;
    actors.audit.record((&person, verb, &cluster), &plan, &outcome, now);
    Ok(answer(&headers, &cluster, verb, &outcome))
}

/// What a form asks for.
fn action(verb: Verb, sent: &Sent) -> Result<Action, String> {
    let text = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
    let reason = text(&sent.reason);
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > LONGEST_REASON) {
        return Err(format!("a reason has at most {LONGEST_REASON} characters"));
    }
    let needed = |reason: Option<String>| reason.ok_or_else(|| "say why, for those who ask".to_owned());
    Ok(match verb {
        Verb::Approve => Action::Approve,
        Verb::Reject => Action::Reject { reason: needed(reason)? },
        Verb::Hold => {
            let lasts = text(&sent.lasts).map_or(Ok(HELD), |lasts| policy::parse_duration(&lasts));
            Action::Hold { reason: needed(reason)?, lasts: lasts.map_err(|error| error.to_string())? }
        }
        Verb::Resume => Action::Resume,
        Verb::Retry => Action::Retry,
        Verb::Rollback if text(&sent.ends).is_some() => Action::EndRollback,
        Verb::Rollback => Action::Rollback { to: text(&sent.to), reason },
    })
}

fn answer(headers: &HeaderMap, cluster: &str, verb: Verb, outcome: &Result<Done, ActionError>) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let status = match outcome {
        Ok(_) => StatusCode::OK,
        Err(ActionError::OtherPlan { .. }) => StatusCode::CONFLICT,
        Err(ActionError::Answer(error)) if error.is_of_another_plan() => StatusCode::CONFLICT,
        Err(ActionError::Cluster(_) | ActionError::Git(_)) => StatusCode::BAD_GATEWAY,
        Err(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    match outcome {
        outcome if accept.contains("text/html") => (status, pages::acted(cluster, verb, outcome)).into_response(),
        Ok(Done { commit, told }) => {
            let commit = commit.as_ref().map(ToString::to_string);
            (status, Json(DoneReport { commit, told: told.clone() })).into_response()
        }
        Err(error) => {
            let hint = error.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
            (status, format!("{error}\n{hint}")).into_response()
        }
    }
}

fn said(status: StatusCode, told: &str) -> Response {
    (status, pages::missing(told)).into_response()
}

fn refused(refusal: Refusal) -> super::router::Refused {
    match refusal {
        Refusal::Unasked => unread("whoever knows what you may do does not answer"),
        other => other.into_response().into(),
    }
}
