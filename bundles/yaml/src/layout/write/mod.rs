//! The tree as text again: two spaces, lists at the indent of their key, no line too long to go on.

mod block;
mod flow;

use super::{Layout, Quotes, Written};
use crate::node::Style;
use crate::node::{Node, Value};

/// Longer keys are written in the `? key` form.
const LONGEST_SIMPLE_KEY: usize = 128;

/// Comments that have not been written yet; a new one takes the place of one that nobody wrote.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) head: String,
    pub(super) line: String,
    pub(super) foot: String,
    /// The foot of the key before.
    pub(super) tail: String,
    /// Of a key, behind which the value goes on.
    pub(super) key_line: String,
}

impl Pending {
    fn follow(&self) -> bool {
        !(self.line.is_empty() && self.foot.is_empty() && self.tail.is_empty())
    }
}

/// Where a node stands.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// An item of a list of lines.
    in_list: bool,
    /// A key or a value.
    in_map: bool,
    pub(super) simple_key: bool,
}

/// What is written behind a node, or behind the first sign of one that goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    Comments,
    /// In brackets: a comma comes first, if there are comments.
    Comma,
}

pub(super) struct Writer<'l> {
    pub(super) layout: &'l Layout,
    pub(super) out: String,
    pub(super) column: usize,
    /// The last character was a blank or an indicator that stands for one.
    pub(super) whitespace: bool,
    /// Only indicators stand on the line.
    pub(super) indention: bool,
    /// `None` outside of the document.
    pub(super) indent: Option<usize>,
    /// An empty line follows below a foot comment at this indent.
    pub(super) foot_indent: Option<usize>,
    pub(super) flow: usize,
    pub(super) pending: Pending,
}

fn set(slot: &mut String, text: &str) {
    if !text.is_empty() {
        text.clone_into(slot);
    }
}

impl<'l> Writer<'l> {
    pub(super) fn new(layout: &'l Layout) -> Self {
        Self {
            layout,
            out: String::new(),
            column: 0,
            whitespace: true,
            indention: true,
            indent: None,
            foot_indent: None,
            flow: 0,
            pending: Pending::default(),
        }
    }

    pub(super) fn document(mut self) -> String {
        let layout = self.layout;
        if !layout.head.is_empty() {
            layout.head.clone_into(&mut self.pending.head);
            self.head_comment();
            self.break_line();
        }
        self.begin(&layout.root);
        self.head_comment();
        self.node(&layout.root, Place::default(), After::Comments);
        set(&mut self.pending.foot, &layout.foot);
        self.foot_indent = Some(0);
        self.foot_comment();
        self.foot_indent = None;
        self.out
    }

    /// One node with its comments.
    pub(super) fn alone(mut self, node: &Node) -> String {
        self.begin(node);
        self.head_comment();
        self.node(node, Place::default(), After::Comments);
        self.out
    }

    fn written(&self, node: &Node) -> Option<&'l Written> {
        self.layout.written(node.span)
    }

    /// Takes the comments that come with the beginning of a node.
    fn begin(&mut self, node: &Node) {
        let Some(written) = self.written(node) else {
            return;
        };
        set(&mut self.pending.head, &written.comments.head);
        if node.is_scalar() || written.alias.is_some() {
            set(&mut self.pending.line, &written.comments.line);
            set(&mut self.pending.foot, &written.comments.foot);
        }
    }

    /// Takes those that come with the end of a list or map.
    fn end(&mut self, node: &Node) {
        if let Some(written) = self.written(node) {
            set(&mut self.pending.line, &written.comments.line);
            set(&mut self.pending.foot, &written.comments.foot);
        }
    }

    fn node(&mut self, node: &Node, place: Place, after: After) {
        let written = self.written(node);
        if let Some(name) = self.layout.alias(node).and_then(|written| written.alias.as_deref()) {
            self.indicator("*", true, false, false);
            self.put(name);
            return self.after(after);
        }
        match &node.value {
            Value::Mapping(_) | Value::Sequence(_) => {}
            _ => {
                self.scalar_node(node, written, place);
                return self.after(after);
            }
        }
        self.anchor_and_tag(written, |tag| !matches!(tag, "!!map" | "!!seq"));
        self.after(after);
        let is_flow = self.flow > 0 || self.is_flow(node);
        match &node.value {
            Value::Mapping(entries) if is_flow || entries.is_empty() => self.flow_map(node, entries.iter(), place),
            Value::Mapping(entries) => self.map(node, entries.iter(), place),
            Value::Sequence(items) if is_flow || items.is_empty() => self.flow_list(node, items, place),
            Value::Sequence(items) => self.list(node, items, place),
            _ => {}
        }
    }

    fn scalar_node(&mut self, node: &Node, written: Option<&Written>, place: Place) {
        let text = match (written, &node.value) {
            (Some(written), Value::Null) => written.text.clone(),
            (None, Value::Null) => String::new(),
            _ => node.scalar_text().unwrap_or_default().into_owned(),
        };
        let mut tag = written.map_or("", |written| written.tag.as_str());
        let mut quotes = written.map_or_else(|| quotes_of(node), |written| written.quotes);
        let mut needs_quotes = false;
        if !written.is_some_and(|written| written.is_tagged) && !tag.is_empty() {
            let plain = super::compose::tag_of(&text);
            if tag == "!!str" {
                needs_quotes = quotes == Quotes::None && plain != tag;
                tag = "";
            } else if plain == tag {
                tag = "";
            }
        }
        if quotes == Quotes::None {
            if text.contains('\n') {
                quotes = Quotes::Literal;
            } else if needs_quotes {
                quotes = Quotes::Double;
            }
        }
        if let Some(anchor) = written.and_then(|written| written.anchor.as_deref()) {
            self.indicator("&", true, false, false);
            self.put(anchor);
        }
        if !tag.is_empty() {
            self.indicator(tag, true, false, false);
        }
        let outer = self.indent;
        self.indent = Some(self.deeper(true, place, false));
        self.scalar(&text, quotes, place);
        self.indent = outer;
    }

    fn anchor_and_tag(&mut self, written: Option<&Written>, is_own: impl Fn(&str) -> bool) {
        let Some(written) = written else {
            return;
        };
        if let Some(anchor) = &written.anchor {
            self.indicator("&", true, false, false);
            self.put(anchor);
        }
        if written.is_tagged || is_own(&written.tag) {
            self.indicator(&written.tag, true, false, false);
        }
    }

    fn after(&mut self, after: After) {
        if after == After::Nothing {
            return;
        }
        if after == After::Comma && self.pending.follow() {
            self.indicator(",", false, false, false);
        }
        self.line_comment(false);
        self.foot_comment();
    }

    fn deeper(&self, flow: bool, place: Place, compact: bool) -> usize {
        match self.indent {
            None if flow => 2,
            None => 0,
            Some(indent) if place.in_list => indent + 2,
            Some(indent) => 2 * ((indent + 2) / 2) - if compact { 2 } else { 0 },
        }
    }

    fn is_flow(&self, node: &Node) -> bool {
        self.written(node).map_or_else(|| node.style() == Style::Flow, |written| written.is_flow)
    }
}

/// The quotes of a scalar from elsewhere.
pub(super) fn quotes_of(node: &Node) -> Quotes {
    match node.style() {
        Style::Quoted => Quotes::Double,
        Style::SingleQuoted => Quotes::Single,
        Style::Literal => Quotes::Literal,
        Style::Folded => Quotes::Folded,
        _ => Quotes::None,
    }
}
