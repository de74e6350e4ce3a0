//! Rates with their intervals, and percentiles.

/// How often something came out well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rate {
    /// How often it did.
    pub passed: usize,
    /// How often it was tried.
    pub all: usize,
}

/// The 97.5th percentile of the normal distribution: for an interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;

#[expect(clippy::cast_precision_loss, reason = "nobody counts that far")]
fn number(count: usize) -> f64 {
    count as f64
}

impl Rate {
    /// Counts one more.
    pub fn count(&mut self, passed: bool) {
        self.all += 1;
        self.passed += usize::from(passed);
    }

    /// The share; none of nothing.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        (self.all > 0).then(|| number(self.passed) / number(self.all))
    }

    /// Wilson's interval, in which the true share lies with 95 %.
    #[must_use]
    pub fn interval(self) -> (f64, f64) {
        let Some(share) = self.share() else { return (0.0, 1.0) };
        let all = number(self.all);
        let spread = Z * Z / all;
        let middle = (share + spread / 2.0) / (1.0 + spread);
        let half = Z / (1.0 + spread) * (share * (1.0 - share) / all + spread / (4.0 * all)).sqrt();
        ((middle - half).max(0.0), (middle + half).min(1.0))
    }

    /// For a table: counts, share and interval.
    #[must_use]
    pub fn words(self) -> String {
        let Some(share) = self.share() else { return "–".to_owned() };
        let (low, high) = self.interval();
        let Self { passed, all } = self;
        format!("{passed} of {all}, {:.0} % ({:.0}–{:.0})", 100.0 * share, 100.0 * low, 100.0 * high)
    }

    /// Whether the intervals of two rates have nothing in common: what differs so is no chance.
    #[must_use]
    pub fn is_apart_from(self, other: Self) -> bool {
        let ((low, high), (other_low, other_high)) = (self.interval(), other.interval());
        low > other_high || other_low > high
    }
}

/// The smallest value that is not below so many percent of the values; none of nothing.
#[must_use]
pub fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent * sorted.len()).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// The median and the 95th percentile of seconds, for a table.
#[must_use]
pub fn seconds(values: &[f64]) -> String {
    match (percentile(values, 50), percentile(values, 95)) {
        (Some(half), Some(most)) => format!("{half:.0} / {most:.0} s"),
        _ => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_wilson() {
        // Of Wilson's formula, worked out by hand.
        for (passed, all, low, high) in
            [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (8, 10, 0.4902, 0.9433), (59, 60, 0.9114, 0.9970)]
        {
            let (found_low, found_high) = Rate { passed, all }.interval();
            assert!((found_low - low).abs() < 5e-4 && (found_high - high).abs() < 5e-4, "{found_low} {found_high}");
        }
        assert_eq!(Rate::default().interval(), (0.0, 1.0));
        assert_eq!(Rate { passed: 8, all: 10 }.words(), "8 of 10, 80 % (49–94)");
        assert_eq!(Rate::default().words(), "–");
        let mut rate = Rate::default();
        [true, false, true].into_iter().for_each(|passed| rate.count(passed));
        assert_eq!(rate, Rate { passed: 2, all: 3 });
    }

    #[test]
    fn rates_are_apart_when_their_intervals_are() {
        let rate = |passed, all| Rate { passed, all };
        assert!(rate(60, 60).is_apart_from(rate(40, 60)) && rate(40, 60).is_apart_from(rate(60, 60)));
        assert!(!rate(60, 60).is_apart_from(rate(57, 60)) && !rate(1, 1).is_apart_from(rate(0, 1)));
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 95)), (Some(10.0), Some(19.0)));
        assert_eq!((percentile(&[7.0], 95), percentile(&[], 50)), (Some(7.0), None));
        assert_eq!((seconds(&values), seconds(&[])), ("10 / 19 s".to_owned(), "–".to_owned()));
    }
}
