//! Paths of replacements and variables: `spec.containers.[name=web].image`, `a.0`, `a.-`, `a.*`.

use crate::error::BuildError;
use crate::schema::split_path;
use crate::selector::compile;
use crate::yaml::{Limits, Mapping, Node, Value, compose};

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

fn condition(part: &str) -> Option<&str> {
    part.strip_prefix('[')?.strip_suffix(']')
}

fn key_and_value(condition: &str) -> Result<(&str, &str), BuildError> {
    condition.split_once('=').ok_or_else(|| {
        BuildError::syntax(format!("`[{condition}]` is no condition")).hint("write [field=value] or [=value]")
    })
}

fn not_a(what: &str, part: &str) -> BuildError {
    BuildError::transform(format!("expected a {what} before `{part}`"))
}

fn text_of(node: &Node) -> std::borrow::Cow<'_, str> {
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

/// What is made at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Make {
    Scalar,
    Sequence,
    Mapping,
}

impl Make {
    /// The kind of `node`.
    pub(crate) fn like(node: &Node) -> Self {
        match node.value {
            Value::Sequence(_) => Self::Sequence,
            Value::Mapping(_) => Self::Mapping,
            _ => Self::Scalar,
        }
    }

    fn node(self) -> Node {
        match self {
            Self::Scalar => Node::default(),
            Self::Sequence => Node::from(Vec::new()),
            Self::Mapping => Node::from(Mapping::new()),
        }
    }

    /// What stands before `next`.
    fn before(next: Option<&String>, last: Self) -> Self {
        match next {
            None => last,
            Some(part) if condition(part).is_some() || part.parse::<usize>().is_ok() => Self::Sequence,
            Some(part) if part.is_empty() => last,
            Some(_) => Self::Mapping,
        }
    }
}

/// Called with a node that a path leads to, and whether it was just made.
pub(crate) type Visit<'f> = dyn FnMut(&mut Node, bool) -> Result<(), BuildError> + 'f;

/// Calls `visit` on every node that `path` leads to, making what is missing if `make` says so; returns how many.
pub(crate) fn visit(
    node: &mut Node,
    path: &[String],
    make: Option<Make>,
    is_new: bool,
    visit_one: &mut Visit<'_>,
) -> Result<usize, BuildError> {
    let Some((part, rest)) = path.split_first() else {
        visit_one(node, is_new)?;
        return Ok(1);
    };
    if let Ok(index) = part.parse::<usize>() {
        return visit_index(node, (part, index), rest, make, visit_one);
    }
    if let Some(condition) = condition(part) {
        return visit_condition(node, condition, rest, make, visit_one);
    }
    if part == "*" {
        let items = node.as_sequence_mut().ok_or_else(|| not_a("list", part))?;
        return items.iter_mut().try_fold(0, |count, item| Ok(count + visit(item, rest, make, false, visit_one)?));
    }
    if node.is_null() {
        return match make {
            Some(_) if is_new => {
                *node = Node::from(Mapping::new());
                visit(node, path, make, false, visit_one)
            }
            _ => Ok(0),
        };
    }
    let mapping = node.as_mapping_mut().filter(|_| !part.is_empty()).ok_or_else(|| not_a("map", part))?;
    if let Some(field) = mapping.get_mut(part) {
        let nothing = field.is_null() && (make.is_none() || text_of(field).is_empty());
        if field.is_scalar() && !nothing && !rest.is_empty() {
            // kustomize goes on in what the text says, and changes only what it has read.
            return match compose(&field.to_text(), &Limits::default()) {
                Some(read) if read.root.is_null() && make.is_some() => Ok(1),
                Some(mut read) => visit(&mut read.root, rest, make, false, visit_one),
                None => Err(not_a("map or list", rest.first().map_or("", String::as_str))),
            };
        }
        return visit(field, rest, make, false, visit_one);
    }
    let Some(last) = make else {
        return Ok(0);
    };
    let field = mapping.get_or_insert_with(part, || Make::before(rest.first(), last).node());
    visit(field, rest, make, true, visit_one)
}

fn visit_index(
    node: &mut Node,
    (part, index): (&str, usize),
    rest: &[String],
    make: Option<Make>,
    visit_one: &mut Visit<'_>,
) -> Result<usize, BuildError> {
    let items = node.as_sequence_mut().ok_or_else(|| not_a("list", part))?;
    let mut is_new = false;
    if let (Some(last), true) = (make, items.len() == index) {
        items.push(Make::before(rest.first(), last).node());
        is_new = true;
    }
    let count = items.len();
    let item = items
        .get_mut(index)
        .ok_or_else(|| BuildError::transform(format!("there is no item {index} in a list of {count}")))?;
    visit(item, rest, make, is_new, visit_one)
}

fn visit_condition(
    node: &mut Node,
    condition: &str,
    rest: &[String],
    make: Option<Make>,
    visit_one: &mut Visit<'_>,
) -> Result<usize, BuildError> {
    let (key, value) = key_and_value(condition)?;
    let pattern = compile(value)?;
    let items = node.as_sequence_mut().ok_or_else(|| not_a("list", condition))?;
    let mut count = 0;
    for item in items.iter_mut() {
        if key.is_empty() {
            if pattern.is_match(text_of(item).trim()) {
                visit_one(item, false)?;
                count += 1;
            }
        } else if item.get(key).is_some_and(|field| pattern.is_match(text_of(field).trim())) {
            count += visit(item, rest, make, false, visit_one)?;
        }
    }
    if count > 0 || make.is_none() {
        return Ok(count);
    }
    let mut item = super::plain_scalar(value);
    if key.is_empty() {
        visit_one(&mut item, true)?;
        items.push(item);
        return Ok(1);
    }
    let mut mapping = Mapping::new();
    mapping.insert(key, item);
    let mut item = Node::from(mapping);
    let count = visit(&mut item, rest, make, false, visit_one)?;
    items.push(item);
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{emit, parse};

    #[test]
    fn paths_split_at_dots_outside_of_brackets() {
        let check = |path: &str, expect: &[&str]| assert_eq!(split(path), expect, "{path}");
        check("a.b.c", &["a", "b", "c"]);
        check("a.[name=x.y].b", &["a", "[name=x.y]", "b"]);
        check("metadata.annotations.[a.b/c]", &["metadata", "annotations", "a.b/c"]);
        check("a.b\\.c", &["a", "b.c"]);
    }

    #[test]
    fn targets_are_found_and_made() {
        let check = |source: &str, path: &str, make: Option<Make>, expect: &str| {
            let mut node = parse(source, &Limits::default()).unwrap().remove(0).root;
            let result = visit(&mut node, &split(path), make, false, &mut |node, _| {
                *node = Node::from("v");
                Ok(())
            });
            let text = result.map_or_else(|error| error.message, |count| format!("{count}\n{}", emit(&node)));
            assert_eq!(text, expect, "{path} in {source}");
        };
        check("a: {b: 1}", "a.b", None, "1\na:\n  b: v\n");
        check("a: {b: 1}", "a.c", None, "0\na:\n  b: 1\n");
        check("a: {b: 1}", "a.c.d", Some(Make::Scalar), "1\na:\n  b: 1\n  c:\n    d: v\n");
        check("a: [{b: 1}, {b: 2}]", "a.*.b", None, "2\na:\n- b: v\n- b: v\n");
        check("a: [{n: x, b: 1}]", "a.[n=x].b", None, "1\na:\n- b: v\n  \"n\": x\n");
        check("a: [{n: x}]", "a.[n=z].b", Some(Make::Scalar), "1\na:\n- \"n\": x\n- b: v\n  \"n\": z\n");
        check("a: [1]", "a.3", None, "there is no item 3 in a list of 1");
        check("a: 1", "a.b", None, "expected a map before `b`");
        check("a: 'b: 1'", "a.b", None, "1\na: 'b: 1'\n");
    }
}
