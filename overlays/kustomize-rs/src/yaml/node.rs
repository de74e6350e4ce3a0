//! The typed tree that everything else works on.

use std::sync::Arc;

use super::shared::{Sequence, Text};
use super::{Holder, Scalar};
use crate::error::BuildError;

/// A place in the decoded source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// Byte after the last one.
    pub end: usize,
    /// 1-based line; 0 for a node that has no source.
    pub line: usize,
    /// 1-based column in characters; 0 for a node that has no source.
    pub column: usize,
}

/// How a text was written. The next value of a field is written in the same way, which can make a number a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Style {
    /// Without quotes, or made here.
    #[default]
    Plain,
    /// In quotes of either kind.
    Quoted,
    /// As a block that keeps its lines (`|`).
    Literal,
    /// As a block that joins its lines (`>`).
    Folded,
    /// A list or map in brackets or braces.
    Flow,
    /// A text made here without quotes and without a type: what is put in its place decides the type anew.
    Untyped,
    /// A text that kustomize has written itself: in quotes only if it needs them.
    Written,
    /// What does not fit the type that the place has. An object must not end with one.
    Misfit,
}

/// A value with its place. Two nodes are equal if their values are.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// What the node says.
    pub value: Value,
    /// Where it was read; quotes are inside, tag and anchor are not.
    pub span: Span,
    /// The scalar as written, kept only where the value does not show it (`1.30`, `0x1F`, a date). Of a list or map,
    /// the schema in its comment, behind a mark for its holder.
    written: Option<Box<str>>,
    style: Style,
    /// Scalars of one object with the same number here, if it is not 0, are one scalar in several places.
    pub(crate) shared: u32,
}

/// The value of a node, decided by go-yaml v3's reading rules.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// `null`, `~` or nothing.
    #[default]
    Null,
    /// `true` or `false`; never `yes` or `on`.
    Bool(bool),
    /// Any integer that fits 64 bits with sign.
    Int(i64),
    /// A larger one that fits 64 bits without.
    Uint(u64),
    /// Every other number.
    Float(f64),
    /// Text.
    String(Text),
    /// A list.
    Sequence(Sequence),
    /// A map with text keys.
    Mapping(Mapping),
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        Self::new(value)
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::new(Value::String(text.into()))
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Self::new(Value::String(text.into()))
    }
}

impl From<Text> for Node {
    fn from(text: Text) -> Self {
        Self::new(Value::String(text))
    }
}

impl From<Mapping> for Node {
    fn from(mapping: Mapping) -> Self {
        Self::new(Value::Mapping(mapping))
    }
}

impl From<Vec<Node>> for Node {
    fn from(items: Vec<Node>) -> Self {
        Self::new(Value::Sequence(items.into()))
    }
}

impl Node {
    /// Returns a node without source.
    pub fn new(value: Value) -> Self {
        Self::with_span(value, Span::default())
    }

    /// Returns a node at `span`.
    pub fn with_span(value: Value, span: Span) -> Self {
        Self { value, span, written: None, style: Style::Plain, shared: 0 }
    }

    /// Does what a way through Go's JSON does: how scalars were written is lost, large integers become floats.
    #[allow(clippy::cast_precision_loss, reason = "that is what is lost")]
    pub(crate) fn through_json(&mut self) {
        const EXACT: i64 = 1 << 53;
        self.written = None;
        self.shared = 0;
        self.style = match self.style {
            Style::Plain | Style::Untyped if self.as_str().is_some_and(is_quoted_anew) => Style::Written,
            Style::Plain | Style::Flow | Style::Misfit | Style::Untyped => Style::Plain,
            Style::Quoted | Style::Literal | Style::Folded | Style::Written => Style::Written,
        };
        match &mut self.value {
            Value::Sequence(items) if items.iter().any(|item| item.changes_in_json(EXACT)) => {
                items.iter_mut().for_each(Node::through_json);
            }
            Value::Mapping(mapping) if mapping.iter().any(|entry| entry.value.changes_in_json(EXACT)) => {
                mapping.iter_mut().for_each(|entry| entry.value.through_json());
            }
            Value::Int(number) if !(-EXACT..=EXACT).contains(number) => self.value = Value::Float(*number as f64),
            Value::Uint(number) => self.value = Value::Float(*number as f64),
            _ => {}
        }
    }

    /// Says whether a way through JSON changes anything here. Lists and mappings in which nothing changes stay shared.
    fn changes_in_json(&self, exact: i64) -> bool {
        self.written.is_some()
            || !matches!(self.style, Style::Plain | Style::Written)
            || self.shared != 0
            || match &self.value {
                Value::Sequence(items) => items.iter().any(|item| item.changes_in_json(exact)),
                Value::Mapping(mapping) => mapping.iter().any(|entry| entry.value.changes_in_json(exact)),
                Value::Int(number) => !(-exact..=exact).contains(number),
                Value::Uint(_) => true,
                Value::String(text) => self.style == Style::Plain && is_quoted_anew(text),
                _ => false,
            }
    }

    /// Finds a number that JSON cannot say.
    pub(crate) fn find_infinite(&self) -> Option<Span> {
        match &self.value {
            Value::Float(number) if !number.is_finite() => Some(self.span),
            Value::Sequence(items) => items.iter().find_map(Node::find_infinite),
            Value::Mapping(mapping) => mapping.iter().find_map(|entry| entry.value.find_infinite()),
            _ => None,
        }
    }

    pub(crate) fn style(&self) -> Style {
        self.style
    }

    pub(crate) fn set_style(&mut self, style: Style) {
        self.style = style;
    }

    /// Takes over a value as kustomize does where there was one: how the old one was written stays, and a number that
    /// takes the place of a quoted text becomes text.
    pub(crate) fn replace_value(&mut self, new: Node) {
        let (style, shared, span) = (self.style, self.shared, self.span);
        let was_scalar = self.is_scalar();
        // A quoted number has a tag that says so.
        let had_tag = matches!(style, Style::Quoted | Style::Literal | Style::Folded) && self.as_str().is_none();
        let written_style = match self.as_str() {
            Some(text) if style == Style::Written && text.contains('\n') => Style::Literal,
            Some(_) if style == Style::Written && super::emit(self).starts_with(['"', '\'']) => Style::Quoted,
            _ => Style::Plain,
        };
        *self = new;
        if !was_scalar || !self.is_scalar() {
            return;
        }
        let style = match style {
            _ if self.style == Style::Misfit => Style::Misfit,
            Style::Plain if self.style == Style::Untyped => Style::Untyped,
            Style::Untyped | Style::Misfit => Style::Plain,
            Style::Written => written_style,
            style => style,
        };
        (self.style, self.shared, self.span) = (style, shared, span);
        if !matches!(style, Style::Plain | Style::Untyped) && !had_tag && self.has_type_of_its_text() {
            self.value = Value::String(self.scalar_text().unwrap_or_default().into());
            self.written = None;
        }
    }

    /// Says whether the text alone, without quotes, has another type than text, and the node has that type.
    fn has_type_of_its_text(&self) -> bool {
        let text = self.scalar_text().unwrap_or_default();
        match (&self.value, super::resolve_v3(&text)) {
            (Value::String(_), Scalar::Timestamp(_)) => self.written.is_some(),
            (Value::Null, Scalar::Null)
            | (Value::Bool(_), Scalar::Bool(_))
            | (Value::Int(_) | Value::Uint(_), Scalar::Int(_) | Scalar::Uint(_))
            | (Value::Float(_), Scalar::Float(_)) => true,
            _ => false,
        }
    }

    /// Makes an empty value without a type the empty text where it is written in braces or brackets: there it needs
    /// quotes.
    pub(crate) fn quote_nothing(&mut self, in_flow: bool) {
        let in_flow = in_flow || self.style == Style::Flow;
        match &mut self.value {
            Value::Sequence(items) => items.iter_mut().for_each(|item| item.quote_nothing(in_flow)),
            Value::Mapping(mapping) => mapping.iter_mut().for_each(|entry| entry.value.quote_nothing(in_flow)),
            Value::Null if in_flow && self.written.as_deref() == Some("") => *self = Node::from(""),
            _ => {}
        }
    }

    /// Returns the text of a string that was not read as something else: no date, no `!!binary`, no misfit.
    pub(crate) fn untyped_text(&self) -> Option<&str> {
        self.as_str().filter(|_| self.style != Style::Misfit && self.written.is_none())
    }

    /// Takes a text that has no type of its own: without quotes it is whatever it looks like.
    pub(crate) fn replace_plainly(&mut self, text: &str) {
        self.replace_value(crate::transform::plain_scalar(text));
        self.span = Span::default();
        if self.style == Style::Plain {
            self.style = Style::Untyped;
        }
    }

    /// Refuses a value that does not fit the type of its place.
    pub(crate) fn refuse_misfits(&self) -> Result<(), BuildError> {
        let Some(node) = self.find_misfit() else {
            return Ok(());
        };
        let no_text = |key: &str| !matches!(super::resolve_v3(key), Scalar::Text | Scalar::Merge);
        let mut keys = node.as_mapping().into_iter().flatten();
        if let Some(entry) = keys.find(|entry| no_text(&entry.key)) {
            let mut error = BuildError::syntax(format!("the key `{}` is no text; put it in quotes", entry.key));
            (error.line, error.column) = (entry.key_span.line, entry.key_span.column);
            return Err(error);
        }
        let text = node.scalar_text().unwrap_or_default();
        let mut error = BuildError::transform(format!("`{text}` does not fit the type that its place had before"))
            .hint("put the value of the target in quotes to make it a text");
        (error.line, error.column) = (node.span.line, node.span.column);
        Err(error)
    }

    fn find_misfit(&self) -> Option<&Node> {
        match &self.value {
            _ if self.style == Style::Misfit => Some(self),
            Value::Sequence(items) => items.iter().find_map(Node::find_misfit),
            Value::Mapping(mapping) => mapping.iter().find_map(|entry| entry.value.find_misfit()),
            _ => None,
        }
    }

    /// Takes a value that is written plainly, whatever was there; still one with the scalars it was one with.
    pub(crate) fn set_plainly(&mut self, value: Value) {
        (self.value, self.written, self.style) = (value, None, Style::Plain);
    }

    /// As if the tree had been read from JSON, where texts are in quotes and everything else in brackets.
    pub(crate) fn as_from_json(&mut self) {
        self.written = None;
        self.shared = 0;
        self.style = match &mut self.value {
            Value::Sequence(items) => {
                items.iter_mut().for_each(Node::as_from_json);
                Style::Flow
            }
            Value::Mapping(mapping) => {
                mapping.iter_mut().for_each(|entry| entry.value.as_from_json());
                Style::Flow
            }
            Value::String(_) => Style::Quoted,
            _ => Style::Plain,
        };
    }

    /// Forgets how scalars were written.
    pub(crate) fn forget_writing(&mut self) {
        self.written = None;
        match &mut self.value {
            Value::Sequence(items) if items.iter().any(Node::holds_writing) => {
                items.iter_mut().for_each(Node::forget_writing);
            }
            Value::Mapping(mapping) if mapping.iter().any(|entry| entry.value.holds_writing()) => {
                mapping.iter_mut().for_each(|entry| entry.value.forget_writing());
            }
            _ => {}
        }
    }

    /// Says whether [`forget_writing`](Self::forget_writing) changes anything.
    fn holds_writing(&self) -> bool {
        self.written.is_some()
            || match &self.value {
                Value::Sequence(items) => items.iter().any(Node::holds_writing),
                Value::Mapping(mapping) => mapping.iter().any(|entry| entry.value.holds_writing()),
                _ => false,
            }
    }

    /// Says whether this is an empty value inside of braces: null while an object is worked on, an empty text in the
    /// end.
    pub(crate) fn is_flow_null(&self) -> bool {
        matches!(&self.value, Value::String(text) if text.is_empty()) && self.written.is_some()
    }

    /// Says whether the value does not show how it was written.
    pub(crate) fn is_rewritten(&self) -> bool {
        self.written.is_some()
    }

    /// The schema in the comment of a list or map.
    pub(crate) fn remark(&self) -> Option<(Holder, &str)> {
        let text = self.written.as_deref().filter(|_| !self.is_scalar())?;
        let value = text.strip_prefix(VALUE_REMARK).map(|text| (Holder::Value, text));
        value.or_else(|| text.strip_prefix(KEY_REMARK).map(|text| (Holder::Key, text)))
    }

    pub(crate) fn set_remark(&mut self, holder: Holder, text: &str) {
        let mark = if holder == Holder::Value { VALUE_REMARK } else { KEY_REMARK };
        self.written = Some(format!("{mark}{text}").into());
    }

    pub(crate) fn drop_remark(&mut self) {
        if self.remark().is_some() {
            self.written = None;
        }
    }

    /// As the value of another key: the comment of its own stays behind.
    pub(crate) fn drop_key_remark(&mut self) {
        if matches!(self.remark(), Some((Holder::Key, _))) {
            self.written = None;
        }
    }

    pub(crate) fn set_written(&mut self, text: &str) {
        self.written = Some(text.into());
    }

    /// Returns the entry `key` of a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_mapping()?.get(key)
    }

    /// Returns the entry `key` of a mapping, for change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.as_mapping_mut()?.get_mut(key)
    }

    /// Follows `path` through mappings.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Returns the text of a string; `None` for every other value, numbers included.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.value {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }

    /// Returns a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the items of a list.
    pub fn as_sequence(&self) -> Option<&[Node]> {
        match &self.value {
            Value::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the items of a list, for change.
    pub fn as_sequence_mut(&mut self) -> Option<&mut Vec<Node>> {
        match &mut self.value {
            Value::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the mapping.
    pub fn as_mapping(&self) -> Option<&Mapping> {
        match &self.value {
            Value::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// Returns the mapping, for change.
    pub fn as_mapping_mut(&mut self) -> Option<&mut Mapping> {
        match &mut self.value {
            Value::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// Says whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// Says whether the value is neither list nor mapping.
    pub fn is_scalar(&self) -> bool {
        !matches!(self.value, Value::Sequence(_) | Value::Mapping(_))
    }

    /// Returns the raw source slice of a scalar, `1.30` for an unquoted version; empty if `source` is another text.
    pub fn text<'a>(&self, source: &'a str) -> &'a str {
        source.get(self.span.start..self.span.end).unwrap_or_default()
    }

    /// Returns a scalar as written, without quotes: what kustomize works on where it treats a value as text.
    /// `None` for lists and mappings.
    pub fn scalar_text(&self) -> Option<std::borrow::Cow<'_, str>> {
        use std::borrow::Cow;
        if let (true, Some(written)) = (self.is_scalar(), &self.written) {
            return Some(Cow::Borrowed(written));
        }
        Some(match &self.value {
            Value::Null => Cow::Borrowed("null"),
            Value::Bool(true) => Cow::Borrowed("true"),
            Value::Bool(false) => Cow::Borrowed("false"),
            Value::Int(number) => Cow::Owned(number.to_string()),
            Value::Uint(number) => Cow::Owned(number.to_string()),
            Value::Float(number) => Cow::Owned(super::float_text(*number)),
            Value::String(text) => Cow::Borrowed(text),
            Value::Sequence(_) | Value::Mapping(_) => return None,
        })
    }

    /// About how many bytes of memory the tree takes.
    pub(crate) fn size(&self) -> usize {
        const NODE: usize = 128;
        let own = match &self.value {
            Value::String(text) => text.len(),
            Value::Sequence(items) => items.iter().map(Node::size).sum(),
            Value::Mapping(mapping) => mapping.iter().map(|entry| entry.key.len() + entry.value.size()).sum(),
            _ => 0,
        };
        NODE + own
    }

    /// About how many bytes the tree has when printed at this indentation: quotes and escapes do not count.
    pub(crate) fn printed_size(&self, indent: usize) -> usize {
        match &self.value {
            Value::String(text) => text.len() + 1,
            Value::Sequence(items) => items.iter().map(|item| indent + 2 + item.printed_size(indent + 2)).sum(),
            Value::Mapping(mapping) => {
                mapping.iter().map(|entry| indent + entry.key.len() + 2 + entry.value.printed_size(indent + 2)).sum()
            }
            _ => 2,
        }
    }

    /// Returns [`scalar_text`](Self::scalar_text) as a text of its own; empty for lists and mappings.
    pub(crate) fn to_text(&self) -> Text {
        match (&self.written, &self.value) {
            (None, Value::String(text)) => text.clone(),
            _ => self.scalar_text().unwrap_or_default().into(),
        }
    }

    /// Returns the number of nodes in the tree, this one included; keys do not count.
    pub fn count(&self) -> usize {
        match &self.value {
            Value::Sequence(items) => 1 + items.iter().map(Node::count).sum::<usize>(),
            Value::Mapping(mapping) => 1 + mapping.iter().map(|entry| entry.value.count()).sum::<usize>(),
            _ => 1,
        }
    }
}

const KEY_REMARK: char = 'k';
const VALUE_REMARK: char = 'v';

/// Says whether go-yaml v3 writes a text that stood there without quotes in quotes, or as a block.
fn is_quoted_anew(text: &str) -> bool {
    text.contains('\n') || super::resolve::resolve_v2(text) != Scalar::Text || super::resolve::is_base60(text)
}

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

    pub(crate) fn from_entries(entries: Vec<Entry>) -> Self {
        Self { entries: Arc::new(entries) }
    }

    /// Returns the value at `key`.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Returns the value at `key`, for change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        let index = self.position(key)?;
        Some(&mut self.entries_mut().get_mut(index)?.value)
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

    /// Adds an entry whose key is known not to be there.
    pub(crate) fn push_entry(&mut self, entry: Entry) {
        self.entries_mut().push(entry);
    }

    /// Removes `key`, keeping the order of the rest.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let index = self.position(key)?;
        Some(self.entries_mut().remove(index).value)
    }

    /// Says whether `key` is there.
    pub fn contains_key(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Iterates in input order.
    pub fn iter(&self) -> std::slice::Iter<'_, Entry> {
        self.entries.iter()
    }

    /// Iterates in input order, for change.
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

    /// Says whether there is none.
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
