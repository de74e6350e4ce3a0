//! Fields that several kinds of manifests have.

use yaml::Node;

use crate::error::BundleError;

/// A scalar as written; `None` for null, lists and maps.
pub(crate) fn text(node: &Node) -> Option<String> {
    (!node.is_null()).then(|| node.scalar_text().map(std::borrow::Cow::into_owned))?
}

/// Line and column of a node.
pub(crate) fn position(node: &Node) -> (usize, usize) {
    (node.span.line(), node.span.column())
}

/// `metadata.name`.
pub(crate) fn name(root: &Node) -> Option<String> {
    root.at(&["metadata", "name"]).and_then(text).filter(|name| !name.is_empty())
}

/// A field that holds a whole number of zero or more; `None` when it is absent or null.
pub(crate) fn unsigned(path: &str, object: &Node, key: &str) -> Result<Option<u64>, BundleError> {
    let Some(node) = object.get(key).filter(|node| !node.is_null()) else { return Ok(None) };
    let value = node.as_i64().and_then(|number| u64::try_from(number).ok());
    match value {
        Some(number) => Ok(Some(number)),
        None => {
            let message = format!("`{key}` is not a whole number of zero or more");
            Err(BundleError::new(path, position(node), message, "write a number without quotes"))
        }
    }
}
