//! Nodes to text, byte for byte as go-yaml v2 writes them.
//!
//! Block style, two spaces, lists not indented under their key, keys in [`compare_keys`](super::compare_keys) order.
//! Quotes and folding are decided by [`Shape`], a summary of the text.

use super::node::{Entry, Mapping, Node, Value};
use super::number::rendered_float;
use super::order::sorted_entries;
use super::resolve::stays_text;

/// Lines are folded at the first space after this column.
const WIDTH: usize = 80;
/// Longer keys are written in the `? key` form.
const LONGEST_SIMPLE_KEY: usize = 128;

/// Returns `node` as a document, with a line break at the end.
pub fn emit(node: &Node) -> String {
    let mut out = String::new();
    emit_into(node, &mut out);
    out
}

/// Returns all nodes as documents with `---` lines between them.
pub fn emit_all<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let mut out = String::new();
    for (index, node) in nodes.into_iter().enumerate() {
        if index > 0 {
            out.push_str("---\n");
        }
        emit_into(node, &mut out);
    }
    out
}

/// Appends `node` as a document to `out`, which must end with a line break or be empty.
fn emit_into(node: &Node, out: &mut String) {
    let mut writer = Writer { out, column: 0 };
    match &node.value {
        Value::Mapping(mapping) if !mapping.is_empty() => writer.mapping(mapping, 0),
        Value::Sequence(items) if !items.is_empty() => writer.sequence(items, 0),
        _ => writer.scalar(&node.value, 2),
    }
    writer.finish_line();
}

struct Writer<'a> {
    out: &'a mut String,
    /// Characters on the current line.
    column: usize,
}

impl Writer<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += if text.is_ascii() { text.len() } else { text.chars().count() };
    }

    fn put_char(&mut self, character: char) {
        self.out.push(character);
        self.column += 1;
    }

    fn finish_line(&mut self) {
        if self.column > 0 {
            self.break_line();
        }
    }

    fn break_line(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    /// Moves to `indent`, on a new line unless the current one holds only indicators before it.
    fn pad(&mut self, indent: usize) {
        const SPACES: &str = "                                                                ";
        let mut missing = indent.saturating_sub(self.column);
        self.column = self.column.max(indent);
        while missing > 0 {
            let part = SPACES.get(..missing).unwrap_or(SPACES);
            self.out.push_str(part);
            missing -= part.len();
        }
    }

    /// Writes the entries at `indent`. The first one continues the current line (after `- `), if there is one.
    fn mapping(&mut self, mapping: &Mapping, indent: usize) {
        match sorted_entries(mapping) {
            None => self.entries(mapping.iter(), indent),
            Some(sorted) => self.entries(sorted.into_iter(), indent),
        }
    }

    fn entries<'e>(&mut self, entries: impl Iterator<Item = &'e Entry>, indent: usize) {
        for (index, entry) in entries.enumerate() {
            if index > 0 {
                self.finish_line();
            }
            self.pad(indent);
            let printable = entry.key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            let simple = entry.key.len() <= LONGEST_SIMPLE_KEY && (printable || !entry.key.contains(BREAKS));
            if simple {
                self.text(&entry.key, indent + 2, true);
                self.put_char(':');
                self.value(&entry.value, indent);
            } else {
                self.put("? ");
                self.text(&entry.key, indent + 2, false);
                self.finish_line();
                self.pad(indent);
                self.put_char(':');
                self.item(&entry.value, indent);
            }
        }
    }

    /// The value after `key:`.
    fn value(&mut self, value: &Node, indent: usize) {
        match &value.value {
            Value::Mapping(mapping) if !mapping.is_empty() => {
                self.break_line();
                self.mapping(mapping, indent + 2);
            }
            Value::Sequence(items) if !items.is_empty() => {
                self.break_line();
                self.sequence(items, indent);
            }
            other => {
                self.put_char(' ');
                self.scalar(other, indent + 2);
            }
        }
    }

    /// The value after `-`, or after `:` on a line of its own: collections begin on the same line.
    fn item(&mut self, value: &Node, indent: usize) {
        match &value.value {
            Value::Mapping(mapping) if !mapping.is_empty() => self.mapping(mapping, indent + 2),
            Value::Sequence(items) if !items.is_empty() => self.sequence(items, indent + 2),
            other => {
                self.put_char(' ');
                self.scalar(other, indent + 2);
            }
        }
    }

    fn sequence(&mut self, items: &[Node], indent: usize) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.finish_line();
            }
            self.pad(indent);
            self.put_char('-');
            self.item(item, indent);
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.put("null"),
            Value::Bool(true) => self.put("true"),
            Value::Bool(false) => self.put("false"),
            Value::Int(number) => self.put(&number.to_string()),
            Value::Uint(number) => self.put(&number.to_string()),
            Value::Float(number) => self.put(&rendered_float(*number)),
            Value::String(text) => self.text(text, indent, false),
            Value::Sequence(_) => self.put("[]"),
            Value::Mapping(_) => self.put("{}"),
        }
    }

    /// Writes a string; `indent` is where its further lines begin. A simple key stays on one line.
    fn text(&mut self, text: &str, indent: usize, simple_key: bool) {
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
                self.escape(character);
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

    fn escape(&mut self, character: char) {
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
            return self.put(short);
        }
        let code = u32::from(character);
        let escaped = match code {
            0..=0xFF => format!("\\x{code:02X}"),
            0x100..=0xFFFF => format!("\\u{code:04X}"),
            _ => format!("\\U{code:08X}"),
        };
        self.put(&escaped);
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

/// Line breaks of YAML 1.1, which make a key unfit for one line.
const BREAKS: &[char] = &['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// Characters that only stand escaped.
fn needs_escape(character: char) -> bool {
    match character {
        '"' | '\\' => true,
        ' '..='~' => false,
        '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}' => true,
        '\u{A0}'..='\u{FFFD}' => false,
        _ => true,
    }
}

/// What a text's characters allow.
struct Shape {
    /// Without quotes.
    plain_allowed: bool,
    /// As a literal block.
    block_allowed: bool,
    /// Holds a character that is only safe in double quotes.
    special: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let word = |byte| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'/' | b'_' | b'-');
        if text.bytes().all(word) && !text.starts_with(['.', '-']) {
            return Self { plain_allowed: true, block_allowed: !text.is_empty(), special: false };
        }
        Self::of_printable(text.as_bytes()).unwrap_or_else(|| Self::of_any(text))
    }

    /// The same for lines of printable ASCII, several bytes at once.
    fn of_printable(bytes: &[u8]) -> Option<Self> {
        let printable = |byte: u8| matches!(byte, b' '..=b'~' | b'\n');
        if !bytes.iter().fold(true, |all, byte| all & printable(*byte)) {
            return None;
        }
        let after_first = bytes.get(1..).unwrap_or_default();
        let pairs = || bytes.iter().zip(after_first);
        let mut indicator = pairs().fold(false, |found, (before, byte)| {
            found | (*before == b':') & (*byte == b' ') | ((*before == b' ') | (*before == b'\n')) & (*byte == b'#')
        });
        let line_break = bytes.contains(&b'\n');
        let space_then_break = line_break && pairs().any(|pair| pair == (&b' ', &b'\n'));
        let break_then_space = line_break && pairs().any(|pair| pair == (&b'\n', &b' '));
        indicator |= bytes.ends_with(b":") || bytes.starts_with(b"---") || bytes.starts_with(b"...");
        indicator |= match bytes {
            [b'?' | b'-', rest @ ..] => matches!(rest.first(), None | Some(b' ')),
            [first, ..] => b"#,[]{}&*!|>'\"%@`".contains(first),
            [] => false,
        };
        let outer_space = bytes.starts_with(b" ") || bytes.ends_with(b" ");
        Some(Self {
            plain_allowed: !(indicator || space_then_break || outer_space || line_break || break_then_space),
            block_allowed: !(space_then_break || bytes.is_empty() || bytes.ends_with(b" ")),
            special: space_then_break,
        })
    }

    fn of_any(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut indicator = text.starts_with("---") || text.starts_with("...");
        let mut special = false;
        let mut space_then_break = false;
        let mut break_then_space = false;
        let mut line_break = false;
        let mut previous = '\n';
        for (at, character) in text.char_indices() {
            let next_is_blank = || matches!(bytes.get(at + character.len_utf8()), None | Some(b' ' | b'\t'));
            match character {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`'
                    if at == 0 =>
                {
                    indicator = true;
                }
                '?' | '-' if at == 0 => indicator |= next_is_blank(),
                ':' => indicator |= next_is_blank(),
                '#' => indicator |= matches!(previous, ' ' | '\t' | '\n'),
                ' ' => break_then_space |= at > 0 && previous == '\n',
                '\u{2028}' | '\u{2029}' => line_break = true,
                '\n' => {
                    line_break = true;
                    space_then_break |= at > 0 && previous == ' ';
                }
                '\\' => {}
                other => special |= other != '"' && needs_escape(other),
            }
            previous = character;
        }
        let special = special || space_then_break;
        let outer_space = text.starts_with(' ') || text.ends_with(' ');
        Self {
            plain_allowed: !(indicator || special || outer_space || line_break || break_then_space),
            block_allowed: !(special || text.is_empty() || text.ends_with(' ')),
            special,
        }
    }
}

#[cfg(test)]
#[path = "emit_tests.rs"]
mod tests;
