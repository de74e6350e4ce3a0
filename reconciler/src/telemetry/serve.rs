//! The HTTP endpoint of metrics and health.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::health::{Health, Unhealthy};
use super::metrics::Metrics;

/// Answers `GET /metrics`, `/healthz` and `/readyz`. Nothing behind it is secret, and nothing can be changed through it.
pub fn router(metrics: Arc<Metrics>, health: Arc<Health>) -> Router {
    Router::new()
        .route("/metrics", get(async |State((metrics, _)): State<(Arc<Metrics>, Arc<Health>)>| text(metrics.text())))
        .route("/healthz", get(async |State((_, health)): State<(Arc<Metrics>, Arc<Health>)>| answer(health.live())))
        .route(
            "/readyz",
            get(async |State((_, health)): State<(Arc<Metrics>, Arc<Health>)>| answer(health.readiness())),
        )
        .with_state((metrics, health))
}

fn text(metrics: String) -> Response {
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], metrics).into_response()
}

fn answer(health: Result<(), Unhealthy>) -> Response {
    match health {
        Ok(()) => "ok\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}
