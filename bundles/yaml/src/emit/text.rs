//! One text: plain, in quotes of either kind, or as a block.

use super::Writer;
use super::shape::{Shape, is_word, needs_escape};
use crate::resolve::stays_text;

/// Lines are folded at the first space after this column.
const WIDTH: usize = 80;

impl Writer<'_> {
    /// Writes a string; `indent` is where its further lines begin. A simple key stays on one line.
    pub(super) fn text(&mut self, text: &str, indent: usize, simple_key: bool) {
        if self.word(text) {
            return;
        }
        if !text.is_ascii() && text.contains('\u{85}') {
            return self.text(&without_next_line(text), indent, simple_key);
        }
        let shape = Shape::of(text);
        if text.contains('\n') {
            if shape.block_allowed && !simple_key {
                self.literal(text, indent);
            } else {
                self.double_quoted(text, indent, !simple_key);
            }
        } else if !stays_text(text) || shape.special {
            self.double_quoted(text, indent, !simple_key);
        } else if shape.plain_allowed {
            self.folded(text, indent, !simple_key);
        } else {
            self.single_quoted(text, indent, !simple_key);
        }
    }

    /// Writes what most texts are, a word that stands as it is; `false` if it is none.
    pub(super) fn word(&mut self, text: &str) -> bool {
        let is_word = is_word(text) && stays_text(text);
        if is_word {
            self.out.push_str(text);
            self.column += text.len();
        }
        is_word
    }

    /// Plain text, broken at single spaces past the width.
    fn folded(&mut self, text: &str, indent: usize, may_break: bool) {
        let ascii = text.is_ascii();
        let mut rest = text;
        while may_break && let Some(place) = self.break_place(rest, ascii) {
            self.put(rest.get(..place).unwrap_or_default());
            self.break_line();
            self.pad(indent);
            rest = rest.get(place + 1..).unwrap_or_default();
        }
        self.put(rest);
    }

    /// The first single blank past the width, if `text` is written from here.
    fn break_place(&self, text: &str, ascii: bool) -> Option<usize> {
        let room = (WIDTH + 1).saturating_sub(self.column);
        let start = if ascii { room } else { text.char_indices().nth(room)?.0 };
        let blank = |at: usize| text.as_bytes().get(at) == Some(&b' ');
        let blanks = text.get(start..)?.match_indices(' ').map(|(at, _)| start + at);
        blanks.into_iter().find(|at| !at.checked_sub(1).is_some_and(blank) && !blank(at + 1))
    }

    fn single_quoted(&mut self, text: &str, indent: usize, may_break: bool) {
        self.put_char('\'');
        let bytes = text.as_bytes();
        let mut after_space = false;
        let mut after_break = false;
        for (at, character) in text.char_indices() {
            if character != ' ' {
                if after_break {
                    self.pad(indent);
                }
                if character == '\'' {
                    self.put_char('\'');
                }
                self.put_char(character);
                after_space = false;
                // Breaks of YAML 1.1 stand as they are, and the line goes on indented.
                after_break = matches!(character, '\u{2028}' | '\u{2029}');
                if after_break {
                    self.column = 0;
                }
                continue;
            }
            let inside = at > 0 && at + 1 < bytes.len();
            if may_break && !after_space && self.column > WIDTH && inside && bytes.get(at + 1) != Some(&b' ') {
                self.break_line();
                self.pad(indent);
            } else {
                self.put_char(' ');
            }
            after_space = true;
        }
        self.put_char('\'');
    }

    fn double_quoted(&mut self, text: &str, indent: usize, may_break: bool) {
        self.put_char('"');
        let bytes = text.as_bytes();
        // go-yaml looks for a byte order mark at the start of the text wherever it stands.
        let escape_all = text.starts_with('\u{FEFF}');
        let mut after_space = false;
        for (at, character) in text.char_indices() {
            if escape_all || needs_escape(character) {
                self.put(&escaped(character));
                after_space = false;
            } else if character == ' ' {
                let inside = at > 0 && at + 1 < bytes.len();
                if may_break && !after_space && self.column > WIDTH && inside {
                    self.break_line();
                    self.pad(indent);
                    if bytes.get(at + 1) == Some(&b' ') {
                        self.put_char('\\');
                    }
                } else {
                    self.put_char(' ');
                }
                after_space = true;
            } else {
                self.put_char(character);
                after_space = false;
            }
        }
        self.put_char('"');
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put_char('|');
        if text.starts_with([' ', '\n']) {
            self.put_char('2');
        }
        if !text.ends_with('\n') {
            self.put_char('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.put_char('+');
        }
        self.break_line();
        let body = text.strip_suffix('\n').unwrap_or(text);
        for (index, line) in body.split('\n').enumerate() {
            if index > 0 {
                self.break_line();
            }
            if !line.is_empty() {
                self.pad(indent);
                self.put(line);
            }
        }
        if text.ends_with('\n') {
            self.break_line();
        }
    }
}

/// A character as it stands between double quotes when it cannot stand for itself.
pub(crate) fn escaped(character: char) -> String {
    let short = match character {
        '\0' => "\\0",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\t' => "\\t",
        '\n' => "\\n",
        '\u{B}' => "\\v",
        '\u{C}' => "\\f",
        '\r' => "\\r",
        '\u{1B}' => "\\e",
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{85}' => "\\N",
        '\u{A0}' => "\\_",
        '\u{2028}' => "\\L",
        '\u{2029}' => "\\P",
        _ => "",
    };
    if !short.is_empty() {
        return short.to_owned();
    }
    let code = u32::from(character);
    match code {
        0..=0xFF => format!("\\x{code:02X}"),
        0x100..=0xFFFF => format!("\\u{code:04X}"),
        _ => format!("\\U{code:08X}"),
    }
}

/// What go-yaml v2 makes of U+0085 in the JSON between kustomize's passes: a line break, folded into a blank.
fn without_next_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('\u{85}').enumerate() {
        if index == 0 {
            out.push_str(part.trim_end_matches([' ', '\t']));
            continue;
        }
        out.push(' ');
        out.push_str(part.trim_matches([' ', '\t']));
    }
    out
}
