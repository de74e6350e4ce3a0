//! Texts in quotes, also on several lines.

use super::Reader;
use super::line::Line;
use super::scalar::styled;
use crate::node::{Node, Style, Value};

impl Reader<'_, '_> {
    /// The text in quotes at `first`, whose key or `-` stands at `parent`. What follows it may only be a remark.
    pub(super) fn quotes(&mut self, first: Line<'_>, parent: usize) -> Option<Node> {
        let quote = first.text.chars().next()?;
        let span = first.span(0, 0);
        let (mut line, mut start) = (first.text.get(1..)?, first.start + 1);
        let mut text = String::new();
        loop {
            let ends = unquote(line, quote, &mut text)?;
            if let Ends::Text(length) = ends {
                let span = span.until(start + length);
                let after = line.get(length..)?;
                let is_remark = after.starts_with(' ') && after.trim_start_matches(' ').starts_with('#');
                return (after.is_empty() || is_remark)
                    .then(|| styled(Value::String(text.into()), span, Style::of_quote(quote)));
            }
            // What looks like an escaped break may be an escaped blank.
            let joins = ends == Ends::Joined;
            if joins && self.source.as_bytes().get(start + line.len()) != Some(&b'\n') {
                return None;
            }
            // One break is a blank, more are breaks. Lines without text at either end are for the parser.
            let mut breaks = 0;
            (line, start) = loop {
                let begin = self.lines.position();
                let next = self.lines.raw()?;
                let content = next.trim_start_matches(' ');
                if content.is_empty() {
                    breaks += 1;
                    continue;
                }
                let indent = next.len() - content.len();
                let closes = content.starts_with(quote) && !(quote == '\'' && content.starts_with("''"));
                if indent <= parent || closes || text.is_empty() || joins && breaks > 0 {
                    return None;
                }
                break (content.trim_end_matches(' '), begin + indent);
            };
            if breaks == 0 && !joins {
                text.push(' ');
            }
            text.extend(std::iter::repeat_n('\n', breaks));
        }
    }
}

/// How a line of a text ends.
#[derive(PartialEq, Eq)]
enum Ends {
    /// With the closing quote, which the length of the text includes.
    Text(usize),
    /// With its break.
    Line,
    /// With an escaped break: the next line goes on at once.
    Joined,
}

/// Appends what `line` says up to the closing quote. `None` for escapes that are not simple.
fn unquote(line: &str, quote: char, text: &mut String) -> Option<Ends> {
    let mut rest = line;
    loop {
        let mark = if quote == '"' { rest.find(['"', '\\']) } else { rest.find(quote) };
        let Some(at) = mark else {
            text.push_str(rest);
            return Some(Ends::Line);
        };
        text.push_str(rest.get(..at)?);
        let mut marks = rest.get(at..)?.chars();
        match (quote, marks.next()?, marks.next()) {
            ('"', '\\', Some('n')) => text.push('\n'),
            ('"', '\\', Some('t')) => text.push('\t'),
            ('"', '\\', Some(mark @ ('"' | '\\' | ' '))) => text.push(mark),
            ('"', '\\', None) => return Some(Ends::Joined),
            ('"', '\\', _) => return None,
            ('\'', _, Some('\'')) => text.push('\''),
            _ => return Some(Ends::Text(line.len() - rest.len() + at + 1)),
        }
        rest = rest.get(at + 2..)?;
    }
}
