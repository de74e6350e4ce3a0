//! How many requests one API server gets in a second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// A bucket of permissions that fills with time. Whoever finds it empty waits for its turn, in order.
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// Time from one permission to the next.
    every: Duration,
    /// How far ahead of time permissions may be taken.
    burst: Duration,
    /// When the bucket would be full, had nobody taken anything.
    full: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// `per_second` requests in the long run, and as many at once as come in `burst` seconds.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        let every = Duration::from_secs(1) / per_second.max(1);
        Self { every, burst: every * burst.max(1), full: Mutex::default() }
    }

    /// Waits until one more request may be sent.
    pub(crate) async fn permit(&self) {
        let now = Instant::now();
        let next = self.next(now);
        // The runtime's clock ticks in milliseconds: whoever sleeps until now sleeps until its next tick.
        if next > now {
            sleep_until(next).await;
        }
    }

    fn next(&self, now: Instant) -> Instant {
        let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        let next = full.map_or(now, |full| full.max(now)) + self.every;
        *full = Some(next);
        // With the whole burst in hand nobody waits.
        next.checked_sub(self.burst).map_or(now, |at| at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let limit = RateLimit::new(10, 3);
        let start = Instant::now();
        let waits: Vec<_> = (0..6).map(|_| limit.next(start).duration_since(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
        // After a pause there is a burst again.
        let later = start + Duration::from_secs(10);
        let waits: Vec<_> = (0..4).map(|_| limit.next(later).duration_since(later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100]);
    }
}
