//! What the characters of a text allow.

/// Line breaks of YAML 1.1, which make a key unfit for one line.
pub(super) const BREAKS: &[char] = &['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// Says whether a text is made of letters, digits and signs that mean nothing in YAML.
pub(super) fn is_word(text: &str) -> bool {
    const INSIDE: [bool; 256] = {
        let mut inside = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            #[allow(clippy::cast_possible_truncation, clippy::indexing_slicing, reason = "below 256")]
            {
                inside[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'.' | b'/' | b'_' | b'-');
            }
            byte += 1;
        }
        inside
    };
    !text.starts_with(['.', '-']) && text.bytes().all(|byte| INSIDE.get(usize::from(byte)) == Some(&true))
}

/// Characters that only stand escaped.
pub(crate) fn needs_escape(character: char) -> bool {
    match character {
        '"' | '\\' => true,
        ' '..='~' => false,
        '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}' => true,
        '\u{A0}'..='\u{FFFD}' => false,
        _ => true,
    }
}

/// What a text's characters allow.
pub(super) struct Shape {
    /// Without quotes.
    pub(super) plain_allowed: bool,
    /// As a literal block.
    pub(super) block_allowed: bool,
    /// Holds a character that is only safe in double quotes.
    pub(super) special: bool,
}

impl Shape {
    pub(super) fn of(text: &str) -> Self {
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
