//! Where upstream manifests and Helm charts come from.

use std::sync::Arc;

/// Why a manifest or a chart could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// No mirror has it, and fetching it is not allowed or not possible here.
    #[error("{uri} is not there: {searched}")]
    NotFound {
        /// The address asked for.
        uri: String,
        /// Where it was looked for.
        searched: String,
    },
    /// The allow-list of `stepgate.yaml` does not name its host.
    #[error("{uri} is not on the allow-list")]
    NotAllowed {
        /// The address asked for.
        uri: String,
    },
    /// Its host sends on to another one, which the allow-list does not name.
    #[error("the host of {uri} sends on to {host}, which is not on the allow-list")]
    SentOn {
        /// The address asked for.
        uri: String,
        /// Where its host sends on to.
        host: String,
    },
    /// Reading or fetching it failed.
    #[error("cannot fetch {uri}: {message}")]
    Failed {
        /// The address asked for.
        uri: String,
        /// The cause.
        message: String,
    },
}

impl FetchError {
    /// What helps.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => {
                "get what bundles name with `stepgate bundle fetch BUNDLES --to DIR`, and give it with --mirror DIR (STEPGATE_MIRROR)"
            }
            Self::NotAllowed { .. } => "name its host under fetch.allow in stepgate.yaml, or give it with --mirror",
            Self::SentOn { .. } => {
                "name that host too under fetch.allow in stepgate.yaml, if it is right, or give the manifest with --mirror"
            }
            Self::Failed { .. } => "it is tried again; where this machine cannot reach it, give it with --mirror",
        }
    }
}

/// Upstream manifests by address, and packed charts at `oci://repository:tag`, with `@sha256:…` of the chart's OCI manifest
/// where it is known. The digest in `bundles.lock` is checked by the caller, not by implementations.
pub trait Manifests: Send + Sync {
    /// The bytes at `uri`.
    ///
    /// # Errors
    /// [`FetchError`] when there is none.
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError>;
}

/// What to render a Helm chart with; the same request gives the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChartRequest {
    /// OCI reference `repository:tag` as the bundle has it, such as `public.ecr.aws/eks/cilium/cilium:1.19.4-1`.
    pub chart: String,
    /// Digest of the chart `sha256:…`, when the bundle has one.
    pub digest: Option<String>,
    /// Digest of the chart's archive `sha256:…` that `bundles.lock` names, when it names one: whoever has the archive checks it.
    pub locked: Option<String>,
    /// Release name.
    pub name: String,
    /// Namespace of the release.
    pub namespace: String,
    /// `--kube-version`, as `major.minor`.
    pub kubernetes_version: String,
    /// Values as one JSON object; keys sorted, so that equal values are equal text.
    pub values: String,
}

/// Why a chart could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChartError {
    /// There is no `helm` program.
    #[error("no helm program to render chart {chart} with: {message}")]
    NoHelm {
        /// The chart asked for.
        chart: String,
        /// Where it was looked for, and what to do.
        message: String,
    },
    /// The chart could not be had.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The archive is not the one that `bundles.lock` names.
    #[error(
        "chart {chart} has digest {found} but bundles.lock says {locked}; if the new content is wanted, run `stepgate bundle fetch`"
    )]
    LockMismatch {
        /// The chart asked for.
        chart: String,
        /// The digest in the lock.
        locked: String,
        /// The digest of what the mirror has.
        found: String,
    },
    /// `helm template` failed.
    #[error("helm template of {chart} failed: {message}")]
    Failed {
        /// The chart asked for.
        chart: String,
        /// What helm said.
        message: String,
    },
}

/// Helm charts, rendered by the `helm` program: nothing else renders them as Helm does.
pub trait Charts: Send + Sync {
    /// The manifest that `helm template` prints for `request`, custom resource definitions included.
    ///
    /// # Errors
    /// [`ChartError`] when helm, the chart or the rendering fails.
    fn template(&self, request: &ChartRequest) -> Result<Vec<u8>, ChartError>;
}
