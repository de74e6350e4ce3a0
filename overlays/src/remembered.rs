//! Values remembered up to a number of bytes.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by key, up to a number of bytes; what was not asked for lately goes first.
///
/// There are two halves. New values and those asked for go to the young one; when it is full it becomes the old one, and
/// what nobody asked for since the last time is dropped. So a hit costs one look-up, and nothing is kept in an order.
#[derive(Clone, Debug)]
pub struct Remembered<K, V> {
    half: usize,
    bytes: usize,
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
}

impl<K: Eq + Hash + Clone, V: Clone> Remembered<K, V> {
    /// Remembers values of at most `bytes` bytes together.
    pub fn new(bytes: usize) -> Self {
        Self { half: bytes / 2, bytes: 0, young: HashMap::new(), old: HashMap::new() }
    }

    /// The value remembered under `key`.
    pub fn get(&mut self, key: &K) -> Option<V> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, (value, bytes)) = self.old.remove_entry(key)?;
        self.insert(key, value.clone(), bytes);
        Some(value)
    }

    /// Remembers a value that takes about `bytes` bytes; one that takes more than half of what there is, is not kept.
    pub fn insert(&mut self, key: K, value: V, bytes: usize) {
        if bytes > self.half {
            return;
        }
        if self.bytes + bytes > self.half {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.old.remove(&key);
        self.bytes += bytes;
        if let Some((_, before)) = self.young.insert(key, (value, bytes)) {
            self.bytes = self.bytes.saturating_sub(before);
        }
    }

    /// How many values are remembered.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how many bytes the remembered values take.
    pub fn bytes(&self) -> usize {
        self.bytes + self.old.values().map(|(_, bytes)| bytes).sum::<usize>()
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
        assert_eq!((remembered.get(&1), remembered.get(&99)), (None, Some("99".to_owned())));
    }

    #[test]
    fn a_value_that_is_too_large_is_not_kept_and_drops_nothing() {
        let mut remembered = Remembered::new(10);
        remembered.insert("small", 1, 5);
        remembered.insert("large", 2, 6);
        assert_eq!((remembered.get(&"large"), remembered.get(&"small")), (None, Some(1)));
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
