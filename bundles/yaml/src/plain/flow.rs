//! Lists in brackets and mappings in braces, on one line, of plain words and simply quoted texts.

use super::line::Line;
use super::scalar::{is_word, styled};
use super::{Reader, Scalar};
use crate::node::{Entry, Mapping, Node, Span, Style, Value, scalar_value};

/// What is left of the line, and where it stands in it.
struct Cursor<'s> {
    line: Line<'s>,
    at: usize,
}

impl<'s> Cursor<'s> {
    fn rest(&self) -> &'s str {
        self.line.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().bytes().next()
    }

    fn skip_blanks(&mut self) {
        self.at = self.line.text.len() - self.rest().trim_start_matches(' ').len();
    }

    /// Takes `byte`, if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }
}

impl<'s> Reader<'s, '_> {
    /// The collection that `line` begins with, and the length of its text; it is inside of `depth` collections.
    pub(super) fn flow(&mut self, line: Line<'s>, depth: usize) -> Option<(Node, usize)> {
        // Columns count characters.
        if !line.text.is_ascii() {
            return None;
        }
        let mut cursor = Cursor { line, at: 0 };
        let node = self.flow_node(&mut cursor, depth)?;
        Some((node, cursor.at))
    }

    fn flow_node(&mut self, cursor: &mut Cursor<'s>, depth: usize) -> Option<Node> {
        self.count()?;
        let start = cursor.at;
        match cursor.peek()? {
            b'[' | b'{' if depth >= self.limits.depth => None,
            b'[' => {
                cursor.at += 1;
                let items = self.flow_items(cursor, depth)?;
                Some(styled(Value::Sequence(items.into()), spanned(cursor, start), Style::Flow))
            }
            b'{' => {
                cursor.at += 1;
                let entries = self.flow_entries(cursor, depth)?;
                let mapping = Mapping::from_entries(entries);
                Some(styled(Value::Mapping(mapping), spanned(cursor, start), Style::Flow))
            }
            quote @ (b'"' | b'\'') => {
                let inner = cursor.rest().get(1..)?;
                let text = inner.get(..inner.find(char::from(quote))?)?;
                cursor.at += text.len() + 2;
                // A second quote would be an escaped one, and a colon would make it a key.
                if text.contains('\\') || !matches!(cursor.peek(), Some(b' ' | b',' | b']' | b'}')) {
                    return None;
                }
                Some(styled(Value::String(text.into()), spanned(cursor, start), Style::of_quote(quote.into())))
            }
            _ => {
                let text = word(cursor)?;
                let scalar = self.resolve(text);
                if scalar == Scalar::Merge {
                    return None;
                }
                Some(scalar_value(scalar, text.into(), spanned(cursor, start)))
            }
        }
    }

    fn flow_items(&mut self, cursor: &mut Cursor<'s>, depth: usize) -> Option<Vec<Node>> {
        let mut items = Vec::new();
        cursor.skip_blanks();
        if cursor.take(b']') {
            return Some(items);
        }
        loop {
            items.push(self.flow_node(cursor, depth + 1)?);
            cursor.skip_blanks();
            if cursor.take(b']') {
                return Some(items);
            }
            if !cursor.take(b',') {
                return None;
            }
            cursor.skip_blanks();
        }
    }

    fn flow_entries(&mut self, cursor: &mut Cursor<'s>, depth: usize) -> Option<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        cursor.skip_blanks();
        if cursor.take(b'}') {
            return Some(entries);
        }
        loop {
            let start = cursor.at;
            let key = word(cursor)?;
            let key_span = spanned(cursor, start);
            if self.resolve(key) != Scalar::Text || entries.len() > 24 || entries.iter().any(|entry| entry.key == key) {
                return None;
            }
            if !cursor.take(b':') || !cursor.take(b' ') {
                return None;
            }
            cursor.skip_blanks();
            let value = self.flow_node(cursor, depth + 1)?;
            entries.push(Entry { key: key.into(), key_span, value });
            cursor.skip_blanks();
            if cursor.take(b'}') {
                return Some(entries);
            }
            if !cursor.take(b',') {
                return None;
            }
            cursor.skip_blanks();
        }
    }
}

fn spanned(cursor: &Cursor<'_>, start: usize) -> Span {
    cursor.line.span(start, cursor.at - start)
}

/// A word of letters, digits and a few marks that mean nothing to YAML.
fn word<'s>(cursor: &mut Cursor<'s>) -> Option<&'s str> {
    let rest = cursor.rest();
    let length = rest.bytes().position(|byte| !is_word(byte))?;
    let text = rest.get(..length)?;
    let first = text.bytes().next()?;
    // Options of a command line begin with marks of lists.
    let option = || text.trim_start_matches('-').starts_with(|next: char| next.is_ascii_alphanumeric());
    if !(first.is_ascii_alphanumeric() || matches!(first, b'/' | b'_' | b'.') || first == b'-' && option()) {
        return None;
    }
    cursor.at += length;
    // More words, or marks inside of a word, are for the parser.
    matches!(cursor.peek(), Some(b' ' | b',' | b']' | b'}' | b':')).then_some(text)
}
