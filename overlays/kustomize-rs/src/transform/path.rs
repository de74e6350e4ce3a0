//! Paths of replacements and variables: `spec.containers.[name=web].image`, `a.0`, `a.-`, `a.*`.

use yaml::Node;

use crate::error::BuildError;
use crate::schema::split_path;

/// Splits at dots; a backslash or brackets keep one. Brackets stay where they hold a condition.
pub(crate) fn split(path: &str) -> Vec<String> {
    let mut result = Vec::new();
    let mut parts = split_path(path, '.').into_iter();
    while let Some(part) = parts.next() {
        if !part.starts_with('[') || part.ends_with(']') {
            result.push(part);
            continue;
        }
        let mut bracketed = part;
        for next in parts.by_ref() {
            bracketed.push('.');
            bracketed.push_str(&next);
            if next.ends_with(']') {
                break;
            }
        }
        let condition = bracketed.contains('=');
        result.push(if condition { bracketed } else { bracketed.trim_matches(['[', ']']).to_owned() });
    }
    result
}

pub(super) fn condition(part: &str) -> Option<&str> {
    part.strip_prefix('[')?.strip_suffix(']')
}

pub(super) fn key_and_value(condition: &str) -> Result<(&str, &str), BuildError> {
    condition.split_once('=').ok_or_else(|| {
        BuildError::syntax(format!("`[{condition}]` is not a valid condition")).hint("write [field=value] or [=value]")
    })
}

pub(super) fn not_a(what: &str, part: &str) -> BuildError {
    BuildError::transform(format!("expected a {what} before `{part}`"))
}

pub(super) fn text_of(node: &Node) -> std::borrow::Cow<'_, str> {
    node.scalar_text().unwrap_or_default()
}

/// Finds the one node at `path`.
pub(crate) fn look_up<'n>(root: &'n Node, path: &[String]) -> Result<Option<&'n Node>, BuildError> {
    find(root, path, &mut |_| ())
}

/// The path by which the node at `path` is found as long as lists keep their order, whatever their items become.
pub(crate) fn place(root: &Node, path: &[String]) -> Result<Vec<String>, BuildError> {
    let mut place = Vec::new();
    find(root, path, &mut |step| place.push(step))?;
    Ok(place)
}

fn find<'n>(root: &'n Node, path: &[String], note: &mut dyn FnMut(String)) -> Result<Option<&'n Node>, BuildError> {
    let mut node = root;
    for part in path.iter().map(|part| part.trim()).filter(|part| !part.is_empty()) {
        let items = || node.as_sequence().ok_or_else(|| not_a("list", part));
        let item = if let Ok(index) = part.parse::<i64>() {
            items()?;
            let negative = |_| BuildError::syntax(format!("the index {index} is negative"));
            Some(usize::try_from(index).map_err(negative)?)
        } else if part == "-" {
            Some(items()?.len().wrapping_sub(1))
        } else if part == "*" {
            return Err(BuildError::syntax("`*` is not allowed in the path of a source"));
        } else if let Some(condition) = condition(part) {
            let (key, value) = key_and_value(condition)?;
            let is_it = |item: &Node| {
                let field = if key.is_empty() { Some(item) } else { item.get(key) };
                field.is_some_and(|field| text_of(field) == value)
            };
            Some(items()?.iter().position(is_it).unwrap_or(usize::MAX))
        } else {
            None
        };
        let next = match item {
            Some(index) => items()?.get(index),
            None if node.is_null() => None,
            None => node.as_mapping().ok_or_else(|| not_a("map", part))?.get(part),
        };
        match next {
            Some(next) => node = next,
            None => return Ok(None),
        }
        note(item.map_or_else(|| part.to_owned(), |index| index.to_string()));
    }
    Ok(Some(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_at_dots_outside_of_brackets() {
        let check = |path: &str, expect: &[&str]| assert_eq!(split(path), expect, "{path}");
        check("a.b.c", &["a", "b", "c"]);
        check("a.[name=x.y].b", &["a", "[name=x.y]", "b"]);
        check("metadata.annotations.[a.b/c]", &["metadata", "annotations", "a.b/c"]);
        check("a.b\\.c", &["a", "b.c"]);
    }
}
