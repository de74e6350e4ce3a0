//! YAML that is read, changed and written anew as go-yaml v3 does it: comments, anchors, tags and quotes stay.
//!
//! The tree is made of ordinary nodes, whose scalars are texts. How each was written lies beside it, see [`Layout`].

mod comments;
mod compose;
mod output;
mod scalar;
mod write;

use std::borrow::Cow;

use super::node::{Node, Span, Style, Value};

pub use compose::compose;
pub use scalar::may_be_block;

/// Comments of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Comments {
    /// Above it.
    head: String,
    /// Behind it, on its line.
    line: String,
    /// Below it.
    foot: String,
}

/// The quotes of a scalar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Quotes {
    #[default]
    None,
    Single,
    Double,
    Literal,
    Folded,
}

/// How one node was written.
#[derive(Debug, Clone, Default)]
struct Written {
    comments: Comments,
    anchor: Option<String>,
    /// In the short form, `!!int`, also where it was not spelled out.
    tag: String,
    is_tagged: bool,
    quotes: Quotes,
    is_flow: bool,
    /// The name of an alias.
    alias: Option<String>,
    /// A key that is no scalar.
    odd_key: Option<Node>,
    /// The text of a scalar.
    text: String,
}

/// A document with its comments, anchors, tags and styles.
#[derive(Debug, Default)]
pub struct Layout {
    /// The tree; all its scalars are texts.
    pub root: Node,
    nodes: Vec<Written>,
    /// Comments above and below the whole document.
    head: String,
    foot: String,
}

/// In the place of a column, says that a node belongs to a layout.
const LAID_OUT: usize = u32::MAX as usize;

impl Layout {
    fn add(&mut self, written: Written) -> Span {
        self.nodes.push(written);
        Span::new(self.nodes.len() - 1, 0, 0, LAID_OUT)
    }

    fn written(&self, span: Span) -> Option<&Written> {
        if span.column() == LAID_OUT { self.nodes.get(span.start()) } else { None }
    }

    /// Says whether a node is an alias: it looks like an empty list.
    fn alias(&self, node: &Node) -> Option<&Written> {
        let is_empty = node.as_sequence().is_some_and(<[Node]>::is_empty);
        self.written(node.span).filter(|written| is_empty && written.alias.is_some())
    }

    /// Prints the document, trimmed.
    pub fn to_yaml(&self) -> String {
        write::Writer::new(self).document().trim().to_owned()
    }

    /// Prints one node with its comments. A node without layout has none.
    pub fn printed<'n>(layout: Option<&Self>, node: &'n Node) -> Cow<'n, str> {
        match (layout, &node.value) {
            (Some(layout), _) => Cow::Owned(write::Writer::new(layout).alone(node)),
            (None, Value::Sequence(_) | Value::Mapping(_)) => {
                Cow::Owned(write::Writer::new(&Self::default()).alone(node))
            }
            (None, _) => {
                let text = node.scalar_text().unwrap_or_default();
                let is_text = node.untyped_text().is_some() && node.style() != Style::Untyped;
                let written = Written {
                    quotes: write::quotes_of(node),
                    tag: if is_text { "!!str".to_owned() } else { String::new() },
                    ..Written::default()
                };
                let is_simple =
                    |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
                if written.quotes == Quotes::None
                    && is_simple(&text)
                    && (written.tag.is_empty() || compose::tag_of(&text) == "!!str")
                {
                    return text;
                }
                let mut layout = Self::default();
                let node = Node::with_span(Value::String(text.as_ref().into()), layout.add(written));
                Cow::Owned(write::Writer::new(&layout).alone(&node))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    /// What a text becomes when it is read and written.
    fn check(source: &str, expect: &str) {
        let written = compose(source, &Limits::default()).map(|layout| layout.to_yaml());
        assert_eq!(written.as_deref(), Some(expect), "{source}");
    }

    #[test]
    fn comments_stay_with_what_they_are_about() {
        check("a: 1   # one\n\n# two\nb: 2\n", "a: 1 # one\n# two\nb: 2");
        check("# all\n\n# a\na: 1\n", "# all\n\n# a\na: 1");
        check("x: 1\na: 1\n# below a\n\nb: 2\n", "x: 1\na: 1\n# below a\n\nb: 2");
        check("a:\n    b: 1\n# outside\nc: 2\n", "a:\n  b: 1\n# outside\nc: 2");
        check("a: # key\n  - b\n  # c\n  - d\n", "a: # key\n- b\n# c\n- d");
        check("- # first\n  a: 1\n", "- # first\n  a: 1");
    }

    #[test]
    fn quotes_tags_and_anchors_stay() {
        check("a: 'x'\nb: \"y\"\nc: |\n    z\n", "a: 'x'\nb: \"y\"\nc: |\n  z");
        check("a: &n !own {b: c}\nd: *n\n<<: *n\n", "a: &n !own {b: c}\nd: *n\n!!merge <<: *n");
        check("a: {b: , c: [d:e]}\n", "a: {b: '', c: ['d:e']}");
        check("? [a]\n: 1\n", "? [a]\n: 1");
    }

    #[test]
    fn only_the_first_document_counts() {
        check("a: 1\n---\nb: {\n", "a: 1");
        assert!(compose("", &Limits::default()).is_none());
        assert!(compose("a: {\n", &Limits::default()).is_none());
        assert!(compose("a: \"x\\/y\"\n", &Limits::default()).is_none());
    }
}
