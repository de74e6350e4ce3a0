//! What only the patch has: its directives are taken out on the way.

use std::collections::BTreeSet;

use yaml::{Entry, Mapping, Node, Style, Value};

use super::directive::{Directive, take_list_directive, take_map_directive};
use super::merge_keys::Index;
use super::merger::{Merger, is_null, refuse_longest, refuse_nameless, written_anew};
use super::missing_merge_keys::{Lists, merge_by_identity};
use super::schema_comment::remark;
use crate::error::BuildError;
use crate::schema::Place;

impl<'s> Merger<'s> {
    /// Walks what a patch adds: it is on both sides.
    pub(super) fn add(&self, node: Node, place: Option<Place<'s>>) -> Result<Option<Node>, BuildError> {
        let own = remark(Some(&node));
        self.by_remark(own.clone(), own, place, |merger, place| merger.add_known(node, place))
    }

    fn add_known(&self, mut node: Node, place: Option<Place<'s>>) -> Result<Option<Node>, BuildError> {
        let place = self.place(place, [Some(&node), None]);
        match &mut node.value {
            Value::Mapping(mapping) => match take_map_directive(mapping)? {
                Directive::Delete => Ok(None),
                _ => self.add_fields(node, place).map(Some),
            },
            Value::Sequence(items) => match place.as_ref().and_then(Place::merge_keys).map(<[String]>::to_vec) {
                None => Ok(Some(node)),
                Some(keys) => match take_list_directive(items)? {
                    Directive::Delete => Ok(None),
                    _ => self.add_items(node, place, &keys).map(Some),
                },
            },
            _ => Ok(Some(node).filter(|node| !is_null(node))),
        }
    }

    pub(super) fn add_fields(&self, mut node: Node, place: Option<Place<'s>>) -> Result<Node, BuildError> {
        let is_type_mismatch = node.style() == Style::TypeMismatch;
        let Value::Mapping(mapping) = &mut node.value else {
            return Ok(node);
        };
        let repeats_keys = is_type_mismatch && mapping.find_odd_key().is_some_and(|(_, earlier)| earlier.is_some());
        let mut added: Vec<Entry> = Vec::with_capacity(mapping.len());
        let mut walked = BTreeSet::new();
        for entry in std::mem::take(mapping) {
            refuse_nameless(&entry)?;
            // Of a key that is there twice kustomize finds the first, and leaves the other as it is.
            if repeats_keys && !walked.insert(entry.key.clone()) {
                added.push(entry);
                continue;
            }
            let below = place.and_then(|place| self.schema.field(place, &entry.key));
            if let Some(mut value) = self.add(entry.value, below)? {
                value.settle_type();
                added.push(Entry { value, ..entry });
            }
        }
        *mapping = Mapping::from_entries(added);
        Ok(node)
    }

    pub(super) fn add_items(
        &self,
        mut node: Node,
        place: Option<Place<'s>>,
        keys: &[String],
    ) -> Result<Node, BuildError> {
        let Value::Sequence(items) = &mut node.value else {
            return Ok(node);
        };
        let below = place.and_then(|place| self.schema.items(place));
        if Index::of(&[], items, keys).is_none() {
            refuse_longest(items.len())?;
            let list = std::mem::take(items).into_iter().collect();
            *items = merge_by_identity(self, Lists::Same(list), below, keys)?.into();
            return Ok(node);
        }
        let mut added = Vec::with_capacity(items.len());
        for item in std::mem::take(items) {
            added.extend(self.add(item, below)?.and_then(written_anew));
        }
        *items = added.into();
        Ok(node)
    }
}
