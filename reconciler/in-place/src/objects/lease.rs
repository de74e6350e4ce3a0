//! A pause of ours: owner, reason, end and what was before stand on the paused object itself.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Cluster API's controllers leave an object alone that has this annotation.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";

/// How our own words of a pause begin.
pub const OUR_WORDS: &str = "stepgate: ";

/// The value of [`PAUSED`] under a lease.
#[must_use]
pub fn paused_words(lease: &Lease) -> String {
    format!("{OUR_WORDS}{}", lease.reason)
}

/// How long a pause lasts that nobody renews.
const LASTS: SignedDuration = SignedDuration::from_mins(30);

/// How long before its end a pause is renewed.
const RENEWED_BEFORE: SignedDuration = SignedDuration::from_mins(20);

/// A pause as it stands on a KubeadmControlPlane, a MachineDeployment or a `MachineHealthCheck`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// Who wants it.
    pub owner: String,
    /// Why.
    pub reason: String,
    /// When it ends, if nobody ends or renews it before.
    pub until: Timestamp,
}

impl Lease {
    /// The owner of our pauses.
    pub const OWNER: &str = "stepgate";

    /// A pause that begins now.
    #[must_use]
    pub fn new(reason: impl Into<String>, now: Timestamp) -> Self {
        Self { owner: Self::OWNER.to_owned(), reason: reason.into(), until: now.saturating_add(LASTS).unwrap_or(now) }
    }

    /// Whether it is to be renewed.
    #[must_use]
    pub fn is_short(&self, now: Timestamp) -> bool {
        self.until.duration_since(now) < RENEWED_BEFORE
    }

    /// Whether nobody has renewed it.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until <= now
    }
}
