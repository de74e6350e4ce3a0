//! Walks two specifications side by side and asks of each difference whether it is claimed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::field::Field;

/// The word on one difference.
pub(super) enum Judgement {
    /// Cluster API does not compare it: it counts neither way.
    Ignored,
    Claimed,
    Rejected(String),
    /// It depends on the fields below.
    Below,
}

/// Lists whose elements are known by a key: `files` by `path`, arguments by `name`.
const KEYS: [&str; 2] = ["path", "name"];

#[derive(Default)]
pub(super) struct Compared {
    pub(super) claimed: Vec<Field>,
    pub(super) rejected: Vec<(Field, String)>,
    /// The current specification with whatever is claimed.
    pub(super) patched: Value,
}

pub(super) type Rule<'a> = &'a dyn Fn(&Field, Option<&Value>, Option<&Value>) -> Judgement;

pub(super) fn compare(current: &Value, desired: &Value, rule: Rule<'_>) -> Compared {
    let mut compared = Compared::default();
    let there = |value: &Value| (!value.is_null()).then(|| value.clone());
    let (current, desired) = (there(current), there(desired));
    let patched = compared.walk(&Field::default(), current.as_ref(), desired.as_ref(), rule);
    compared.patched = patched.unwrap_or_default();
    compared
}

impl Compared {
    /// The value with whatever is claimed; none where there is none then.
    fn walk(&mut self, field: &Field, from: Option<&Value>, to: Option<&Value>, rule: Rule<'_>) -> Option<Value> {
        if from == to {
            return from.cloned();
        }
        match rule(field, from, to) {
            Judgement::Ignored => from.cloned(),
            Judgement::Claimed => {
                self.claimed.push(field.clone());
                to.cloned()
            }
            Judgement::Rejected(reason) => {
                self.rejected.push((field.clone(), reason));
                from.cloned()
            }
            Judgement::Below => self.below(field, from, to, rule),
        }
    }

    fn below(&mut self, field: &Field, from: Option<&Value>, to: Option<&Value>, rule: Rule<'_>) -> Option<Value> {
        let (objects, lists) = ((map(from), map(to)), (keyed(from), keyed(to)));
        let is_one_there = from.is_some() || to.is_some();
        match (objects, lists) {
            ((Some(old), Some(new)), _) if is_one_there && !(old.is_empty() && new.is_empty()) => {
                let patched = self.fields(field, &old, &new, rule);
                // An object of which nothing is left goes with its last field, unless it is wanted empty.
                let is_there = !patched.is_empty() || (from.is_some() && to.is_some());
                is_there.then_some(Value::Object(patched))
            }
            (_, (Some(old), Some(new))) if !(old.is_empty() && new.is_empty()) => {
                let patched = self.elements(field, &old, &new, rule);
                let is_there = !patched.is_empty() || (from.is_some() && to.is_some());
                is_there.then_some(Value::Array(patched))
            }
            _ => {
                self.rejected.push((field.clone(), "cannot be changed in place".to_owned()));
                from.cloned()
            }
        }
    }

    fn fields(
        &mut self,
        field: &Field,
        from: &Map<String, Value>,
        to: &Map<String, Value>,
        rule: Rule<'_>,
    ) -> Map<String, Value> {
        let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        let patched = names.into_iter().filter_map(|name| {
            Some((name.clone(), self.walk(&field.named(name), from.get(name), to.get(name), rule)?))
        });
        patched.collect()
    }

    /// In the order that is desired; where not all is claimed, in the order that there is, and what is new behind it.
    fn elements(&mut self, field: &Field, from: &[Element<'_>], to: &[Element<'_>], rule: Rule<'_>) -> Vec<Value> {
        let rejected = self.rejected.len();
        let mut patched: BTreeMap<&str, Value> = BTreeMap::new();
        let keys: BTreeSet<&str> = from.iter().chain(to).map(|(key, _)| *key).collect();
        for key in keys {
            let element = self.walk(&field.keyed(key), value_of(from, key), value_of(to, key), rule);
            patched.extend(element.map(|element| (key, element)));
        }
        let common = |list: &[Element<'_>], other: &[Element<'_>]| -> Vec<String> {
            list.iter().filter(|(key, _)| value_of(other, key).is_some()).map(|(key, _)| (*key).to_owned()).collect()
        };
        if common(from, to) != common(to, from) {
            self.rejected.push((field.clone(), "cannot be put into another order in place".to_owned()));
        }
        let (first, then) = if self.rejected.len() == rejected { (to, from) } else { (from, to) };
        let order: Vec<&str> = first.iter().chain(then).map(|(key, _)| *key).collect();
        order.into_iter().filter_map(|key| patched.remove(key)).collect()
    }
}

fn value_of<'a>(list: &[Element<'a>], key: &str) -> Option<&'a Value> {
    list.iter().find(|(of, _)| *of == key).map(|(_, value)| *value)
}

type Element<'a> = (&'a str, &'a Value);

/// What is absent is an object without fields, as far as the other side is one.
fn map(value: Option<&Value>) -> Option<Map<String, Value>> {
    match value {
        None => Some(Map::new()),
        Some(Value::Object(fields)) => Some(fields.clone()),
        Some(_) => None,
    }
}

/// The elements by their keys; none where one has no key, or two have the same.
fn keyed(value: Option<&Value>) -> Option<Vec<Element<'_>>> {
    let list = match value {
        None => return Some(Vec::new()),
        Some(value) => value.as_array()?,
    };
    let key = |element: &'_ Value| KEYS.iter().find_map(|key| element.get(key)?.as_str().map(str::to_owned));
    let keys: BTreeSet<String> = list.iter().filter_map(key).collect();
    if keys.len() != list.len() {
        return None;
    }
    list.iter().map(|element| Some((KEYS.iter().find_map(|key| element.get(key)?.as_str())?, element))).collect()
}
