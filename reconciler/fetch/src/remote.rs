//! The network as one source: manifests over HTTPS, charts from registries.

use std::sync::Arc;

use overlays::{FetchError, Manifests};

use super::http::FetchOptions;
use super::https::Https;
use super::registry::Registry;

/// Fetches `https://…` from its host and `oci://repository:tag` from its registry, where the allow-list has them.
#[derive(Clone, Debug)]
pub struct Remote {
    https: Https,
    registry: Registry,
}

impl Remote {
    /// A source with these options. Credentials for registries are those of the Docker configuration of this process.
    ///
    /// # Errors
    /// When TLS cannot be set up, for example without any root certificate on the machine.
    pub fn new(options: FetchOptions) -> Result<Self, reqwest::Error> {
        Ok(Self { https: Https::new(options.clone())?, registry: Registry::new(options)? })
    }
}

impl Manifests for Remote {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        if uri.starts_with("oci://") { self.registry.get(uri) } else { self.https.get(uri) }
    }
}
