//! Schemas in comments: a JSON object behind a key, above it, or behind what is in brackets.
//!
//! kustomize takes such a comment for the schema of the field, in the place of what is known about its kind, and also
//! where it means something else.

use super::node::{Holder, Node, Span};

/// Says whether a text may hold such a comment: all but a few do not.
pub(super) fn may_be_in(source: &str) -> bool {
    let behind_mark = |(at, _): (usize, &str)| {
        source.get(..at).is_some_and(|before| before.trim_end_matches([' ', '\t']).ends_with('#'))
    };
    source.match_indices('{').any(behind_mark)
}

/// Finds the comment about a list or map with this key.
pub(super) fn find<'s>(source: &'s str, key: Span, value: &Node) -> Option<(Holder, &'s str)> {
    let behind = |at: usize| source.get(at..)?.lines().next();
    if value.span.line() == key.line() {
        let comment = behind(value.span.end())?.trim();
        return object(comment).map(|text| (Holder::Value, text));
    }
    let rest = behind(key.end())?.trim_start().strip_prefix(':')?.trim();
    if !rest.is_empty() {
        return object(rest).map(|text| (Holder::Key, text));
    }
    let (above, line) = source.get(..key.start())?.rsplit_once('\n')?;
    if !line.bytes().all(|byte| byte == b' ') {
        return None;
    }
    let (before, comment) = above.rsplit_once('\n').unwrap_or(("", above));
    // Several lines are one comment.
    if before.rsplit('\n').next().unwrap_or_default().trim_start().starts_with('#') {
        return None;
    }
    let text = comment.strip_prefix(line)?;
    object(text.trim_end()).map(|text| (Holder::Key, text))
}

/// The text of a comment that begins with an object that says something.
fn object(comment: &str) -> Option<&str> {
    let text = comment.strip_prefix('#')?.trim_start_matches('#');
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    let value = values.next()?.ok()?;
    value.as_object().is_some_and(|object| !object.is_empty()).then(|| text.get(..values.byte_offset()))?
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, Node, Rules, parse_with};

    fn check(source: &str, expect: Option<&str>) {
        let root = parse_with(source, &Limits::default(), Rules::Manifest).unwrap().remove(0).root;
        let remark = root.at(&["m", "l"]).and_then(Node::remark).map(|(_, text)| text.trim());
        assert_eq!(remark, expect, "{source}");
    }

    #[test]
    fn comment_with_an_object_is_found_where_go_yaml_keeps_it() {
        check("m:\n  l: # {\"a\": 1}\n  - x\n", Some("{\"a\": 1}"));
        check("m:\n  # {\"a\": 1}\n  l:\n  - x\n", Some("{\"a\": 1}"));
        check("m:\n  l: [x] # {\"a\": 1} more\n", Some("{\"a\": 1}"));
        check("m:\n  l: # {}\n  - x\n", None);
        check("m:\n  l: # words\n  - x\n", None);
        check("m:\n  l:\n  - x # {\"a\": 1}\n", None);
        check("m:\n  # {\"a\": 1}\n  # more\n  l:\n  - x\n", None);
    }
}
