//! Edits by byte span: what is not meant to change does not change, down to comments, quotes and line ends.

use std::ops::Range;

use yaml::{Limits, Node, Span, Value};

use crate::document;

/// Why an edit could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is no YAML.
    #[error("{line}:{column}: {message}")]
    Parse {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// There is no such field.
    #[error("there is no field {0}")]
    NoField(String),
    /// The field is a list or a mapping, spans several lines or stands behind an alias.
    #[error("field {0} is not a plain value that can be replaced in place")]
    NotScalar(String),
    /// The new text cannot stand there.
    #[error("{0:?} cannot be written at that place")]
    Value(String),
    /// The edited text did not say what it should; nothing was changed.
    #[error("the edit would change more than it should")]
    Unsafe,
}

impl From<yaml::YamlError> for EditError {
    fn from(error: yaml::YamlError) -> Self {
        Self::Parse { line: error.line, column: error.column, message: error.message }
    }
}

fn parse(source: &str) -> Result<Vec<Node>, EditError> {
    Ok(yaml::parse(source, &Limits::default())?.into_iter().map(|document| document.root).collect())
}

/// Replaces the scalar at `span` of `source` by the text `value`, in the style that stands there: double or single quotes
/// stay, a plain scalar stays plain where `value` can be plain and reads back as that text (`1.30` does). Nothing else
/// changes.
///
/// # Errors
/// [`EditError::NotScalar`] for block scalars, scalars over several lines and scalars with a tag or an anchor,
/// [`EditError::Value`] for text that would need more than one line.
pub fn replace_scalar(source: &str, span: Span, value: &str) -> Result<String, EditError> {
    let not_scalar = || EditError::NotScalar(format!("at line {}", span.line()));
    let old = source.get(span.range()).ok_or_else(not_scalar)?;
    if has_property(source, span) {
        return Err(not_scalar());
    }
    let new = styled(old, value).ok_or_else(|| {
        if value.chars().any(char::is_control) { EditError::Value(value.to_owned()) } else { not_scalar() }
    })?;
    Ok(splice(source, span.range(), &new))
}

/// Whether a tag or an anchor stands before the scalar at `span`: another text may not fit the tag, and would be read
/// wherever the anchor is used.
fn has_property(source: &str, span: Span) -> bool {
    let before = source.get(..span.start()).unwrap_or_default().trim_end();
    let word = before.rsplit([' ', '\t', '\r', '\n', ',', '[', '{']).next().unwrap_or_default();
    word.starts_with(['!', '&']) && !word.ends_with(':')
}

/// Replaces the scalar at `path` of document `index` (documents without content do not count). A number in `path` is an
/// index of a list.
///
/// # Errors
/// As [`replace_scalar`], and [`EditError::NoField`].
pub fn set(source: &str, index: usize, path: &[&str], value: &str) -> Result<String, EditError> {
    let documents = parse(source)?;
    let name = || path.join(".");
    let root = documents.get(index).ok_or_else(|| EditError::NoField(name()))?;
    let node = field(root, path).ok_or_else(|| EditError::NoField(name()))?;
    if !node.is_scalar() || !(root.span.start()..=source.len()).contains(&node.span.start()) {
        return Err(EditError::NotScalar(name()));
    }
    replace_scalar(source, node.span, value)
}

/// Replaces the scalar at `path` of the object in `bytes` that has API version, kind, namespace and name of `object`.
///
/// # Errors
/// As [`set`]; [`EditError::NoField`] where there is no such object.
pub fn set_in_object(bytes: &[u8], object: &Node, path: &[&str], value: &str) -> Result<String, EditError> {
    let source = yaml::decode(bytes)?;
    let documents = parse(&source)?;
    let id = |node: &Node| {
        let field = |path: &[&str]| node.at(path).and_then(Node::scalar_text).map(std::borrow::Cow::into_owned);
        [&["apiVersion"][..], &["kind"], &["metadata", "namespace"], &["metadata", "name"], &["metadata", "region"]]
            .map(field)
    };
    let index = documents.iter().position(|root| id(root) == id(object));
    let index = index.ok_or_else(|| EditError::NoField(path.join(".")))?;
    set(&source, index, path, value)
}

/// The node at `path`, with numbers as indices of lists.
pub(crate) fn field<'a>(root: &'a Node, path: &[&str]) -> Option<&'a Node> {
    path.iter().try_fold(root, |node, key| match &node.value {
        Value::Sequence(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
        _ => node.get(key),
    })
}

pub(crate) fn splice(source: &str, range: Range<usize>, new: &str) -> String {
    let mut text = String::with_capacity(source.len() + new.len());
    text.push_str(source.get(..range.start).unwrap_or_default());
    text.push_str(new);
    text.push_str(source.get(range.end..).unwrap_or_default());
    text
}

/// `value` in the style of the scalar `old`; `None` when that style cannot hold it.
fn styled(old: &str, value: &str) -> Option<String> {
    if value.chars().any(|character| character.is_control() || character == '\u{feff}') || old.contains(['\n', '\r']) {
        return None;
    }
    match old.chars().next() {
        Some('"') => Some(double_quoted(value)),
        Some('\'') => Some(format!("'{}'", value.replace('\'', "''"))),
        Some('|' | '>' | '*' | '&' | '!') => None,
        // Nothing stands there, as in `key:`: there is no place to write at.
        None => None,
        Some(_) => Some(if stays_plain(value) && reads_back(value) { value.to_owned() } else { double_quoted(value) }),
    }
}

fn double_quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Whether `value` can be written plain in every place of a line, flow mappings included.
fn stays_plain(value: &str) -> bool {
    let first = value.chars().next();
    let safe_first = first.is_some_and(|character| {
        !character.is_whitespace()
            && !matches!(
                character,
                '-' | '?'
                    | ':'
                    | ','
                    | '['
                    | ']'
                    | '{'
                    | '}'
                    | '#'
                    | '&'
                    | '*'
                    | '!'
                    | '|'
                    | '>'
                    | '\''
                    | '"'
                    | '%'
                    | '@'
                    | '`'
            )
    });
    safe_first
        && !value.ends_with(|character: char| character.is_whitespace() || character == ':')
        && !value.contains(": ")
        && !value.contains(" #")
        && !value.contains([',', '[', ']', '{', '}', '\t'])
        && !value.starts_with("...")
}

/// Whether `value`, written plain, is read as that very text: `1.30` is, `~` and `True` are not.
fn reads_back(value: &str) -> bool {
    let documents = parse(&format!("a: {value}")).unwrap_or_default();
    let read = documents.first().and_then(|root| root.get("a")?.scalar_text());
    read.as_deref() == Some(value)
}

/// Puts `namespace` under `metadata` of an object that has none, as a line after `name`.
///
/// # Errors
/// [`EditError`] when the text is no single object with a name.
pub fn insert_namespace(source: &str, namespace: &str) -> Result<String, EditError> {
    let documents = parse(source)?;
    let root = documents.first().ok_or_else(|| EditError::NoField("metadata".to_owned()))?;
    let metadata = root.get("metadata").and_then(Node::as_mapping);
    let entry = metadata.and_then(|metadata| metadata.entry("name"));
    let (Some(metadata), Some(entry)) = (metadata, entry) else {
        return Err(EditError::NoField("metadata.name".to_owned()));
    };
    if metadata.contains_key("namespace") {
        return Ok(source.to_owned());
    }
    let edited = insert_after(source, entry.key_span, entry.value.span, &format!("namespace: {namespace}"));
    let same = parse(&edited)?;
    let mut wanted = root.clone();
    if let Some(metadata) = wanted.get_mut("metadata").and_then(Node::as_mapping_mut) {
        metadata.insert("namespace", namespace);
    }
    if same.first() == Some(&wanted) { Ok(edited) } else { Err(EditError::Unsafe) }
}

/// Writes the entry `text` after the entry with that key and scalar value: on a line of its own in block style, behind a
/// comma in flow style.
pub(crate) fn insert_after(source: &str, key: Span, value: Span, text: &str) -> String {
    let line_start = source.get(..key.start()).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let before = source.get(line_start..key.start()).unwrap_or_default();
    let is_block = before.chars().all(|character| matches!(character, ' ' | '-'));
    if !is_block {
        return splice(source, value.end()..value.end(), &format!(", {text}"));
    }
    let rest = source.get(value.end()..).unwrap_or_default();
    let line_end = rest.find('\n').map_or(source.len(), |at| value.end() + at + 1);
    let end_of_line = if source.get(..line_end).is_some_and(|text| text.ends_with("\r\n")) { "\r\n" } else { "\n" };
    let indent = " ".repeat(before.chars().count());
    let missing = if source.get(..line_end).is_some_and(|text| text.ends_with('\n')) { "" } else { end_of_line };
    splice(source, line_end..line_end, &format!("{missing}{indent}{text}{end_of_line}"))
}

/// Several replacements in one text.
pub(crate) struct Edits<'a> {
    source: &'a str,
    changes: Vec<(Range<usize>, String)>,
}

impl<'a> Edits<'a> {
    pub fn new(source: &'a str) -> Self {
        Self { source, changes: Vec::new() }
    }

    /// Replaces strings for which `change` gives another text; it sees the path and the string.
    pub fn replace_strings(&mut self, change: impl Fn(&[String], &str) -> Option<String>) {
        for root in parse(self.source).unwrap_or_default() {
            let mut path = Vec::new();
            self.walk(&root, &mut path, &change);
        }
    }

    fn walk(&mut self, node: &Node, path: &mut Vec<String>, change: &impl Fn(&[String], &str) -> Option<String>) {
        match &node.value {
            Value::Mapping(mapping) => {
                for entry in mapping {
                    path.push(entry.key.to_string());
                    self.walk(&entry.value, path, change);
                    path.pop();
                }
            }
            Value::Sequence(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(index.to_string());
                    self.walk(item, path, change);
                    path.pop();
                }
            }
            Value::String(text) => {
                if let Some(new) = change(path, text)
                    && let Some(old) = self.source.get(node.span.range())
                    && let Some(new) = styled(old, &new)
                {
                    self.changes.push((node.span.range(), new));
                }
            }
            _ => {}
        }
    }

    /// The text with every change.
    pub fn apply(mut self) -> Result<String, EditError> {
        self.changes.sort_by_key(|(range, _)| range.start);
        // An alias gives the same place twice.
        self.changes.dedup();
        let mut text = String::with_capacity(self.source.len());
        let mut position = 0;
        for (range, new) in &self.changes {
            text.push_str(self.source.get(position..range.start).ok_or(EditError::Unsafe)?);
            text.push_str(new);
            position = range.end;
        }
        text.push_str(self.source.get(position..).ok_or(EditError::Unsafe)?);
        Ok(text)
    }
}

/// The documents of `source` that hold something, each with its byte range.
pub(crate) fn documents(source: &str) -> Result<Vec<(Range<usize>, Node)>, EditError> {
    let ranges = document::split(source);
    let mut found = Vec::new();
    for root in parse(source)? {
        let range = ranges
            .iter()
            .find(|document| document.range.contains(&root.span.start()))
            .map(|document| document.range.clone())
            .ok_or(EditError::Unsafe)?;
        found.push((range, root));
    }
    Ok(found)
}

#[cfg(test)]
mod every_scalar_tests;
#[cfg(test)]
mod tests;
