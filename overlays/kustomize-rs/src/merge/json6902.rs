//! JSON patch (RFC 6902) with the extensions of the Go library: negative indices count from the end.

use yaml::json::to_json;
use yaml::{Limits, Node, Rules, Value, parse_with};

use crate::budget::Budget;
use crate::error::{BuildError, BuildErrorKind};

/// One operation of a patch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    kind: Kind,
    path: Vec<String>,
    /// The place in the patch's text.
    span: yaml::Span,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Add(Node),
    Remove,
    Replace(Node),
    Move(Vec<String>),
    Copy(Vec<String>),
    /// With `false` if a scalar is not spelled as Go's encoder spells it.
    Test(Node, bool),
    /// One that cannot be, for this reason: refused where it meets an object.
    Wrong(String, Option<&'static str>),
}

/// Reads a patch: a list of operations in YAML or JSON. `None` if the text is something else.
pub(crate) fn parse_patch(text: &str, limits: &Limits) -> Result<Vec<Operation>, BuildError> {
    // kustomize takes a text that begins so for JSON, and JSON only.
    if text.starts_with('[')
        && let Err(error) = serde_json::from_str::<serde_json::Value>(text)
    {
        let mut wrong = BuildError::syntax(format!("a patch that begins with `[` must be JSON: {error}"))
            .hint("put quotes around keys and texts, or write it as a YAML list");
        (wrong.line, wrong.column) = (error.line(), error.column());
        return Err(wrong);
    }
    let rules = if text.starts_with('[') { Rules::Json } else { Rules::V2 };
    let documents = parse_with(text, limits, rules).map_err(|error| BuildError::from_yaml(error, "patch"))?;
    let Some(root) = documents.first().map(|document| &document.root) else {
        return Ok(Vec::new());
    };
    let Some(items) = root.as_sequence() else {
        return Err(BuildError::syntax("a JSON patch is a list of operations"));
    };
    // YAML is turned into JSON by Go's encoder.
    let source = text.starts_with('[').then_some(text);
    items.iter().map(|item| operation(item, source)).collect()
}

/// Says whether all scalars stand in `source` as Go's encoder writes them.
fn is_canonical(node: &Node, source: &str) -> bool {
    match &node.value {
        Value::Sequence(items) => items.iter().all(|item| is_canonical(item, source)),
        Value::Mapping(mapping) => mapping.iter().all(|entry| is_canonical(&entry.value, source)),
        _ => source.get(node.span.range()).is_none_or(|text| text == to_json(node)),
    }
}

fn operation(item: &Node, source: Option<&str>) -> Result<Operation, BuildError> {
    if item.as_mapping().is_none() {
        let mut error = BuildError::syntax("an operation is a map with `op` and `path`");
        (error.line, error.column) = (item.span.line(), item.span.column());
        return Err(error);
    }
    let read = pointer(item, "path").and_then(|path| Ok((kind(item, source)?, path)));
    let (kind, path) = read.unwrap_or_else(|wrong| (wrong, Vec::new()));
    Ok(Operation { kind, path, span: item.span })
}

/// What an operation does, or why it cannot.
fn kind(item: &Node, source: Option<&str>) -> Result<Kind, Kind> {
    let value = || item.get("value").cloned().unwrap_or_default();
    match item.get("op").and_then(Node::as_str) {
        Some("add") => Ok(Kind::Add(value())),
        Some("remove") => Ok(Kind::Remove),
        Some("replace") => Ok(Kind::Replace(value())),
        Some("move") => Ok(Kind::Move(pointer(item, "from")?)),
        Some("copy") => Ok(Kind::Copy(pointer(item, "from")?)),
        Some("test") => {
            let canonical = source.is_none_or(|source| is_canonical(&value(), source));
            Ok(Kind::Test(value(), canonical))
        }
        Some(other) => {
            let hint = "one of add, remove, replace, move, copy, test";
            Err(Kind::Wrong(format!("unknown operation `{other}`"), Some(hint)))
        }
        None => Err(Kind::Wrong("the operation has no `op`".into(), None)),
    }
}

fn pointer(item: &Node, field: &str) -> Result<Vec<String>, Kind> {
    let Some(text) = item.get(field).and_then(Node::as_str) else {
        return Err(Kind::Wrong(format!("the operation has no `{field}`"), None));
    };
    if !text.is_empty() && !text.contains('/') {
        return Err(Kind::Wrong(format!("`{field}` is `{text}`, which leads nowhere"), Some("begin it with `/`")));
    }
    let mut parts = text.split('/');
    parts.next();
    Ok(parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
}

/// Applies all operations in order. The object may not grow past `limits`.
pub(crate) fn apply(
    object: &mut Node,
    operations: &[Operation],
    limits: &Limits,
    budget: &Budget,
) -> Result<(), BuildError> {
    let mut nodes: Option<usize> = None;
    let mut size = object.count();
    let mut has_set = false;
    for operation in operations {
        // Finding a field and making room for it goes along lists and maps.
        budget.spend(10 + size / 16)?;
        let locate = |mut error: BuildError| {
            if error.line == 0 {
                (error.line, error.column) = (operation.span.line(), operation.span.column());
            }
            error.context(format_args!("at /{}", operation.path.join("/")))
        };
        match &operation.kind {
            Kind::Add(value) | Kind::Replace(value) => {
                budget.copy(value)?;
                size = size.saturating_add(value.count());
                has_set = true;
            }
            Kind::Remove | Kind::Move(_) | Kind::Copy(_) | Kind::Test(..) | Kind::Wrong(..) => {}
        }
        match &operation.kind {
            Kind::Add(value) => add(object, &operation.path, value.clone()).map_err(locate)?,
            Kind::Remove => remove(object, &operation.path).map(|_| ()).map_err(locate)?,
            Kind::Replace(value) => replace(object, &operation.path, value.clone()).map_err(locate)?,
            Kind::Move(from) => {
                let value = remove(object, from).map_err(locate)?;
                add(object, &operation.path, value).map_err(locate)?;
            }
            Kind::Copy(from) => {
                let value =
                    lenient(object, from).filter(|_| !from.is_empty()).ok_or_else(|| locate(missing("copy")))?;
                budget.copy(&value)?;
                size = size.saturating_add(value.count());
                let count = nodes.get_or_insert_with(|| object.count());
                *count = count.saturating_add(value.count());
                if *count > limits.nodes / 4 || depth(&value) + operation.path.len() > limits.depth {
                    let message = format!("the patch grows the object past {} nodes", limits.nodes / 4);
                    return Err(locate(BuildError::new(BuildErrorKind::Limit, message)));
                }
                add(object, &operation.path, value).map_err(locate)?;
            }
            Kind::Test(value, canonical) => {
                let found = lenient(object, &operation.path).ok_or_else(|| locate(missing("test")))?;
                // The Go library compares texts, and those of the object are its own; those that this patch has set
                // are the patch's.
                if !equal(&found, value) || !(*canonical || has_set) {
                    return Err(locate(BuildError::transform("the tested value differs")));
                }
            }
            Kind::Wrong(reason, hint) => {
                let error = BuildError::syntax(reason);
                return Err(locate(hint.map_or_else(|| error.clone(), |hint| error.clone().hint(hint))));
            }
        }
    }
    Ok(())
}

fn depth(node: &Node) -> usize {
    match &node.value {
        Value::Sequence(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Mapping(mapping) => 1 + mapping.iter().map(|entry| depth(&entry.value)).max().unwrap_or(0),
        _ => 0,
    }
}

fn equal(left: &Node, right: &Node) -> bool {
    match (&left.value, &right.value) {
        (Value::Mapping(a), Value::Mapping(b)) => {
            a.len() == b.len()
                && a.iter().all(|entry| b.get(&entry.key).is_some_and(|value| equal(&entry.value, value)))
        }
        (Value::Sequence(a), Value::Sequence(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Int(a), Value::Float(b)) | (Value::Float(b), Value::Int(a)) => {
            #[allow(clippy::cast_precision_loss, reason = "JSON has one kind of number")]
            let same = (*a as f64 - *b).abs() == 0.0;
            same
        }
        (a, b) => a == b,
    }
}

fn missing(operation: &str) -> BuildError {
    BuildError::transform(format!("{operation}: there is no such value"))
}

fn get<'n>(object: &'n Node, path: &[String]) -> Option<&'n Node> {
    path.iter().try_fold(object, |node, part| match &node.value {
        Value::Mapping(mapping) => mapping.get(part),
        Value::Sequence(items) => items.get(index(part, items.len(), false)?),
        _ => None,
    })
}

/// As [`get`], but a key that is not in its map has the value null.
fn lenient(object: &Node, path: &[String]) -> Option<Node> {
    if let Some(found) = get(object, path) {
        return Some(found.clone());
    }
    let (_, before) = path.split_last()?;
    get(object, before)?.as_mapping().map(|_| Node::default())
}

fn get_mut<'n>(object: &'n mut Node, path: &[String]) -> Option<&'n mut Node> {
    path.iter().try_fold(object, |node, part| match &mut node.value {
        Value::Mapping(mapping) => mapping.get_mut(part),
        Value::Sequence(items) => {
            let at = index(part, items.len(), false)?;
            items.get_mut(at)
        }
        _ => None,
    })
}

/// A position in a list; one past the end and `-` only where an item is added.
fn index(part: &str, length: usize, adding: bool) -> Option<usize> {
    if part == "-" {
        return adding.then_some(length);
    }
    let number: i64 = part.parse().ok()?;
    let end = if adding { length + 1 } else { length };
    let at = if number < 0 { i64::try_from(end).ok()? + number } else { number };
    usize::try_from(at).ok().filter(|at| *at < end)
}

fn parent<'n, 'p>(object: &'n mut Node, path: &'p [String]) -> Result<(&'n mut Node, &'p str), BuildError> {
    let Some((last, before)) = path.split_last() else {
        return Err(BuildError::transform("the path is empty"));
    };
    let parent = get_mut(object, before)
        .filter(|node| !node.is_scalar())
        .ok_or_else(|| BuildError::transform("the parent does not exist"))?;
    Ok((parent, last))
}

fn bad_index(part: &str) -> BuildError {
    BuildError::transform(format!("`{part}` is not a place in the list"))
}

fn add(object: &mut Node, path: &[String], value: Node) -> Result<(), BuildError> {
    let (parent, last) = parent(object, path)?;
    match &mut parent.value {
        Value::Mapping(mapping) => {
            mapping.insert(last, value);
            Ok(())
        }
        Value::Sequence(items) => {
            let at = index(last, items.len(), true).ok_or_else(|| bad_index(last))?;
            items.insert(at, value);
            Ok(())
        }
        _ => Err(BuildError::transform("the parent is a scalar")),
    }
}

fn remove(object: &mut Node, path: &[String]) -> Result<Node, BuildError> {
    let (parent, last) = parent(object, path)?;
    match &mut parent.value {
        Value::Mapping(mapping) => mapping.remove(last).ok_or_else(|| missing("remove")),
        Value::Sequence(items) => {
            let at = index(last, items.len(), false).ok_or_else(|| bad_index(last))?;
            Ok(items.remove(at))
        }
        _ => Err(missing("remove")),
    }
}

fn replace(object: &mut Node, path: &[String], value: Node) -> Result<(), BuildError> {
    if path.is_empty() {
        if value.is_scalar() {
            return Err(BuildError::transform("only a map or a list can take the place of the whole object"));
        }
        *object = value;
        return Ok(());
    }
    let (parent, last) = parent(object, path)?;
    let slot = match &mut parent.value {
        // The Go library does not ask whether the key is there.
        Value::Mapping(mapping) => Some(mapping.get_or_insert_with(last, Node::default)),
        Value::Sequence(items) => {
            let at = index(last, items.len(), false).ok_or_else(|| bad_index(last))?;
            items.get_mut(at)
        }
        _ => None,
    };
    *slot.ok_or_else(|| missing("replace"))? = value;
    Ok(())
}
