//! Kubernetes label selectors: `a=b, c in (d, e), !f`.

use yaml::Text;

use crate::error::BuildError;

/// One condition of a Kubernetes label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Requirement {
    Exists(String),
    Missing(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Greater(String, i64),
    Less(String, i64),
}

impl Requirement {
    /// Says whether labels or annotations meet the condition.
    pub(crate) fn fits(&self, pairs: &[(Text, Text)]) -> bool {
        let value = |key: &str| pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
        let number = |key: &str| value(key).and_then(|text| text.parse::<i64>().ok());
        match self {
            Self::Exists(key) => value(key).is_some(),
            Self::Missing(key) => value(key).is_none(),
            Self::In(key, values) => value(key).is_some_and(|text| values.iter().any(|wanted| wanted == text)),
            Self::NotIn(key, values) => value(key).is_none_or(|text| values.iter().all(|wanted| wanted != text)),
            Self::Greater(key, bound) => number(key).is_some_and(|number| number > *bound),
            Self::Less(key, bound) => number(key).is_some_and(|number| number < *bound),
        }
    }
}

/// What may stand between the words of a selector; no other blanks of Unicode.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

fn trimmed(text: &str) -> &str {
    text.trim_matches(BLANKS)
}

/// Reads the conditions of a selector.
pub(crate) fn requirements(text: &str) -> Result<Vec<Requirement>, BuildError> {
    let mut result = Vec::new();
    let mut rest = trimmed(text);
    while !rest.is_empty() {
        let end = split_point(rest);
        let (one, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        result.push(requirement(trimmed(one)).ok_or_else(|| {
            BuildError::syntax(format!("the selector `{text}` is wrong at `{}`", trimmed(one)))
                .hint("write `key=value`, `key!=value`, `key in (a, b)`, `key notin (a, b)`, `key` or `!key`")
        })?);
        rest = match after.strip_prefix(',') {
            Some(after) if trimmed(after).is_empty() => {
                return Err(BuildError::syntax(format!("the selector `{text}` ends in a comma")));
            }
            Some(after) => trimmed(after),
            None => "",
        };
    }
    Ok(result)
}

/// The first comma outside of parentheses.
fn split_point(text: &str) -> usize {
    let mut inside = false;
    for (at, character) in text.char_indices() {
        match character {
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => return at,
            _ => {}
        }
    }
    text.len()
}

fn requirement(text: &str) -> Option<Requirement> {
    if let Some(key) = text.strip_prefix('!') {
        return word(key).map(Requirement::Missing);
    }
    for (operator, negative) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = text.split_once(operator) {
            let (key, values) = (word(key)?, vec![value_word(value)?]);
            return Some(if negative { Requirement::NotIn(key, values) } else { Requirement::In(key, values) });
        }
    }
    if let Some((key, bound)) = text.split_once('>') {
        return Some(Requirement::Greater(word(key)?, trimmed(bound).parse().ok()?));
    }
    if let Some((key, bound)) = text.split_once('<') {
        return Some(Requirement::Less(word(key)?, trimmed(bound).parse().ok()?));
    }
    if let Some((head, set)) = text.split_once('(') {
        let values = trimmed(set).strip_suffix(')')?.split(',').map(value_word).collect::<Option<Vec<String>>>()?;
        let mut words = head.split(BLANKS).filter(|word| !word.is_empty());
        let (key, operator) = (words.next()?, words.next()?);
        return match (operator, words.next()) {
            ("in", None) => Some(Requirement::In(word(key)?, values)),
            ("notin", None) => Some(Requirement::NotIn(word(key)?, values)),
            _ => None,
        };
    }
    word(text).map(Requirement::Exists)
}

/// A key: an optional domain, a slash, a name of at most 63 letters, digits, `-`, `_`, `.`.
fn word(text: &str) -> Option<String> {
    let text = trimmed(text);
    let name = text.rsplit('/').next().unwrap_or_default();
    (!name.is_empty() && is_name(name) && text.matches('/').count() <= 1 && !text.contains(BLANKS))
        .then(|| text.to_owned())
}

fn value_word(text: &str) -> Option<String> {
    let text = trimmed(text);
    (text.is_empty() || is_name(text)).then(|| text.to_owned())
}

fn is_name(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= 63
        && edge(text.as_bytes().first())
        && edge(text.as_bytes().last())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selectors_are_those_of_kubernetes() {
        let pairs = [("a".into(), "1".into()), ("x/y".into(), "z".into())];
        let check = |text: &str, expect: bool| {
            let all = requirements(text).unwrap().iter().all(|requirement| requirement.fits(&pairs));
            assert_eq!(all, expect, "{text}");
        };
        check("", true);
        check("a", true);
        check("!a", false);
        check("a=1", true);
        check("a == 1, x/y=z", true);
        check("a!=1", false);
        check("b!=1", true);
        check("a in (1, 2)", true);
        check("a notin (1,2)", false);
        check("b notin (1)", true);
        check("a>0", true);
        check("a<1", false);
        for wrong in ["a=b=c", "a,", "a in 1", "-", "a b"] {
            assert!(requirements(wrong).is_err(), "{wrong}");
        }
    }
}
