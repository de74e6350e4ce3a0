//! The builtin `ValueAddTransformer`: sets or extends one field of some objects.

use yaml::Node;

use super::field::{Create, apply, set_plain};
use super::namespace::NamespaceTransformer;
use crate::error::BuildError;
use crate::kustomization::spec::Selector;
use crate::resource::Resources;
use crate::schema::{FieldSpec, Schema};

/// One target of the transformer.
#[derive(Debug, Clone, Default)]
pub(crate) struct ValueAddTarget {
    pub(crate) selector: Selector,
    pub(crate) field_path: String,
    /// With file paths: which part the value goes before.
    pub(crate) file_path_position: i64,
}

/// Sets `value` in the fields of all targets.
pub(crate) fn add(
    resources: &mut Resources,
    value: &str,
    targets: &[ValueAddTarget],
    schema: &Schema,
) -> Result<(), BuildError> {
    for target in targets {
        let selector = target.selector.compile()?;
        let spec = FieldSpec::new(crate::id::Gvk::default(), &target.field_path, true);
        for resource in &mut resources.items {
            if !selector.selects(resource, schema)? {
                continue;
            }
            if target.field_path == "metadata/namespace" {
                let namespace = value.to_owned();
                NamespaceTransformer { namespace, ..NamespaceTransformer::default() }.one(resource, schema)?;
                continue;
            }
            let gvk = resource.gvk();
            apply(resource, &gvk, &spec, Create::Scalar, &mut |node: &mut Node| {
                if target.file_path_position <= 0 {
                    return set_plain(node, value);
                }
                let old = node.scalar_text().unwrap_or_default().into_owned();
                set_plain(node, &insert_part(&old, value, target.file_path_position))
            })?;
        }
    }
    Ok(())
}

/// Puts `value` before the part number `position` (1-based) of a slash-separated path, and cleans the path. Between
/// slashes that follow each other is a part, which goes in the end.
fn insert_part(path: &str, value: &str, position: i64) -> String {
    if value.is_empty() {
        return path.to_owned();
    }
    let below_root = path.strip_prefix('/');
    // Of two slashes at the beginning one is nothing.
    let relative = below_root.map_or(path, |below| below.strip_prefix('/').unwrap_or(below));
    let mut parts: Vec<&str> = if relative.is_empty() { Vec::new() } else { relative.split('/').collect() };
    if below_root.is_some_and(|below| below.starts_with('/')) && relative.is_empty() {
        parts.push("");
    }
    let at = usize::try_from(position - 1).unwrap_or(0).min(parts.len());
    parts.insert(at, value);
    parts.retain(|part| !part.is_empty());
    let joined = clean(&parts.join("/"));
    if below_root.is_some() { format!("/{joined}") } else { joined }
}

/// A path without `.`, empty parts, and `..` where there is something to leave, as Go cleans it.
fn clean(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if !root.is_empty() => {}
            part => parts.push(part),
        }
    }
    if parts.is_empty() && root.is_empty() { ".".to_owned() } else { format!("{root}{}", parts.join("/")) }
}

#[cfg(test)]
mod tests {
    use super::insert_part;

    #[test]
    fn parts_between_slashes_count_and_go() {
        let check = |path: &str, position, expect: &str| {
            assert_eq!(insert_part(path, "v", position), expect, "{path} {position}");
        };
        check("", 1, "v");
        check("a/b", 2, "a/v/b");
        check("/a/b", 2, "/a/v/b");
        check("a//b", 3, "a/v/b");
        check("a//b", 4, "a/b/v");
        check("//a/b", 2, "/a/v/b");
        check("/0///-/b", 3, "/0/v/-/b");
        check("a/../../b", 9, "../b/v");
        check("/", 1, "/v");
    }
}
