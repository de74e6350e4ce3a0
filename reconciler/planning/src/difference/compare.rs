//! What differs between two sets of objects, by object and field.

use std::collections::{BTreeMap, BTreeSet};

use kustomize_rs::{Gvk, Resource, Resources};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use yaml::{Mapping, Node, Text, Value, emit};

/// What happened to an object or a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Only the new side has it.
    Added,
    /// Only the old side has it.
    Removed,
    /// Both have it, with different content.
    Modified,
    /// A list of named items with other neighbours.
    Reordered,
}

/// An object that differs.
#[derive(Debug)]
pub struct ObjectDifference<'r> {
    /// The object, on the new side where it is there.
    pub object: &'r Resource,
    /// What happened to it.
    pub change: Change,
    /// For a modified object: its fields that differ, in the order of the old side.
    pub fields: Vec<FieldDifference<'r>>,
}

/// A field that differs.
#[derive(Debug)]
pub struct FieldDifference<'r> {
    /// Names joined by dots: `spec.template.spec.containers.[name=app].image`; `[a.b/c]` for a name with dots, a number for an
    /// item of a list without names.
    pub path: String,
    /// The same, name by name.
    pub segments: Vec<String>,
    /// What happened to it.
    pub change: Change,
    /// The value before, where there was one.
    pub old: Option<&'r Node>,
    /// The value after, where there is one.
    pub new: Option<&'r Node>,
    /// The values are those of a Secret, or of something encrypted, and must not be shown.
    pub secret: bool,
}

/// Group, kind, namespace, name: objects that agree in these are the same one, whatever their version.
type Key = (Text, Text, Text, Text);

fn key(resource: &Resource) -> Key {
    let Gvk { group, kind, .. } = resource.gvk();
    (group, kind, resource.namespace(), resource.name())
}

/// Compares two sets of objects; the result is sorted by group, kind, namespace and name.
pub fn compare<'r>(old: &'r Resources, new: &'r Resources) -> Vec<ObjectDifference<'r>> {
    let mut pairs: BTreeMap<Key, [Vec<&'r Resource>; 2]> = BTreeMap::new();
    for (side, resources) in [old, new].into_iter().enumerate() {
        for resource in resources.iter() {
            let sides = pairs.entry(key(resource)).or_default();
            sides.iter_mut().skip(side).take(1).for_each(|list| list.push(resource));
        }
    }
    let mut differences = Vec::new();
    for [old, new] in pairs.into_values() {
        for pair in paired(old, new) {
            let (object, change, fields) = match pair {
                (Some(old), Some(new)) => (new, Change::Modified, fields(old, new)),
                (Some(old), None) => (old, Change::Removed, Vec::new()),
                (None, Some(new)) => (new, Change::Added, Vec::new()),
                (None, None) => continue,
            };
            if change != Change::Modified || !fields.is_empty() {
                differences.push(ObjectDifference { object, change, fields });
            }
        }
    }
    differences
}

/// One side may have an object in several versions: equal versions belong together, the others in their order.
fn paired<'r>(
    mut old: Vec<&'r Resource>,
    mut new: Vec<&'r Resource>,
) -> Vec<(Option<&'r Resource>, Option<&'r Resource>)> {
    let mut pairs = Vec::new();
    old.retain(|one| match new.iter().position(|other| other.gvk() == one.gvk()) {
        Some(index) => {
            pairs.push((Some(*one), Some(new.remove(index))));
            false
        }
        None => true,
    });
    let longest = old.len().max(new.len());
    pairs.extend((0..longest).map(|index| (old.get(index).copied(), new.get(index).copied())));
    pairs
}

fn fields<'r>(old: &'r Resource, new: &'r Resource) -> Vec<FieldDifference<'r>> {
    let gvk = new.gvk();
    // What SOPS wrote may be encrypted in parts, and the rest is told to nobody either.
    let encrypted = [old, new].iter().any(|side| side.node().get("sops").is_some());
    let secret = encrypted || (gvk.group.is_empty() && gvk.kind == "Secret");
    let mut comparison = Comparison { secret, path: Vec::new(), found: Vec::new() };
    comparison.nodes(Some(old.node()), Some(new.node()));
    comparison.found
}

struct Comparison<'r> {
    secret: bool,
    path: Vec<String>,
    found: Vec<FieldDifference<'r>>,
}

impl<'r> Comparison<'r> {
    fn below(&mut self, segment: String, old: Option<&'r Node>, new: Option<&'r Node>) {
        self.path.push(segment);
        self.nodes(old, new);
        self.path.pop();
    }

    fn nodes(&mut self, old: Option<&'r Node>, new: Option<&'r Node>) {
        let (Some(left), Some(right)) = (old, new) else {
            let change = if old.is_none() { Change::Added } else { Change::Removed };
            return self.note(change, old, new);
        };
        match (&left.value, &right.value) {
            (Value::Mapping(left), Value::Mapping(right)) => self.mappings(left, right),
            (Value::Sequence(left), Value::Sequence(right)) => match (by_name(left), by_name(right)) {
                (Some(old_items), Some(new_items)) => {
                    for (name, item) in &old_items {
                        let other = new_items.iter().find(|(other, _)| other == name);
                        self.below(format!("[name={name}]"), Some(item), other.map(|(_, item)| *item));
                    }
                    for (name, item) in new_items.iter().filter(|(name, _)| !old_items.iter().any(|(it, _)| it == name))
                    {
                        self.below(format!("[name={name}]"), None, Some(item));
                    }
                    let kept = |items: &[(String, &Node)], others: &[(String, &Node)]| -> Vec<String> {
                        let names = items.iter().map(|(name, _)| name);
                        names.filter(|name| others.iter().any(|(other, _)| other == *name)).cloned().collect()
                    };
                    if kept(&old_items, &new_items) != kept(&new_items, &old_items) {
                        self.note(Change::Reordered, old, new);
                    }
                }
                _ => self.items(left, right),
            },
            _ if equal(left, right) => {}
            _ => self.note(Change::Modified, old, new),
        }
    }

    fn mappings(&mut self, left: &'r Mapping, right: &'r Mapping) {
        for entry in left {
            self.below(segment(&entry.key), Some(&entry.value), right.get(&entry.key));
        }
        for entry in right.iter().filter(|entry| !left.contains_key(&entry.key)) {
            self.below(segment(&entry.key), None, Some(&entry.value));
        }
    }

    /// Lists without names: what was put in or taken out does not move the rest.
    fn items(&mut self, left: &'r [Node], right: &'r [Node]) {
        let texts = |nodes: &[Node]| nodes.iter().map(emit).collect::<Vec<_>>();
        for operation in capture_diff_slices(Algorithm::Myers, &texts(left), &texts(right)) {
            if let DiffOp::Equal { .. } = operation {
                continue;
            }
            let (olds, news) = (operation.old_range(), operation.new_range());
            for offset in 0..olds.len().max(news.len()) {
                let old = left.get(olds.start + offset).filter(|_| offset < olds.len());
                let new = right.get(news.start + offset).filter(|_| offset < news.len());
                let index = if old.is_some() { olds.start } else { news.start } + offset;
                self.below(index.to_string(), old, new);
            }
        }
    }

    fn note(&mut self, change: Change, old: Option<&'r Node>, new: Option<&'r Node>) {
        let secret = self.secret && self.holds_secret();
        let segments = self.path.clone();
        self.found.push(FieldDifference { path: segments.join("."), segments, change, old, new, secret });
    }

    /// Of a Secret only what names and types it is shown: everything else, annotations with a copy of it included, may be
    /// the secret.
    fn holds_secret(&self) -> bool {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        !matches!(
            path.as_slice(),
            ["apiVersion" | "kind" | "type" | "immutable"]
                | ["metadata", "name" | "namespace"]
                | ["metadata", "labels", ..]
        )
    }
}

/// The items by their `name`, where every item has one and no two the same.
fn by_name(items: &[Node]) -> Option<Vec<(String, &Node)>> {
    let mut known = BTreeSet::new();
    let mut named = Vec::new();
    for item in items {
        let name = item.get("name")?.as_str()?.to_owned();
        if !known.insert(name.clone()) {
            return None;
        }
        named.push((name, item));
    }
    Some(named)
}

/// Equal when printed: `1.0` is `1`, but not `"1"`.
fn equal(left: &Node, right: &Node) -> bool {
    left == right || emit(left) == emit(right)
}

fn segment(key: &str) -> String {
    if key.is_empty() || key.contains(['.', '[', ']']) { format!("[{key}]") } else { key.to_owned() }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
