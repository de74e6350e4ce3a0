//! What is wrong with a fleet repository, said so that a person can repair it.
//!
//! Architecture Invariant: one cluster's bad input never stops another. A problem carries a scope;
//! a cluster's errors stay in its own task.

use std::fmt;

use serde::Serialize;

use crate::RepoPath;

/// How bad a [`Problem`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Told, and nothing stops.
    Note,
    /// Likely a mistake, and nothing stops.
    Warning,
    /// What the scope names cannot be planned until this is repaired.
    Error,
}

/// Whom a [`Problem`] concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// Every cluster.
    Fleet,
    /// One cluster, by name; the others go on.
    Cluster(String),
}

/// The kind of a [`Problem`], stable for scripts; serialized in kebab case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemCode {
    /// A file could not be read at all.
    Unreadable,
    /// A file is not UTF-8 text.
    NotText,
    /// A file is larger than what is read.
    TooLarge,
    /// A file is not YAML, or breaks a limit of depth or aliases.
    BadYaml,
    /// A key stands twice in one mapping.
    DuplicateKey,
    /// A symbolic link points out of the repository, or anywhere: links are not followed.
    Symlink,
    /// A submodule: its files are not read.
    Submodule,
    /// A path that is not UTF-8, or has a refused segment.
    BadPath,
    /// `stepgate.yaml` is not as documented.
    BadPolicy,
    /// A Bundles, `EKSARelease` or EKS-D Release manifest is not usable.
    BadBundle,
    /// Two bundles carry one number.
    DuplicateBundle,
    /// `bundles.lock` is not usable.
    BadLock,
    /// A cluster specification is not usable.
    BadCluster,
    /// Two cluster specifications carry one name.
    DuplicateCluster,
    /// A cluster names a bundle that is not in the repository.
    MissingBundle,
    /// A cluster names a Kubernetes version that its bundle has not.
    MissingKubernetesVersion,
    /// A Kubernetes version is out of standard support, and the cluster has no licence.
    ExtendedSupport,
    /// A signature that the policy requires is missing, or does not fit.
    Signature,
    /// A waiver of a check whose last day is over.
    ExpiredWaiver,
    /// A field differs from what is deployed, and cannot be changed in place.
    ImmutableField,
    /// Machines that are to be upgraded in place cannot be, as they are described.
    InPlace,
    /// Upstream changed a field that an overlay sets.
    OverlayConflict,
    /// A cluster names a management cluster or machine configuration that is not in the repository.
    MissingReference,
    /// Several clusters manage themselves, and one process is connected to one of them.
    SeveralManagementClusters,
    /// Waves put a cluster before the one that manages it.
    WaveOrder,
    /// An object names no namespace and needs one.
    MissingNamespace,
    /// Flux applies clusters from the source branch and would delete them once it applies the deploy branch.
    FluxPrunes,
    /// A kustomization, or a Kustomization of Flux, cannot be rendered as Flux would.
    NotRendered,
    /// A cluster is what kustomize or Flux make of its files.
    Rendered,
    /// A Kustomization of Flux applies this repository beside those of clusters.
    SharedSource,
    /// A field of a Kustomization of Flux does not count any more.
    FluxField,
    /// Flux applies no such cluster today.
    NotApplied,
    /// An object is encrypted, and Flux would not know how to decrypt it.
    MissingDecryption,
    /// A variable of a Kustomization of Flux has no value that is known.
    UnsetVariable,
    /// An object that several clusters use.
    SharedObject,
    /// No cluster is found.
    NoCluster,
    /// A cluster of a kind that is read and not rolled out.
    NotRolledOut,
    /// An object that makes clusters, or may: what it makes is not read.
    NotRead,
    /// A file is a template: it holds variables where values are needed.
    Template,
    /// A file or object was left out, and why.
    Skipped,
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unreadable => "unreadable",
            Self::NotText => "not-text",
            Self::TooLarge => "too-large",
            Self::BadYaml => "bad-yaml",
            Self::DuplicateKey => "duplicate-key",
            Self::Symlink => "symlink",
            Self::Submodule => "submodule",
            Self::BadPath => "bad-path",
            Self::BadPolicy => "bad-policy",
            Self::BadBundle => "bad-bundle",
            Self::DuplicateBundle => "duplicate-bundle",
            Self::BadLock => "bad-lock",
            Self::BadCluster => "bad-cluster",
            Self::DuplicateCluster => "duplicate-cluster",
            Self::MissingBundle => "missing-bundle",
            Self::MissingKubernetesVersion => "missing-kubernetes-version",
            Self::ExtendedSupport => "extended-support",
            Self::Signature => "signature",
            Self::ExpiredWaiver => "expired-waiver",
            Self::ImmutableField => "immutable-field",
            Self::InPlace => "in-place",
            Self::OverlayConflict => "overlay-conflict",
            Self::MissingReference => "missing-reference",
            Self::SeveralManagementClusters => "several-management-clusters",
            Self::WaveOrder => "wave-order",
            Self::MissingNamespace => "missing-namespace",
            Self::FluxPrunes => "flux-prunes",
            Self::NotRendered => "not-rendered",
            Self::Rendered => "rendered",
            Self::SharedSource => "shared-source",
            Self::FluxField => "flux-field",
            Self::NotApplied => "not-applied",
            Self::MissingDecryption => "missing-decryption",
            Self::UnsetVariable => "unset-variable",
            Self::SharedObject => "shared-object",
            Self::NoCluster => "no-cluster",
            Self::NotRolledOut => "not-rolled-out",
            Self::NotRead => "not-read",
            Self::Template => "template",
            Self::Skipped => "skipped",
        })
    }
}

/// One thing that is wrong in the repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What kind it is.
    pub code: ProblemCode,
    /// Whom it concerns.
    pub scope: Scope,
    /// The file, when it is about one.
    pub path: Option<RepoPath>,
    /// The file, escaped, when it is about one that no [`RepoPath`] can name.
    pub escaped_path: Option<String>,
    /// Line in the file, from 1.
    pub line: Option<usize>,
    /// Column in the line, from 1, in characters.
    pub column: Option<usize>,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to do about it, when there is something to say.
    pub hint: Option<String>,
}

impl Problem {
    /// An error of the whole fleet; refine it with the builder methods. A message of more than 2,000 characters, as of a file that
    /// somebody wrote to make it long, is cut there.
    pub fn new(code: ProblemCode, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            scope: Scope::Fleet,
            path: None,
            escaped_path: None,
            line: None,
            column: None,
            message: shortened(message.into()),
            hint: None,
        }
    }

    /// With another severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Only about the cluster `name`.
    #[must_use]
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.scope = Scope::Cluster(name.into());
        self
    }

    /// About the file `path`.
    #[must_use]
    pub fn path(mut self, path: &RepoPath) -> Self {
        self.path = Some(path.clone());
        self
    }

    /// About the file or folder at `path`, as far as it can be named.
    #[must_use]
    pub fn shown_path(mut self, path: &str) -> Self {
        match RepoPath::new(path) {
            Ok(path) => self.path = Some(path),
            Err(_) => self.escaped_path = Some(path.to_owned()),
        }
        self
    }

    /// The path as text.
    pub fn path_text(&self) -> Option<&str> {
        self.path.as_ref().map(RepoPath::as_str).or(self.escaped_path.as_deref())
    }

    /// At `line` and `column`, both from 1.
    #[must_use]
    pub fn at(mut self, line: usize, column: usize) -> Self {
        self.line = Some(line);
        self.column = Some(column);
        self
    }

    /// With advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether it stops what its scope names.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// So many characters of a message are kept.
const LONGEST_MESSAGE: usize = 2_000;

fn shortened(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
        message.truncate(end);
        message.push('…');
    }
    message
}

/// `path:line:column: message (hint)`, without what is unknown.
impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = self.path_text() {
            write!(formatter, "{path}")?;
            if let Some(line) = self.line {
                write!(formatter, ":{line}")?;
                if let Some(column) = self.column {
                    write!(formatter, ":{column}")?;
                }
            }
            formatter.write_str(": ")?;
        }
        formatter.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(formatter, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
