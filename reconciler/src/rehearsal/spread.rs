//! How far apart the durations of many rehearsals are.

use jiff::SignedDuration;
use serde::Serialize;

/// Durations of several rehearsals, in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// Of how many.
    pub rehearsals: usize,
    /// The shortest.
    pub shortest: i64,
    /// Half of them are not above.
    pub half: i64,
    /// Nine of ten are not above.
    pub most: i64,
    /// The longest.
    pub longest: i64,
}

impl Spread {
    /// The spread of these; none where there is none of them.
    pub(super) fn of(durations: impl IntoIterator<Item = SignedDuration>) -> Option<Self> {
        let mut seconds: Vec<i64> = durations.into_iter().map(|duration| duration.as_secs()).collect();
        seconds.sort_unstable();
        // The smallest that so many of ten are not above.
        let at = |tenths: usize| seconds.get((seconds.len() * tenths).div_ceil(10).saturating_sub(1)).copied();
        Some(Self {
            rehearsals: seconds.len(),
            shortest: *seconds.first()?,
            half: at(5)?,
            most: at(9)?,
            longest: *seconds.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_names_durations_that_there_were() {
        let of = |seconds: &[i64]| Spread::of(seconds.iter().map(|seconds| SignedDuration::from_secs(*seconds)));
        assert_eq!(of(&[]), None);
        let one = of(&[7]).unwrap();
        assert_eq!((one.rehearsals, one.shortest, one.half, one.most, one.longest), (1, 7, 7, 7, 7));
        let many = of(&[9, 1, 8, 2, 7, 3, 6, 4, 5, 10]).unwrap();
        assert_eq!((many.shortest, many.half, many.most, many.longest), (1, 5, 9, 10));
    }
}
