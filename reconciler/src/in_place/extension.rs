//! The Runtime Extension: Cluster API's hooks by HTTPS, answered by the package `in-place`.
//!
//! It remembers nothing: what can be updated follows from the request, and how far a machine is from the objects of the
//! management cluster. So any number of these processes give the same answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures::future::BoxFuture;
use in_place::admission;
use in_place::hooks::{
    CanUpdate, Hook, LARGEST_REQUEST, Progress, UpdateMachine, can_update, discovered, failure, update_machine,
};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::timeout;

use crate::endpoint::Limits;

/// How long an answer may take. Cluster API waits for ten seconds, and one of its workers with it.
const ANSWER: Duration = Duration::from_secs(2);

/// Says how far a machine is that is brought to what is desired.
#[derive(Clone)]
pub struct Updates(Arc<dyn Fn(UpdateMachine) -> BoxFuture<'static, Result<Progress, String>> + Send + Sync>);

impl Updates {
    /// Asks this function.
    pub fn new(
        ask: impl Fn(UpdateMachine) -> BoxFuture<'static, Result<Progress, String>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(ask))
    }
}

impl fmt::Debug for Updates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Updates")
    }
}

/// The bounds of the endpoint that the hooks are answered at.
#[must_use]
pub fn limits() -> Limits {
    Limits { header: ANSWER, request: ANSWER * 2, connection: ANSWER * 4, ..Limits::default() }
}

/// Answers every hook at its path, and the API server when an owner of machines is changed.
pub fn hooks_router(updates: &Updates) -> Router {
    let router = Router::new().route(admission::PATH, post(admit));
    Hook::ALL.into_iter().fold(router, |router, hook| {
        let updates = updates.clone();
        // Bytes, not JSON of axum: Cluster API names no content type.
        router.route(&hook.path(), post(move |body: Body| answer(hook, body, updates)))
    })
}

/// Answers `/healthz` and `/readyz`: whoever answers these answers the hooks.
pub fn health_router() -> Router {
    let healthy = || async { "ok\n" };
    Router::new().route("/healthz", get(healthy)).route("/readyz", get(healthy))
}

/// A body of at most so many bytes.
async fn bytes_of(body: Body, most: usize) -> Option<Bytes> {
    let is_announced = usize::try_from(body.size_hint().lower()).is_ok_and(|size| size <= most);
    if is_announced { to_bytes(body, most).await.ok() } else { None }
}

async fn admit(body: Body) -> Response {
    let Some(bytes) = bytes_of(body, admission::LARGEST_REQUEST).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    match admission::review(&bytes, Timestamp::now()) {
        Ok(answer) => ([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response(),
        Err(error) => {
            tracing::warn!("not a valid AdmissionReview: {error}");
            StatusCode::BAD_REQUEST.into_response()
        }
    }
}

async fn answer(hook: Hook, body: Body, updates: Updates) -> Response {
    let Some(bytes) = bytes_of(body, LARGEST_REQUEST).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let answer = match hook {
        Hook::Discovery => discovered(),
        Hook::CanUpdateMachine => {
            CanUpdate::of_machine(&bytes).map_or_else(|error| failed(hook, error), |request| said(&request))
        }
        Hook::CanUpdateMachineSet => {
            CanUpdate::of_machine_set(&bytes).map_or_else(|error| failed(hook, error), |request| said(&request))
        }
        Hook::UpdateMachine => match UpdateMachine::read(&bytes) {
            Err(error) => failed(hook, error),
            Ok(request) => match timeout(ANSWER, (updates.0)(request)).await {
                Ok(Ok(progress)) => update_machine(&progress),
                Ok(Err(reason)) => failed(hook, reason),
                Err(_) => failed(hook, "the management cluster did not answer in time"),
            },
        },
    };
    ([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}

/// The answer, and a line in the log: Cluster API says of a decline no more than that there was one.
fn said(request: &CanUpdate) -> Value {
    let answer = can_update(request);
    let text = |place: &str| request.current.machine.pointer(place).and_then(Value::as_str).unwrap_or_default();
    let message = answer.get("message").and_then(Value::as_str).unwrap_or_default();
    tracing::info!(
        hook = %request.hook,
        namespace = text("/metadata/namespace"),
        name = text("/metadata/name"),
        "{}",
        if message.is_empty() { "is updated in place" } else { message }
    );
    answer
}

fn failed(hook: Hook, reason: impl fmt::Display) -> Value {
    tracing::warn!(%hook, "{reason}");
    failure(hook, &reason.to_string())
}
