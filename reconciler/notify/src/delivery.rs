//! What comes of telling.

use std::time::Duration;

/// What came of handing a message to a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It was taken; with it what a later message of the thread is put into, where the sink edits.
    Taken(Option<String>),
    /// It may be taken later.
    Later {
        /// Why not now.
        reason: String,
        /// How long the sink wants to be left alone, where it says so.
        rest: Option<Duration>,
    },
    /// It is never taken: trying again helps nobody.
    Refused(String),
}

impl Delivery {
    pub(crate) fn later(reason: impl Into<String>) -> Self {
        Self::Later { reason: reason.into(), rest: None }
    }
}

/// How long a sink is left alone after so many failures, where it does not say.
pub(crate) fn rest_after(failures: u32) -> Duration {
    let seconds = 1_u64.checked_shl(failures.min(9)).unwrap_or(1 << 9);
    Duration::from_secs(seconds.min(300))
}
