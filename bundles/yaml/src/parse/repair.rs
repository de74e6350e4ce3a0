//! What go-yaml reads and the event parser does not, written so that it does: lines of a quoted text that stand too far to
//! the left, a colon right behind an alias, a byte order mark at the start of a later document, an escaped single quote in
//! double quotes.
//!
//! Only blanks go in, and marks and backslashes go out where they mean nothing. All places are told as they are in the text that was given.

use granit_parser::{ErrorKind, ScanError};

use super::super::node::{Node, Span, Value};

/// The text to read, and what was changed in it.
pub(super) struct Repaired {
    pub(super) text: String,
    changes: Vec<Change>,
    /// Bytes that all tries together may still read.
    left: usize,
}

/// At a place of the changed text, bytes that are not in the given one, or as many fewer.
struct Change {
    at: usize,
    inserted: usize,
    removed: usize,
}

/// So many bytes may be read again.
const READ_AGAIN: usize = 32 << 20;

impl Repaired {
    pub(super) fn new(source: &str) -> Self {
        Self { text: source.to_owned(), changes: Vec::new(), left: READ_AGAIN }
    }

    /// Changes what the parser did not take; `after` is where what it did take ends. `false` if that is an error of the
    /// text.
    pub(super) fn repair(&mut self, error: &ScanError, after: usize) -> bool {
        let at = error.marker().byte_offset().unwrap_or(0);
        let done = match error.kind() {
            ErrorKind::InvalidQuotedScalarIndent => self.indent(after),
            ErrorKind::BomInsideDocument => self.drop_mark(at),
            ErrorKind::UnknownQuotedScalarEscape => self.drop_backslash(after),
            _ => self.part_alias(after),
        };
        let size = self.text.len();
        let again = done && self.left >= size;
        self.left = self.left.saturating_sub(size);
        again
    }

    /// Indents the lines of the quoted text that comes next as far as its first quote stands.
    fn indent(&mut self, after: usize) -> bool {
        let rest = self.text.get(after..).unwrap_or_default();
        let Some(start) = rest.find(['"', '\'']).map(|found| after + found) else {
            return false;
        };
        let bytes = self.text.as_bytes();
        let quote = bytes.get(start).copied();
        let line = self.text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let wanted = start - line + 1;
        let (mut at, mut places) = (start + 1, Vec::new());
        while let Some(byte) = bytes.get(at).copied() {
            match byte {
                b'\\' if quote == Some(b'"') && bytes.get(at + 1) != Some(&b'\n') => at += 1,
                b'\'' if quote == Some(b'\'') && bytes.get(at + 1) == Some(&b'\'') => at += 1,
                byte if Some(byte) == quote => break,
                b'\n' => {
                    let line = self.text.get(at + 1..).unwrap_or_default();
                    let indent = line.len() - line.trim_start_matches(' ').len();
                    let is_blank = line.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
                    if indent < wanted && !is_blank {
                        places.push((at + 1, wanted - indent));
                    }
                }
                _ => {}
            }
            at += 1;
        }
        for (at, count) in places.iter().rev() {
            self.change(*at, &" ".repeat(*count), 0);
        }
        !places.is_empty()
    }

    /// go-yaml takes `\'` in double quotes for a quote.
    fn drop_backslash(&mut self, after: usize) -> bool {
        let rest = self.text.get(after..).unwrap_or_default();
        let Some(start) = rest.find('"').map(|found| after + found + 1) else {
            return false;
        };
        let mut bytes = self.text.bytes().enumerate().skip(start);
        let found = loop {
            match bytes.next() {
                Some((at, b'\\')) => match bytes.next() {
                    Some((_, b'\'')) => break at,
                    Some(_) => {}
                    None => return false,
                },
                Some((_, b'"')) | None => return false,
                Some(_) => {}
            }
        };
        self.change(found, "", 1);
        true
    }

    fn part_alias(&mut self, after: usize) -> bool {
        let rest = self.text.get(after..).unwrap_or_default();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\n', '\r', '-', '{', ',', '[', '?']).len();
        let Some(name) = rest.get(blanks..).and_then(|rest| rest.strip_prefix('*')) else {
            return false;
        };
        let length =
            name.len() - name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "-_".contains(c)).len();
        if length == 0 || !name.get(length..).is_some_and(|rest| rest.starts_with(": ") || rest.starts_with(":\n")) {
            return false;
        }
        self.change(after + blanks + 1 + length, " ", 0);
        true
    }

    /// go-yaml takes a byte order mark at the start of any line.
    fn drop_mark(&mut self, at: usize) -> bool {
        const MARK: &str = "\u{FEFF}";
        let is_start = at.checked_sub(1).and_then(|before| self.text.as_bytes().get(before)) == Some(&b'\n');
        let is_mark = self.text.get(at..).is_some_and(|rest| rest.starts_with(MARK));
        if is_start && is_mark {
            self.change(at, "", MARK.len());
        }
        is_start && is_mark
    }

    fn change(&mut self, at: usize, text: &str, removed: usize) {
        for change in &mut self.changes {
            if change.at >= at {
                change.at = (change.at + text.len()).saturating_sub(removed);
            }
        }
        self.text.replace_range(at..at + removed, text);
        self.changes.push(Change { at, inserted: text.len(), removed });
    }

    /// Gives all nodes the places that they have in the text that was given.
    pub(super) fn restore(&self, node: &mut Node) {
        self.restore_span(&mut node.span);
        match &mut node.value {
            Value::Sequence(items) => items.iter_mut().for_each(|item| self.restore(item)),
            Value::Mapping(mapping) => mapping.iter_mut().for_each(|entry| {
                self.restore_span(&mut entry.key_span);
                self.restore(&mut entry.value);
            }),
            _ => {}
        }
    }

    pub(super) fn restore_span(&self, span: &mut Span) {
        let line = self.text.get(..span.start()).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let mut column = span.column();
        let moved = |place: usize| {
            let before = self.changes.iter().filter(|change| change.at <= place);
            before.fold(place, |place, change| (place + change.removed).saturating_sub(change.inserted))
        };
        for change in self.changes.iter().filter(|change| (line..span.start()).contains(&change.at)) {
            column = column.saturating_sub(change.inserted);
        }
        *span = Span::new(moved(span.start()), moved(span.end()), span.line(), column);
    }
}
