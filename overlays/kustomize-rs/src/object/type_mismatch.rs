//! Values that do not fit their places, and keys that no map may have.

use yaml::{Node, Style, Value};

use crate::error::BuildError;

/// Refuses a value that does not fit the type of its place.
pub(crate) fn refuse(node: &Node) -> Result<(), BuildError> {
    let Some(node) = find(node) else {
        return Ok(());
    };
    if let Some(mapping) = node.as_mapping() {
        let Some((entry, earlier)) = mapping.find_odd_key() else {
            return Ok(());
        };
        let key = &entry.key;
        let mut error = BuildError::syntax(match earlier {
            Some(earlier) => format!("the key `{key}` is already on line {}", earlier.line()),
            None => format!("the key `{key}` is not text; put it in quotes"),
        });
        (error.line, error.column) = (entry.key_span.line(), entry.key_span.column());
        return Err(error);
    }
    let text = node.scalar_text().unwrap_or_default();
    let mut error = BuildError::transform(format!("`{text}` does not fit the type that its place had before"))
        .hint("put the value of the target in quotes to make it a text");
    (error.line, error.column) = (node.span.line(), node.span.column());
    Err(error)
}

/// Refuses a map that has a key twice; keys that are not text may be.
pub(crate) fn refuse_repeated_keys(node: &Node) -> Result<(), BuildError> {
    match &node.value {
        Value::Sequence(items) => items.iter().try_for_each(refuse_repeated_keys),
        Value::Mapping(mapping) => {
            if node.style() == Style::TypeMismatch
                && mapping.find_odd_key().is_some_and(|(_, earlier)| earlier.is_some())
            {
                return refuse(node);
            }
            mapping.iter().try_for_each(|entry| refuse_repeated_keys(&entry.value))
        }
        _ => Ok(()),
    }
}

fn find(node: &Node) -> Option<&Node> {
    match &node.value {
        // What was wrong with a map may have been patched away.
        Value::Mapping(mapping) if node.style() == Style::TypeMismatch && mapping.find_odd_key().is_some() => {
            Some(node)
        }
        Value::Sequence(items) => items.iter().find_map(find),
        Value::Mapping(mapping) => mapping.iter().find_map(|entry| find(&entry.value)),
        _ => (node.style() == Style::TypeMismatch).then_some(node),
    }
}
