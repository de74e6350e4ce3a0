//! Lists and maps in brackets.

use super::{After, Place, Writer, set};
use crate::node::{Entry, Node};

impl Writer<'_> {
    pub(super) fn flow_list(&mut self, node: &Node, items: &[Node], place: Place) {
        let outer = self.open("[", place);
        let mut trail = true;
        for item in items {
            self.begin(item);
            self.comma(trail);
            self.head_comment();
            if self.column == 0 {
                self.start_line();
            }
            trail = self.pending.follow();
            self.node(item, Place::default(), After::Comma);
        }
        self.end(node);
        self.flow -= 1;
        self.indent = outer;
        if self.column == 0 {
            self.start_line();
        }
        self.indicator("]", false, false, false);
        self.line_comment(false);
        self.foot_comment();
    }

    pub(super) fn flow_map<'n>(&mut self, node: &Node, entries: impl Iterator<Item = &'n Entry>, place: Place) {
        let outer = self.open("{", place);
        let (mut trail, mut foot) = (true, String::new());
        for entry in entries {
            self.key_comments(entry, &mut foot);
            self.comma(trail);
            self.head_comment();
            if self.column == 0 {
                self.start_line();
            }
            if self.is_simple(entry) {
                self.key(entry, true);
                self.indicator(":", false, false, false);
            } else {
                self.indicator("?", true, false, false);
                self.key(entry, false);
                self.indicator(":", true, false, false);
            }
            self.begin(&entry.value);
            trail = self.pending.follow();
            self.node(&entry.value, Place { in_map: true, ..Place::default() }, After::Comma);
        }
        set(&mut self.pending.tail, &foot);
        self.end(node);
        let pending = &self.pending;
        let has_comments = !(pending.head.is_empty() && pending.foot.is_empty() && pending.tail.is_empty());
        self.comma(trail || !has_comments);
        self.head_comment();
        self.flow -= 1;
        self.indent = outer;
        self.indicator("}", false, false, false);
        self.line_comment(false);
        self.foot_comment();
    }

    fn open(&mut self, bracket: &str, place: Place) -> Option<usize> {
        self.indicator(bracket, true, true, false);
        let outer = self.indent;
        self.indent = Some(self.deeper(true, place, false));
        self.flow += 1;
        outer
    }

    fn comma(&mut self, is_there: bool) {
        if !is_there {
            self.indicator(",", false, false, false);
        }
    }
}
