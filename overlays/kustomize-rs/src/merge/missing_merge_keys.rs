//! Lists in which items lack or repeat merge keys: kustomize's way, where one item can be several things at once.
//!
//! What a patch adds is the patch's own node, so a later change of the one is a change of the other; and an item without
//! keys is found, put back and removed under keys that others have. So nodes have an identity here: a [`Graph`] holds
//! them, and lists and maps hold their numbers. What stays in several places is one for the patches that follow as well.

use yaml::{Entry, Holder, Node, Span};

use super::directive::{Directive, directive};
use super::graph::{Content, Graph, Id, missing};
use super::merge_keys::{unify, used_keys, valid};
use super::merger::{Merger, other_shape, refuse_nameless};
use super::schema_comment::last_remark;
use crate::error::{BuildError, BuildErrorKind};
use crate::schema::Place;

/// What came of two nodes.
#[derive(Clone, Copy)]
struct Walked {
    id: Id,
    /// A null that is spelled out in the object stays.
    keeps_null: bool,
}

impl From<Id> for Walked {
    fn from(id: Id) -> Self {
        Self { id, keeps_null: false }
    }
}

/// The two sides of a merge.
#[derive(Clone, Copy)]
struct Sides {
    dest: Option<Id>,
    patch: Option<Id>,
}

/// The lists to merge.
pub(super) enum Lists {
    /// That of the object and that of the patch.
    Both(Vec<Node>, Vec<Node>),
    /// One list that is both: the patch adds it.
    Same(Vec<Node>),
}

/// Items without keys double with every patch. More nodes than this are refused, unless there were as many before.
const MOST_NODES: usize = 20_000;

/// Merges lists by `keys`; without keys, lists of scalars.
pub(super) fn merge_by_identity(
    merger: &Merger<'_>,
    lists: Lists,
    place: Option<Place<'_>>,
    keys: &[String],
) -> Result<Vec<Node>, BuildError> {
    let mut graph = Graph::default();
    let sides = match lists {
        Lists::Both(dest, patch) => {
            let (dest, patch) = (graph.load(dest.into()), graph.load(patch.into()));
            Sides { dest: Some(dest), patch: Some(patch) }
        }
        Lists::Same(items) => {
            let list = Some(graph.load(items.into()));
            Sides { dest: list, patch: list }
        }
    };
    let merged = graph.merge_items(merger, sides, place, keys)?;
    graph.number(merged, merger.numbers);
    let most = graph.len().max(MOST_NODES);
    if !graph.has_at_most(merged, &mut { most }) {
        let message = format!("a list without distinct merge keys grows to more than {most} nodes");
        return Err(BuildError::new(BuildErrorKind::Limit, message));
    }
    Ok(graph.items(merged).iter().map(|item| graph.to_node(*item)).collect())
}

impl Graph {
    /// The key values of all items, those of the patch first, each once.
    fn wanted(&self, sides: Sides, keys: &[String]) -> Vec<Vec<String>> {
        let mut seen = foldhash::HashSet::default();
        let items = [sides.patch, sides.dest].into_iter().flatten().flat_map(|list| self.items(list));
        let value = |item: Id, key: &String| if key.is_empty() { self.text(item) } else { self.key_text(item, key) };
        items
            .map(|item| keys.iter().map(|key| value(*item, key)).collect::<Vec<String>>())
            .filter(|values| seen.insert(values.clone()))
            .collect()
    }

    fn merge_items(
        &mut self,
        merger: &Merger<'_>,
        sides: Sides,
        place: Option<Place<'_>>,
        keys: &[String],
    ) -> Result<Id, BuildError> {
        let dest = sides.dest.ok_or_else(missing)?;
        let no_keys = [String::new()];
        let keys = if keys.is_empty() { &no_keys[..] } else { keys };
        let mut wanted = self.wanted(sides, keys);
        if keys.len() > 1 {
            unify(&mut wanted);
        }
        let used = used_keys(&wanted, keys);
        let Some(last) = wanted.last() else {
            return Ok(dest);
        };
        let (last_keys, _) = valid(&used, last, keys);
        let front = self.load(Vec::new().into());
        for values in &wanted {
            let (valid_keys, valid_values) = valid(&used, values, keys);
            let alone = used_keys(std::slice::from_ref(&valid_values), &valid_keys);
            let (own_keys, own_values) = valid(&alone, &valid_values, &valid_keys);
            let found = Sides {
                dest: self.find_element(sides.dest, &own_keys, &own_values),
                patch: self.find_element(sides.patch, &own_keys, &own_values),
            };
            let merged = self.walk(merger, found, place)?.map(|walked| walked.id);
            let Some(merged) = merged.filter(|merged| !self.is_null_or_empty_map(*merged)) else {
                for _ in &valid_keys {
                    self.set_element(dest, None, &valid_keys, &valid_values)?;
                }
                continue;
            };
            for (key, value) in valid_keys.iter().zip(&valid_values) {
                if key.is_empty() && !value.is_empty() {
                    // kustomize writes it anew.
                    self.get_mut(merged)?.head.lose_type();
                } else if !key.is_empty() && !value.is_empty() && self.field(merged, key).is_none() {
                    let scalar = self.load(Node::plain_scalar(value));
                    self.push_field(
                        merged,
                        Entry { key: key.into(), key_span: Span::default(), value: Node::default() },
                        scalar,
                    )?;
                }
            }
            self.set_element(front, Some(merged), &valid_keys, &valid_values)?;
        }
        self.append_items(front, dest, &last_keys)?;
        Ok(front)
    }

    /// Adds the items of the object behind those of the patch, where no item has the same keys.
    fn append_items(&mut self, front: Id, dest: Id, keys: &[String]) -> Result<(), BuildError> {
        for item in self.items(dest).to_vec() {
            if keys.first().is_none_or(String::is_empty) {
                let value = self.text(item);
                self.set_element(front, Some(item), &[String::new()], &[value])?;
                continue;
            }
            if !self.is_map(item) && !self.is_null(item) {
                return Err(self.wrong_item(item));
            }
            let mut values = Vec::new();
            for key in keys {
                match self.field(item, key) {
                    Some(value) => values.push(self.text(value)),
                    // Without the key there is nothing to compare.
                    None => {
                        let mut items = self.items(front).to_vec();
                        items.push(item);
                        self.set_items(front, items)?;
                    }
                }
            }
            if keys.len() > 1 {
                self.set_element(front, None, keys, &values)?;
            }
            self.set_element(front, Some(item), keys, &values)?;
        }
        Ok(())
    }

    fn walk(
        &mut self,
        merger: &Merger<'_>,
        sides: Sides,
        place: Option<Place<'_>>,
    ) -> Result<Option<Walked>, BuildError> {
        let remark = |id: Option<Id>| {
            let (holder, text) = self.get(id?).ok()?.head.remark()?;
            Some((holder, text.to_owned()))
        };
        let (own, given) = (remark(sides.dest), remark(sides.patch));
        let Some((_, text)) = own.as_ref().or(given.as_ref()) else {
            return self.walk_known(merger, sides, place);
        };
        let Some((schema, property)) = merger.schema.with_remark(text) else {
            return self.walk_known(merger, sides, place);
        };
        let merger = merger.with_schema(schema.as_ref())?;
        let walked = self.walk_known(&merger, sides, Some(Place::Property(&property)))?;
        let last = last_remark(own, given);
        if let Some(walked) = walked
            && !self.is_scalar(walked.id)
        {
            let is_new = !self.is_map(walked.id) && property.merges();
            let head = &mut self.get_mut(walked.id)?.head;
            match last {
                Some((Holder::Value, _)) if is_new => head.drop_remark(),
                Some((holder, text)) => head.set_remark(holder, &text),
                None => {}
            }
        }
        Ok(walked)
    }

    fn walk_known(
        &mut self,
        merger: &Merger<'_>,
        sides: Sides,
        place: Option<Place<'_>>,
    ) -> Result<Option<Walked>, BuildError> {
        let shape = |id: Option<Id>| {
            let id = id.filter(|id| !self.is_null(*id))?;
            Some(match self.get(id).ok()?.content {
                Content::Scalar => "scalar",
                Content::List(_) => "list",
                Content::Map(_) => "map",
            })
        };
        let (dest_shape, patch_shape) = (shape(sides.dest), shape(sides.patch));
        if let (Some(left), Some(right)) = (dest_shape, patch_shape)
            && left != right
        {
            let span = sides.patch.map(|id| self.get(id)).transpose()?.map(|vertex| vertex.head.span);
            return Err(other_shape(left, right, span.unwrap_or_default()));
        }
        let place = place.or_else(|| {
            [sides.dest, sides.patch].into_iter().flatten().find_map(|id| {
                merger.root(&self.text(self.field(id, "apiVersion")?), &self.text(self.field(id, "kind")?))
            })
        });
        match dest_shape.or(patch_shape) {
            Some("scalar") => Ok(sides.patch.or(sides.dest).map(Walked::from)),
            Some("list") => match place.as_ref().and_then(Place::merge_keys).map(<[String]>::to_vec) {
                None => Ok(sides.patch.or(sides.dest).map(Walked::from)),
                Some(keys) => self.walk_list(merger, sides, place, &keys),
            },
            _ => self.walk_map(merger, sides, place),
        }
    }

    fn walk_list(
        &mut self,
        merger: &Merger<'_>,
        sides: Sides,
        place: Option<Place<'_>>,
        keys: &[String],
    ) -> Result<Option<Walked>, BuildError> {
        let dest = match (sides.dest.filter(|dest| !self.is_null(*dest)), sides.patch) {
            (None, patch) => patch,
            (Some(_), Some(patch)) if self.is_null(patch) => return Ok(None),
            (Some(dest), Some(patch)) => match self.take_list_directive(patch)? {
                Directive::Delete => return Ok(None),
                Directive::Replace => Some(patch),
                Directive::Merge => Some(dest),
            },
            (dest, None) => dest,
        };
        if dest.is_none() {
            return Ok(None);
        }
        let items_place = place.and_then(|place| merger.schema.items(place));
        Ok(Some(self.merge_items(merger, Sides { dest, ..sides }, items_place, keys)?.into()))
    }

    fn walk_map(
        &mut self,
        merger: &Merger<'_>,
        sides: Sides,
        place: Option<Place<'_>>,
    ) -> Result<Option<Walked>, BuildError> {
        let dest = match (sides.dest.filter(|dest| !self.is_null(*dest)), sides.patch) {
            (None, Some(patch)) => match self.take_map_directive(patch) {
                Ok(Directive::Delete) => return Ok(None),
                _ => patch,
            },
            (None, None) => {
                // A null that is spelled out stays, an empty value goes.
                let spelled = sides.dest.filter(|dest| !self.text(*dest).is_empty());
                return Ok(spelled.map(|id| Walked { id, keeps_null: true }));
            }
            (Some(_), Some(patch)) if self.is_null(patch) => return Ok(None),
            (Some(dest), Some(patch)) => match self.take_map_directive(patch)? {
                Directive::Delete => return Ok(None),
                Directive::Replace => patch,
                Directive::Merge => dest,
            },
            (Some(dest), None) => dest,
        };
        if let (true, Some(patch)) = (self.fields(dest).is_empty(), sides.patch) {
            let style = self.get(patch)?.head.style();
            self.get_mut(dest)?.head.set_style(style);
        }
        let both = [Some(dest), sides.patch];
        let fields = both.into_iter().flatten().flat_map(|id| self.fields(id));
        fields.clone().try_for_each(|field| refuse_nameless(&field.entry))?;
        let names: std::collections::BTreeSet<_> = fields.map(|field| field.entry.key.clone()).collect();
        for name in names {
            let below = place.and_then(|place| merger.schema.field(place, &name));
            let patch_field =
                sides.patch.and_then(|patch| self.fields(patch).iter().find(|field| field.entry.key == name).cloned());
            let own = self.field(dest, &name);
            let pair = Sides { dest: own, patch: patch_field.as_ref().map(|field| field.value) };
            let walked = self.walk(merger, pair, below)?;
            match (walked.filter(|walked| walked.keeps_null || !self.is_null(walked.id)), own) {
                (None, _) => self.remove_field(dest, &name),
                (Some(walked), Some(own)) => self.assign(own, walked.id)?,
                (Some(walked), None) => {
                    let Some(field) = patch_field else { continue };
                    self.get_mut(walked.id)?.head.drop_key_remark();
                    self.push_field(dest, field.entry, walked.id)?;
                }
            }
        }
        Ok(Some(dest.into()))
    }

    /// Takes `$patch` out of a map.
    fn take_map_directive(&mut self, map: Id) -> Result<Directive, BuildError> {
        let Some(value) = self.field(map, "$patch") else {
            return Ok(Directive::Merge);
        };
        let found = directive(&self.text(value))?;
        self.remove_field(map, "$patch");
        Ok(found)
    }

    /// Takes the items that only say `$patch` out of a list.
    fn take_list_directive(&mut self, list: Id) -> Result<Directive, BuildError> {
        let first = self.items(list).iter().find_map(|item| Some((*item, self.field(*item, "$patch")?)));
        let Some((_, value)) = first.filter(|(item, _)| self.fields(*item).len() == 1) else {
            return Ok(Directive::Merge);
        };
        let text = self.text(value);
        let found = directive(&text)?;
        self.set_element(list, None, &["$patch".to_owned()], &[text])?;
        Ok(found)
    }
}
