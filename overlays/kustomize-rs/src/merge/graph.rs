//! Nodes with an identity: one can be in several places, and a change of it shows in all of them.

use std::cell::Cell;

use foldhash::HashMap;
use yaml::{Entry, Mapping, Node, Value};

use crate::error::BuildError;
use crate::resource::REWRITTEN;

/// The number of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(usize);

#[derive(Clone)]
pub(super) struct Vertex {
    /// The scalar; of a list or map all but what is in it.
    pub(super) head: Node,
    pub(super) content: Content,
}

#[derive(Clone)]
pub(super) enum Content {
    Scalar,
    List(Vec<Id>),
    Map(Vec<Field>),
}

#[derive(Clone)]
pub(super) struct Field {
    /// The key and its place, without a value.
    pub(super) entry: Entry,
    pub(super) value: Id,
}

#[derive(Default)]
pub(super) struct Graph {
    vertices: Vec<Vertex>,
    /// Lists and maps that were one in several places before, by their number there.
    known: HashMap<u32, Id>,
}

pub(super) fn missing() -> BuildError {
    BuildError::transform("a node of a list is lost")
}

impl Graph {
    pub(super) fn push(&mut self, head: Node, content: Content) -> Id {
        self.vertices.push(Vertex { head, content });
        Id(self.vertices.len() - 1)
    }

    pub(super) fn load(&mut self, mut node: Node) -> Id {
        let number = if node.is_scalar() || node.shared() == REWRITTEN { 0 } else { node.shared() };
        if let Some(known) = self.known.get(&number) {
            return *known;
        }
        let content = match &mut node.value {
            Value::Sequence(items) => {
                Content::List(std::mem::take(items).into_iter().map(|item| self.load(item)).collect())
            }
            Value::Mapping(mapping) => {
                let fields = std::mem::take(mapping).into_iter().map(|mut entry| {
                    let value = self.load(std::mem::take(&mut entry.value));
                    Field { entry, value }
                });
                Content::Map(fields.collect())
            }
            _ => Content::Scalar,
        };
        let id = self.push(node, content);
        if number != 0 {
            self.known.insert(number, id);
        }
        id
    }

    /// Numbers the lists and maps that are in several places below a node, for the next merge.
    pub(super) fn number(&mut self, below: Id, numbers: &Cell<u32>) {
        let mut met = vec![false; self.vertices.len()];
        let mut open = vec![below];
        while let Some(id) = open.pop() {
            let (Some(met), Some(vertex)) = (met.get_mut(id.0), self.vertices.get_mut(id.0)) else {
                continue;
            };
            match &vertex.content {
                Content::List(_) | Content::Map(_) if *met => {
                    if vertex.head.shared() == 0 {
                        numbers.set(numbers.get() + 1);
                        vertex.head.set_shared(numbers.get());
                    }
                    continue;
                }
                Content::List(items) => open.extend(items),
                Content::Map(fields) => open.extend(fields.iter().map(|field| field.value)),
                Content::Scalar => {}
            }
            *met = true;
        }
    }

    /// How many nodes there are, each counted once.
    pub(super) fn len(&self) -> usize {
        self.vertices.len()
    }

    /// Says whether a node becomes no more than so many, counted down in `left`.
    pub(super) fn has_at_most(&self, id: Id, left: &mut usize) -> bool {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        match self.vertices.get(id.0).map(|vertex| &vertex.content) {
            Some(Content::List(items)) => items.iter().all(|item| self.has_at_most(*item, left)),
            Some(Content::Map(fields)) => fields.iter().all(|field| self.has_at_most(field.value, left)),
            _ => true,
        }
    }

    pub(super) fn to_node(&self, id: Id) -> Node {
        let Some(vertex) = self.vertices.get(id.0) else {
            return Node::default();
        };
        let mut node = vertex.head.clone();
        match &vertex.content {
            Content::Scalar => {}
            Content::List(items) => {
                node.value = Value::Sequence(items.iter().map(|item| self.to_node(*item)).collect());
            }
            Content::Map(fields) => {
                let mut mapping = Mapping::new();
                for field in fields {
                    mapping.push_entry(Entry { value: self.to_node(field.value), ..field.entry.clone() });
                }
                node.value = Value::Mapping(mapping);
            }
        }
        node
    }

    pub(super) fn get(&self, id: Id) -> Result<&Vertex, BuildError> {
        self.vertices.get(id.0).ok_or_else(missing)
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Result<&mut Vertex, BuildError> {
        self.vertices.get_mut(id.0).ok_or_else(missing)
    }

    pub(super) fn items(&self, id: Id) -> &[Id] {
        match self.vertices.get(id.0).map(|vertex| &vertex.content) {
            Some(Content::List(items)) => items,
            _ => &[],
        }
    }

    pub(super) fn set_items(&mut self, id: Id, items: Vec<Id>) -> Result<(), BuildError> {
        self.get_mut(id)?.content = Content::List(items);
        Ok(())
    }

    pub(super) fn fields(&self, id: Id) -> &[Field] {
        match self.vertices.get(id.0).map(|vertex| &vertex.content) {
            Some(Content::Map(fields)) => fields,
            _ => &[],
        }
    }

    pub(super) fn field(&self, id: Id, key: &str) -> Option<Id> {
        self.fields(id).iter().find(|field| field.entry.key == *key).map(|field| field.value)
    }

    pub(super) fn is_scalar(&self, id: Id) -> bool {
        self.vertices.get(id.0).is_some_and(|vertex| matches!(vertex.content, Content::Scalar))
    }

    pub(super) fn is_map(&self, id: Id) -> bool {
        self.vertices.get(id.0).is_some_and(|vertex| matches!(vertex.content, Content::Map(_)))
    }

    pub(super) fn is_null(&self, id: Id) -> bool {
        self.vertices.get(id.0).is_none_or(|vertex| vertex.head.is_null() || vertex.head.is_flow_null())
    }

    pub(super) fn is_null_or_empty_map(&self, id: Id) -> bool {
        if self.is_map(id) { self.fields(id).is_empty() } else { self.is_null(id) }
    }

    /// As go-yaml has it: empty for lists and maps.
    pub(super) fn text(&self, id: Id) -> String {
        let head = self.vertices.get(id.0).filter(|_| self.is_scalar(id));
        head.and_then(|vertex| vertex.head.scalar_text()).unwrap_or_default().into_owned()
    }

    /// The text of a key's value, empty where there is nothing to compare.
    pub(super) fn key_text(&self, item: Id, key: &str) -> String {
        self.field(item, key).filter(|value| !self.is_null(*value)).map(|value| self.text(value)).unwrap_or_default()
    }

    pub(super) fn remove_field(&mut self, id: Id, key: &str) {
        if let Some(Vertex { content: Content::Map(fields), .. }) = self.vertices.get_mut(id.0)
            && let Some(at) = fields.iter().position(|field| field.entry.key == *key)
        {
            fields.remove(at);
        }
    }

    pub(super) fn wrong_item(&self, id: Id) -> BuildError {
        let mut error = BuildError::transform("a list of maps with merge keys holds something else");
        if let Some(vertex) = self.vertices.get(id.0) {
            (error.line, error.column) = (vertex.head.span.line(), vertex.head.span.column());
        }
        error
    }

    /// Says whether a setter with these keys means `item`. Values may be fewer than keys: the last comparison then
    /// counts for the rest, and none at all means nothing fits.
    pub(super) fn setter_fits(&self, item: Id, keys: &[String], values: &[String]) -> Result<bool, BuildError> {
        let mut fits = false;
        for (at, key) in keys.iter().enumerate() {
            if let Some(value) = values.get(at) {
                if key.is_empty() != self.is_scalar(item) {
                    return Err(self.wrong_item(item));
                }
                fits = match key.as_str() {
                    "" => self.text(item) == *value,
                    // An empty value asks for the key alone.
                    key => self.field(item, key).is_some_and(|field| value.is_empty() || self.text(field) == *value),
                };
            }
            if !fits {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    /// Replaces all items that fit, or adds the element if none does; without an element, removes them.
    pub(super) fn set_element(
        &mut self,
        list: Id,
        element: Option<Id>,
        keys: &[String],
        values: &[String],
    ) -> Result<(), BuildError> {
        let maps_wanted =
            keys.first().is_some_and(|key| !key.is_empty()) && values.first().is_some_and(|v| !v.is_empty());
        let mut found = false;
        let mut kept = Vec::new();
        for item in self.items(list) {
            if self.is_null_or_empty_map(*item) {
                continue;
            }
            if !self.is_map(*item) && maps_wanted {
                kept.push(*item);
            } else if self.setter_fits(*item, keys, values)? {
                found = true;
                kept.extend(element);
            } else if !values.is_empty() {
                kept.push(*item);
            }
        }
        if !found {
            kept.extend(element.filter(|element| !self.is_null(*element)));
        }
        self.set_items(list, kept)
    }

    /// The first item with exactly these values.
    pub(super) fn find_element(&self, list: Option<Id>, keys: &[String], values: &[String]) -> Option<Id> {
        let fits = |item: &&Id| {
            if keys.first().is_none_or(String::is_empty) {
                return self.text(**item) == values.first().map_or("", String::as_str);
            }
            let fits = |(key, value): (&String, &String)| {
                self.field(**item, key).is_some_and(|field| self.text(field) == *value)
            };
            self.is_map(**item) && keys.iter().zip(values).all(fits)
        };
        self.items(list?).iter().find(fits).copied()
    }

    pub(super) fn push_field(&mut self, map: Id, entry: Entry, value: Id) -> Result<(), BuildError> {
        let Content::Map(fields) = &mut self.get_mut(map)?.content else {
            return Err(self.wrong_item(map));
        };
        fields.push(Field { entry, value });
        Ok(())
    }

    /// Makes a node what another is, as far as how it was written does not stay.
    pub(super) fn assign(&mut self, to: Id, from: Id) -> Result<(), BuildError> {
        if to == from {
            return Ok(());
        }
        let new = self.get(from)?.clone();
        let old = self.get_mut(to)?;
        old.content = new.content;
        if matches!(old.content, Content::Scalar) {
            old.head.replace_value(new.head);
        }
        let result = old.clone();
        if matches!(result.content, Content::Scalar) {
            *self.get_mut(from)? = result;
        }
        Ok(())
    }
}
