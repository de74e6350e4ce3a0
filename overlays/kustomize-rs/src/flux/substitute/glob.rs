//! The patterns of the trimming operations: `*` for any characters, `?` for one, `[a-z]` and `[^a-z]` for one of a class,
//! `\` before a character that means itself. Unlike in file names, `*` and `?` also match `/`.
//!
//! A pattern that is wrong is noticed only when a comparison reaches the place, as in Go, and then nothing is trimmed.

use super::allowance::{Allowance, Exhausted};

/// Why a comparison has no result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The pattern cannot be read.
    BadPattern,
    /// It would cost too much.
    Exhausted,
}

impl From<Exhausted> for Stop {
    fn from(_: Exhausted) -> Self {
        Self::Exhausted
    }
}

/// Says whether `pattern` matches all of `text`.
pub(super) fn matches(pattern: &[u8], text: &[u8], allowance: &Allowance) -> Result<bool, Stop> {
    let (mut pattern, mut text) = (pattern, text);
    'pieces: while !pattern.is_empty() {
        let stars = pattern.iter().take_while(|byte| **byte == b'*').count();
        let (piece, behind) = split_piece(pattern.get(stars..).unwrap_or_default());
        if stars > 0 && piece.is_empty() {
            return Ok(true);
        }
        // The last piece has to reach the end of the text.
        let fits = |left: &[u8]| left.is_empty() || !behind.is_empty();
        let last_start = if stars > 0 { text.len() } else { 0 };
        for start in 0..=last_start {
            if let Some(left) = match_piece(piece, text.get(start..).unwrap_or_default(), allowance)?
                && fits(left)
            {
                (pattern, text) = (behind, left);
                continue 'pieces;
            }
        }
        return Ok(false);
    }
    Ok(text.is_empty())
}

/// Splits before the next `*` outside of a class.
fn split_piece(pattern: &[u8]) -> (&[u8], &[u8]) {
    let mut in_class = false;
    let mut at = 0;
    while let Some(byte) = pattern.get(at) {
        match byte {
            b'\\' if at + 1 < pattern.len() => at += 1,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'*' if !in_class => break,
            _ => {}
        }
        at += 1;
    }
    pattern.split_at_checked(at).unwrap_or((pattern, &[]))
}

/// Matches a pattern without stars at the beginning of `text`; returns what is left of it.
fn match_piece<'t>(piece: &[u8], text: &'t [u8], allowance: &Allowance) -> Result<Option<&'t [u8]>, Stop> {
    let (mut piece, mut text) = (piece, text);
    allowance.spend(1)?;
    while let Some((first, mut behind)) = piece.split_first() {
        allowance.spend(1)?;
        let Some((byte, text_behind)) = text.split_first() else {
            return Ok(None);
        };
        match first {
            b'[' => {
                let (character, width) = decode(text);
                let (matched, after) = match_class(behind, character)?;
                if !matched {
                    return Ok(None);
                }
                (piece, text) = (after, text.get(width..).unwrap_or_default());
            }
            b'?' => {
                let (_, width) = decode(text);
                (piece, text) = (behind, text.get(width..).unwrap_or_default());
            }
            _ => {
                let mut literal = first;
                if *first == b'\\' {
                    (literal, behind) = behind.split_first().ok_or(Stop::BadPattern)?;
                }
                if literal != byte {
                    return Ok(None);
                }
                (piece, text) = (behind, text_behind);
            }
        }
    }
    Ok(Some(text))
}

/// Compares with the class that begins behind its `[`; returns the pattern behind its `]` too.
fn match_class(class: &[u8], character: char) -> Result<(bool, &[u8]), Stop> {
    let (negated, mut class) = match class.split_first() {
        Some((b'^', behind)) => (true, behind),
        _ => (false, class),
    };
    let (mut found, mut ranges) = (false, 0);
    loop {
        if ranges > 0
            && let Some((b']', behind)) = class.split_first()
        {
            return Ok((found != negated, behind));
        }
        let (low, after) = class_character(class)?;
        let (mut high, mut after) = (low, after);
        if let Some((b'-', behind)) = after.split_first() {
            (high, after) = class_character(behind)?;
        }
        found |= (low..=high).contains(&character);
        ranges += 1;
        class = after;
    }
}

/// One character of a class, after which there must be more.
fn class_character(class: &[u8]) -> Result<(char, &[u8]), Stop> {
    let start = match class.split_first() {
        None | Some((b'-' | b']', _)) => return Err(Stop::BadPattern),
        Some((b'\\', behind)) => behind,
        Some(_) => class,
    };
    let (character, width) = decode(start);
    let behind = start.get(width..).unwrap_or_default();
    if behind.is_empty() || (character == char::REPLACEMENT_CHARACTER && width == 1) {
        return Err(Stop::BadPattern);
    }
    Ok((character, behind))
}

/// The first character and its width; a byte that is no UTF-8 is a replacement character of width 1, as in Go.
pub(super) fn decode(bytes: &[u8]) -> (char, usize) {
    (1..=4)
        .filter_map(|width| std::str::from_utf8(bytes.get(..width)?).ok()?.chars().next())
        .next()
        .map_or((char::REPLACEMENT_CHARACTER, 1), |character| (character, character.len_utf8()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn patterns_match_as_in_the_shell_and_stars_cross_slashes() {
        let check = |pattern: &str, text: &str, expect: Result<bool, Stop>| {
            let found = matches(pattern.as_bytes(), text.as_bytes(), &Allowance::default());
            assert_eq!(found, expect, "{pattern} on {text}");
        };
        check("abc", "abc", Ok(true));
        check("*", "a/b", Ok(true));
        check("a*c", "abcbc", Ok(true));
        check("a*b", "abcbc", Ok(false));
        check("*b*", "abc", Ok(true));
        check("?", "é", Ok(true));
        check("??", "é", Ok(false));
        check("[a-c]?", "bx", Ok(true));
        check("[^a-c]?", "bx", Ok(false));
        check("[a-]", "-", Err(Stop::BadPattern));
        check("[]a]", "]", Err(Stop::BadPattern));
        check("[", "", Ok(false));
        check("a[", "b", Ok(false));
        check("[a*]", "*", Ok(true));
        check("\\*", "*", Ok(true));
        check("\\*", "x", Ok(false));
        check("a\\", "ab", Err(Stop::BadPattern));
        check("", "", Ok(true));
    }

    #[test]
    fn an_expensive_comparison_is_given_up() {
        let text = "a".repeat(10_000);
        let found = matches(b"*a*a*a*b", text.as_bytes(), &Allowance::new(Budget::new(1_000, 1 << 20), 1 << 20));
        assert_eq!(found, Err(Stop::Exhausted));
    }
}
