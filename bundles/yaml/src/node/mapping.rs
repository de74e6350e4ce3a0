//! Maps with text keys, in the order of the source.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use std::sync::Arc;

use super::{Node, Span};
use crate::resolve::{Scalar, resolve_v3};
use crate::text::Text;

/// One key of a [`Mapping`] with its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key; integers and dates used as keys are their canonical text.
    pub key: Text,
    /// Where the key was read.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

/// Keys and values in the order of the source. Equal if they hold the same keys with equal values, in any order.
///
/// A copy shares the entries; changing a shared mapping copies its own entries first, those below stay shared.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    entries: Arc<Vec<Entry>>,
}

impl PartialEq for Mapping {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.entries.iter().all(|entry| other.get(&entry.key).is_some_and(|value| *value == entry.value))
    }
}

impl Mapping {
    /// Returns an empty mapping.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a mapping of these entries, repeated keys included.
    pub fn from_entries(entries: Vec<Entry>) -> Self {
        Self { entries: Arc::new(entries) }
    }

    /// Returns the value at `key`.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Returns the value at `key`, for mutation.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        let index = self.position(key)?;
        Some(&mut self.entries_mut().get_mut(index)?.value)
    }

    /// Returns the value at `key` with its index.
    pub fn find(&self, key: &str) -> Option<(usize, &Node)> {
        self.entries.iter().enumerate().find(|(_, entry)| entry.key == key).map(|(index, entry)| (index, &entry.value))
    }

    /// Finds a repeated key with the place of its first occurrence, or else a non-string key.
    pub fn find_odd_key(&self) -> Option<(&Entry, Option<Span>)> {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        let is_odd = |key: &str| !matches!(resolve_v3(key), Scalar::Text | Scalar::Merge);
        let repeated = self.iter().find_map(|entry| Some((entry, seen.insert(&entry.key, entry.key_span)?)));
        match repeated {
            Some((entry, earlier)) => Some((entry, Some(earlier))),
            None => self.iter().find(|entry| is_odd(&entry.key)).map(|entry| (entry, None)),
        }
    }

    /// Removes all but the first entry of each key.
    pub fn drop_repeated(&mut self) {
        let mut seen = HashSet::new();
        self.retain(|entry| seen.insert(entry.key.clone()));
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.key == key)
    }

    fn entries_mut(&mut self) -> &mut Vec<Entry> {
        Arc::make_mut(&mut self.entries)
    }

    /// Returns the whole entry at `key`.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Sets `key`, in place where it exists, else at the end; returns the value that was there.
    pub fn insert(&mut self, key: impl Into<Text>, value: impl Into<Node>) -> Option<Node> {
        let (key, value) = (key.into(), value.into());
        match self.get_mut(&key) {
            Some(slot) => Some(std::mem::replace(slot, value)),
            None => {
                self.push_entry(Entry { key, key_span: Span::default(), value });
                None
            }
        }
    }

    /// Appends an entry whose key must be new.
    pub fn push_entry(&mut self, entry: Entry) {
        match Arc::get_mut(&mut self.entries) {
            Some(entries) => entries.push(entry),
            None => {
                // A copy that has room for the new one.
                let mut entries = Vec::with_capacity(self.len() + 1);
                entries.extend_from_slice(&self.entries);
                entries.push(entry);
                self.entries = Arc::new(entries);
            }
        }
    }

    /// Removes `key`, keeping the order of the rest.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let index = self.position(key)?;
        Some(self.entries_mut().remove(index).value)
    }

    /// Removes the entry at `index`.
    ///
    /// # Panics
    /// If `index` is out of bounds.
    pub fn remove_at(&mut self, index: usize) {
        self.entries_mut().remove(index);
    }

    /// Returns whether the mapping has `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Iterates in input order.
    pub fn iter(&self) -> std::slice::Iter<'_, Entry> {
        self.entries.iter()
    }

    /// Iterates in input order, for mutation.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Entry> {
        self.entries_mut().iter_mut()
    }

    /// Keeps the entries that `keep` accepts.
    pub fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.entries_mut().retain(keep);
    }

    /// Returns the value at `key`, inserting `default()` where there is none.
    pub fn get_or_insert_with(&mut self, key: &str, default: impl FnOnce() -> Node) -> &mut Node {
        let index = match self.position(key) {
            Some(index) => index,
            None => {
                self.push_entry(Entry { key: key.into(), key_span: Span::default(), value: default() });
                self.len() - 1
            }
        };
        #[allow(clippy::indexing_slicing, reason = "the index was found or pushed just above")]
        &mut self.entries_mut()[index].value
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<'a> IntoIterator for &'a Mapping {
    type Item = &'a Entry;
    type IntoIter = std::slice::Iter<'a, Entry>;
    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}

impl IntoIterator for Mapping {
    type Item = Entry;
    type IntoIter = std::vec::IntoIter<Entry>;
    fn into_iter(self) -> Self::IntoIter {
        Arc::unwrap_or_clone(self.entries).into_iter()
    }
}

impl<K: Into<Text>> FromIterator<(K, Node)> for Mapping {
    fn from_iter<T: IntoIterator<Item = (K, Node)>>(pairs: T) -> Self {
        let mut mapping = Self::new();
        for (key, value) in pairs {
            mapping.insert(key, value);
        }
        mapping
    }
}
