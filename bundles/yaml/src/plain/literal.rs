//! Literal block scalars: `|`, `|-` and `|+`.

use super::Reader;
use super::line::Line;
use super::scalar::styled;
use crate::node::{Node, Span, Style, Value};

/// What happens to the line breaks at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Clip,
    Strip,
    Keep,
}

impl Reader<'_, '_> {
    /// The text below `header`, whose key or `-` stands at `parent`; `None` where that is no plain header.
    pub(super) fn literal(&mut self, header: Line<'_>, parent: usize) -> Option<Node> {
        let chomping = match header.text {
            "|" => Chomping::Clip,
            "|-" => Chomping::Strip,
            "|+" => Chomping::Keep,
            _ => return None,
        };
        let mut text = String::new();
        let mut indent = None;
        // The parser says that the text begins with its first line.
        let mut span = header.span(0, 1);
        let mut breaks = 0;
        // The parser says that the text ends where the next line begins to say something.
        let (end, blanks) = loop {
            let before = self.lines;
            let Some(line) = self.lines.raw() else { break (before, 0) };
            let content = line.trim_start_matches(' ');
            let depth = line.len() - content.len();
            if content.is_empty() {
                // Blanks that reach into the text would belong to it.
                if line.len() > indent.unwrap_or(parent + 1) {
                    return None;
                }
                breaks += 1;
                continue;
            }
            if depth <= parent {
                break (before, depth);
            }
            let indent = *indent.get_or_insert_with(|| {
                span = Span::new(before.position() + depth, 0, before.number() + 1, depth + 1);
                depth
            });
            if depth < indent {
                return None;
            }
            text.extend(std::iter::repeat_n('\n', breaks));
            text.push_str(line.get(indent..)?);
            breaks = 1;
        };
        // Without any text, or without a break at the end of the source, the parser knows best.
        if text.is_empty() || !self.source.ends_with('\n') {
            return None;
        }
        match chomping {
            Chomping::Strip => {}
            Chomping::Clip => text.push('\n'),
            Chomping::Keep => text.extend(std::iter::repeat_n('\n', breaks)),
        }
        span = span.until(end.position() + blanks);
        self.lines = end;
        self.advance();
        Some(styled(Value::String(text.into()), span, Style::Literal))
    }
}
