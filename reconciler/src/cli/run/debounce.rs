//! How soon a change of a cluster leads to the next pass.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Changes without a pause cost one part of this many of the time, in the long run.
const SHARE: u32 = 5;

/// What passes may take at once after it was quiet.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The shortest and the longest rest.
const REST_AT_LEAST: Duration = Duration::from_millis(2);
const REST_AT_MOST: Duration = Duration::from_secs(1);

/// Processor time that this process has used so far. To wait for a server costs nothing, and what servers are asked for is limited apart.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Lets passes follow each other without delay as long as they are few, and rests between them when clusters change without a pause.
#[derive(Debug, Default)]
pub(crate) struct Debounce {
    /// When all that was spent will have been saved again; none before the first pass.
    saved: Option<Instant>,
}

impl Debounce {
    /// How long to rest after a pass that took `took` and `spent` processor time, before changes of clusters lead to another. One that has brought a
    /// cluster further is no cost of changes: there are only so many stages, and what follows from its commit is not to be seen late for it.
    pub(crate) fn rest(&mut self, started: Instant, took: Duration, spent: Duration, has_committed: bool) -> Duration {
        let saved = self.saved.map_or(started, |saved| saved.max(started));
        let owed = if has_committed { spent } else { spent.saturating_mul(SHARE) };
        let saved = saved.checked_add(owed).unwrap_or(saved);
        self.saved = Some(saved);
        let ended = started.checked_add(took).unwrap_or(started);
        let owed = saved.saturating_duration_since(ended);
        owed.saturating_sub(AT_ONCE.saturating_mul(SHARE)).clamp(REST_AT_LEAST, REST_AT_MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_passes_follow_at_once_and_many_take_a_fifth_of_the_time() {
        let (mut pace, mut now) = (Debounce::default(), Instant::now());
        let (took, start) = (Duration::from_millis(50), now);
        let mut rests = Vec::new();
        for _ in 0..200 {
            let rest = pace.rest(now, took, took, false);
            rests.push(rest);
            now += took + rest;
        }
        assert!(rests[..20].iter().all(|rest| *rest == REST_AT_LEAST), "{rests:?}");
        assert_eq!(rests[199], took * (SHARE - 1));
        let worked = took * 200;
        assert!(worked - AT_ONCE <= (now - start) / SHARE, "{worked:?} of {:?}", now - start);

        // What commits leaves nothing to rest from.
        let mut committing = Debounce::default();
        for _ in 0..200 {
            assert_eq!(committing.rest(now, took, took, true), REST_AT_LEAST);
            now += took;
        }

        // Quiet saves it up again; a single pass that takes long is rested from, but not for ever.
        now += Duration::from_secs(10);
        assert_eq!(pace.rest(now, took, took, false), REST_AT_LEAST);
        assert_eq!(pace.rest(now + took, Duration::from_secs(60), Duration::from_secs(60), false), REST_AT_MOST);
    }

    #[test]
    fn to_wait_for_servers_is_no_cost() {
        let (mut pace, mut now) = (Debounce::default(), Instant::now());
        let took = Duration::from_millis(400);
        for _ in 0..200 {
            assert_eq!(pace.rest(now, took, took / 10, false), REST_AT_LEAST);
            now += took;
        }
    }

    #[test]
    fn processor_time_passes_with_work() {
        let before = processor_time();
        while processor_time() == before {
            std::hint::spin_loop();
        }
        assert!(processor_time() > before);
    }
}
