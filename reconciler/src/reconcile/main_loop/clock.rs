//! What time it is, and waiting: real for the controller, virtual for the demo and the tests.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A clock that can be waited on.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Returns when the clock shows `time` or later.
    fn sleep_until(&self, time: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, time: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let left = Duration::try_from(time.duration_since(self.now())).unwrap_or(Duration::ZERO);
        // Timers tick in milliseconds: whoever sleeps for no time sleeps until the next tick.
        if left.is_zero() { Box::pin(std::future::ready(())) } else { Box::pin(tokio::time::sleep(left)) }
    }
}

/// A clock that stands still until somebody waits for it, and then shows the time waited for at once.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    now: Arc<Mutex<Timestamp>>,
}

impl VirtualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self { now: Arc::new(Mutex::new(start)) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, duration: SignedDuration) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.saturating_add(duration).unwrap_or(*now);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep_until(&self, time: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = (*now).max(time);
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_virtual_clock_jumps_forward_and_never_back() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = VirtualClock::new(start);
        clock.sleep_until(start + SignedDuration::from_secs(60)).await;
        clock.sleep_until(start).await;
        assert_eq!(clock.now(), start + SignedDuration::from_secs(60));
    }

    #[test]
    fn a_virtual_clock_is_shared_by_its_copies_and_stands_still_at_the_end_of_time() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = VirtualClock::new(start);
        let copy = clock.clone();
        copy.advance(SignedDuration::from_mins(1));
        assert_eq!(clock.now(), start + SignedDuration::from_mins(1));
        copy.advance(SignedDuration::MAX);
        assert_eq!(clock.now(), copy.now());
        assert!(clock.now() >= start + SignedDuration::from_mins(1));
    }
}
