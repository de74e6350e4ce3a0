//! What a server keeps: every version of every object, by revision.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::{Value, json};

/// Resource (`plural.group`), namespace (empty where there is none) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// An object since a revision; none where it was deleted.
type Version = (u64, Option<Arc<Value>>);

/// A change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    /// None where it was deleted.
    pub(crate) after: Option<Arc<Value>>,
}

/// Every version of every object since the last compaction.
#[derive(Debug)]
pub(crate) struct Objects {
    revision: u64,
    compacted: u64,
    versions: BTreeMap<Key, Vec<Version>>,
    changes: Vec<Change>,
    identities: u64,
    /// Objects that are kept with a field that is null, and that nobody is shown.
    with_nulls: BTreeSet<Key>,
}

impl Default for Objects {
    fn default() -> Self {
        // 0 means something else to those who ask.
        Self {
            revision: 1,
            compacted: 0,
            versions: BTreeMap::new(),
            changes: Vec::new(),
            identities: 0,
            with_nulls: BTreeSet::new(),
        }
    }
}

impl Objects {
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision up to which what was is forgotten.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Forgets what was before now.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
        self.changes.clear();
        for versions in self.versions.values_mut() {
            *versions = versions.split_off(versions.len().saturating_sub(1));
        }
        self.versions.retain(|_, versions| versions.last().is_some_and(|(_, object)| object.is_some()));
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.versions.get(key)?.last()?.1.as_ref()
    }

    /// The objects of a resource as they were at a revision, in their order, beginning after `after`.
    pub(crate) fn at(
        &self,
        revision: u64,
        resource: &str,
        namespace: Option<&str>,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let text = |text: &str| text.to_owned();
        let first = Key { resource: text(resource), namespace: text(namespace.unwrap_or("")), name: String::new() };
        let start = after.map_or(Bound::Included(&first), Bound::Excluded);
        let range = self.versions.range::<Key, _>((start, Bound::Unbounded));
        let within =
            move |key: &Key| key.resource == resource && namespace.is_none_or(|namespace| key.namespace == namespace);
        // Names are sorted below their namespace, and namespaces below their resource: what is wanted is in one piece.
        range.take_while(move |(key, _)| within(key)).filter_map(move |(key, versions)| {
            let known = versions.iter().rev().find(|(since, _)| *since <= revision)?;
            known.1.as_ref().map(|object| (key, object))
        })
    }

    /// The changes after a revision.
    pub(crate) fn since(&self, revision: u64) -> impl Iterator<Item = &Change> {
        let first = self.changes.partition_point(|change| change.revision <= revision);
        self.changes.iter().skip(first)
    }

    /// The identity of an object that is made now.
    pub(crate) fn identity(&mut self) -> String {
        self.identities += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.identities)
    }

    /// Whether an object is kept otherwise than it is shown: what changes nothing of it writes it anew.
    pub(crate) fn has_nulls(&self, key: &Key) -> bool {
        self.with_nulls.contains(key)
    }

    pub(crate) fn note_nulls(&mut self, key: &Key) {
        self.with_nulls.insert(key.clone());
    }

    /// Keeps an object as it is from now on, or that it is gone; its `resourceVersion` is set.
    pub(crate) fn put(&mut self, key: &Key, object: Option<Value>) -> Option<Arc<Value>> {
        self.revision += 1;
        self.with_nulls.remove(key);
        let after = object.map(|object| Arc::new(self.stamped(object)));
        let before = self.get(key).cloned();
        self.versions.entry(key.clone()).or_default().push((self.revision, after.clone()));
        self.changes.push(Change { revision: self.revision, key: key.clone(), before, after: after.clone() });
        after
    }

    fn stamped(&self, mut object: Value) -> Value {
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        object
    }
}
