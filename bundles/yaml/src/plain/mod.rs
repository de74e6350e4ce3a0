//! A quick reader for plain YAML, which most manifests are: keys, values, lists, plain and quoted text on one or several
//! lines, literal blocks, simple collections in brackets, remarks.
//!
//! It reads only what it is certain of. Anything else (anchors, tags, rare escapes, tabs, duplicate keys, empty values,
//! errors) makes it give up, and the event parser reads the whole text instead. So it never decides what is an error;
//! it must only give the same nodes and places, and the tests compare.

mod flow;
mod line;
mod literal;
mod quotes;
mod scalar;

use super::document::Document;
use super::node::{Entry, Mapping, Node, Span, Value, scalar_value};
use super::resolve::{Scalar, resolve_with};
use super::rules::Rules;
use crate::limits::Limits;
use line::{Line, Lines};
use scalar::{is_plain, is_plain_start, split_key, without_remark};

/// Reads `source`, or gives up.
pub(super) fn read(source: &str, limits: &Limits, rules: Rules) -> Option<Vec<Document>> {
    // Without an early end this runs over many bytes at once.
    let (strange, ascii) = source.bytes().fold((false, true), |(strange, ascii), byte| {
        (strange | !(byte >= b' ' && byte != 0x7F || byte == b'\n'), ascii & (byte < 0x80))
    });
    let printable = |character: char| {
        character < '\u{7F}'
            || character >= '\u{A0}'
                && !matches!(character, '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
    };
    if strange || !ascii && !source.chars().all(printable) {
        return None;
    }
    let mut reader = Reader {
        source,
        lines: Lines::new(source),
        current: None,
        entries: Vec::new(),
        items: Vec::new(),
        nodes: 0,
        limits,
        rules,
    };
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

struct Reader<'s, 'l> {
    source: &'s str,
    /// What comes after the current line.
    lines: Lines<'s>,
    current: Option<Line<'s>>,
    /// Entries of all mappings that are being read, and items of all lists: each is given room for what it holds, no more.
    entries: Vec<Entry>,
    items: Vec<Node>,
    nodes: usize,
    limits: &'l Limits,
    rules: Rules,
}

impl<'s> Reader<'s, '_> {
    /// Goes to the next line that is neither blank nor a comment. Says whether it is the very next one.
    fn advance(&mut self) -> bool {
        let (line, adjacent) = self.lines.next();
        self.current = line;
        adjacent
    }

    fn resolve(&self, text: &str) -> Scalar {
        resolve_with(text, self.rules)
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
        let before = self.items.len();
        let mut first_item = None;
        while let Some(line) = self.current.filter(|line| line.indent >= indent) {
            if !line.is_item() {
                // Of a mapping around this list, whose keys stand at the same indent.
                let ends_document = line.indent == 0 && line.text == "---";
                if line.indent == indent && line.text.starts_with("---") && !ends_document {
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
            // Where it begins, which for a block of text is before what it holds.
            first_item.get_or_insert(item.span(0, 0));
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
            self.items.push(node);
        }
        let items = self.items.split_off(before);
        let end = items.last()?.span.end();
        // The parser says that a list beside its key begins with its first item.
        let start = if beside { first_item? } else { first.span(0, 0) };
        Some(Node::with_span(Value::Sequence(items.into()), start.until(end)))
    }

    /// A mapping whose first entry is `first`; the others stand at the same indent.
    fn mapping(&mut self, first: Line<'s>, depth: usize) -> Option<Node> {
        let start = self.entries.len();
        let mut line = first;
        loop {
            let (key, after) = split_key(line.text)?;
            let known = self.entries.get(start..)?;
            if known.len() > 200 || known.iter().any(|entry| entry.key == key) {
                return None;
            }
            let key_span = line.span(0, key.len());
            if self.resolve(key) != Scalar::Text {
                return None;
            }
            let rest = line.text.get(after..)?;
            let value = if rest.is_empty() || rest.trim_start_matches(' ').starts_with('#') {
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
            self.entries.push(Entry { key: key.into(), key_span, value });
            match self.current {
                Some(next) if next.indent > first.indent => return None,
                Some(next) if next.indent == first.indent && !next.is_item() && next.text != "---" => line = next,
                _ => break,
            }
        }
        let end = self.entries.last()?.value.span.end();
        let mapping = Mapping::from_entries(self.entries.split_off(start));
        Some(Node::with_span(Value::Mapping(mapping), first.span(0, 0).until(end)))
    }

    /// A value that begins at `value`, in the line of its key or `-`, which stands at `parent`.
    fn value(&mut self, value: Line<'s>, parent: usize, depth: usize) -> Option<Node> {
        let text = value.text;
        let node = match text.as_bytes() {
            [b'{' | b'[', ..] => {
                let (node, length) = self.flow(value, depth + 1)?;
                let after = text.get(length..)?;
                // What follows may only be a remark.
                if !after.is_empty() && !after.trim_start_matches(' ').starts_with('#') || after.starts_with('#') {
                    return None;
                }
                node
            }
            [b'"' | b'\'', ..] => {
                self.count()?;
                self.quotes(value, parent)?
            }
            [b'|', ..] => {
                self.count()?;
                let node = self.literal(value, parent)?;
                return if self.current.is_some_and(|line| line.indent > parent) { None } else { Some(node) };
            }
            _ => {
                self.count()?;
                let bare = without_remark(text);
                if bare.len() == text.len() {
                    return self.plain(value, value.span(0, text.len()), parent);
                }
                // A remark ends a text: no line below goes on with it.
                if !is_plain_start(bare) || !is_plain(bare) {
                    return None;
                }
                let scalar = self.resolve(bare);
                if scalar == Scalar::Merge {
                    return None;
                }
                scalar_value(scalar, bare.into(), value.span(0, bare.len()))
            }
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
            let scalar = self.resolve(value.text);
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
            span = span.until(line.start + line.text.len());
            adjacent = self.advance();
            match self.current.filter(deeper) {
                Some(next) => line = next,
                None => break,
            }
        }
        let scalar = self.resolve(&folded);
        (scalar == Scalar::Text).then(|| scalar_value(scalar, folded.into(), span))
    }
}

#[cfg(test)]
mod tests;
