//! Files that were cut short.
//!
//! A block YAML text is still YAML when its end is missing, and a bundle that lost its end would look like one that
//! dropped components. Published files end with a line end; one that does not, and whose last versionsBundle lacks what
//! every other one has, was cut.

use yaml::{Mapping, Node};

/// What the end of the text lacks: the dotted path of a key that every versionsBundle but the last one has. `None` when
/// the text ends with a line end or a closing bracket, or nothing is missing.
pub(crate) fn missing_end(source: &str, root: &Node) -> Option<String> {
    if source.ends_with(['\n', '\r', '}', ']']) {
        return None;
    }
    let (last, others) = root.at(&["spec", "versionsBundles"])?.as_sequence()?.split_last()?;
    let others: Vec<&Mapping> = others.iter().filter_map(Node::as_mapping).collect();
    missing_key(last.as_mapping()?, &others)
}

/// A key that all of `others` have and `last` has not, there or in the entry that `last` ends with.
fn missing_key(last: &Mapping, others: &[&Mapping]) -> Option<String> {
    let (first, rest) = others.split_first()?;
    let everywhere = first.iter().filter(|entry| rest.iter().all(|other| other.contains_key(&entry.key)));
    if let Some(entry) = everywhere.into_iter().find(|entry| !last.contains_key(&entry.key)) {
        return Some(entry.key.to_string());
    }
    let end = last.iter().last()?;
    let others: Vec<&Mapping> = others.iter().filter_map(|other| other.get(&end.key)?.as_mapping()).collect();
    Some(format!("{}.{}", end.key, missing_key(end.value.as_mapping()?, &others)?))
}
