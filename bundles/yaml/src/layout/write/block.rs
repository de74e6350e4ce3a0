//! Lists and maps in lines of their own, and keys.

use super::{After, LONGEST_SIMPLE_KEY, Place, Writer, set};
use crate::layout::Written;
use crate::node::{Entry, Node};

impl<'l> Writer<'l> {
    pub(super) fn map<'n>(&mut self, node: &Node, entries: impl Iterator<Item = &'n Entry>, place: Place) {
        let outer = self.indent;
        self.indent = Some(self.deeper(false, place, false));
        let mut foot = String::new();
        for entry in entries {
            self.key_comments(entry, &mut foot);
            self.head_comment();
            self.start_line();
            if !self.pending.line.is_empty() {
                self.pending.key_line = std::mem::take(&mut self.pending.line);
            }
            let simple = self.is_simple(entry);
            if simple {
                self.key(entry, true);
                self.indicator(":", false, false, false);
            } else {
                self.indicator("?", true, false, true);
                self.key(entry, false);
                self.start_line();
                self.indicator(":", true, false, true);
            }
            self.begin(&entry.value);
            self.comment_of_key(&entry.value);
            self.node(&entry.value, Place { in_map: true, ..Place::default() }, After::Comments);
        }
        set(&mut self.pending.tail, &foot);
        self.end(node);
        self.head_comment();
        self.indent = outer;
    }

    /// The comments of a key; its foot comes below the value.
    pub(super) fn key_comments(&mut self, entry: &Entry, foot: &mut String) {
        set(&mut self.pending.tail, foot);
        foot.clear();
        if let Some(written) = self.layout.written(entry.key_span) {
            set(&mut self.pending.head, &written.comments.head);
            set(&mut self.pending.line, &written.comments.line);
            foot.push_str(&written.comments.foot);
        }
    }

    /// A comment behind a key goes behind the value, if that stands on the same line.
    fn comment_of_key(&mut self, value: &Node) {
        if self.pending.key_line.is_empty() {
            return;
        }
        let is_flow_list = value.as_sequence().is_some() && self.is_flow(value);
        if value.is_scalar() {
            if self.pending.line.is_empty() {
                self.pending.line = std::mem::take(&mut self.pending.key_line);
            }
        } else if !is_flow_list && self.layout.alias(value).is_none() {
            let own = std::mem::replace(&mut self.pending.line, std::mem::take(&mut self.pending.key_line));
            self.line_comment(false);
            self.pending.key_line = std::mem::replace(&mut self.pending.line, own);
        }
    }

    pub(super) fn is_simple(&self, entry: &Entry) -> bool {
        if let Some(key) = self.odd_key(entry) {
            return self.layout.alias(key).is_some();
        }
        let properties = self.layout.written(entry.key_span).map_or(0, |written| {
            let tag = if written.is_tagged { written.tag.len() } else { 0 };
            tag + written.anchor.as_ref().map_or(0, String::len)
        });
        !entry.key.contains('\n') && properties + entry.key.len() <= LONGEST_SIMPLE_KEY
    }

    fn odd_key(&self, entry: &Entry) -> Option<&'l Node> {
        self.layout.written(entry.key_span)?.odd_key.as_ref()
    }

    pub(super) fn key(&mut self, entry: &Entry, simple_key: bool) {
        let place = Place { in_map: true, simple_key, ..Place::default() };
        let written = self.layout.written(entry.key_span);
        if let Some(key) = self.odd_key(entry) {
            return self.node(key, place, After::Nothing);
        }
        let key = Node::from(entry.key.clone());
        self.scalar_node(&key, written.or(Some(&Written::default())), place);
    }

    pub(super) fn list(&mut self, node: &Node, items: &[Node], place: Place) {
        let outer = self.indent;
        let compact = place.in_map && (self.column == 0 || !self.indention);
        self.indent = Some(self.deeper(false, place, compact));
        for item in items {
            self.begin(item);
            self.head_comment();
            self.start_line();
            self.indicator("-", true, false, true);
            self.node(item, Place { in_list: true, ..Place::default() }, After::Comments);
        }
        self.end(node);
        self.indent = outer;
    }
}
