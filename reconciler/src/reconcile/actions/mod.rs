//! What people do to the rollout of one cluster. The command line and the dashboard call the same functions, so that they make the same
//! commits and the same leases.
//!
//! Architecture Invariant: what somebody has looked at is what is done. Whoever acts on a page names the plan that stood there, and
//! nothing is done when the cluster has another one by now.

mod error;
mod lease;
mod offer;
mod perform;
mod way_back;

use std::time::Duration;

use domain::PlanDigest;
use git::Identity;

pub use error::ActionError;
pub use lease::{hold, resume};
pub use offer::{Offer, Offered, offers};
pub use perform::{Done, perform};
pub use way_back::{WayBack, let_count, way_back};

/// What can be done to the rollout of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Merge what is proposed.
    Approve,
    /// Say no to it.
    Reject,
    /// Stop the cluster for a while.
    Hold,
    /// End that before its time.
    Resume,
    /// Commit a reverted stage once more.
    Retry,
    /// Go back to a verified state, or let the source branch count again.
    Rollback,
}

impl Verb {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 6] = [Self::Approve, Self::Reject, Self::Hold, Self::Resume, Self::Retry, Self::Rollback];

    /// Its word on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Hold => "hold",
            Self::Resume => "resume",
            Self::Retry => "retry",
            Self::Rollback => "rollback",
        }
    }

    /// The verb with this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }

    /// Whether it answers what people are asked: where a forge asks them, they answer there.
    #[must_use]
    pub const fn answers(self) -> bool {
        matches!(self, Self::Approve | Self::Reject)
    }
}

/// What somebody wants to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Merge what is proposed.
    Approve,
    /// Say no to it.
    Reject {
        /// Why.
        reason: String,
    },
    /// Stop the cluster.
    Hold {
        /// Why.
        reason: String,
        /// How long.
        lasts: Duration,
    },
    /// End what was held.
    Resume,
    /// Commit a reverted stage once more.
    Retry,
    /// Go back to what the last rollout found, or to a state that is named.
    Rollback {
        /// A rollout or a stage.
        to: Option<String>,
        /// Why.
        reason: Option<String>,
    },
    /// Let the source branch count again.
    EndRollback,
}

impl Action {
    /// The verb that it is of.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Approve => Verb::Approve,
            Self::Reject { .. } => Verb::Reject,
            Self::Hold { .. } => Verb::Hold,
            Self::Resume => Verb::Resume,
            Self::Retry => Verb::Retry,
            Self::Rollback { .. } | Self::EndRollback => Verb::Rollback,
        }
    }
}

/// Who acts, where, and on what they have seen.
#[derive(Clone, Copy, Debug)]
pub struct Acting<'a> {
    /// The person.
    pub by: &'a Identity,
    /// Where they act, and who knows them there.
    pub place: &'a str,
    /// The plan that they have looked at.
    pub plan: &'a PlanDigest,
}
