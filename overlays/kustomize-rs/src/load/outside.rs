//! What a build may ask of the world outside of its file tree: charts and remote bases.
//!
//! Both are off by default. This crate starts no program and opens no connection; who turns one on brings the code that
//! does.

use std::fmt;
use std::sync::Arc;

use super::remote::RemoteRepository;
use crate::fs::FileSystem;

/// A file tree that a build may keep.
pub type SharedFileSystem = Arc<dyn FileSystem + Send + Sync>;

/// What is on. The default has nothing on.
#[derive(Clone, Copy, Default)]
pub struct Outside<'o> {
    /// Renders `helmCharts`; kustomize's `--enable-helm`.
    pub charts: Option<&'o dyn ChartRenderer>,
    /// Fetches bases and files that a kustomization names by URL.
    pub remotes: Option<&'o dyn RemoteBases>,
}

impl fmt::Debug for Outside<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { charts, remotes } = self;
        formatter
            .debug_struct("Outside")
            .field("charts", &charts.is_some())
            .field("remotes", &remotes.is_some())
            .finish()
    }
}

/// Why something outside gave nothing. The message says what was attempted and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OutsideError(pub String);

/// Renders Helm charts, in kustomize by the `helm` program.
pub trait ChartRenderer: Sync {
    /// Fetches a chart that is not in the file tree; its files are at the root of what comes back.
    fn pull(&self, chart: &ChartPull) -> Result<SharedFileSystem, OutsideError>;
    /// Renders a chart: the YAML that `helm template` prints.
    fn template(&self, chart: &ChartTemplate<'_>) -> Result<Vec<u8>, OutsideError>;
}

/// Fetches what a kustomization names by URL, in kustomize by the `git` program and over HTTP.
pub trait RemoteBases: Sync {
    /// The files of a repository at the reference asked for.
    fn repository(&self, repository: &RemoteRepository) -> Result<SharedFileSystem, OutsideError>;
    /// One file, by an `http://` or `https://` URL.
    fn file(&self, url: &str) -> Result<Arc<[u8]>, OutsideError>;
}

/// A chart to fetch: fields of `helmCharts`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChartPull {
    /// `name`.
    pub name: String,
    /// `repo`: an `https://` or `oci://` address.
    pub repo: String,
    /// `version`; empty for the newest.
    pub version: String,
    /// `devel`: versions under development count too.
    pub devel: bool,
    /// Directory of the file tree that the chart's directory belongs into, so that the next build finds it there; none
    /// where the kustomization itself is remote.
    pub directory: Option<String>,
}

/// A chart to render: fields of `helmCharts`, with the files they name.
#[derive(Clone)]
pub struct ChartTemplate<'c> {
    /// Where the chart's files are.
    pub files: &'c dyn FileSystem,
    /// The chart's directory there.
    pub directory: String,
    /// `name`.
    pub name: String,
    /// `releaseName`; empty to have one made up.
    pub release_name: String,
    /// `namespace`; empty for helm's own.
    pub namespace: String,
    /// `nameTemplate`.
    pub name_template: String,
    /// Content of the values file, `valuesInline` merged in.
    pub values: Vec<u8>,
    /// Contents of `additionalValuesFiles`.
    pub additional_values: Vec<Arc<[u8]>>,
    /// `apiVersions`.
    pub api_versions: Vec<String>,
    /// `kubeVersion`; empty for helm's own.
    pub kube_version: String,
    /// `includeCRDs`.
    pub include_crds: bool,
    /// `skipTests`.
    pub skip_tests: bool,
    /// `skipHooks`.
    pub skip_hooks: bool,
    /// `debug`.
    pub debug: bool,
    /// `devel`.
    pub devel: bool,
}
