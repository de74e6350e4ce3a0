//! What is asked of the renderer, and what it answers.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::note::{Note, RemovedVersion};
use crate::object::ObjectSummary;
use crate::{
    BundleFile, ChartError, Charts, ClusterSpec, DeployedTree, FetchError, Files, Fleet, Manifests, RenderedTree,
};
use domain::RepoPath;

/// One directory of a cluster on the deploy branch, in the order of the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComponentName {
    /// Bundles, `EKSARelease`, EKS-D releases, ConfigMap of upgrader images.
    Bundle,
    /// cert-manager.
    CertManager,
    /// Cluster API core and every provider.
    Capi,
    /// EKS Anywhere's definitions and controller.
    EksA,
    /// The DaemonSet that pulls Cilium's next images.
    CiliumPreflight,
    /// Cilium.
    Cilium,
    /// Flux's controllers.
    Flux,
    /// Add-ons of an image of Tanzu, where no Supervisor applies them.
    Addons,
    /// Templates of machines that are named by their content.
    Templates,
    /// The cluster specification.
    Cluster,
    /// Flux Kustomizations, one for each directory; they lie under `flux/<cluster>/`, outside the cluster's directory.
    FluxObjects,
}

impl ComponentName {
    /// Every component, in order.
    pub const ALL: [Self; 11] = [
        Self::Bundle,
        Self::CertManager,
        Self::Capi,
        Self::EksA,
        Self::CiliumPreflight,
        Self::Cilium,
        Self::Flux,
        Self::Addons,
        Self::Templates,
        Self::Cluster,
        Self::FluxObjects,
    ];

    /// Its directory below `clusters/<name>/`; for [`ComponentName::FluxObjects`] the folder `flux`, which has a folder
    /// for each cluster.
    pub fn directory(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::CertManager => "cert-manager",
            Self::Capi => "capi",
            Self::EksA => "eks-a",
            Self::CiliumPreflight => "cilium-preflight",
            Self::Cilium => "cilium",
            Self::Flux => "flux-system",
            Self::Addons => "addons",
            Self::Templates => "templates",
            Self::Cluster => "cluster",
            Self::FluxObjects => "flux",
        }
    }

    /// The name of its folder under `overlays/`: the directory, but `flux` for Flux.
    pub fn overlay(self) -> &'static str {
        match self {
            Self::Flux => "flux",
            _ => self.directory(),
        }
    }
}

impl fmt::Display for ComponentName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Flux => "flux",
            Self::FluxObjects => "flux-objects",
            _ => self.directory(),
        })
    }
}

/// A text is not a valid name of a component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid component")]
pub struct UnknownComponent(String);

impl FromStr for ComponentName {
    type Err = UnknownComponent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|name| name.to_string() == text).ok_or_else(|| UnknownComponent(text.to_owned()))
    }
}

/// Everything that one cluster's target follows from. The same request gives the same bytes.
#[derive(Clone, Copy)]
pub struct RenderRequest<'a> {
    /// The fleet of the source commit.
    pub fleet: &'a Fleet,
    /// The cluster.
    pub cluster: &'a ClusterSpec,
    /// Its bundle; `None` for kinds that follow none (then only the specification is rendered).
    pub bundle: Option<&'a BundleFile>,
    /// What its directory on the deploy branch holds; empty for a new cluster.
    pub deployed: &'a DeployedTree,
    /// Upstream manifests.
    pub manifests: &'a dyn Manifests,
    /// Helm.
    pub charts: &'a dyn Charts,
    /// The source commit, for `overlays/`.
    pub files: &'a dyn Files,
}

/// The target of one cluster.
#[derive(Clone, Debug, Default)]
pub struct RenderedCluster {
    /// What could be rendered and what could not, by component.
    pub components: BTreeMap<ComponentName, Result<RenderedComponent, RenderError>>,
    /// Components that this cluster has not, and why.
    pub skipped: BTreeMap<ComponentName, String>,
}

/// One component, rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedComponent {
    /// Which one.
    pub name: ComponentName,
    /// Its version as the bundle has it.
    pub version: Option<String>,
    /// Its files; paths are relative to `clusters/<cluster>/` and begin with its directory. Only those of
    /// [`ComponentName::FluxObjects`] are relative to `flux/<cluster>/`.
    pub tree: RenderedTree,
    /// What the files hold, in their order, for gates.
    pub objects: Vec<ObjectSummary>,
    /// What a person should know before it is applied.
    pub notes: Vec<Note>,
    /// Definitions that stop having a version; `status.storedVersions` must not list it any more when this is applied.
    pub removed_versions: Vec<RemovedVersion>,
    /// Versions to go through before this one, in order; empty when none is skipped.
    pub hops: Vec<IntermediateVersion>,
    /// Minor versions (as `1.18`) that would have to be gone through and that no bundle of the repository has. The plan
    /// is blocked while there are any.
    pub missing_hops: Vec<String>,
}

/// An intermediate version of a component (Cilium and cert-manager go minor by minor).
#[derive(Clone, Debug, PartialEq)]
pub struct IntermediateVersion {
    /// Its version.
    pub version: String,
    /// Name of the bundle that it comes from.
    pub bundle: String,
    /// The files at that version.
    pub tree: RenderedTree,
    /// What they hold.
    pub objects: Vec<ObjectSummary>,
    /// As in [`RenderedComponent`].
    pub notes: Vec<Note>,
    /// As in [`RenderedComponent`].
    pub removed_versions: Vec<RemovedVersion>,
}

/// Why a component could not be rendered. Other components are not touched by it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RenderError {
    /// The bundle has no such section, or not for this Kubernetes version.
    #[error("bundle {bundle} has no {section} for Kubernetes {kubernetes_version}")]
    NoSection {
        /// Name of the bundle.
        bundle: String,
        /// The missing key.
        section: String,
        /// The cluster's Kubernetes version.
        kubernetes_version: String,
    },
    /// The section holds placeholders only (`deprecated`, `<placeholder>`).
    #[error("{section} of bundle {bundle} cannot be installed: {reason}")]
    NotInstallable {
        /// Name of the bundle.
        bundle: String,
        /// The key.
        section: String,
        /// What says so.
        reason: String,
    },
    /// The manifest could not be had.
    #[error("cannot render {section}: {source}")]
    Fetch {
        /// The key of the section.
        section: String,
        /// The cause.
        source: FetchError,
    },
    /// The manifest is not the one that `bundles.lock` names.
    #[error(
        "{uri} has digest {found} but bundles.lock says {locked}; if the new content is wanted, run `stepgate bundle fetch`"
    )]
    LockMismatch {
        /// Its address.
        uri: String,
        /// The digest in the lock.
        locked: String,
        /// The digest of what came.
        found: String,
    },
    /// Variables of a provider manifest have no value.
    #[error("{uri}: {source}; set them under variables in stepgate.yaml")]
    Variables {
        /// Address of the manifest.
        uri: String,
        /// Which, and where.
        source: crate::variables::VariableError,
    },
    /// The upstream manifest is not usable.
    #[error("{uri}:{line}:{column}: {message}")]
    Manifest {
        /// Its address.
        uri: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// A kustomize overlay of the team is not usable.
    #[error("cannot build {path}: {message}")]
    Overlay {
        /// The overlay's folder or file.
        path: RepoPath,
        /// What is wrong, and where.
        message: String,
    },
    /// Helm could not render the chart.
    #[error(transparent)]
    Chart(#[from] ChartError),
    /// Two renders of one request differ, so no commit could ever be proven to be the right one.
    #[error("two renders of {chart} differ in {objects}; set the values that make them up ({hint})")]
    Unsteady {
        /// The chart.
        chart: String,
        /// What differs.
        objects: String,
        /// Which values to look at.
        hint: String,
    },
    /// Something else about the request.
    #[error("{0}")]
    Other(String),
}

impl RenderError {
    /// What helps.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Fetch { source, .. } | Self::Chart(ChartError::Fetch(source)) => source.hint(),
            Self::Chart(ChartError::NoHelm { .. }) => "install helm, or name it in STEPGATE_HELM",
            Self::NoSection { .. } => "take a bundle that has it, or another Kubernetes version",
            Self::NotInstallable { .. }
            | Self::LockMismatch { .. }
            | Self::Variables { .. }
            | Self::Manifest { .. }
            | Self::Overlay { .. }
            | Self::Chart(_)
            | Self::Unsteady { .. }
            | Self::Other(_) => "correct what the message names and push again",
        }
    }
}
