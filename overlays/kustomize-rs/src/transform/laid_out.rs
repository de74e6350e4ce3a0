//! A YAML text written anew as go-yaml v3 lays it out, with its scalars as they were written.
//!
//! Two spaces per level, lists at the indent of their key, what is in braces or brackets on one line, no empty lines.

use foldhash::HashMap;

use crate::yaml::{Node, Span, Style, Value};

/// Writes `root`, which was read from `source`, with the `edits` of its scalars: where they begin and end there, and
/// what they become. `None` where the text holds what is not written here: comments, anchors, tags, more than one
/// document, scalars of several lines.
pub(super) fn rewrite(source: &str, root: &Node, edits: &[(usize, usize, String)]) -> Option<String> {
    if source.contains(['#', '&', '*', '!', '\t']) || source.contains("---") || source.contains("<<") {
        return None;
    }
    let edits = edits.iter().map(|(start, end, text)| ((*start, *end), text.as_str())).collect();
    let mut writer = Writer { source, edits, out: String::new() };
    writer.block(root, 0)?;
    Some(writer.out.trim().to_owned())
}

struct Writer<'s> {
    source: &'s str,
    /// By beginning and end in the source.
    edits: HashMap<(usize, usize), &'s str>,
    out: String,
}

/// Says whether a list or map stands on lines of its own.
fn is_block(node: &Node) -> bool {
    node.style() != Style::Flow && matches!(node.value, Value::Mapping(_) | Value::Sequence(_))
}

impl Writer<'_> {
    /// Writes a list or map from the current place on; the lines after the first get `indent`.
    fn block(&mut self, node: &Node, indent: usize) -> Option<()> {
        match &node.value {
            Value::Mapping(mapping) if is_block(node) => {
                for (index, entry) in mapping.iter().enumerate() {
                    self.line(index, indent);
                    self.scalar(entry.key_span)?;
                    self.out.push(':');
                    self.value(&entry.value, indent)?;
                }
            }
            Value::Sequence(items) if is_block(node) => {
                for (index, item) in items.iter().enumerate() {
                    self.line(index, indent);
                    self.out.push('-');
                    if is_block(item) {
                        self.out.push(' ');
                        self.block(item, indent + 2)?;
                    } else {
                        self.value(item, indent)?;
                    }
                }
            }
            _ => self.flow(node)?,
        }
        Some(())
    }

    fn line(&mut self, index: usize, indent: usize) {
        if index > 0 {
            self.break_line(indent);
        }
    }

    fn break_line(&mut self, indent: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    /// Writes what follows a key or a dash.
    fn value(&mut self, node: &Node, indent: usize) -> Option<()> {
        if is_block(node) {
            let below = if node.as_sequence().is_some() { indent } else { indent + 2 };
            self.break_line(below);
            return self.block(node, below);
        }
        if node.is_scalar() && node.span.start == node.span.end {
            return Some(());
        }
        self.out.push(' ');
        if node.is_scalar() { self.scalar(node.span) } else { self.flow(node) }
    }

    /// Writes a node on the current line.
    fn flow(&mut self, node: &Node) -> Option<()> {
        match &node.value {
            Value::Mapping(mapping) => {
                self.out.push('{');
                for (index, entry) in mapping.iter().enumerate() {
                    self.comma(index);
                    self.scalar(entry.key_span)?;
                    self.out.push_str(": ");
                    self.flow(&entry.value)?;
                }
                self.out.push('}');
            }
            Value::Sequence(items) => {
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.comma(index);
                    self.flow(item)?;
                }
                self.out.push(']');
            }
            // Nothing at all would not end before the comma.
            _ if node.span.start == node.span.end => self.out.push_str("''"),
            // Between brackets go-yaml quotes what could end a key, also where it does not.
            Value::String(_) if self.is_plain_with_indicator(node.span) => {
                self.out.push('\'');
                self.scalar(node.span)?;
                self.out.push('\'');
            }
            _ => self.scalar(node.span)?,
        }
        Some(())
    }

    fn is_plain_with_indicator(&self, span: Span) -> bool {
        let text = self.source.get(span.start..span.end).unwrap_or_default();
        let edited = self.edits.contains_key(&(span.start, span.end));
        !edited && !text.starts_with(['"', '\'']) && text.contains([':', '?']) && !text.contains('\'')
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.out.push_str(", ");
        }
    }

    fn scalar(&mut self, span: Span) -> Option<()> {
        let edited = self.edits.get(&(span.start, span.end)).copied();
        let text = edited.or_else(|| self.source.get(span.start..span.end))?;
        if text.is_empty() || text.contains('\n') || text.starts_with(['|', '>', '?']) {
            return None;
        }
        self.out.push_str(text);
        Some(())
    }
}
