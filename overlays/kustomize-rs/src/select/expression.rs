//! Regular expressions of Go's dialect.

use regex::{Regex, RegexBuilder};

use crate::error::{BuildError, BuildErrorKind};

/// Bytes a compiled expression may take.
const REGEX_SIZE: usize = 1 << 20;

/// Compiles an expression that is searched for anywhere in a text.
pub(crate) fn compile(pattern: &str) -> Result<Regex, BuildError> {
    RegexBuilder::new(&translate(pattern)).size_limit(REGEX_SIZE).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            BuildError::new(BuildErrorKind::Limit, format!("the regular expression `{pattern}` is too large"))
        }
        error => BuildError::syntax(format!("the regular expression `{pattern}` is wrong: {error}")),
    })
}

/// Writes a pattern of Go's dialect in that of the `regex` crate: classes are ASCII, braces that are no repetition and
/// set operators are plain characters.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut rest = pattern.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        match character {
            '\\' => {
                let next = rest.next().map(|(_, next)| next);
                match (next, in_class) {
                    (Some('d'), true) => out.push_str("0-9"),
                    (Some('w'), true) => out.push_str("0-9A-Za-z_"),
                    (Some('s'), true) => out.push_str("\\t\\n\\f\\r "),
                    (Some('d'), false) => out.push_str("[0-9]"),
                    (Some('D'), false) => out.push_str("[^0-9]"),
                    (Some('w'), false) => out.push_str("[0-9A-Za-z_]"),
                    (Some('W'), false) => out.push_str("[^0-9A-Za-z_]"),
                    (Some('s'), false) => out.push_str("[\\t\\n\\f\\r ]"),
                    (Some('S'), false) => out.push_str("[^\\t\\n\\f\\r ]"),
                    (Some('b'), false) => out.push_str("(?-u:\\b)"),
                    (Some(next), _) => out.extend(['\\', next]),
                    (None, _) => out.push('\\'),
                }
            }
            '{' if !in_class && !is_repetition(pattern.get(at..).unwrap_or_default()) => out.push_str("\\{"),
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if let Some((_, '^')) = rest.peek() {
                    rest.next();
                    out.push('^');
                }
                // A bracket that comes first is a character.
                if let Some((_, ']')) = rest.peek() {
                    rest.next();
                    out.push_str("\\]");
                }
            }
            '[' if !pattern.get(at..).unwrap_or_default().starts_with("[:") => out.push_str("\\["),
            '[' => {
                // A named class up to its own closing bracket.
                out.push('[');
                for (_, inner) in rest.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            '&' | '~' if in_class => out.extend(['\\', character]),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            other => out.push(other),
        }
    }
    out
}

/// `{n}`, `{n,}` or `{n,m}` at the start of `text`.
fn is_repetition(text: &str) -> bool {
    let Some((inside, _)) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match inside.split_once(',') {
        None => digits(inside),
        Some((least, most)) => digits(least) && (most.is_empty() || digits(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::pattern::Pattern;

    #[test]
    fn expressions_are_go_s() {
        let check = |pattern: &str, text: &str, expect: bool| {
            assert_eq!(Pattern::new(pattern).unwrap().is_match(text), expect, "{pattern} on {text}");
        };
        check("${A}-x", "${A}-x", false);
        check("\\${A}-x", "${A}-x", true);
        check("a{2}", "aa", true);
        check("a{,2}", "a{,2}", true);
        check("[[a&]+", "[a&", true);
        check("[]a]", "]", true);
        check("\\d+[\\d\\-]", "12-", true);
        check("\\d", "\u{661}", false);
        check("[[:alpha:]]", "x", true);
    }

    #[test]
    fn expressions_fit_whole_texts_and_stay_small() {
        assert!(Pattern::new("a|ab").unwrap().is_match("ab"));
        assert!(!Pattern::new("a").unwrap().is_match("ab"));
        assert_eq!(compile("((a{1000}){1000}){1000}").unwrap_err().kind, BuildErrorKind::Limit);
        assert_eq!(compile("(").unwrap_err().kind, BuildErrorKind::Syntax);
    }
}
