//! One scalar: plain, in quotes of either kind, or as a block.

use super::Quotes;
use super::write::{Place, Writer};
use crate::emit::{escaped, needs_escape};

/// What the characters of a text allow.
struct Shape {
    /// Without quotes, between brackets.
    flow_plain: bool,
    /// Without quotes, elsewhere.
    block_plain: bool,
    /// In single quotes.
    single: bool,
    /// As a block.
    block: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        if text.is_empty() {
            return Self { flow_plain: false, block_plain: true, single: true, block: false };
        }
        let starts_document = text.starts_with("---") || text.starts_with("...");
        let (mut flow, mut block) = (starts_document, starts_document);
        let (mut tab, mut special, mut breaks) = (false, false, false);
        let (mut break_space, mut space_break) = (false, false);
        let mut before = '\n';
        for (at, character) in text.char_indices() {
            let rest = text.get(at + character.len_utf8()..).unwrap_or_default();
            let then_blank = rest.is_empty() || rest.starts_with([' ', '\t']);
            match character {
                ',' | '[' | ']' | '{' | '}' => (flow, block) = (true, block || at == 0),
                '#' if at == 0 || matches!(before, ' ' | '\t' | '\n') => (flow, block) = (true, true),
                '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' if at == 0 => (flow, block) = (true, true),
                '?' => (flow, block) = (true, block || at == 0 && then_blank),
                ':' => (flow, block) = (true, block || then_blank),
                '-' if at == 0 && then_blank => (flow, block) = (true, true),
                '\t' => tab = true,
                '\n' => {
                    breaks = true;
                    space_break |= at > 0 && before == ' ';
                }
                ' ' => break_space |= at > 0 && before == '\n',
                '"' | '\\' => {}
                other => special |= needs_escape(other),
            }
            before = character;
        }
        let outer = text.starts_with([' ', '\n']) || text.ends_with([' ', '\n']);
        let plain = !(outer || break_space || space_break || tab || special || breaks);
        Self {
            flow_plain: plain && !flow,
            block_plain: plain && !block,
            single: !(break_space || space_break || tab || special),
            block: !(text.ends_with(' ') || space_break || special),
        }
    }
}

/// Returns whether go-yaml v3 may write a text as a block scalar.
pub fn may_be_block(text: &str) -> bool {
    Shape::of(text).block
}

impl Writer<'_> {
    pub(super) fn scalar(&mut self, text: &str, quotes: Quotes, place: Place) {
        let shape = Shape::of(text);
        let mut quotes = quotes;
        if place.simple_key && text.contains('\n') {
            quotes = Quotes::Double;
        }
        if quotes == Quotes::None {
            let allowed = if self.flow > 0 { shape.flow_plain } else { shape.block_plain };
            let is_lost = text.is_empty() && (self.flow > 0 || place.simple_key);
            if !allowed || is_lost {
                quotes = Quotes::Single;
            }
        }
        if quotes == Quotes::Single && !shape.single {
            quotes = Quotes::Double;
        }
        let is_block = matches!(quotes, Quotes::Literal | Quotes::Folded);
        if is_block && (!shape.block || self.flow > 0 || place.simple_key) {
            quotes = Quotes::Double;
        }
        match quotes {
            Quotes::None => self.plain(text),
            Quotes::Single => self.single_quoted(text),
            Quotes::Double => self.double_quoted(text),
            Quotes::Literal => self.literal(text),
            Quotes::Folded => self.folded(text),
        }
    }

    fn plain(&mut self, text: &str) {
        if !text.is_empty() {
            if !self.whitespace {
                self.put(" ");
            }
            self.put(text);
            self.whitespace = false;
        }
        self.indention = false;
    }

    fn single_quoted(&mut self, text: &str) {
        self.indicator("'", true, false, false);
        let mut breaks = false;
        for character in text.chars() {
            if character == '\n' {
                if !breaks {
                    self.break_line();
                }
                self.break_line();
                breaks = true;
                continue;
            }
            if breaks && character != ' ' {
                self.start_line();
            }
            breaks = breaks && character == ' ';
            if character == '\'' {
                self.put("'");
            }
            self.put(character.encode_utf8(&mut [0; 4]));
            self.indention = false;
        }
        self.indicator("'", false, false, false);
        (self.whitespace, self.indention) = (false, false);
    }

    fn double_quoted(&mut self, text: &str) {
        self.indicator("\"", true, false, false);
        let escape_all = text.starts_with('\u{FEFF}');
        for character in text.chars() {
            if escape_all || needs_escape(character) {
                let escaped = escaped(character);
                self.put(&escaped);
            } else {
                self.put(character.encode_utf8(&mut [0; 4]));
            }
        }
        self.indicator("\"", false, false, false);
        (self.whitespace, self.indention) = (false, false);
    }

    fn hints(&mut self, text: &str) {
        if text.starts_with([' ', '\n']) {
            self.indicator("2", false, false, false);
        }
        if !text.ends_with('\n') {
            self.indicator("-", false, false, false);
        } else if text == "\n" || text.ends_with("\n\n") {
            self.indicator("+", false, false, false);
        }
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false, false);
        self.hints(text);
        self.line_comment(true);
        self.whitespace = true;
        let body = text.strip_suffix('\n').unwrap_or(text);
        for (index, line) in body.split('\n').enumerate() {
            if index > 0 {
                self.break_line();
            }
            if !line.is_empty() {
                self.start_line();
                self.put(line);
                self.indention = false;
            }
        }
        if text.ends_with('\n') {
            self.break_line();
        }
    }

    fn folded(&mut self, text: &str) {
        self.indicator(">", true, false, false);
        self.hints(text);
        self.line_comment(true);
        self.whitespace = true;
        // go-yaml looks at the start of the text to see whether an empty line has to follow.
        let first = text.trim_start_matches('\n').chars().next();
        let goes_on = first.is_some_and(|first| !matches!(first, ' ' | '\t'));
        let (mut breaks, mut leading_spaces) = (true, true);
        for character in text.chars() {
            if character == '\n' {
                if !breaks && !leading_spaces && goes_on {
                    self.break_line();
                }
                self.break_line();
                breaks = true;
                continue;
            }
            if breaks {
                self.start_line();
                leading_spaces = matches!(character, ' ' | '\t');
            }
            self.put(character.encode_utf8(&mut [0; 4]));
            self.indention = false;
            breaks = false;
        }
    }
}
