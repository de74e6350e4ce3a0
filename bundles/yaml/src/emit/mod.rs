//! Nodes to text, byte for byte as go-yaml v2 writes them.
//!
//! Block style, two spaces, lists not indented under their key, keys in [`compare_keys`](super::compare_keys) order.
//! Quotes and folding are decided by [`Shape`](shape::Shape), a summary of the text.

mod shape;
mod text;

use super::node::{Entry, Mapping, Node, Value};
use super::number::rendered_float;
use super::order::sorted_entries;
use shape::BREAKS;
pub(crate) use shape::needs_escape;
pub(crate) use text::escaped;

/// Longer keys are written in the `? key` form.
const LONGEST_SIMPLE_KEY: usize = 128;

/// Returns `node` as a document, with a line break at the end.
pub fn emit(node: &Node) -> String {
    let mut out = String::new();
    emit_into(node, &mut out);
    out
}

/// Returns all nodes as documents with `---` lines between them.
pub fn emit_all<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let mut out = String::new();
    emit_all_into(nodes, &mut out);
    out
}

/// Appends all nodes to `out`, which must be empty.
pub fn emit_all_into<'a>(nodes: impl IntoIterator<Item = &'a Node>, out: &mut String) {
    for (index, node) in nodes.into_iter().enumerate() {
        if index > 0 {
            out.push_str("---\n");
        }
        emit_into(node, out);
    }
}

/// Appends `node` as a document to `out`, which must end with a line break or be empty.
fn emit_into(node: &Node, out: &mut String) {
    let mut writer = Writer { out, column: 0 };
    match &node.value {
        Value::Mapping(mapping) if !mapping.is_empty() => writer.mapping(mapping, 0),
        Value::Sequence(items) if !items.is_empty() => writer.sequence(items, 0),
        _ => writer.scalar(&node.value, 2),
    }
    writer.finish_line();
}

struct Writer<'a> {
    out: &'a mut String,
    /// Characters on the current line.
    column: usize,
}

impl Writer<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += if text.is_ascii() { text.len() } else { text.chars().count() };
    }

    fn put_char(&mut self, character: char) {
        self.out.push(character);
        self.column += 1;
    }

    fn finish_line(&mut self) {
        if self.column > 0 {
            self.break_line();
        }
    }

    fn break_line(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    /// Moves to `indent`, on a new line unless the current one holds only indicators before it.
    fn pad(&mut self, indent: usize) {
        const SPACES: &str = "                                                                ";
        let mut missing = indent.saturating_sub(self.column);
        self.column = self.column.max(indent);
        while missing > 0 {
            let part = SPACES.get(..missing).unwrap_or(SPACES);
            self.out.push_str(part);
            missing -= part.len();
        }
    }

    /// Writes the entries at `indent`. The first one continues the current line (after `- `), if there is one.
    fn mapping(&mut self, mapping: &Mapping, indent: usize) {
        match sorted_entries(mapping) {
            None => self.entries(mapping.iter(), indent),
            Some(sorted) => self.entries(sorted.into_iter(), indent),
        }
    }

    fn entries<'e>(&mut self, entries: impl Iterator<Item = &'e Entry>, indent: usize) {
        for (index, entry) in entries.enumerate() {
            if index > 0 {
                self.finish_line();
            }
            self.pad(indent);
            if self.simple_key(&entry.key, indent) {
                self.put_char(':');
                self.value(&entry.value, indent);
            } else {
                self.put("? ");
                self.text(&entry.key, indent + 2, false);
                self.finish_line();
                self.pad(indent);
                self.put_char(':');
                self.item(&entry.value, indent);
            }
        }
    }

    /// Writes a key that fits one line; `false` if it does not.
    fn simple_key(&mut self, key: &str, indent: usize) -> bool {
        let fits = key.len() <= LONGEST_SIMPLE_KEY;
        if fits && self.word(key) {
            return true;
        }
        let fits = fits && !key.contains(BREAKS);
        if fits {
            self.text(key, indent + 2, true);
        }
        fits
    }

    /// The value after `key:`.
    fn value(&mut self, value: &Node, indent: usize) {
        match &value.value {
            Value::Mapping(mapping) if !mapping.is_empty() => {
                self.break_line();
                self.mapping(mapping, indent + 2);
            }
            Value::Sequence(items) if !items.is_empty() => {
                self.break_line();
                self.sequence(items, indent);
            }
            other => {
                self.put_char(' ');
                self.scalar(other, indent + 2);
            }
        }
    }

    /// The value after `-`, or after `:` on a line of its own: collections begin on the same line.
    fn item(&mut self, value: &Node, indent: usize) {
        match &value.value {
            Value::Mapping(mapping) if !mapping.is_empty() => self.mapping(mapping, indent + 2),
            Value::Sequence(items) if !items.is_empty() => self.sequence(items, indent + 2),
            other => {
                self.put_char(' ');
                self.scalar(other, indent + 2);
            }
        }
    }

    fn sequence(&mut self, items: &[Node], indent: usize) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.finish_line();
            }
            self.pad(indent);
            self.put_char('-');
            self.item(item, indent);
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.put("null"),
            Value::Bool(true) => self.put("true"),
            Value::Bool(false) => self.put("false"),
            Value::Int(number) => self.put(&number.to_string()),
            Value::Uint(number) => self.put(&number.to_string()),
            Value::Float(number) => self.put(&rendered_float(*number)),
            Value::String(text) => self.text(text, indent, false),
            Value::Sequence(_) => self.put("[]"),
            Value::Mapping(_) => self.put("{}"),
        }
    }
}

#[cfg(test)]
mod tests;
