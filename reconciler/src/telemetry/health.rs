//! Whether the process is alive and has read its fleet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What `/healthz` and `/readyz` answer from.
#[derive(Debug)]
pub struct Health {
    /// How long the loop may show no sign of life.
    patience: Duration,
    seen: Mutex<Instant>,
    ready: AtomicBool,
}

/// Why a process is not healthy or not ready.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    /// The loop hangs.
    #[error("the controller has shown no sign of life for {} s", .0.as_secs())]
    Silent(Duration),
    /// Nothing was read yet.
    #[error("the fleet was not read yet")]
    NotRead,
}

impl Health {
    /// A process that has just started. A loop that takes longer than `patience` for one round counts as dead.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        Self { patience, seen: Mutex::new(Instant::now()), ready: AtomicBool::new(false) }
    }

    /// The loop goes on.
    pub fn alive(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether the fleet could be read, or another process leads and this one stands by. What was ready once and cannot read its
    /// repository now goes on trying: it is no less ready than another process would be.
    pub fn ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Whether the loop goes on.
    ///
    /// # Errors
    /// [`Unhealthy::Silent`]: it is to be started anew.
    pub fn live(&self) -> Result<(), Unhealthy> {
        let silent = self.seen.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if silent > self.patience { Err(Unhealthy::Silent(silent)) } else { Ok(()) }
    }

    /// Whether it does its work.
    ///
    /// # Errors
    /// As [`Health::live`], and [`Unhealthy::NotRead`] before the first round.
    pub fn readiness(&self) -> Result<(), Unhealthy> {
        self.live()?;
        if self.ready.load(Ordering::Relaxed) { Ok(()) } else { Err(Unhealthy::NotRead) }
    }
}
