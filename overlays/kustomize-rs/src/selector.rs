//! Which objects a patch or replacement means: anchored regular expressions, label and annotation selectors.

use regex::{Regex, RegexBuilder};

use crate::error::{BuildError, BuildErrorKind};
use crate::id::{Gvk, ResourceId};
use crate::pattern::Pattern;
use crate::resource::Resource;
use crate::schema::Schema;
use crate::yaml::Text;

/// A selector as written in a kustomization. Empty parts select everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// Regular expressions for group, version and kind.
    pub gvk: Gvk,
    /// Regular expression for the name.
    pub name: String,
    /// Regular expression for the namespace.
    pub namespace: String,
    /// Kubernetes label selector on annotations.
    pub annotation_selector: String,
    /// Kubernetes label selector.
    pub label_selector: String,
}

/// Bytes a compiled expression may take.
const REGEX_SIZE: usize = 1 << 20;

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

/// A selector ready for use.
#[derive(Debug)]
pub(crate) struct CompiledSelector {
    group: Option<Pattern>,
    version: Option<Pattern>,
    kind: Option<Pattern>,
    name: Option<Pattern>,
    namespace: Option<Pattern>,
    /// A selector that is wrong is an error only where an object is compared with it.
    labels: Result<Vec<Requirement>, BuildError>,
    annotations: Result<Vec<Requirement>, BuildError>,
    names_nothing: bool,
    has_no_metadata: bool,
}

impl Selector {
    pub(crate) fn compile(&self) -> Result<CompiledSelector, BuildError> {
        let part = |text: &str| if text.is_empty() { Ok(None) } else { Pattern::new(text).map(Some) };
        Ok(CompiledSelector {
            group: part(&self.gvk.group)?,
            version: part(&self.gvk.version)?,
            kind: part(&self.gvk.kind)?,
            name: part(&self.name)?,
            namespace: part(&self.namespace)?,
            labels: requirements(&self.label_selector),
            annotations: requirements(&self.annotation_selector),
            has_no_metadata: self.label_selector.is_empty() && self.annotation_selector.is_empty(),
            names_nothing: self.gvk == Gvk::default() && self.name.is_empty() && self.namespace.is_empty(),
        })
    }
}

fn fits(pattern: Option<&Pattern>, text: &str) -> bool {
    pattern.is_none_or(|pattern| pattern.is_match(text))
}

impl CompiledSelector {
    pub(crate) fn fits_gvk(&self, gvk: &Gvk) -> bool {
        fits(self.group.as_ref(), &gvk.group)
            && fits(self.version.as_ref(), &gvk.version)
            && fits(self.kind.as_ref(), &gvk.kind)
    }

    /// Says whether the selector gives no part of a name.
    pub(crate) fn names_nothing(&self) -> bool {
        self.names_nothing
    }

    /// Says whether it gives neither labels nor annotations.
    pub(crate) fn has_no_metadata(&self) -> bool {
        self.has_no_metadata
    }

    pub(crate) fn fits_id(&self, id: &ResourceId) -> bool {
        self.fits_gvk(&id.gvk) && fits(self.name.as_ref(), &id.name) && fits(self.namespace.as_ref(), &id.namespace)
    }

    pub(crate) fn fits_metadata(&self, resource: &Resource) -> Result<bool, BuildError> {
        let all = |requirements: &Result<Vec<Requirement>, BuildError>, field: &str| {
            let requirements = requirements.as_ref().map_err(Clone::clone)?;
            Ok(requirements.is_empty() || {
                let pairs = resource.metadata_map(field);
                requirements.iter().all(|requirement| requirement.fits(&pairs))
            })
        };
        Ok(all(&self.labels, "labels")? && all(&self.annotations, "annotations")?)
    }

    /// Says whether a patch with this target means the object: original or current name and namespace.
    pub(crate) fn selects(&self, resource: &Resource, schema: &Schema) -> Result<bool, BuildError> {
        if !self.fits_gvk(&resource.gvk()) {
            return Ok(false);
        }
        let (current, original) = (resource.id(schema), resource.original_id(schema));
        let either = |pattern: Option<&Pattern>, a: &str, b: &str| fits(pattern, a) || fits(pattern, b);
        let named = either(self.namespace.as_ref(), original.effective_namespace(), current.effective_namespace())
            && either(self.name.as_ref(), &original.name, &current.name);
        Ok(named && self.fits_metadata(resource)?)
    }
}

/// One condition of a Kubernetes label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Missing(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Greater(String, i64),
    Less(String, i64),
}

impl Requirement {
    fn fits(&self, pairs: &[(Text, Text)]) -> bool {
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

fn requirements(text: &str) -> Result<Vec<Requirement>, BuildError> {
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
