//! Upstream manifests and Helm charts: from mirror folders, over HTTPS, from registries, through the `helm` program.
//!
//! The way of one address: [`Cache`] → each [`Mirror`] folder → [`Remote`], first hit wins. A packed chart has the address
//! `oci://repository:tag`, with `@sha256:…` of its OCI manifest where the bundle gives one. The digest in `bundles.lock`
//! is checked by whoever asked, not here.

mod address;
mod cache;
mod charts;
mod helm;
mod http;
mod https;
mod images;
mod inflation;
mod issuer;
#[cfg(test)]
mod loopback;
mod mirror;
mod network;
mod nondeterminism;
mod registry;
mod remote;

pub use address::{MirrorPath, MirrorPathError};
pub use cache::{Cache, Chain};
pub use charts::HelmCharts;
pub use helm::{HELM_VARIABLE, Helm, HelmError};
pub use http::FetchOptions;
pub use https::Https;
pub use images::{Images, LoginAnswer};
pub use inflation::ChartInflation;
pub use issuer::Issuer;
pub use mirror::{Mirror, MirrorFolder};
pub use network::{AllowList, is_public};
pub use registry::{Artifact, ImageAnswer, PullSecret, PushedImage, Registry};
pub use remote::Remote;
