//! Virtual time: milliseconds since the epoch, moved by nobody but the caller.

use std::{ops::Add, time::Duration};

use jiff::Timestamp;

/// A moment of virtual time, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(i64);

impl Moment {
    /// The moment of a timestamp; what is finer than a millisecond is cut off.
    pub(crate) fn of(timestamp: Timestamp) -> Self {
        Self(timestamp.as_millisecond())
    }

    /// The timestamp of this moment; moments beyond the range of timestamps become the last one.
    pub(crate) fn timestamp(self) -> Timestamp {
        Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::MAX)
    }

    /// How much later this moment is than `earlier`; zero when it is not.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This moment, earlier by `duration`.
    pub(crate) fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(milliseconds(duration)))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(milliseconds(duration)))
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_keeps_the_millisecond_and_never_overflows() {
        let timestamp: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(Moment::of(timestamp).timestamp(), timestamp);
        let later = Moment::of(timestamp) + Duration::from_secs(2);
        assert_eq!(later.since(Moment::of(timestamp)), Duration::from_secs(2));
        assert_eq!(Moment::of(timestamp).since(later), Duration::ZERO);
        assert_eq!(later.before(Duration::from_secs(2)), Moment::of(timestamp));
        assert_eq!((Moment(1) + Duration::MAX).timestamp(), Timestamp::MAX);
    }
}
