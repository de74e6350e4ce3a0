//! Items of lists by their merge keys: which item of a patch means which of the object, and where it goes.
//!
//! [`Index`] is the usual case, in which all items have all keys. The functions are kustomize's way for all others.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use crate::error::BuildError;
use crate::yaml::{Mapping, Node, Value};

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

/// The key values of all items, those of the patch first, each once.
pub(super) fn values_of(patch: &[Node], dest: &[Node], keys: &[String]) -> Vec<Vec<String>> {
    let mut seen: HashSet<Vec<String>> = HashSet::new();
    let value = |item: &Node, key: &String| {
        if key.is_empty() {
            return text_of(item);
        }
        let field = item.get(key);
        field.filter(|field| !is_empty(field)).map(text_of).unwrap_or_default()
    };
    patch
        .iter()
        .chain(dest)
        .map(|item| keys.iter().map(|key| value(item, key)).collect::<Vec<String>>())
        .filter(|values| seen.insert(values.clone()))
        .collect()
}

fn is_empty(node: &Node) -> bool {
    match &node.value {
        Value::Null => true,
        Value::Sequence(items) => items.is_empty(),
        Value::Mapping(mapping) => mapping.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn text_of(node: &Node) -> String {
    node.scalar_text().unwrap_or_default().into_owned()
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
            if let Some(common) = common(&left, right) {
                for index in [first, second] {
                    if let Some(slot) = wanted.get_mut(index) {
                        slot.clone_from(&common);
                    }
                }
            }
        }
    }
}

fn common(left: &[String], right: &[String]) -> Option<Vec<String>> {
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

/// Says whether a setter with these keys means `item`. Values may be fewer than keys: the last comparison then counts
/// for the rest, and none at all means nothing fits.
fn setter_fits(item: &Node, keys: &[String], values: &[String]) -> bool {
    !values.is_empty()
        && keys.iter().zip(values).all(|(key, value)| {
            if key.is_empty() {
                return item.scalar_text().is_some_and(|text| text == *value);
            }
            // An empty value asks for the key alone.
            item.get(key).is_some_and(|field| value.is_empty() || text_of(field) == *value)
        })
}

/// The first item with exactly these values.
pub(super) fn find_element(items: &[Node], keys: &[String], values: &[String]) -> Option<usize> {
    items.iter().position(|item| {
        if keys.first().is_none_or(String::is_empty) {
            return text_of(item) == values.first().map_or("", String::as_str);
        }
        let fits = |(key, value): (&String, &String)| item.get(key).is_some_and(|field| text_of(field) == *value);
        item.as_mapping().is_some() && keys.iter().zip(values).all(fits)
    })
}

pub(super) fn asks_for_replacement(item: &Node) -> bool {
    item.get("$patch").is_some_and(|value| text_of(value) == "replace")
}

/// Replaces all items that fit, or adds the element if none does; without an element, removes them.
pub(super) fn set_element(items: &mut Vec<Node>, element: Option<Node>, keys: &[String], values: &[String]) {
    let maps_wanted = keys.first().is_some_and(|key| !key.is_empty()) && values.first().is_some_and(|v| !v.is_empty());
    let mut found = false;
    let old = std::mem::take(items);
    for item in old {
        if item.is_null() || item.as_mapping().is_some_and(Mapping::is_empty) {
            continue;
        }
        if item.as_mapping().is_none() && maps_wanted {
            items.push(item);
            continue;
        }
        if setter_fits(&item, keys, values) {
            found = true;
            items.extend(element.clone());
        } else if !values.is_empty() {
            items.push(item);
        }
    }
    if !found {
        items.extend(element.filter(|element| !element.is_null()));
    }
}

/// Adds the items of the object behind those of the patch, where no item has the same keys.
pub(super) fn append_items(front: &mut Vec<Node>, dest: Vec<Node>, keys: &[String]) -> Result<(), BuildError> {
    for item in dest {
        if keys.first().is_none_or(String::is_empty) {
            let value = text_of(&item);
            set_element(front, Some(item), &[String::new()], &[value]);
            continue;
        }
        if item.as_mapping().is_none() && !item.is_null() {
            let mut error = BuildError::transform("a list of maps with merge keys holds something else");
            (error.line, error.column) = (item.span.line(), item.span.column());
            return Err(error);
        }
        let mut values = Vec::new();
        for key in keys {
            match item.get(key) {
                Some(value) if !value.is_null() => values.push(text_of(value)),
                // Without the key there is nothing to compare.
                _ => front.push(item.clone()),
            }
        }
        if keys.len() > 1 {
            set_element(front, None, keys, &values);
        }
        set_element(front, Some(item), keys, &values);
    }
    Ok(())
}
