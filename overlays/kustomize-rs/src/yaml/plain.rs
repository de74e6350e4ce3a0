//! A quick reader for plain block YAML, which most manifests are: keys, one-line values, lists, folded plain text.
//!
//! It reads only what it is certain of. Anything else (anchors, tags, flow collections, block scalars, escapes, tabs,
//! characters outside ASCII, duplicate keys, errors) makes it give up, and the event parser reads the whole text
//! instead. So it never decides what is an error; it must only give the same nodes and places, and the tests compare.

use super::Limits;
use super::node::{Entry, Mapping, Node, Span, Style, Value};
use super::parse::{Document, scalar_value};
use super::resolve::{Scalar, resolve_v3};
use super::shared::Sequence;

/// Reads `source` by go-yaml v3's rules, or gives up.
pub(super) fn read(source: &str, limits: &Limits) -> Option<Vec<Document>> {
    // Without an early end this runs over many bytes at once.
    let strange =
        source.bytes().fold(false, |strange, byte| strange | !(matches!(byte, b' '..=b'~') | (byte == b'\n')));
    if strange {
        return None;
    }
    let mut reader = Reader { source, next: 0, number: 0, current: None, nodes: 0, limits };
    reader.advance();
    let mut documents = Vec::new();
    let mut marked = false;
    let mut seen = 0;
    while let Some(line) = reader.current {
        if line.text == "---" && line.indent == 0 {
            // Two marks in a row are an empty document; it counts as one.
            seen += usize::from(marked);
            marked = true;
            reader.advance();
            continue;
        }
        if !documents.is_empty() && !marked {
            return None;
        }
        marked = false;
        seen += 1;
        documents.push(Document { root: reader.block(line.indent, 0, false)?, duplicates: Vec::new() });
    }
    (seen + usize::from(marked) <= limits.documents).then_some(documents)
}

/// A line that holds something.
#[derive(Clone, Copy)]
struct Line<'s> {
    /// Blanks before the text.
    indent: usize,
    /// Place of the text in the source.
    start: usize,
    /// 1-based.
    number: usize,
    /// Without the blanks around it.
    text: &'s str,
}

impl Line<'_> {
    /// The place of `text`, which begins `offset` bytes into the text of the line.
    fn span(&self, offset: usize, length: usize) -> Span {
        let start = self.start + offset;
        Span { start, end: start + length, line: self.number, column: self.indent + offset + 1 }
    }

    /// The same line from `offset` on, as if the text before it were blanks: what follows `- `.
    fn from(self, offset: usize) -> Option<Self> {
        Some(Self { indent: self.indent + offset, start: self.start + offset, text: self.text.get(offset..)?, ..self })
    }

    fn is_item(&self) -> bool {
        self.text.starts_with("- ")
    }
}

struct Reader<'s, 'l> {
    source: &'s str,
    /// Start of the line after the current one.
    next: usize,
    number: usize,
    current: Option<Line<'s>>,
    nodes: usize,
    limits: &'l Limits,
}

impl<'s> Reader<'s, '_> {
    /// Goes to the next line that is neither blank nor a comment. Says whether it is the very next one.
    fn advance(&mut self) -> bool {
        let mut adjacent = true;
        loop {
            let Some(rest) = self.source.get(self.next..).filter(|rest| !rest.is_empty()) else {
                self.current = None;
                return adjacent;
            };
            let length = line_length(rest.as_bytes());
            let line = rest.get(..length).unwrap_or_default();
            let start = self.next;
            self.next += line.len() + 1;
            self.number += 1;
            let text = line.trim_start_matches(' ');
            if text.is_empty() || text.starts_with('#') {
                adjacent = false;
                continue;
            }
            let indent = line.len() - text.len();
            let text = text.trim_end_matches(' ');
            self.current = Some(Line { indent, start: start + indent, number: self.number, text });
            return adjacent;
        }
    }

    fn count(&mut self) -> Option<()> {
        self.nodes += 1;
        (self.nodes <= self.limits.nodes).then_some(())
    }

    /// The list or mapping whose first line is the current one, at `indent`; `beside` says whether that is where the key
    /// of it stands.
    fn block(&mut self, indent: usize, depth: usize, beside: bool) -> Option<Node> {
        let line = self.current?;
        if depth >= self.limits.depth || line.text.starts_with("---") || line.text.starts_with("...") {
            return None;
        }
        self.count()?;
        if line.is_item() { self.sequence(indent, depth, beside) } else { self.mapping(line, depth) }
    }

    fn sequence(&mut self, indent: usize, depth: usize, beside: bool) -> Option<Node> {
        let first = self.current?;
        let mut items: Vec<Node> = Vec::new();
        while let Some(line) = self.current.filter(|line| line.indent >= indent) {
            if !line.is_item() {
                // Of a mapping around this list, whose keys stand at the same indent.
                if line.indent == indent && line.text.starts_with("---") {
                    return None;
                }
                break;
            }
            if line.indent != indent {
                return None;
            }
            let rest = line.text.get(2..)?;
            let item = line.from(line.text.len() - rest.trim_start_matches(' ').len())?;
            if item.is_item() || item.text == "-" {
                return None;
            }
            let node = if split_key(item.text).is_some() {
                self.current = Some(item);
                if depth + 1 >= self.limits.depth {
                    return None;
                }
                self.count()?;
                self.mapping(item, depth + 1)?
            } else {
                self.value(item, indent, depth)?
            };
            items.push(node);
        }
        let end = items.last()?.span.end;
        // The parser says that a list beside its key begins with its first item.
        let start = if beside { items.first()?.span } else { first.span(0, 0) };
        Some(Node::with_span(Value::Sequence(items.into()), Span { end, ..start }))
    }

    /// A mapping whose first entry is `first`; the others stand at the same indent.
    fn mapping(&mut self, first: Line<'s>, depth: usize) -> Option<Node> {
        let mut entries: Vec<Entry> = Vec::with_capacity(6);
        let mut line = first;
        loop {
            let (key, after) = split_key(line.text)?;
            if entries.len() > 200 || entries.iter().any(|entry| entry.key == key) {
                return None;
            }
            let key_span = line.span(0, key.len());
            let rest = line.text.get(after..)?;
            let value = if rest.is_empty() {
                self.advance();
                let inner = self.current?;
                let beside = inner.indent == first.indent && inner.is_item();
                if inner.indent < first.indent || inner.indent == first.indent && !beside {
                    return None;
                }
                self.block(inner.indent, depth + 1, beside)?
            } else {
                let offset = line.text.len() - rest.trim_start_matches(' ').len();
                self.value(line.from(offset)?, first.indent, depth)?
            };
            entries.push(Entry { key: key.into(), key_span, value });
            match self.current {
                Some(next) if next.indent > first.indent => return None,
                Some(next) if next.indent == first.indent && !next.is_item() && next.text != "---" => line = next,
                _ => break,
            }
        }
        let end = entries.last()?.value.span.end;
        let mapping = Mapping::from_entries(entries);
        Some(Node::with_span(Value::Mapping(mapping), Span { end, ..first.span(0, 0) }))
    }

    /// A value that begins at `value`, in the line of its key or `-`, which stands at `parent`.
    fn value(&mut self, value: Line<'s>, parent: usize, depth: usize) -> Option<Node> {
        self.count()?;
        let span = value.span(0, value.text.len());
        let node = match value.text.as_bytes() {
            b"{}" | b"[]" if depth + 1 >= self.limits.depth => return None,
            b"{}" => in_brackets(Value::Mapping(Mapping::new()), span),
            b"[]" => in_brackets(Value::Sequence(Sequence::default()), span),
            [b'"', inner @ .., b'"'] if !inner.iter().any(|byte| matches!(byte, b'"' | b'\\')) => quoted(value, span)?,
            [b'\'', inner @ .., b'\''] if !inner.contains(&b'\'') => quoted(value, span)?,
            _ => return self.plain(value, span, parent),
        };
        self.advance();
        // A quoted text or an empty collection ends its line, and what is deeper belongs to nothing.
        if self.current.is_some_and(|line| line.indent > parent) {
            return None;
        }
        Some(node)
    }

    fn plain(&mut self, value: Line<'s>, mut span: Span, parent: usize) -> Option<Node> {
        if !is_plain_start(value.text) || !is_plain(value.text) {
            return None;
        }
        let mut adjacent = self.advance();
        let deeper = |line: &Line<'_>| line.indent > parent;
        let Some(mut line) = self.current.filter(deeper) else {
            let scalar = resolve_v3(value.text);
            if scalar == Scalar::Merge {
                return None;
            }
            return Some(scalar_value(scalar, value.text.into(), span));
        };
        let mut folded = value.text.to_owned();
        loop {
            if !adjacent || !is_plain(line.text) {
                return None;
            }
            folded.push(' ');
            folded.push_str(line.text);
            span.end = line.start + line.text.len();
            adjacent = self.advance();
            match self.current.filter(deeper) {
                Some(next) => line = next,
                None => break,
            }
        }
        let scalar = resolve_v3(&folded);
        (scalar == Scalar::Text).then(|| scalar_value(scalar, folded.into(), span))
    }
}

/// Bytes before the first line end, looked for eight at a time.
fn line_length(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        // A byte that equals a line end becomes zero, and the lowest zero byte alone is sure to have its high bit set.
        let word = u64::from_le_bytes(*word) ^ (ONES * 0x0A);
        let found = word.wrapping_sub(ONES) & !word & (ONES * 0x80);
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let tail = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    bytes.len() - rest.len() + tail
}

fn in_brackets(value: Value, span: Span) -> Node {
    let mut node = Node::with_span(value, span);
    node.set_style(Style::Flow);
    node
}

fn quoted(value: Line<'_>, span: Span) -> Option<Node> {
    let inner = value.text.get(1..value.text.len() - 1)?;
    let mut node = Node::with_span(Value::String(inner.into()), span);
    node.set_style(Style::Quoted);
    Some(node)
}

/// The key of a line `key:` or `key: value`, and where what follows the colon begins.
fn split_key(text: &str) -> Option<(&str, usize)> {
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_') {
        return None;
    }
    let length =
        bytes.iter().position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/')))?;
    if bytes.get(length) != Some(&b':') || !matches!(bytes.get(length + 1), None | Some(b' ')) {
        return None;
    }
    let key = text.get(..length)?;
    (resolve_v3(key) == Scalar::Text).then_some((key, length + 1))
}

/// Whether a plain scalar may begin so.
fn is_plain_start(text: &str) -> bool {
    match text.as_bytes() {
        [b'-', next, ..] => !matches!(next, b' ' | b'-'),
        [first, ..] => {
            first.is_ascii_alphanumeric() || matches!(first, b'<' | b'/' | b'.' | b'_' | b'+' | b'~' | b'(' | b'$')
        }
        [] => false,
    }
}

/// Whether the text is one plain scalar to its end: no key, no comment.
fn is_plain(text: &str) -> bool {
    if text.starts_with('#')
        || text.ends_with(':')
        || text == "..."
        || text.starts_with("---")
        || text.starts_with("- ")
    {
        return false;
    }
    let bytes = text.as_bytes();
    // Most values are one word.
    !bytes.contains(&b' ') || !bytes.windows(2).any(|pair| matches!(pair, b": " | b" #"))
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
