//! Charts from registries, and artifacts of ours in them, by the OCI distribution API.
//!
//! Asked for are the manifest of a chart (by the digest that the bundle gives, else by tag) and its one layer with the packed
//! chart. Both are checked against their digests. Registry, token server and the hosts that a registry sends on to (blobs
//! often lie in an object store) must each be on the allow-list, and credentials go to no other host than the registry and
//! its token server.
//!
//! The client is our own, since what `oci-client` gives has no place for these rules: it makes its HTTP client itself, follows
//! redirects and token servers anywhere, and reads answers without a bound.
//!
//! Sources: the OCI distribution specification 1.1, Docker's token authentication specification, and Helm's HIP-0006 for
//! the media types of charts.

mod artifact;
mod challenge;
mod credentials;
mod image;
mod manifest;
mod pull_secret;
mod pushed_image;
mod session;
mod transfer;

use std::sync::Arc;

use bundles::{Digest, ImageReference};
use overlays::{FetchError, Manifests};
use reqwest::redirect;

use self::credentials::Credentials;
use self::session::Session;
use super::address::MirrorPath;
use super::http::{FetchOptions, Http, wait_for};

pub use self::artifact::Artifact;
pub(crate) use self::credentials::Credential;
pub use self::image::ImageAnswer;
pub(crate) use self::image::{Looked, Place};
pub use self::pull_secret::PullSecret;
pub use self::pushed_image::PushedImage;

/// The largest manifest of a chart, in bytes: what the OCI specification asks registries to take at least.
const MAXIMUM_MANIFEST: u64 = 4 << 20;

/// Fetches packed charts from OCI registries.
#[derive(Clone, Debug)]
pub struct Registry {
    http: Http,
    credentials: Credentials,
}

/// A chart in a registry.
#[derive(Debug)]
struct Chart {
    /// Host and port.
    host: String,
    /// Path of the repository on the host.
    repository: String,
    tag: String,
    /// Of its OCI manifest.
    digest: Option<Digest>,
}

impl Registry {
    /// A source with these options. Credentials are those of the Docker configuration of this process.
    ///
    /// # Errors
    /// When TLS cannot be set up, for example without any root certificate on the machine.
    pub fn new(options: FetchOptions) -> Result<Self, reqwest::Error> {
        Self::with_scheme(options, Credentials::of_environment(), "https")
    }

    fn with_scheme(
        options: FetchOptions,
        credentials: Credentials,
        scheme: &'static str,
    ) -> Result<Self, reqwest::Error> {
        // Redirects are followed by the session, which knows what may go along.
        Ok(Self { http: Http::new(options, scheme, redirect::Policy::none())?, credentials })
    }

    async fn pull(&self, uri: &str, chart: Chart) -> Result<Arc<[u8]>, FetchError> {
        let failed = |message: String| FetchError::Failed { uri: uri.to_owned(), message };
        let mut session = Session::new(&self.http, &self.credentials, uri, &chart.host, &chart.repository);
        let reference = chart.digest.map_or_else(|| chart.tag.clone(), |digest| digest.to_string());
        let bytes = session.get(&format!("manifests/{reference}"), manifest::ACCEPTED, MAXIMUM_MANIFEST).await?;
        let found = Digest::of(&bytes);
        if let Some(wanted) = chart.digest.filter(|wanted| *wanted != found) {
            return Err(failed(format!("its manifest has digest {found}, and {wanted} is asked for")));
        }
        let layer = manifest::chart_layer(&bytes).map_err(failed)?;
        let maximum = self.http.options.maximum_bytes;
        if layer.size > maximum {
            return Err(failed(format!("the chart has {} bytes, more than {maximum}", layer.size)));
        }
        let bytes = session.get(&format!("blobs/{}", layer.digest), "application/octet-stream", layer.size).await?;
        let found = Digest::of(&bytes);
        if found != layer.digest || bytes.len() as u64 != layer.size {
            let (size, wanted) = (bytes.len(), layer.digest);
            let expected = layer.size;
            return Err(failed(format!(
                "the chart that came has {size} bytes and digest {found}, and its manifest names {expected} bytes and {wanted}"
            )));
        }
        Ok(bytes.into())
    }
}

impl Manifests for Registry {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        let chart = Chart::parse(uri).map_err(|searched| FetchError::NotFound { uri: uri.to_owned(), searched })?;
        if !self.http.options.allow.allows(&chart.host, &chart.repository) {
            return Err(FetchError::NotAllowed { uri: uri.to_owned() });
        }
        wait_for(uri, self.pull(uri, chart))
    }
}

impl Chart {
    /// Reads `oci://host/repository:tag[@digest]`.
    fn parse(uri: &str) -> Result<Self, String> {
        // A reference that could leave a mirror folder could leave the repository's path on its host, too.
        MirrorPath::of_chart(uri).map_err(|error| error.to_string())?;
        let no_reference = || "it is not a valid reference `host/repository:tag`".to_owned();
        let plain = uri.strip_prefix("oci://").ok_or_else(no_reference)?;
        let image: ImageReference = plain.parse().map_err(|_| no_reference())?;
        let (host, repository) = image.repository().split_once('/').ok_or_else(no_reference)?;
        Ok(Self {
            host: host.to_ascii_lowercase(),
            repository: repository.to_owned(),
            tag: image.tag().ok_or_else(no_reference)?.to_owned(),
            digest: image.digest(),
        })
    }
}

#[cfg(test)]
mod fuzzed;
#[cfg(test)]
mod image_tests;
#[cfg(test)]
mod tests;
