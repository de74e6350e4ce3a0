//! How long forges may keep a pass waiting. One that does not answer costs a time-out, not one for each question.
//!
//! All waiting of a pass that is longer than usual adds up to one time-out.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// For one answer as a whole, and for all waiting of a pass beyond what is usual.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// An answer that takes no longer than this is usual, however many there are.
const USUAL: Duration = Duration::from_secs(2);

/// What is left of the time that forges may take beyond the usual, until the next pass begins.
#[derive(Debug)]
pub(super) struct Patience(Mutex<Duration>);

impl Default for Patience {
    fn default() -> Self {
        Self(Mutex::new(TIMEOUT))
    }
}

impl Patience {
    /// A pass begins: the forge is asked as if it had never been slow.
    pub(super) fn renew(&self) {
        *self.left() = TIMEOUT;
    }

    /// Whether it is used up: then nothing is asked any more.
    pub(super) fn is_spent(&self) -> bool {
        self.left().is_zero()
    }

    /// An answer, or its absence, took this long.
    pub(super) fn waited(&self, took: Duration) {
        if took > USUAL {
            let mut left = self.left();
            *left = left.saturating_sub(took);
        }
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_time_out_or_many_slow_answers_spend_it_and_quick_ones_never() {
        let patience = Patience::default();
        (0..1000).for_each(|_| patience.waited(USUAL));
        assert!(!patience.is_spent());
        patience.waited(TIMEOUT);
        assert!(patience.is_spent());
        patience.renew();
        let asked = (0..100).take_while(|_| !patience.is_spent()).map(|_| patience.waited(Duration::from_secs(6)));
        assert_eq!(asked.count(), 4);
    }
}
