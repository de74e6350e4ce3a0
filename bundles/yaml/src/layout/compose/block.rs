//! Lists and maps in lines of their own, and the entries of all maps.

use granit_parser::TokenType;

use super::{Composer, Properties};
use crate::layout::Comments;
use crate::node::{Entry, Mapping, Node, Value};

impl Composer<'_> {
    /// A list of lines; one beside its key has no end of its own.
    pub(super) fn list(&mut self, properties: Properties, has_end: bool) -> Option<Node> {
        let head = std::mem::take(&mut self.stem);
        if has_end {
            self.skip();
        }
        let mut items = Vec::new();
        while self.peek()? == TokenType::BlockEntry {
            let above = self.taken.head.len();
            self.skip();
            let next = self.peek()?;
            if above > 0 && matches!(next, TokenType::BlockSequenceStart | TokenType::BlockMappingStart) {
                let rest = self.taken.head.get(above + 1..).unwrap_or_default().to_owned();
                self.taken.head.truncate(above);
                self.stem = std::mem::replace(&mut self.taken.head, rest);
            }
            let is_empty = match next {
                TokenType::BlockEntry | TokenType::BlockEnd => true,
                TokenType::Key | TokenType::Value => !has_end,
                _ => false,
            };
            items.push(if is_empty { self.empty() } else { self.node(true, false)? });
        }
        if has_end {
            self.skip();
        }
        let comments = Comments { head, ..Comments::default() };
        Some(self.collection(Value::Sequence(items.into()), properties, comments, false))
    }

    pub(super) fn map(&mut self, properties: Properties) -> Option<Node> {
        let head = std::mem::take(&mut self.stem);
        self.skip();
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let is_end = |next: &TokenType<'_>| matches!(next, TokenType::Key | TokenType::Value | TokenType::BlockEnd);
            match self.peek()? {
                TokenType::BlockEnd => break,
                TokenType::Key => self.skip(),
                TokenType::Value => {}
                _ => return None,
            }
            let key = if is_end(&self.peek()?) { self.empty() } else { self.node(true, true)? };
            // A comment below the value before, further to the left, has only been seen now.
            if let Some(before) = entries.last() {
                self.move_foot(key.span.start(), before.key_span.start());
            }
            let value = if self.peek()? == TokenType::Value {
                self.skip();
                if is_end(&self.peek()?) { self.empty() } else { self.node(true, true)? }
            } else {
                self.empty()
            };
            entries.push(self.entry(key, value)?);
        }
        let end = self.take();
        self.skip();
        let mut comments = Comments { head, ..end };
        if let (Some(last), false) = (entries.last(), comments.foot.is_empty()) {
            let foot = std::mem::take(&mut comments.foot);
            if let Some(key) = self.layout.nodes.get_mut(last.key_span.start()) {
                key.comments.foot = foot;
            }
        }
        Some(self.collection(Value::Mapping(Mapping::from_entries(entries)), properties, comments, false))
    }

    fn move_foot(&mut self, from: usize, to: usize) {
        let Some(foot) = self.layout.nodes.get_mut(from).map(|node| std::mem::take(&mut node.comments.foot)) else {
            return;
        };
        if !foot.is_empty()
            && let Some(node) = self.layout.nodes.get_mut(to)
        {
            node.comments.foot = foot;
        }
    }

    /// An entry of a map; what stands below the value belongs to the key.
    pub(super) fn entry(&mut self, key: Node, value: Node) -> Option<Entry> {
        let key_text = match &key.value {
            Value::Null => self.layout.written(key.span)?.text.as_str().into(),
            Value::String(text) => text.clone(),
            _ => return self.odd_key(key, value),
        };
        if self.layout.written(key.span)?.comments.foot.is_empty() {
            self.move_foot(value.span.start(), key.span.start());
        }
        Some(Entry { key: key_text, key_span: key.span, value })
    }

    /// A key that is an alias, a list or a map.
    fn odd_key(&mut self, key: Node, value: Node) -> Option<Entry> {
        let key_span = key.span;
        let written = self.layout.nodes.get_mut(key_span.start())?;
        written.odd_key = Some(key);
        // go-yaml finds an alias by its name.
        let text = written.alias.clone().unwrap_or_default();
        Some(Entry { key: text.into(), key_span, value })
    }
}
