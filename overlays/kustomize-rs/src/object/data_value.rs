//! Values of a `ConfigMap` or a Secret.

use yaml::{Node, Style, Text};

/// A value of a ConfigMap or Secret: a block if it has several lines.
pub(crate) fn data_value(text: Text) -> Node {
    let is_block = text.contains('\n');
    let mut node = Node::made(text);
    if is_block {
        node.set_style(Style::Literal);
    }
    node
}
