//! Objects, looked up by what names them.

use std::collections::BTreeMap;

use yaml::Node;

use crate::object::{ObjectId, ObjectSummary};

/// Objects by id.
pub(super) type Index = BTreeMap<ObjectId, (ObjectSummary, Node)>;

/// The objects among `nodes`; what is not an object is left out.
pub(super) fn index(nodes: &[Node]) -> Index {
    let summaries = nodes.iter().filter_map(|node| {
        let summary = ObjectSummary::of(node)?;
        Some((summary.id(), (summary, node.clone())))
    });
    summaries.collect()
}
