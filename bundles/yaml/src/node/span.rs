//! Where in a text something is.

use std::ops::Range;

/// A place in the decoded source.
///
/// Kept small, since each field of a tree has two: a place beyond 4 GiB is reported as 4 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Span {
    start: u32,
    end: u32,
    line: u32,
    column: u32,
}

impl Span {
    /// Returns the bytes from `start` to before `end`, which begin in that line and column.
    pub fn new(start: usize, end: usize, line: usize, column: usize) -> Self {
        Self { start: small(start), end: small(end), line: small(line), column: small(column) }
    }

    /// First byte.
    pub fn start(&self) -> usize {
        large(self.start)
    }

    /// Byte after the last one.
    pub fn end(&self) -> usize {
        large(self.end)
    }

    /// 1-based line; 0 for a node that has no source.
    pub fn line(&self) -> usize {
        large(self.line)
    }

    /// 1-based column in characters; 0 for a node that has no source.
    pub fn column(&self) -> usize {
        large(self.column)
    }

    /// Byte range.
    pub fn range(&self) -> Range<usize> {
        self.start()..self.end()
    }

    /// Returns the span with the same start and another end.
    #[must_use]
    pub fn until(self, end: usize) -> Self {
        Self { end: small(end), ..self }
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn large(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn a_place_beyond_what_is_kept_is_told_as_the_last_one() {
        let last = usize::try_from(u32::MAX).unwrap();
        let span = Span::new(1, 2, 3, 4).until(last + 7);
        assert_eq!((span.range(), span.line(), span.column()), (1..last, 3, 4));
    }
}
