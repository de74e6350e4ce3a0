//! The order of keys in the output.
//!
//! go-yaml compares letters after everything else and runs of digits by value. That is no order for some sets of keys
//! (`19 < 20 < 2a < 19`), for which kustomize's output changes from run to run. Here such sets fall back to a fixed
//! order, so that equal input always gives equal bytes.

use super::node::{Entry, Mapping};
use std::cmp::Ordering;

/// Compares two keys by go-yaml's rule alone. Not transitive for every set of keys.
pub fn compare_keys(left: &str, right: &str) -> Ordering {
    let shared = left.bytes().zip(right.bytes()).take_while(|(a, b)| a == b).count();
    // Back to a character boundary, which equal bytes before it make the same on both sides.
    let start = (0..=shared).rev().find(|&at| left.is_char_boundary(at) && right.is_char_boundary(at)).unwrap_or(0);
    let (common, left_rest) = left.split_at_checked(start).unwrap_or(("", left));
    let right_rest = right.get(start..).unwrap_or_default();
    let (Some(a), Some(b)) = (left_rest.chars().next(), right_rest.chars().next()) else {
        return left_rest.len().cmp(&right_rest.len());
    };
    match (a.is_alphabetic() && is_letter(a), b.is_alphabetic() && is_letter(b)) {
        (true, true) => return a.cmp(&b),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // Inside a number that has begun with a significant digit, zeros keep their place value.
    let inside_number =
        (a == '0' || b == '0') && common.chars().rev().take_while(|digit| is_digit(*digit)).any(|digit| digit != '0');
    let base = i64::from(inside_number);
    let (left_value, left_length) = digits(left_rest, base);
    let (right_value, right_length) = digits(right_rest, base);
    left_value.cmp(&right_value).then(left_length.cmp(&right_length)).then(a.cmp(&b))
}

/// Go counts letters by category L; `is_alphabetic` also has marks and letter numbers.
fn is_letter(character: char) -> bool {
    character.is_ascii_alphabetic() || (!character.is_ascii() && !character.is_numeric())
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit() || (!character.is_ascii() && character.is_numeric())
}

fn digits(text: &str, base: i64) -> (i64, usize) {
    text.chars().take_while(|digit| is_digit(*digit)).fold((base, 0), |(value, length), digit| {
        let digit = i64::from(u32::from(digit)) - i64::from(u32::from('0'));
        (value.wrapping_mul(10).wrapping_add(digit), length + 1)
    })
}

/// The entries sorted by key, or `None` where they are sorted already: go-yaml's order where it is one for this set, else
/// a fixed order near it.
///
/// Where digits could make the rule inconsistent, the standard sort is not safe to use: a merge sort that starts from
/// byte order always ends, and always in the same place.
pub(super) fn sorted_entries(mapping: &Mapping) -> Option<Vec<&Entry>> {
    if mapping.iter().all(|entry| is_plain(&entry.key)) {
        if mapping.iter().is_sorted_by(|a, b| compare_plain(&a.key, &b.key).is_le()) {
            return None;
        }
        let mut entries: Vec<&Entry> = mapping.iter().collect();
        entries.sort_by(|a, b| compare_plain(&a.key, &b.key));
        return Some(entries);
    }
    let mut entries: Vec<&Entry> = mapping.iter().collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let mut width = 1;
    while width < entries.len() {
        let mut merged: Vec<&Entry> = Vec::with_capacity(entries.len());
        for pair in entries.chunks(width * 2) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            merge(left, right, &mut merged);
        }
        entries = merged;
        width *= 2;
    }
    Some(entries)
}

/// As [`compare_keys`], for keys that are [plain](is_plain): letters come last.
fn compare_plain(left: &str, right: &str) -> Ordering {
    match left.bytes().zip(right.bytes()).find(|(a, b)| a != b) {
        Some((a, b)) => a.is_ascii_alphabetic().cmp(&b.is_ascii_alphabetic()).then(a.cmp(&b)),
        None => left.len().cmp(&right.len()),
    }
}

fn merge<'a>(mut left: &[&'a Entry], mut right: &[&'a Entry], merged: &mut Vec<&'a Entry>) {
    while let (Some((a, left_rest)), Some((b, right_rest))) = (left.split_first(), right.split_first()) {
        if compare_keys(&b.key, &a.key).is_lt() {
            merged.push(b);
            right = right_rest;
        } else {
            merged.push(a);
            left = left_rest;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
}

/// Without digits the rule is an order, character by character.
fn is_plain(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::node::Node;
    use super::*;

    #[test]
    fn letters_come_last_and_digits_count() {
        let order = ["a-1", "a.b", "a_1", "a1", "a2", "a02", "a10", "aB", "ab"];
        for (at, left) in order.iter().enumerate() {
            for right in &order[at + 1..] {
                assert_eq!(compare_keys(left, right), Ordering::Less, "{left} {right}");
                assert_eq!(compare_keys(right, left), Ordering::Greater, "{right} {left}");
            }
        }
        assert_eq!(compare_keys("file9", "file10"), Ordering::Less);
        assert_eq!(compare_keys("same", "same"), Ordering::Equal);
    }

    fn sorted(keys: &[&str]) -> Vec<String> {
        let mapping: Mapping = keys.iter().map(|key| (*key, Node::default())).collect();
        let key = |entry: &Entry| entry.key.to_string();
        match sorted_entries(&mapping) {
            Some(sorted) => sorted.into_iter().map(key).collect(),
            None => mapping.iter().map(key).collect(),
        }
    }

    #[test]
    fn plain_keys_are_compared_by_the_same_rule() {
        let keys = ["", "a", "A", "b", "ab", "a-b", "a.b", "a_b", "-", "_", "a/", "aB", "zz"];
        for left in keys {
            for right in keys {
                assert_eq!(compare_plain(left, right), compare_keys(left, right), "{left} {right}");
            }
        }
    }

    #[test]
    fn sets_without_an_order_are_sorted_the_same_from_every_start() {
        let first = sorted(&["19", "20", "2a", "11", "1a", "9-"]);
        assert_eq!(first, sorted(&["9-", "2a", "1a", "20", "19", "11"]));
    }

    #[test]
    fn sets_with_an_order_get_it() {
        assert_eq!(sorted(&["b10", "b9", "a", "b1", "_", "b"]), ["_", "a", "b", "b1", "b9", "b10"]);
        assert_eq!(sorted(&["b", "B", "a", "_"]), ["_", "B", "a", "b"]);
    }
}
