//! What each operation makes of a value, byte for byte as the Go library.
//!
//! Values are bytes, because `${name:0:1}` may cut a character in two and the next expression may bring the rest.

use super::allowance::{Allowance, Exhausted};
use super::expression::Operation;
use super::glob::{self, Stop, decode};

/// Applies an operation to a value with its arguments.
pub(super) fn apply(
    operation: Operation,
    value: &[u8],
    arguments: &[Vec<u8>],
    allowance: &Allowance,
) -> Result<Vec<u8>, Exhausted> {
    allowance.copy(value.len())?;
    let first = arguments.first().map(Vec::as_slice).unwrap_or_default();
    let second = arguments.get(1).map(Vec::as_slice);
    let out = match operation {
        Operation::Default if value.is_empty() => arguments.concat(),
        Operation::Value | Operation::Default => value.to_vec(),
        Operation::Length => value.len().to_string().into_bytes(),
        Operation::Lower => each(value, lower),
        Operation::Upper => each(value, upper),
        Operation::LowerFirst => only_first(value, lower),
        Operation::UpperFirst => only_first(value, upper),
        Operation::Substring => substring(value, first, second).to_vec(),
        Operation::TrimShortestPrefix => without_prefix(value, first, false, allowance)?.to_vec(),
        Operation::TrimLongestPrefix => without_prefix(value, first, true, allowance)?.to_vec(),
        Operation::TrimShortestSuffix => without_suffix(value, first, false, allowance)?,
        Operation::TrimLongestSuffix => without_suffix(value, first, true, allowance)?,
        Operation::ReplaceFirst => replace(value, first, second.unwrap_or_default(), 1, allowance)?,
        Operation::ReplaceAll => replace(value, first, second.unwrap_or_default(), usize::MAX, allowance)?,
        Operation::ReplacePrefix => match second {
            Some(new) if value.starts_with(first) => replace(value, first, new, 1, allowance)?,
            _ => value.to_vec(),
        },
        Operation::ReplaceSuffix => match (second, value.strip_suffix(first)) {
            (Some(new), Some(start)) => [start, new].concat(),
            _ => value.to_vec(),
        },
    };
    allowance.grow(out.len(), out.len())?;
    Ok(out)
}

fn characters(bytes: &[u8]) -> impl Iterator<Item = char> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (character, width) = decode(rest);
        rest = rest.get(width..).unwrap_or_default();
        Some(character)
    })
}

fn each(value: &[u8], change: impl Fn(char) -> char) -> Vec<u8> {
    characters(value).map(change).collect::<String>().into_bytes()
}

fn only_first(value: &[u8], change: impl Fn(char) -> char) -> Vec<u8> {
    if value.is_empty() {
        return Vec::new();
    }
    let (character, width) = decode(value);
    let mut changed = change(character).to_string().into_bytes();
    changed.extend_from_slice(value.get(width..).unwrap_or_default());
    changed
}

/// Go changes one character to one; Rust knows longer forms too.
fn lower(character: char) -> char {
    let mut forms = character.to_lowercase();
    match (forms.next(), forms.next()) {
        (Some(only), None) => only,
        _ if character == 'İ' => 'i',
        _ => character,
    }
}

fn upper(character: char) -> char {
    let mut forms = character.to_uppercase();
    match (forms.next(), forms.next(), character) {
        (Some(only), None, _) => only,
        // Greek letters with an iota below, whose single upper case form is the title case one.
        (.., '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}') => later(character, 8),
        (.., '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}') => later(character, 9),
        _ => character,
    }
}

fn later(character: char, by: u32) -> char {
    char::from_u32(u32::from(character) + by).unwrap_or(character)
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// What is not a number leaves the value as it is.
fn substring<'v>(value: &'v [u8], offset: &[u8], length: Option<&[u8]>) -> &'v [u8] {
    let size = i64::try_from(value.len()).unwrap_or(i64::MAX);
    let Some(offset) = number(offset) else {
        return value;
    };
    let start = if offset < 0 { size.saturating_add(offset).max(0) } else { offset };
    let end = match length.map(number) {
        None => size,
        Some(None) => return value,
        Some(Some(length)) if length < 0 => size.saturating_add(length),
        Some(Some(length)) => start.saturating_add(length).min(size),
    };
    let index = |at: i64| usize::try_from(at).ok();
    index(start).zip(index(end)).and_then(|(start, end)| value.get(start..end)).unwrap_or_default()
}

/// The value without its shortest or longest beginning that matches; an empty beginning does not count.
fn without_prefix<'v>(
    value: &'v [u8],
    pattern: &[u8],
    longest: bool,
    allowance: &Allowance,
) -> Result<&'v [u8], Exhausted> {
    let mut found = 0;
    for end in (1..=value.len()).rev() {
        match glob::matches(pattern, value.get(..end).unwrap_or_default(), allowance) {
            Ok(false) => {}
            Ok(true) => {
                found = end;
                if longest {
                    break;
                }
            }
            Err(Stop::BadPattern) => return Ok(value),
            Err(Stop::Exhausted) => return Err(Exhausted),
        }
    }
    Ok(value.get(found..).unwrap_or_default())
}

/// As the Go library does it: the reversed beginning of the reversed value, with the pattern reversed as it stands, so
/// that classes and escapes do not survive.
fn without_suffix(value: &[u8], pattern: &[u8], longest: bool, allowance: &Allowance) -> Result<Vec<u8>, Exhausted> {
    let reversed = |bytes: &[u8]| {
        let all: Vec<char> = characters(bytes).collect();
        all.into_iter().rev().collect::<String>().into_bytes()
    };
    Ok(reversed(without_prefix(&reversed(value), &reversed(pattern), longest, allowance)?))
}

/// Replaces at most `most` occurrences. The empty text occurs before every character and at the end.
fn replace(value: &[u8], old: &[u8], new: &[u8], most: usize, allowance: &Allowance) -> Result<Vec<u8>, Exhausted> {
    let mut out = Vec::new();
    let mut rest = value;
    for count in 0..most {
        let skipped = if old.is_empty() {
            match (count, rest) {
                (0, _) => 0,
                (_, []) => break,
                _ => decode(rest).1,
            }
        } else {
            match find(rest, old, allowance)? {
                Some(at) => at,
                None => break,
            }
        };
        out.extend_from_slice(rest.get(..skipped).unwrap_or_default());
        out.extend_from_slice(new);
        rest = rest.get(skipped + old.len()..).unwrap_or_default();
        allowance.copy(new.len())?;
        allowance.grow(0, out.len())?;
    }
    out.extend_from_slice(rest);
    Ok(out)
}

fn find(text: &[u8], wanted: &[u8], allowance: &Allowance) -> Result<Option<usize>, Exhausted> {
    if let (Ok(text), Ok(wanted)) = (std::str::from_utf8(text), std::str::from_utf8(wanted)) {
        return Ok(text.find(wanted));
    }
    allowance.spend(text.len().saturating_mul(wanted.len()))?;
    Ok(text.windows(wanted.len()).position(|window| window == wanted))
}
