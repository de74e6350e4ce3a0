//! What a check finds.

use std::fmt;

use crate::observation::ObjectReference;

/// How a check, or one of its findings, stands; the later ones are worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckStatus {
    /// Nothing is found.
    Pass,
    /// Something a person should know.
    Warn,
    /// Something that could not be read or judged.
    Unknown,
    /// Something that the rollout would run into.
    Fail,
}

impl CheckStatus {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Unknown => "unknown",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for CheckStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The object that a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundObject {
    /// Kind.
    pub kind: String,
    /// Namespace; none for cluster-scoped objects.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl From<&ObjectReference> for FoundObject {
    fn from(reference: &ObjectReference) -> Self {
        let ObjectReference { kind, namespace, name, .. } = reference.clone();
        Self { kind, namespace, name }
    }
}

impl fmt::Display for FoundObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{} {namespace}/{}", self.kind, self.name),
            None => write!(formatter, "{} {}", self.kind, self.name),
        }
    }
}

/// One thing that a check finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFinding {
    /// How bad it is; never `Pass`.
    pub status: CheckStatus,
    /// The object; none where it is about no single one.
    pub object: Option<FoundObject>,
    /// What is seen, without the object's name.
    pub message: String,
    /// What helps.
    pub remedy: Option<String>,
    /// Whether it holds nothing, although it is unknown and its check is blocking.
    pub is_advisory: bool,
}

impl CheckFinding {
    fn new(status: CheckStatus, message: impl Into<String>) -> Self {
        Self { status, object: None, message: message.into(), remedy: None, is_advisory: false }
    }

    pub(super) fn fail(message: impl Into<String>) -> Self {
        Self::new(CheckStatus::Fail, message)
    }

    pub(super) fn warn(message: impl Into<String>) -> Self {
        Self::new(CheckStatus::Warn, message)
    }

    pub(super) fn unknown(message: impl Into<String>) -> Self {
        Self::new(CheckStatus::Unknown, message)
    }

    /// What cannot be read in every cluster, so that no rollout waits for it.
    pub(super) fn unreadable(message: impl Into<String>) -> Self {
        Self { is_advisory: true, ..Self::unknown(message) }
    }

    pub(super) fn on(self, object: FoundObject) -> Self {
        Self { object: Some(object), ..self }
    }

    pub(super) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

impl fmt::Display for CheckFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.object {
            Some(object) => write!(formatter, "{object}: {}", self.message),
            None => formatter.write_str(&self.message),
        }
    }
}
