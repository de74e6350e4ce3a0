//! Seeded random numbers: one seed, one sequence, on every machine.

use std::time::Duration;

/// A `SplitMix64` generator: small, fast, and good enough to shake a schedule.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator whose sequence follows from `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds are mixed once, so that they do not give neighbouring first numbers.
        Self { state: mix(seed ^ 0x9e37_79b9_7f4a_7c15) }
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`; zero when `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the remainder is far below what a simulation could notice.
        self.next_number().checked_rem(bound).unwrap_or(0)
    }

    /// True in `numerator` of `denominator` cases.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// A duration of whole milliseconds from `shortest` up to and including `longest`.
    pub fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let spread = u64::try_from(longest.saturating_sub(shortest).as_millis()).unwrap_or(u64::MAX);
        shortest + Duration::from_millis(self.below(spread.saturating_add(1)))
    }

    /// One of `choices`, or `None` when there are none.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let index = self.below(u64::try_from(choices.len()).unwrap_or(u64::MAX));
        choices.get(usize::try_from(index).unwrap_or(0))
    }

    /// A name of `length` characters as Kubernetes generates them: lower-case letters without vowels, and digits.
    pub(crate) fn suffix(&mut self, length: usize) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..length).filter_map(|_| self.choose(ALPHABET).map(|&character| char::from(character))).collect()
    }
}

/// The finaliser of `SplitMix64`; also used where a number has to follow from a value without a sequence.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(seed: u64) -> Vec<u64> {
        let mut random = Random::new(seed);
        (0..8).map(|_| random.next_number()).collect()
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        assert_eq!(sequence(7), sequence(7));
        assert_ne!(sequence(7), sequence(8));
    }

    #[test]
    fn numbers_stay_in_their_bounds_and_reach_both_ends() {
        let mut random = Random::new(1);
        let (shortest, longest) = (Duration::from_millis(3), Duration::from_millis(5));
        let drawn: Vec<u128> = (0..200).map(|_| random.between(shortest, longest).as_millis()).collect();
        assert!(drawn.iter().all(|drawn| (3..=5).contains(drawn)));
        assert!(drawn.contains(&3) && drawn.contains(&5));
        assert_eq!(random.between(longest, shortest), longest);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.choose::<u8>(&[]), None);
    }

    #[test]
    fn chance_is_about_as_often_as_it_says() {
        let mut random = Random::new(2);
        let hits = (0..6_000).filter(|_| random.chance(5, 6)).count();
        assert!((4_800..5_200).contains(&hits), "{hits}");
    }
}
