//! Lists and maps in brackets.

use granit_parser::TokenType;

use super::{Composer, Properties};
use crate::layout::Comments;
use crate::node::{Entry, Mapping, Node, Value};

impl Composer<'_> {
    pub(super) fn flow_list(&mut self, properties: Properties) -> Option<Node> {
        let head = self.take().head;
        self.skip();
        let mut items = Vec::new();
        loop {
            match self.peek()? {
                TokenType::FlowSequenceEnd => break,
                TokenType::FlowEntry => self.skip(),
                TokenType::Key => {
                    let entry = self.flow_entry(&TokenType::FlowSequenceEnd)?;
                    let mapping = Mapping::from_entries(vec![entry]);
                    let comments = Comments::default();
                    items.push(self.collection(Value::Mapping(mapping), Properties::default(), comments, true));
                }
                _ => items.push(self.flow_node()?),
            }
        }
        let comments = Comments { head, ..self.take() };
        self.skip();
        Some(self.collection(Value::Sequence(items.into()), properties, comments, true))
    }

    pub(super) fn flow_map(&mut self, properties: Properties) -> Option<Node> {
        let head = self.take().head;
        self.skip();
        let mut entries = Vec::new();
        loop {
            match self.peek()? {
                TokenType::FlowMappingEnd => break,
                TokenType::FlowEntry => self.skip(),
                TokenType::Key => entries.push(self.flow_entry(&TokenType::FlowMappingEnd)?),
                _ => {
                    let key = self.flow_node()?;
                    let value = self.empty();
                    entries.push(self.entry(key, value)?);
                }
            }
        }
        let comments = Comments { head, ..self.take() };
        self.skip();
        Some(self.collection(Value::Mapping(Mapping::from_entries(entries)), properties, comments, true))
    }

    /// An item or key that is written. What is no node would be read as an empty one again and again.
    fn flow_node(&mut self) -> Option<Node> {
        match self.peek()? {
            TokenType::Alias(_)
            | TokenType::Anchor(_)
            | TokenType::Tag(..)
            | TokenType::Scalar(..)
            | TokenType::FlowSequenceStart
            | TokenType::FlowMappingStart => self.node(false, false),
            _ => None,
        }
    }

    fn flow_entry(&mut self, end: &TokenType<'_>) -> Option<Entry> {
        self.skip();
        let ends = |next: TokenType<'_>| next == TokenType::FlowEntry || next == *end;
        let next = self.peek()?;
        let key = if next == TokenType::Value || ends(next) { self.empty() } else { self.node(false, false)? };
        let value = if self.peek()? == TokenType::Value {
            self.skip();
            if ends(self.peek()?) { self.empty() } else { self.node(false, false)? }
        } else {
            self.empty()
        };
        self.entry(key, value)
    }
}
