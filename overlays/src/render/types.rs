//! What is asked of the renderer, and what it answers.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::object::ObjectSummary;
use crate::{
    BundleFile, ChartError, Charts, ClusterSpec, DeployedTree, FetchError, Files, Fleet, Manifests, RenderedTree,
    RepoPath,
};

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
    /// The cluster specification.
    Cluster,
    /// Flux Kustomizations, one for each directory; they lie under `flux/<cluster>/`, outside the cluster's directory.
    FluxObjects,
}

impl ComponentName {
    /// Every component, in order.
    pub const ALL: [Self; 9] = [
        Self::Bundle,
        Self::CertManager,
        Self::Capi,
        Self::EksA,
        Self::CiliumPreflight,
        Self::Cilium,
        Self::Flux,
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

/// A text is no name of a component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no component")]
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
    pub hops: Vec<Hop>,
    /// Minor versions (as `1.18`) that would have to be gone through and that no bundle of the repository has. The plan
    /// is blocked while there are any.
    pub missing_hops: Vec<String>,
}

/// An intermediate version of a component (Cilium and cert-manager go minor by minor).
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
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

/// A version that disappears from a `CustomResourceDefinition`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedVersion {
    /// Name of the definition, `<plural>.<group>`.
    pub definition: String,
    /// The version.
    pub version: String,
    /// Whether it was the storage version.
    pub was_storage: bool,
    /// Whether it was served.
    pub was_served: bool,
}

/// How much a [`Note`] weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// Good to know.
    Note,
    /// May break something; look at it.
    Risk,
    /// Cannot be undone by committing the old files back.
    OneWay,
    /// Would be refused, or break what is there: the plan must not start.
    Block,
}

/// The kind of a [`Note`], stable for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteKind {
    /// The storage version of a definition changes.
    StorageVersionChanged,
    /// A version disappears from a definition.
    VersionRemoved,
    /// A version that disappears or is not served is used by a file of the repository.
    VersionInUse,
    /// A version of a definition is marked as deprecated from now on.
    VersionDeprecated,
    /// How versions are converted changes.
    ConversionChanged,
    /// The storage version of a definition changes, and nothing converts what is stored.
    ConversionMissing,
    /// A default of a provider variable changes without a change of the variable.
    DefaultChanged,
    /// Images are of another release than the manifest that they are put into.
    ImagesOfAnotherRelease,
    /// `metadata.yaml` and the labels of the definitions name different contracts.
    ContractMismatch,
    /// A provider moves to another contract of Cluster API.
    ContractChanged,
    /// A webhook disappears; the old one must not stay behind.
    WebhookRemoved,
    /// A webhook no longer takes a form of the request.
    ReviewVersionRemoved,
    /// A field that cannot be changed in place differs.
    ImmutableFieldChanged,
    /// An object is no longer part of the component.
    ObjectRemoved,
    /// A definition is too large for client-side apply.
    LargeDefinition,
    /// A manifest that `bundles.lock` does not name.
    ManifestNotLocked,
    /// A signature of a Bundles object does not fit what it stands for.
    SignatureInvalid,
    /// An image of the manifest that the bundle has no image for.
    ImageUnmatched,
    /// An image of the bundle without digest: it cannot be pinned.
    ImageNotPinned,
    /// A reference with another tag of the same digest was kept as deployed.
    ReferenceKept,
    /// A Secret with variables was left out.
    SecretOmitted,
    /// EKS Anywhere's own controller writes these objects too.
    TwoWriters,
    /// The component cannot be installed and was left out.
    NotInstallable,
    /// A minor version is skipped.
    SkippedMinor,
    /// A worker group shares a machine configuration and rolls earlier than its own stage.
    SharedMachineConfig,
    /// A manifest of the repository or bundle was used in a way worth knowing.
    Information,
}

/// Something to know about a rendered component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// How much it weighs.
    pub weight: Weight,
    /// What kind it is.
    pub kind: NoteKind,
    /// The object it is about, as `Kind namespace/name` or `Kind name`.
    pub object: Option<String>,
    /// What to know: lower case, no full stop.
    pub message: String,
}

impl Note {
    /// A note of weight `weight`.
    pub fn new(weight: Weight, kind: NoteKind, message: impl Into<String>) -> Self {
        Self { weight, kind, object: None, message: message.into() }
    }

    /// About the object shown as `object`.
    #[must_use]
    pub fn object(mut self, object: impl fmt::Display) -> Self {
        self.object = Some(object.to_string());
        self
    }
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(object) = &self.object {
            write!(formatter, "{object}: ")?;
        }
        formatter.write_str(&self.message)
    }
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
        "{uri} has digest {found} but bundles.lock says {locked}; if the new content is wanted, run stepgate bundle fetch"
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
