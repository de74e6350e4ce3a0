//! What is answered about this process: health to everybody, metrics to those who may see them.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::access::MetricsAccess;
use super::health::{Health, Unhealthy};
use super::metrics::Metrics;

/// Answers `GET /healthz` and `/readyz`. Nothing behind it is secret, and nothing can be changed through it.
pub fn health_router(health: Arc<Health>) -> Router {
    Router::new()
        .route("/healthz", get(async |State(health): State<Arc<Health>>| answer(health.live())))
        .route("/readyz", get(async |State(health): State<Arc<Health>>| answer(health.readiness())))
        .with_state(health)
}

/// Answers `GET /metrics`: they name the clusters of the fleet, so not everybody may see them.
pub fn metrics_router(metrics: Arc<Metrics>, access: MetricsAccess) -> Router {
    Router::new().route("/metrics", get(tell_metrics)).with_state((metrics, Arc::new(access)))
}

async fn tell_metrics(
    State((metrics, access)): State<(Arc<Metrics>, Arc<MetricsAccess>)>,
    headers: HeaderMap,
) -> Response {
    match access.admit(&headers).await {
        Ok(()) => text(metrics.text()),
        Err(refusal) => refusal.into_response(),
    }
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
