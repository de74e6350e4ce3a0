//! What a person should know about a rendered component.

use std::fmt;

use serde::Serialize;

/// A version that disappears from a `CustomResourceDefinition`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedVersion {
    /// Name of the definition, `<plural>.<group>`.
    pub definition: String,
    /// The kind that it defines.
    pub kind: String,
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
    /// The versions that it is about, for [`NoteKind::VersionRemoved`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<RemovedVersion>,
}

impl Note {
    /// A note of weight `weight`.
    pub fn new(weight: Weight, kind: NoteKind, message: impl Into<String>) -> Self {
        Self { weight, kind, object: None, message: message.into(), removed: Vec::new() }
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
