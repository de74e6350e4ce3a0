//! What stands on a Machine by which Cluster API is told when it goes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use domain::RolloutId;

/// Deletes a machine of a control plane before those that do not carry it, whatever its value (Cluster API).
pub const DELETE_FIRST: &str = "cluster.x-k8s.io/delete-machine";

/// Keeps a machine that is deleted from being drained as long as it is there (Cluster API), under our name.
pub const BRAKE: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/stepgate";

/// A mark of ours: a lease that stands on the Machine itself, as the value of its annotation, so that any process finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineMark {
    /// Who wants it: `stepgate`.
    pub owner: String,
    /// For which rollout.
    pub rollout: RolloutId,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// When it ends, if nobody takes it away before.
    pub until: Timestamp,
}

impl MachineMark {
    /// The owner of our marks.
    pub const OWNER: &str = "stepgate";

    /// Whether it says the same, but for when it was made.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let Self { owner, rollout, reason, since: _, until } = other;
        (&self.owner, &self.rollout, &self.reason, &self.until) == (owner, rollout, reason, until)
    }
}

/// Whose an annotation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "by")]
pub enum Marked {
    /// Ours.
    Us {
        /// What it says.
        mark: MachineMark,
    },
    /// Somebody else's: it stays as it is.
    Others,
}

impl Marked {
    /// What ours says.
    #[must_use]
    pub fn ours(&self) -> Option<&MachineMark> {
        match self {
            Self::Us { mark } => Some(mark),
            Self::Others => None,
        }
    }
}
