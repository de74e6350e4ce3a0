//! What a gate says, and what it rests on.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::deploy::Landing;
use crate::identity::ClusterIdentity;
use domain::CommitId;

use crate::lineage::Lineage;

/// What a verdict is about: the stage's commit and the commits that contain it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// The commit that put the stage's tree on the deploy branch.
    pub commit: CommitId,
    /// That commit and its descendants up to the deploy head: an applied revision has to be one of these.
    pub lineage: Lineage,
    /// When the commit came onto the branch, as far as git tells.
    pub committed_at: Timestamp,
    /// How it came there: where that is unknown, no timeout is counted.
    pub landing: Landing,
}

/// One observed fact that evidence rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    /// The object.
    pub object: String,
    /// What was seen.
    pub seen: String,
    /// How long it took, where it was done to a node that stayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

impl Fact {
    /// What was seen of an object.
    #[must_use]
    pub fn new(object: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { object: object.into(), seen: seen.into(), seconds: None }
    }
}

/// Why a gate passed. Written into the ledger together with the stage that it opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The commit whose effect was observed; none for a gate before the first commit of an empty deploy branch.
    pub commit: Option<CommitId>,
    /// The revision that Flux had applied; none where the gate has no Flux part.
    pub applied_revision: Option<CommitId>,
    /// Which cluster was observed; none in evidence of versions that did not note it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Box<ClusterIdentity>>,
    /// When the deciding observation was read.
    pub observed_at: Timestamp,
    /// Since when the gate held without a break.
    pub held_since: Timestamp,
    /// How many consecutive reads passed.
    pub reads: u32,
    /// What was seen.
    pub facts: Vec<Fact>,
}

/// Why a gate waits or fails: the object, the field and the command that helps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// The object, such as `KubeadmControlPlane eksa-system/mgmt`; empty where the reason concerns no object.
    pub object: String,
    /// The field, such as `status.observedGeneration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is seen and what is expected, without the object's name.
    pub message: String,
    /// A command or an act that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// What else there is, the most telling first; these have no others of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Reason>,
}

impl Reason {
    /// A reason that concerns no object.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self::on("", message)
    }

    /// A reason that concerns an object.
    #[must_use]
    pub fn on(object: impl Into<String>, message: impl Into<String>) -> Self {
        Self { object: object.into(), field: None, message: message.into(), help: None, others: Vec::new() }
    }

    /// The same reason, naming the field it was read from.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same reason, with a command or an act that helps.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same reason, with one more after it.
    #[must_use]
    pub fn and(mut self, other: Reason) -> Self {
        self.others.extend(other.into_lines());
        self
    }

    /// Each reason by itself, the most telling first.
    #[must_use]
    pub fn into_lines(mut self) -> Vec<Reason> {
        let others = std::mem::take(&mut self.others);
        let mut lines = vec![self];
        lines.extend(others);
        lines
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.object.as_str(), &self.field) {
            ("", None) => formatter.write_str(&self.message),
            ("", Some(field)) => write!(formatter, "{field}: {}", self.message),
            (object, None) => write!(formatter, "{object}: {}", self.message),
            (object, Some(field)) => write!(formatter, "{object}: {field}: {}", self.message),
        }?;
        self.others.iter().try_for_each(|other| write!(formatter, "; {other}"))
    }
}

/// What a gate says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "verdict")]
pub enum GateVerdict {
    /// Everything expected holds, bound to the commit and stable over consecutive reads.
    Pass {
        /// What it rests on.
        evidence: Evidence,
    },
    /// Not yet, or not known.
    Wait {
        /// What for.
        reason: Reason,
        /// When the wait ends by itself: the end of the soak, or the deadline; none where no time is known.
        until: Option<Timestamp>,
    },
    /// It will not pass by waiting.
    Fail {
        /// Why.
        reasons: Vec<Reason>,
    },
}

impl GateVerdict {
    /// Whether the gate passed.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        matches!(self, Self::Pass { .. })
    }
}
