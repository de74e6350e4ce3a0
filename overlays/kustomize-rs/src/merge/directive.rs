//! `$patch`: what a patch asks for.

use yaml::{Mapping, Node};

use super::merger::is_nothing;
use crate::error::BuildError;

/// What `$patch` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Directive {
    Merge,
    Replace,
    Delete,
}

pub(super) fn directive(text: &str) -> Result<Directive, BuildError> {
    match text {
        "merge" => Ok(Directive::Merge),
        "replace" => Ok(Directive::Replace),
        "delete" => Ok(Directive::Delete),
        other => Err(BuildError::transform(format!("unknown patch strategy `{other}`"))
            .hint("`$patch` is one of delete, merge, replace")),
    }
}

/// Takes `$patch` out of a map.
pub(super) fn take_map_directive(patch: &mut Mapping) -> Result<Directive, BuildError> {
    let Some(value) = patch.get("$patch") else {
        return Ok(Directive::Merge);
    };
    let found = directive(&value.scalar_text().unwrap_or_default())?;
    patch.remove("$patch");
    Ok(found)
}

/// Takes the items that only say `$patch` out of a list.
pub(super) fn take_list_directive(patch: &mut Vec<Node>) -> Result<Directive, BuildError> {
    let is_directive = |item: &Node| item.as_mapping().filter(|item| item.contains_key("$patch")).cloned();
    let Some(first) = patch.iter().find_map(is_directive) else {
        return Ok(Directive::Merge);
    };
    if first.len() > 1 {
        return Ok(Directive::Merge);
    }
    let text = first.get("$patch").and_then(Node::scalar_text).unwrap_or_default().into_owned();
    let found = directive(&text)?;
    let is_directive =
        |item: &Node| item.get("$patch").is_some_and(|value| value.scalar_text().unwrap_or_default() == text);
    patch.retain(|item| {
        !is_nothing(Some(item)) && !item.as_mapping().is_some_and(Mapping::is_empty) && !is_directive(item)
    });
    Ok(found)
}
