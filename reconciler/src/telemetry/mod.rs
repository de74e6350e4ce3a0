//! What can be seen of a running process: logs, metrics, health.

mod access;
mod health;
mod logs;
mod metrics;
mod serve;

pub use access::{MetricsAccess, Refusal, Reviewer};
pub use health::{Health, Unhealthy};
pub use logs::{LogFormat, install};
pub use metrics::Metrics;
pub use serve::{health_router, metrics_router};
