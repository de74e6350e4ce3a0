//! Strategic merge: maps field by field, lists by the merge keys of the schema, items of the patch first.
//!
//! As in kustomize the whole object is walked, also where the patch says nothing: lists with merge keys lose
//! duplicates, and empty values that were not spelled `null` go away.

use std::cell::Cell;

use foldhash::HashSet;
use yaml::{Entry, Mapping, Node, Sequence, Span, Style, Value};

use super::directive::{Directive, take_list_directive, take_map_directive};
use super::merge_keys::Index;
use super::merger::{Merger, is_gone, is_nothing, is_null, other_shape, refuse_longest, refuse_nameless, written_anew};
use super::missing_merge_keys::{Lists, merge_by_identity};
use super::schema_comment::remark;
use crate::error::BuildError;
use crate::schema::{Place, Schema};

/// Merges `patch` into `object`; `None` if the patch deletes it. `last` is the last number that lists and maps have which
/// are one in several places of the object.
pub(crate) fn merge(object: Node, patch: Node, schema: &Schema, last: &mut u32) -> Result<Option<Node>, BuildError> {
    let (copies, numbers) = (Cell::new(0), Cell::new(*last));
    let merged = Merger { schema, copies: &copies, numbers: &numbers }.walk(Some(object), Some(patch), None);
    *last = numbers.get();
    merged
}

impl<'s> Merger<'s> {
    fn merge_indexed(
        &self,
        dest: Vec<Node>,
        patch: &[Node],
        place: Option<Place<'s>>,
        index: &Index,
    ) -> Result<Vec<Node>, BuildError> {
        let mut dest: Vec<Option<Node>> = dest.into_iter().map(Some).collect();
        let mut result = Vec::with_capacity(dest.len() + patch.len());
        for (item, partner) in patch.iter().zip(&index.partners) {
            let slot = partner.and_then(|at| dest.get_mut(at));
            let Some(slot) = slot else {
                result.extend(self.walk(None, Some(item.clone()), place)?.and_then(written_anew));
                continue;
            };
            let merged = match slot.take() {
                // Of two scalars that are the same, that of the object is put back.
                Some(own) if own.is_scalar() => Some(own),
                own => self.walk(own, Some(item.clone()), place)?,
            };
            let merged = merged.filter(|item| !is_gone(item));
            if index.keep_places {
                *slot = merged;
            } else {
                result.extend(merged);
            }
        }
        let met: HashSet<usize> = index.partners.iter().flatten().copied().collect();
        for (at, item) in dest.into_iter().enumerate() {
            match item {
                Some(item) if met.contains(&at) => result.push(item),
                Some(item) => result.extend(self.walk(Some(item), None, place)?.and_then(written_anew)),
                None => {}
            }
        }
        Ok(result)
    }

    fn walk(
        &self,
        dest: Option<Node>,
        patch: Option<Node>,
        place: Option<Place<'s>>,
    ) -> Result<Option<Node>, BuildError> {
        let (own, given) = (remark(dest.as_ref()), remark(patch.as_ref()));
        self.by_remark(own, given, place, |merger, place| merger.walk_known(dest, patch, place))
    }

    fn walk_known(
        &self,
        dest: Option<Node>,
        patch: Option<Node>,
        place: Option<Place<'s>>,
    ) -> Result<Option<Node>, BuildError> {
        let place = self.place(place, [dest.as_ref(), patch.as_ref()]);
        let shape = |node: &Option<Node>| match node.as_ref().filter(|node| !is_null(node)).map(|node| &node.value) {
            None => None,
            Some(Value::Mapping(_)) => Some("map"),
            Some(Value::Sequence(_)) => Some("list"),
            Some(_) => Some("scalar"),
        };
        let (dest_shape, patch_shape) = (shape(&dest), shape(&patch));
        if let (Some(left), Some(right)) = (dest_shape, patch_shape)
            && left != right
        {
            return Err(other_shape(left, right, patch.map_or_else(Span::default, |node| node.span)));
        }
        match dest_shape.or(patch_shape) {
            // A null of the patch clears.
            Some("scalar") => Ok(match (patch, dest) {
                (Some(patch), Some(mut dest)) if !is_null(&patch) => {
                    dest.replace_value(patch);
                    Some(dest)
                }
                (patch, dest) => patch.or(dest).filter(|node| !is_null(node)),
            }),
            Some("list") => match place.as_ref().and_then(Place::merge_keys) {
                None => Ok(in_place_of(patch, dest).filter(|node| !is_null(node))),
                Some(keys) => {
                    let keys = keys.to_vec();
                    self.walk_keyed_list(dest, patch, place, &keys)
                }
            },
            _ => self.walk_map(dest, patch, place),
        }
    }

    fn walk_map(
        &self,
        dest: Option<Node>,
        mut patch: Option<Node>,
        place: Option<Place<'s>>,
    ) -> Result<Option<Node>, BuildError> {
        let base = if is_nothing(dest.as_ref()) {
            let Some(mut patch) = patch else {
                // A null that is spelled out stays, an empty value goes.
                return Ok(dest.filter(|dest| dest.scalar_text().is_some_and(|text| !text.is_empty())));
            };
            // A null of the patch where nothing was: it clears the field.
            let Value::Mapping(mapping) = &mut patch.value else {
                return Ok(None);
            };
            if take_map_directive(mapping).is_ok_and(|directive| directive == Directive::Delete) {
                return Ok(None);
            }
            if let Some(dest) = &dest {
                patch.take_place_of(dest);
            }
            return self.add_fields(patch, place).map(Some);
        } else {
            match &mut patch {
                Some(node) if is_null(node) => return Ok(None),
                Some(Node { value: Value::Mapping(mapping), .. }) => match take_map_directive(mapping)? {
                    Directive::Delete => return Ok(None),
                    Directive::Replace => {
                        return in_place_of(patch, dest).map(|patch| self.add_fields(patch, place)).transpose();
                    }
                    Directive::Merge => dest,
                },
                _ => dest,
            }
        };
        let Some(mut base) = base else {
            return Ok(None);
        };
        let mut base_style = base.style();
        let Value::Mapping(mapping) = &mut base.value else {
            return Ok(None);
        };
        let fields = std::mem::take(mapping);
        if let (true, Some(patch)) = (fields.is_empty(), &patch) {
            base_style = patch.style();
        }
        let may_repeat = patch.as_ref().is_some_and(|patch| patch.style() == Style::TypeMismatch);
        let mut patch_fields = match patch {
            Some(Node { value: Value::Mapping(fields), .. }) => fields,
            _ => Mapping::new(),
        };
        if may_repeat {
            patch_fields.drop_repeated();
        }
        for mut entry in fields {
            refuse_nameless(&entry)?;
            let below = place.and_then(|place| self.schema.field(place, &entry.key));
            let with = patch_fields.remove(&entry.key);
            // kustomize sets each field that it walks by.
            if with.is_none() {
                entry.value.settle_type();
            }
            if let Some(value) = self.walk(Some(entry.value), with, below)? {
                mapping.push_entry(Entry { value, ..entry });
            }
        }
        // kustomize goes along the fields by name, so new ones come in that order.
        let mut patch_fields: Vec<_> = patch_fields.into_iter().collect();
        patch_fields.sort_by(|a, b| a.key.cmp(&b.key));
        for entry in patch_fields {
            refuse_nameless(&entry)?;
            let below = place.and_then(|place| self.schema.field(place, &entry.key));
            if let Some(mut value) = self.walk(None, Some(entry.value), below)? {
                value.drop_key_remark();
                value.settle_type();
                mapping.push_entry(Entry { value, ..entry });
            }
        }
        base.set_style(base_style);
        Ok(Some(base))
    }

    fn walk_keyed_list(
        &self,
        dest: Option<Node>,
        mut patch: Option<Node>,
        place: Option<Place<'s>>,
        keys: &[String],
    ) -> Result<Option<Node>, BuildError> {
        if is_nothing(dest.as_ref()) {
            return in_place_of(patch, dest).map(|patch| self.add_items(patch, place, keys)).transpose();
        }
        match &mut patch {
            Some(Node { value: Value::Null, .. }) => return Ok(None),
            Some(Node { value: Value::Sequence(items), .. }) => match take_list_directive(items)? {
                Directive::Delete => return Ok(None),
                Directive::Replace => {
                    return in_place_of(patch, dest).map(|patch| self.add_items(patch, place, keys)).transpose();
                }
                Directive::Merge => {}
            },
            _ => {}
        }
        let Some(mut base) = dest else {
            return Ok(None);
        };
        let Value::Sequence(items) = &mut base.value else {
            return Ok(Some(base));
        };
        let patch = match patch {
            Some(Node { value: Value::Sequence(items), .. }) => items,
            _ => Sequence::default(),
        };
        let dest: Vec<Node> = std::mem::take(items).into_iter().collect();
        let below = place.and_then(|place| self.schema.items(place));
        *items = match Index::of(&dest, &patch, keys) {
            Some(index) => self.merge_indexed(dest, &patch, below, &index)?.into(),
            None => {
                refuse_longest(dest.len() + patch.len())?;
                merge_by_identity(self, Lists::Both(dest, patch.into_iter().collect()), below, keys)?.into()
            }
        };
        Ok(Some(base))
    }
}

/// What the patch has, in the place of what the object has.
fn in_place_of(patch: Option<Node>, dest: Option<Node>) -> Option<Node> {
    let Some(mut patch) = patch else {
        return dest;
    };
    if let Some(dest) = &dest {
        patch.take_place_of(dest);
    }
    Some(patch)
}
