//! What a stage changes, component by component.

use serde::{Deserialize, Serialize};

/// How a component or artifact differs between what is deployed and the target (design 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeClass {
    /// Nothing differs.
    Unchanged,
    /// Only the reference differs; the content has the same digest.
    Retag,
    /// The content differs under the same core version.
    Rebuild,
    /// A later patch.
    Patch,
    /// The next minor.
    Minor,
    /// A later major.
    Major,
    /// A later minor that leaves one out.
    SkipMinor,
    /// An earlier version.
    Downgrade,
    /// On the target side only.
    Added,
    /// On the deployed side only.
    Removed,
    /// Different, and not to be ordered.
    Opaque,
    /// Other content under the very same version: an alarm.
    DigestDrift,
}

/// One component that a stage changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentChange {
    /// The manifest's own key (`certManager`, `cilium`, `eksD`, …).
    pub component: String,
    /// How it differs.
    pub class: ChangeClass,
    /// What is deployed, verbatim.
    pub old_version: Option<String>,
    /// What the stage leads to, verbatim.
    pub new_version: Option<String>,
    /// The artifacts that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactChange>,
}

/// One artifact that a stage changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactChange {
    /// Dotted path inside the component.
    pub name: String,
    /// How it differs.
    pub class: ChangeClass,
    /// Reference on the deployed side.
    pub old_uri: Option<String>,
    /// Reference on the target side.
    pub new_uri: Option<String>,
    /// Digest on the deployed side.
    pub old_digest: Option<String>,
    /// Digest on the target side.
    pub new_digest: Option<String>,
}
