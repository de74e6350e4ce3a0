//! Items of lists by their merge keys: which item of a patch means which of the object, and where it goes.
//!
//! [`Index`] is the usual case, in which all items have all keys. The functions are for all others.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use yaml::Node;

/// The usual case of two keyed lists: every item has all keys, no two items of a list have the same.
pub(super) struct Index {
    /// For each item of the patch, the item of the object it meets.
    pub(super) partners: Vec<Option<usize>>,
    /// With several keys, items that meet keep the place they had in the object.
    pub(super) keep_places: bool,
}

impl Index {
    pub(super) fn of(dest: &[Node], patch: &[Node], keys: &[String]) -> Option<Self> {
        let values = |item: &Node| -> Option<Vec<String>> {
            if keys.is_empty() {
                return item.scalar_text().filter(|text| !text.is_empty()).map(|text| vec![text.into_owned()]);
            }
            let item = item.as_mapping().filter(|item| !item.contains_key("$patch"))?;
            let value = |key: &String| {
                item.get(key).filter(|value| !value.is_null())?.scalar_text().filter(|text| !text.is_empty())
            };
            keys.iter().map(|key| value(key).map(std::borrow::Cow::into_owned)).collect()
        };
        let mut known: HashMap<Vec<String>, usize> = HashMap::with_capacity(dest.len());
        for (index, item) in dest.iter().enumerate() {
            if known.insert(values(item)?, index).is_some() {
                return None;
            }
        }
        let mut seen = HashSet::with_capacity(patch.len());
        let mut partners = Vec::with_capacity(patch.len());
        for item in patch {
            let values = values(item)?;
            partners.push(known.get(&values).copied());
            if !seen.insert(values) {
                return None;
            }
        }
        Some(Self { partners, keep_places: keys.len() > 1 })
    }
}

/// What two items with these values have in common, if they are the same: no values that differ, and at least one that
/// both have.
pub(super) fn common_values(left: &[String], right: &[String]) -> Option<Vec<String>> {
    let mut shared = false;
    let mut result = Vec::with_capacity(left.len());
    for (a, b) in left.iter().zip(right) {
        if a == b {
            shared = true;
        } else if !a.is_empty() && !b.is_empty() {
            return None;
        }
        result.push(if a.is_empty() { b.clone() } else { a.clone() });
    }
    shared.then_some(result)
}

/// Which keys any item has a value for.
pub(super) fn used_keys(wanted: &[Vec<String>], keys: &[String]) -> Vec<bool> {
    (0..keys.len())
        .map(|at| wanted.iter().any(|values| values.get(at).is_some_and(|value| !value.is_empty())))
        .collect()
}

/// Keys and values without the keys that no item has; all of them if that would leave none.
pub(super) fn valid(used: &[bool], values: &[String], keys: &[String]) -> (Vec<String>, Vec<String>) {
    if !used.contains(&true) {
        return (keys.to_vec(), values.to_vec());
    }
    let pick = |list: &[String]| {
        list.iter().zip(used).filter(|(_, used)| **used).map(|(text, _)| text.clone()).collect::<Vec<String>>()
    };
    (pick(keys), pick(values))
}

/// Fills gaps: two items that agree where both have a value, and share one, are the same. An item that agrees with
/// several takes the values of the last, as it is compared by those it had at first.
pub(super) fn unify(wanted: &mut [Vec<String>]) {
    for first in 0..wanted.len() {
        let Some(left) = wanted.get(first).cloned() else {
            continue;
        };
        for second in 0..wanted.len() {
            let Some(right) = wanted.get(second) else {
                continue;
            };
            if let Some(common) = common_values(&left, right) {
                for index in [first, second] {
                    if let Some(slot) = wanted.get_mut(index) {
                        slot.clone_from(&common);
                    }
                }
            }
        }
    }
}
