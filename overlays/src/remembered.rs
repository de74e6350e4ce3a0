//! Values remembered up to a number of bytes.

use std::collections::VecDeque;
use std::hash::Hash;

use quick_cache::Weighter;
use quick_cache::unsync::Cache;

/// Values by key, up to a number of bytes; what was not asked for lately goes first.
#[derive(Clone, Debug)]
pub struct Remembered<K, V> {
    /// The largest value that is kept, in bytes.
    largest: usize,
    values: Cache<K, (V, usize), Bytes>,
    /// How many of those that are larger are kept.
    few: usize,
    /// These, the last one that was asked for first.
    large: VecDeque<(K, V, usize)>,
}

/// Weighs a value by the bytes that it was said to take. What weighs nothing would never go.
#[derive(Clone, Copy, Debug)]
struct Bytes;

impl<K, V> Weighter<K, (V, usize)> for Bytes {
    fn weight(&self, _: &K, (_, bytes): &(V, usize)) -> u64 {
        u64::try_from(*bytes).unwrap_or(u64::MAX).max(1)
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Remembered<K, V> {
    /// Remembers values of at most `bytes` bytes together.
    pub fn new(bytes: usize) -> Self {
        /// A guess that sizes the first table only.
        const VALUES: usize = 64;
        let capacity = u64::try_from(bytes).unwrap_or(u64::MAX);
        let values = Cache::with_weighter(VALUES, capacity, Bytes);
        Self { largest: bytes / 2, values, few: 0, large: VecDeque::new() }
    }

    /// The same, which keeps the last `few` of the values that are too large, whatever they take: those that are asked for again and again, and
    /// would be made anew each time.
    #[must_use]
    pub fn keeping(self, few: usize) -> Self {
        Self { few, ..self }
    }

    /// The value remembered under `key`.
    pub fn get(&mut self, key: &K) -> Option<V> {
        if let Some((value, _)) = self.values.get(key) {
            return Some(value.clone());
        }
        let place = self.large.iter().position(|(known, ..)| known == key)?;
        let found = self.large.remove(place)?;
        let value = found.1.clone();
        self.large.push_front(found);
        Some(value)
    }

    /// Remembers a value that takes about `bytes` bytes; one that takes more than half of what there is, is kept only as
    /// [`Remembered::keeping`] says.
    pub fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.large.retain(|(known, ..)| *known != key);
        if bytes <= self.largest {
            self.values.insert(key, (value, bytes));
        } else if self.few > 0 {
            self.values.remove(&key);
            self.large.truncate(self.few - 1);
            self.large.push_front((key, value, bytes));
        }
    }

    /// About how many bytes the values take that are too large.
    pub fn large_bytes(&self) -> usize {
        self.large.iter().map(|(.., bytes)| bytes).sum()
    }

    /// How many values are remembered.
    pub fn len(&self) -> usize {
        self.values.len() + self.large.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how many bytes the remembered values take, without those that are too large.
    pub fn bytes(&self) -> usize {
        usize::try_from(self.values.weight()).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut remembered = Remembered::new(40);
        for number in 0..100 {
            remembered.insert(number, number.to_string(), 5);
            assert_eq!(remembered.get(&0), Some("0".to_owned()), "after {number}");
        }
        assert_eq!(remembered.get(&99), Some("99".to_owned()));
        let kept = (0..100).filter(|number| remembered.get(number).is_some()).count();
        assert!(kept <= 8, "{kept} of 5 bytes each in 40");
    }

    #[test]
    fn a_value_that_is_too_large_is_not_kept_and_drops_nothing() {
        let mut remembered = Remembered::new(10);
        remembered.insert("small", 1, 5);
        remembered.insert("large", 2, 6);
        assert_eq!((remembered.get(&"large"), remembered.get(&"small")), (None, Some(1)));
    }

    #[test]
    fn the_last_few_of_the_values_that_are_too_large_are_kept() {
        let mut remembered = Remembered::new(10).keeping(2);
        for (number, key) in ["small", "one", "two", "three"].into_iter().enumerate() {
            remembered.insert(key, number, if number == 0 { 5 } else { 20 });
            assert_eq!(remembered.get(&"small"), Some(0));
            assert!(remembered.get(&"one").is_some() || number == 0 || number > 2, "asked for last, it stays");
        }
        assert_eq!(["one", "two", "three"].map(|key| remembered.get(&key)), [Some(1), None, Some(3)]);
        assert_eq!((remembered.bytes(), remembered.large_bytes()), (5, 40));
        remembered.insert("three", 4, 5);
        assert_eq!((remembered.get(&"three"), remembered.large_bytes()), (Some(4), 20), "none is kept twice");
    }

    proptest! {
        #[test]
        fn it_never_takes_more_than_it_may_and_never_answers_with_another_value(
            steps in proptest::collection::vec((0_u8..30, 0_usize..40, any::<bool>()), 0..200)
        ) {
            let mut remembered = Remembered::new(100);
            for (number, (key, bytes, ask)) in steps.into_iter().enumerate() {
                if ask {
                    let found = remembered.get(&key);
                    prop_assert!(found.is_none_or(|(of, _)| of == key));
                } else {
                    remembered.insert(key, (key, number), bytes);
                    prop_assert!(remembered.get(&key).is_none_or(|found| found == (key, number)));
                }
                prop_assert!(remembered.bytes() <= 100);
            }
        }
    }
}
