//! Lines of a text, one after the other.

use crate::node::Span;

/// A line that holds something.
#[derive(Clone, Copy)]
pub(super) struct Line<'s> {
    /// Blanks before the text.
    pub(super) indent: usize,
    /// Place of the text in the source.
    pub(super) start: usize,
    /// 1-based.
    pub(super) number: usize,
    /// Without the blanks around it.
    pub(super) text: &'s str,
}

impl Line<'_> {
    /// The place of `text`, which begins `offset` bytes into the text of the line.
    pub(super) fn span(&self, offset: usize, length: usize) -> Span {
        let start = self.start + offset;
        Span::new(start, start + length, self.number, self.indent + offset + 1)
    }

    /// The same line from `offset` on, as if the text before it were blanks: what follows `- `.
    pub(super) fn from(self, offset: usize) -> Option<Self> {
        Some(Self { indent: self.indent + offset, start: self.start + offset, text: self.text.get(offset..)?, ..self })
    }

    pub(super) fn is_item(&self) -> bool {
        self.text.starts_with("- ")
    }
}

/// A text and how far it was read.
#[derive(Clone, Copy)]
pub(super) struct Lines<'s> {
    source: &'s str,
    /// Start of the next line.
    next: usize,
    number: usize,
}

impl<'s> Lines<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, next: 0, number: 0 }
    }

    /// Where the next line begins.
    pub(super) fn position(&self) -> usize {
        self.next
    }

    /// Number of the line before the next one.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The next line as it is, without its end.
    pub(super) fn raw(&mut self) -> Option<&'s str> {
        let rest = self.source.get(self.next..).filter(|rest| !rest.is_empty())?;
        let line = rest.get(..line_length(rest.as_bytes()))?;
        self.next += line.len() + 1;
        self.number += 1;
        Some(line)
    }

    /// The next line that is neither blank nor a comment, and whether it is the very next one.
    pub(super) fn next(&mut self) -> (Option<Line<'s>>, bool) {
        let mut adjacent = true;
        loop {
            let start = self.next;
            let Some(line) = self.raw() else { return (None, adjacent) };
            let text = line.trim_start_matches(' ');
            if text.is_empty() || text.starts_with('#') {
                adjacent = false;
                continue;
            }
            let indent = line.len() - text.len();
            let text = text.trim_end_matches(' ');
            return (Some(Line { indent, start: start + indent, number: self.number, text }), adjacent);
        }
    }
}

/// Bytes before the first line end, looked for eight at a time.
pub(super) fn line_length(bytes: &[u8]) -> usize {
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
