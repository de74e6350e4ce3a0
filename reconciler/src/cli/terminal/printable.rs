//! What a terminal is never given: control characters of files, names and messages. Whoever writes them could move its cursor, name its
//! window or hide what stands there.

use std::borrow::Cow;

/// The text with each control character as its escape, as `\u001b`, but for line ends, tabs and the styles of [`super::paint`]. Characters
/// that turn the direction of a text are escaped too: with them a line reads otherwise than it is (CVE-2021-42574).
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(style) = style(rest) {
            shown.push_str(style);
            rest = rest.get(style.len()..).unwrap_or_default();
            continue;
        }
        if is_escaped(character) {
            shown.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            shown.push(character);
        }
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
    }
    Cow::Owned(shown)
}

fn is_escaped(character: char) -> bool {
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (character.is_control() && !matches!(character, '\n' | '\t'))
}

/// The style with which a text begins: bold, dimmed, inverted, one of the eight colours, or none any more.
fn style(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("\u{1b}[")?;
    let end = inner.find('m')?;
    let codes = inner.get(..end)?;
    let is_known =
        |code: &str| matches!(code, "" | "0" | "1" | "2" | "7") || matches!(code.as_bytes(), [b'3', b'0'..=b'7']);
    codes.split(';').all(is_known).then(|| text.get(..end + 3)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::terminal::paint::{self, of_state, painted};

    #[test]
    fn what_steers_a_terminal_is_shown_and_not_obeyed() {
        for (text, expected) in [
            ("a\tb\n", "a\tb\n"),
            ("\u{1b}[2J\u{1b}[H", "\\u001b[2J\\u001b[H"),
            ("\u{1b}[8mhidden", "\\u001b[8mhidden"),
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("over\rwritten\u{8}", "over\\u000dwritten\\u0008"),
            ("\u{9b}31m", "\\u009b31m"),
            ("v1\u{202e}1v", "v1\\u202e1v"),
            ("\u{1b}", "\\u001b"),
            ("größe ✓", "größe ✓"),
        ] {
            assert_eq!(printable(text), expected);
        }
    }

    #[test]
    fn styles_of_ours_stay() {
        let styles = [paint::ADDED, paint::REMOVED, paint::NAME, paint::SOFT, paint::ATTENTION];
        let states = ["done", "running", "waiting", "held", "failed"].map(|state| of_state(state).unwrap().1);
        for style in styles.into_iter().chain(states) {
            let text = painted(style, "x");
            assert_eq!(printable(&text), text);
        }
    }
}
