//! Strategic merge: maps field by field, lists by the merge keys of the schema, items of the patch first.
//!
//! As in kustomize the whole object is walked, also where the patch says nothing: lists with merge keys lose
//! duplicates, and empty values that were not spelled `null` go away.

use std::cell::Cell;

use foldhash::HashSet;

use super::merge_keys::{
    Index, append_items, asks_for_replacement, find_element, set_element, unify, used_keys, valid, values_of,
};
use crate::error::{BuildError, BuildErrorKind};
use crate::id::Gvk;
use crate::schema::{Place, Schema};
use crate::yaml::{Holder, Mapping, Node, Sequence, Style, Value};

/// Merges `patch` into `object`; `None` if the patch deletes it.
pub(crate) fn merge(object: Node, patch: Node, schema: &Schema) -> Result<Option<Node>, BuildError> {
    let copies = Cell::new(0);
    Merger { schema, copies: &copies }.walk(Some(object), Some(patch), None)
}

struct Merger<'s> {
    schema: &'s Schema,
    /// How often comments had it copied.
    copies: &'s Cell<usize>,
}

/// More comments with definitions of their own than this are refused: each costs a copy of the schema.
const MOST_COPIES: usize = 200;

/// What `$patch` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(text: &str) -> Result<Directive, BuildError> {
    match text {
        "merge" => Ok(Directive::Merge),
        "replace" => Ok(Directive::Replace),
        "delete" => Ok(Directive::Delete),
        other => Err(BuildError::transform(format!("unknown patch strategy `{other}`"))
            .hint("`$patch` is one of delete, merge, replace")),
    }
}

fn is_null(node: &Node) -> bool {
    node.is_null() || node.is_flow_null()
}

fn is_nothing(node: Option<&Node>) -> bool {
    node.is_none_or(is_null)
}

/// Takes `$patch` out of a map.
fn take_map_directive(patch: &mut Mapping) -> Result<Directive, BuildError> {
    let Some(value) = patch.get("$patch") else {
        return Ok(Directive::Merge);
    };
    let found = directive(&value.scalar_text().unwrap_or_default())?;
    patch.remove("$patch");
    Ok(found)
}

/// Takes the items that only say `$patch` out of a list.
fn take_list_directive(patch: &mut Vec<Node>) -> Result<Directive, BuildError> {
    let is_directive = |item: &Node| item.as_mapping().filter(|item| item.contains_key("$patch")).cloned();
    let Some(first) = patch.iter().find_map(is_directive) else {
        return Ok(Directive::Merge);
    };
    if first.len() > 1 {
        return Ok(Directive::Merge);
    }
    let text = first.get("$patch").and_then(Node::scalar_text).unwrap_or_default().into_owned();
    let found = directive(&text)?;
    set_element(patch, None, &["$patch".to_owned()], &[text]);
    Ok(found)
}

/// More items than this without distinct keys are refused: the careful way costs their square.
const LONGEST_ODD_LIST: usize = 10_000;

fn value_mut(node: &mut Option<Node>) -> Option<&mut Value> {
    node.as_mut().map(|node| &mut node.value)
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
        let kept = |node: &Node| !node.is_null() && !node.as_mapping().is_some_and(Mapping::is_empty);
        for (item, partner) in patch.iter().zip(&index.partners) {
            let slot = partner.and_then(|at| dest.get_mut(at));
            let Some(slot) = slot else {
                result.extend(self.walk(None, Some(item.clone()), place)?.filter(kept));
                continue;
            };
            let merged = self.walk(slot.take(), Some(item.clone()), place)?.filter(kept);
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
                Some(item) => result.extend(self.walk(Some(item), None, place)?.filter(kept)),
                None => {}
            }
        }
        Ok(result)
    }

    fn place(&self, known: Option<Place<'s>>, nodes: [Option<&Node>; 2]) -> Option<Place<'s>> {
        if known.is_some() {
            return known;
        }
        nodes.into_iter().flatten().find_map(|node| {
            let kind = node.get("kind")?.as_str()?;
            let api_version = node.get("apiVersion")?.as_str()?;
            self.schema.root(&Gvk::new(api_version, kind))
        })
    }

    /// Walks by what a comment says instead of what is known, if there is one that says something.
    fn walk(
        &self,
        dest: Option<Node>,
        patch: Option<Node>,
        place: Option<Place<'s>>,
    ) -> Result<Option<Node>, BuildError> {
        let remark =
            |node: &Option<Node>| node.as_ref().and_then(Node::remark).map(|(holder, text)| (holder, text.to_owned()));
        let (own, given) = (remark(&dest), remark(&patch));
        let Some((_, text)) = own.as_ref().or(given.as_ref()) else {
            return self.walk_known(dest, patch, place);
        };
        let Some((schema, property)) = self.schema.with_remark(text) else {
            return self.walk_known(dest, patch, place);
        };
        self.copies.set(self.copies.get() + usize::from(schema.is_some()));
        if self.copies.get() > MOST_COPIES {
            let message = format!("more than {MOST_COPIES} comments hold schemas of objects");
            return Err(BuildError::new(BuildErrorKind::Limit, message));
        }
        let merger = Merger { schema: schema.as_ref().unwrap_or(self.schema), copies: self.copies };
        let mut merged = merger.walk_known(dest, patch, Some(Place::Property(&property)))?;
        // Keys keep their comments. The comment of a value goes from the patch to the object, but a list with merge keys
        // is made anew.
        let last = match own {
            Some(own @ (Holder::Key, _)) => Some(own),
            own => given.filter(|(holder, _)| *holder == Holder::Value).or(own),
        };
        let is_new = |merged: &Node| merged.as_sequence().is_some() && property.merges();
        match (&mut merged, last) {
            (Some(merged), Some((Holder::Value, _))) if is_new(merged) => merged.drop_remark(),
            (Some(merged), Some((holder, text))) if !merged.is_scalar() => merged.set_remark(holder, &text),
            _ => {}
        }
        Ok(merged)
    }

    fn walk_known(
        &self,
        dest: Option<Node>,
        patch: Option<Node>,
        place: Option<Place<'s>>,
    ) -> Result<Option<Node>, BuildError> {
        let place = self.place(place, [dest.as_ref(), patch.as_ref()]);
        let shape = |node: &Option<Node>| match node.as_ref().filter(|node| !is_null(node)).map(|node| &node.value) {
            None | Some(Value::Null) => None,
            Some(Value::Mapping(_)) => Some("map"),
            Some(Value::Sequence(_)) => Some("list"),
            Some(_) => Some("scalar"),
        };
        let (dest_shape, patch_shape) = (shape(&dest), shape(&patch));
        if let (Some(left), Some(right)) = (dest_shape, patch_shape)
            && left != right
        {
            let mut error = BuildError::transform(format!("the patch has a {right} where the object has a {left}"));
            if let Some(node) = &patch {
                (error.line, error.column) = (node.span.line(), node.span.column());
            }
            return Err(error);
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
                None => Ok(patch.or(dest).filter(|node| !is_null(node))),
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
        mut dest: Option<Node>,
        mut patch: Option<Node>,
        place: Option<Place<'s>>,
    ) -> Result<Option<Node>, BuildError> {
        let base = if is_nothing(dest.as_ref()) {
            if let Some(Node { value: Value::Mapping(mapping), .. }) = &mut patch
                && take_map_directive(mapping).is_ok_and(|directive| directive == Directive::Delete)
            {
                return Ok(None);
            }
            match (dest, &patch) {
                (Some(dest), None) => {
                    // A null that is spelled out stays, an empty value goes.
                    let keep = dest.scalar_text().is_some_and(|text| !text.is_empty());
                    return Ok(keep.then_some(dest));
                }
                (_, patch) => patch.clone(),
            }
        } else {
            match &mut patch {
                Some(node) if is_null(node) => return Ok(None),
                Some(Node { value: Value::Mapping(mapping), .. }) => {
                    let has_directive = mapping.contains_key("$patch");
                    match take_map_directive(mapping)? {
                        Directive::Delete => return Ok(None),
                        Directive::Replace => patch.clone(),
                        Directive::Merge => {
                            // Below a field that the patch adds, both sides are the patch.
                            if let (true, Some(Value::Mapping(dest))) = (has_directive, value_mut(&mut dest)) {
                                dest.remove("$patch");
                            }
                            dest
                        }
                    }
                }
                _ => dest,
            }
        };
        let Some(mut base) = base else {
            return Ok(None);
        };
        let mut base_style = base.style();
        let Value::Mapping(mapping) = &mut base.value else {
            // A null of the patch where nothing was: it clears the field.
            return Ok(None);
        };
        let fields = std::mem::take(mapping);
        if let (true, Some(patch)) = (fields.is_empty(), &patch) {
            base_style = patch.style();
        }
        let may_repeat = patch.as_ref().is_some_and(|patch| patch.style() == Style::Misfit);
        let mut patch_fields = match patch {
            Some(Node { value: Value::Mapping(fields), .. }) => fields,
            _ => Mapping::new(),
        };
        if may_repeat {
            patch_fields.drop_repeated();
        }
        for entry in fields {
            let below = place.and_then(|place| self.schema.field(place, &entry.key));
            let with = patch_fields.remove(&entry.key);
            if let Some(value) = self.walk(Some(entry.value), with, below)? {
                mapping.push_entry(crate::yaml::Entry { value, ..entry });
            }
        }
        // kustomize goes along the fields by name, so new ones come in that order.
        let mut patch_fields: Vec<_> = patch_fields.into_iter().collect();
        patch_fields.sort_by(|a, b| a.key.cmp(&b.key));
        for entry in patch_fields {
            let below = place.and_then(|place| self.schema.field(place, &entry.key));
            if let Some(mut value) = self.walk(None, Some(entry.value), below)? {
                value.drop_key_remark();
                mapping.push_entry(crate::yaml::Entry { value, ..entry });
            }
        }
        base.set_style(base_style);
        Ok(Some(base))
    }

    fn walk_keyed_list(
        &self,
        mut dest: Option<Node>,
        mut patch: Option<Node>,
        place: Option<Place<'s>>,
        keys: &[String],
    ) -> Result<Option<Node>, BuildError> {
        let base = if is_nothing(dest.as_ref()) {
            patch.clone()
        } else {
            match &mut patch {
                Some(Node { value: Value::Null, .. }) => return Ok(None),
                Some(Node { value: Value::Sequence(items), .. }) => {
                    let count = items.len();
                    match take_list_directive(items)? {
                        Directive::Delete => return Ok(None),
                        Directive::Replace => patch.clone(),
                        Directive::Merge => {
                            // Below a field that the patch adds, both sides are the patch.
                            if let (true, Some(Value::Sequence(dest))) = (items.len() < count, value_mut(&mut dest)) {
                                take_list_directive(dest)?;
                            }
                            dest
                        }
                    }
                }
                _ => dest,
            }
        };
        let Some(mut base) = base else {
            return Ok(None);
        };
        let Value::Sequence(items) = &mut base.value else {
            return Ok(Some(base));
        };
        let patch_items = match patch {
            Some(Node { value: Value::Sequence(items), .. }) => items,
            _ => Sequence::default(),
        };
        let merged = self.merge_items(std::mem::take(items).into_iter().collect(), &patch_items, place, keys)?;
        *items = merged.into();
        Ok(Some(base))
    }

    fn merge_items(
        &self,
        mut dest: Vec<Node>,
        patch: &[Node],
        place: Option<Place<'s>>,
        keys: &[String],
    ) -> Result<Vec<Node>, BuildError> {
        let items_place = place.and_then(|place| self.schema.items(place));
        if let Some(index) = Index::of(&dest, patch, keys) {
            return self.merge_indexed(dest, patch, items_place, &index);
        }
        if dest.len() + patch.len() > LONGEST_ODD_LIST {
            let message =
                format!("a list of {} items without distinct merge keys is too long", dest.len() + patch.len());
            return Err(BuildError::new(BuildErrorKind::Limit, message));
        }
        let no_keys = [String::new()];
        let keys = if keys.is_empty() { &no_keys[..] } else { keys };
        let mut wanted = values_of(patch, &dest, keys);
        if keys.len() > 1 {
            unify(&mut wanted);
        }
        let mut front: Vec<Node> = Vec::new();
        let used = used_keys(&wanted, keys);
        for values in &wanted {
            let (valid_keys, valid_values) = valid(&used, values, keys);
            let (own_keys, own_values) = {
                let alone = used_keys(std::slice::from_ref(&valid_values), &valid_keys);
                valid(&alone, &valid_values, &valid_keys)
            };
            let at = find_element(&dest, &own_keys, &own_values);
            let old = at.and_then(|at| dest.get(at)).cloned();
            let new = find_element(patch, &own_keys, &own_values).and_then(|at| patch.get(at)).cloned();
            // kustomize puts the old item back over one that asks to be replaced.
            let replaced = old.is_some() && new.as_ref().is_some_and(asks_for_replacement);
            let has_directive = new.as_ref().is_some_and(|new| new.get("$patch").is_some());
            let merged = self.walk(old, new, items_place)?;
            // Below a field that the patch adds, both sides are the patch.
            let slot = at.and_then(|at| dest.get_mut(at)).and_then(Node::as_mapping_mut);
            if let (true, Some(slot)) = (has_directive, slot) {
                slot.remove("$patch");
            }
            let gone =
                merged.as_ref().is_none_or(|node| node.is_null() || node.as_mapping().is_some_and(Mapping::is_empty));
            if gone {
                set_element(&mut dest, None, &valid_keys, &valid_values);
                continue;
            }
            let Some(mut merged) = merged else {
                continue;
            };
            if let Some(mapping) = merged.as_mapping_mut() {
                for (key, value) in valid_keys.iter().zip(&valid_values) {
                    if !value.is_empty() && !mapping.contains_key(key) {
                        mapping.insert(key.clone(), crate::transform::plain_scalar(value));
                    }
                }
            }
            if let Some(slot) = at.and_then(|at| dest.get_mut(at)).filter(|_| !replaced) {
                *slot = merged.clone();
            }
            set_element(&mut front, Some(merged), &valid_keys, &valid_values);
        }
        let Some(last) = wanted.last() else {
            return Ok(dest);
        };
        let (valid_keys, _) = valid(&used, last, keys);
        append_items(&mut front, dest, &valid_keys)?;
        Ok(front)
    }
}
