//! How many clusters of a wave may be under way, and how many may fail. Parts of a wave are rounded down.

use policy::{Share, Wave};

/// How many clusters of a wave of this size may be under way at once: one at least.
#[must_use]
pub fn places(wave: &Wave, size: usize) -> usize {
    part(wave.concurrency, size).max(1)
}

/// How many clusters of a wave of this size may fail before it is stopped.
#[must_use]
pub fn tolerated_failures(wave: &Wave, size: usize) -> usize {
    part(wave.max_failures, size)
}

fn part(share: Share, size: usize) -> usize {
    match share {
        Share::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
        Share::Percent(percent) => {
            let percent = usize::try_from(percent).unwrap_or(100).min(100);
            // By hundreds and the rest, so that nothing overflows.
            (size / 100).saturating_mul(percent).saturating_add((size % 100).saturating_mul(percent) / 100)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(concurrency: Share, max_failures: Share) -> Wave {
        Wave { concurrency, max_failures, ..Wave::named("w") }
    }

    #[test]
    fn per_cent_of_a_wave_is_rounded_down_and_one_may_always_go() {
        for (percent, size, placed, failing) in [
            (25, 0, 1, 0),
            (25, 1, 1, 0),
            (25, 3, 1, 0),
            (25, 4, 1, 1),
            (25, 7, 1, 1),
            (25, 8, 2, 2),
            (10, 9, 1, 0),
            (10, 19, 1, 1),
            (33, 100, 33, 33),
            (34, 150, 51, 51),
            (99, 200, 198, 198),
            (100, 3, 3, 3),
            (0, 50, 1, 0),
        ] {
            let share = Share::Percent(percent);
            let found = (places(&wave(share, share), size), tolerated_failures(&wave(share, share), size));
            assert_eq!(found, (placed, failing), "{percent}% of {size}");
        }
    }

    #[test]
    fn numbers_are_meant_as_they_stand_whatever_the_size() {
        for size in [0, 1, 5, usize::MAX] {
            let wave = wave(Share::Count(3), Share::Count(2));
            assert_eq!((places(&wave, size), tolerated_failures(&wave, size)), (3, 2));
        }
        let all = wave(Share::Percent(100), Share::Percent(100));
        assert_eq!((places(&all, usize::MAX), tolerated_failures(&all, usize::MAX)), (usize::MAX, usize::MAX));
    }

    #[test]
    fn no_size_gives_more_places_than_clusters_or_than_a_bigger_wave() {
        for percent in 0..=100 {
            let wave = wave(Share::Percent(percent), Share::Percent(percent));
            for size in 1..300 {
                let (own, next) = (places(&wave, size), places(&wave, size + 1));
                assert!(own <= size && own <= next, "{percent}% of {size}: {own}, then {next}");
                assert_eq!(tolerated_failures(&wave, size), size * percent as usize / 100);
            }
        }
    }
}
