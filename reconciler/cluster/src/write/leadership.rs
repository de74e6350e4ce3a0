//! Until when a process may take itself for the one that leads.
//!
//! Architecture Invariant: who may have lost the lead writes nothing to clusters. Leadership is
//! dated from before the Lease was asked for and ends a fifth of its duration early; each write of
//! `apply: direct` asks for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Until when a process may take itself for the one that leads: it is dated from before its Lease was asked for, and ends before others may take that. Cheap
/// to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Leadership(Arc<Mutex<Option<Instant>>>);

impl Leadership {
    /// It leads until then, unless it is told otherwise.
    pub fn grant(&self, until: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// It leads no more.
    pub fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// When it ends, unless the Lease is renewed; none where it has ended, or never begun.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).filter(|until| Instant::now() < *until)
    }

    /// For how long it goes on, unless the Lease is renewed; none where it has ended.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.until().map(|until| until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }
}
