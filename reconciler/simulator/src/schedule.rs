//! What is going to happen, in the order in which it happens.

use std::{cmp::Ordering, collections::BinaryHeap};

use crate::clock::Moment;

/// Events to come. Events of one moment happen in the order in which they were planned, so that a run is repeatable.
#[derive(Debug, Clone)]
pub(crate) struct Schedule<E> {
    entries: BinaryHeap<Entry<E>>,
    planned: u64,
}

#[derive(Debug, Clone)]
struct Entry<E> {
    at: Moment,
    order: u64,
    event: E,
}

impl<E> Schedule<E> {
    pub(crate) fn new() -> Self {
        Self { entries: BinaryHeap::new(), planned: 0 }
    }

    /// Plans `event` for the moment `at`.
    pub(crate) fn plan(&mut self, at: Moment, event: E) {
        self.planned += 1;
        self.entries.push(Entry { at, order: self.planned, event });
    }

    /// The moment of the next event.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.entries.peek().map(|entry| entry.at)
    }

    /// Takes the next event that happens no later than `until`.
    pub(crate) fn take(&mut self, until: Moment) -> Option<(Moment, E)> {
        if self.next()? > until {
            return None;
        }
        self.entries.pop().map(|entry| (entry.at, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives its greatest entry first; the greatest is the earliest.
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;

    #[test]
    fn events_come_by_time_and_then_by_the_order_of_planning() {
        let start = Moment::of(Timestamp::UNIX_EPOCH);
        let mut schedule = Schedule::new();
        for (seconds, event) in [(2, "c"), (1, "a"), (1, "b"), (3, "d")] {
            schedule.plan(start + Duration::from_secs(seconds), event);
        }
        let until = start + Duration::from_secs(2);
        let taken: Vec<&str> = std::iter::from_fn(|| schedule.take(until)).map(|(_, event)| event).collect();
        assert_eq!(taken, ["a", "b", "c"]);
        assert_eq!(schedule.next(), Some(start + Duration::from_secs(3)));
    }
}
