//! Upstream manifests and Helm charts: from mirror folders, over HTTPS, through the `helm` program.
//!
//! The way of one address: [`Cache`] → each [`Mirror`] folder → [`Https`], first hit wins. The digest in `bundles.lock`
//! is checked by whoever asked, not here.

mod address;
mod cache;
mod charts;
mod helm;
mod https;
mod mirror;
mod network;
mod nondeterminism;

pub use address::{MirrorPath, MirrorPathError};
pub use cache::{Cache, Chain};
pub use charts::HelmCharts;
pub use helm::{HELM_VARIABLE, Helm, HelmError};
pub use https::{Https, HttpsOptions};
pub use mirror::Mirror;
pub use network::{AllowList, is_public};
