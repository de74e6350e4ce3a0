//! Regular expressions of Go's dialect that must fit a whole text.
//!
//! Nearly all of them are plain names, which need no engine: compiling one costs more than the rest of a small build.

use regex::Regex;

use crate::error::BuildError;
use crate::select::expression::compile;

/// An anchored expression.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// Characters that mean themselves, and points that mean any character.
    Name(Name),
    Regex(Regex),
}

/// A text in which a point stands for any character but a line break, as it does in an expression.
#[derive(Debug, Clone)]
pub(crate) struct Name(String);

impl Name {
    /// Takes an expression that is no more than that.
    pub(crate) fn new(pattern: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/' | b'.' | b':' | b'@');
        pattern.bytes().all(plain).then(|| Self(pattern.to_owned()))
    }

    /// Returns what follows the name in a text that begins with it.
    pub(crate) fn rest<'t>(&self, text: &'t str) -> Option<&'t str> {
        if let Some(rest) = text.strip_prefix(self.0.as_str()) {
            return Some(rest);
        }
        if text.is_ascii() {
            // Names differ at the end more often than at the start.
            let (found, rest) = text.split_at_checked(self.0.len())?;
            let fits = |(found, wanted): (u8, u8)| found == wanted || wanted == b'.' && found != b'\n';
            return found.bytes().zip(self.0.bytes()).rev().all(fits).then_some(rest);
        }
        let mut found = text.chars();
        for wanted in self.0.chars() {
            let character = found.next()?;
            if character != wanted && (wanted != '.' || character == '\n') {
                return None;
            }
        }
        Some(found.as_str())
    }
}

impl Pattern {
    /// Reads an expression.
    pub(crate) fn new(pattern: &str) -> Result<Self, BuildError> {
        match Name::new(pattern) {
            Some(name) => Ok(Self::Name(name)),
            None => compile(&format!("^(?:{pattern})$")).map(Self::Regex),
        }
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Name(name) => name.rest(text).is_some_and(str::is_empty),
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_expressions_fit_whole_texts() {
        let check = |pattern: &str, text: &str, expect: bool| {
            assert_eq!(Pattern::new(pattern).unwrap().is_match(text), expect, "{pattern} on {text:?}");
        };
        check("web", "web", true);
        check("web", "webs", false);
        check("w.b", "wéb", true);
        check("w.b", "w\nb", false);
        check("web.*", "webs", true);
        check("a|ab", "ab", true);
    }

    proptest! {
        #[test]
        fn a_name_fits_what_its_expression_fits(pattern in "[a-b./:@-]{0,5}", text in "[a-b./:@é\n-]{0,5}") {
            let regex = compile(&format!("^(?:{pattern})$")).unwrap();
            prop_assert_eq!(Pattern::new(&pattern).unwrap().is_match(&text), regex.is_match(&text));
        }
    }
}
