//! Events to nodes: what is open, and what anchors name.

use std::borrow::Cow;

use granit_parser::{Event, ScalarStyle, StructureStyle, Tag};

use super::frame::{Anchor, Builder, Content, Frame, Key, MappingFrame, error_at};
use crate::document::Document;
use crate::error::{YamlError, YamlErrorKind};
use crate::node::{Entry, Node, Span, Style, Value};
use crate::remark;
use crate::text::Text;

/// So many bytes of an anchor's text count as one node.
const BYTES_OF_A_NODE: usize = 64;

impl Builder<'_> {
    pub(super) fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                self.anchors.clear();
                self.open_anchors.clear();
                if self.documents > self.limits.documents {
                    let message = format!("more than {} documents", self.limits.documents);
                    return Err(error_at(YamlErrorKind::Limit, message, span));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => self.scalar(text, style, anchor, tag.as_deref(), span),
            Event::SequenceStart(style, anchor, _) => self.open(span, anchor, style, Content::Sequence(Vec::new())),
            Event::MappingStart(style, anchor, _) => {
                self.open(span, anchor, style, Content::Mapping(MappingFrame::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            // The event parser takes more characters for a part of the name.
            Event::Anchor(_, name)
                if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) =>
            {
                let message = format!("the anchor `&{name}` may have letters, digits, `-` and `_` only");
                Err(error_at(YamlErrorKind::Syntax, message, span))
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, nodes: usize, span: Span) -> Result<(), YamlError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > self.limits.nodes {
            let message = format!("more than {} nodes, counting what aliases stand for", self.limits.nodes);
            return Err(error_at(YamlErrorKind::Limit, message, span));
        }
        Ok(())
    }

    fn open(&mut self, span: Span, anchor: usize, style: StructureStyle, content: Content) -> Result<(), YamlError> {
        if self.awaits_key() {
            return Err(error_at(YamlErrorKind::KeyType, "a list or mapping cannot be a key", span));
        }
        if self.stack.len() >= self.limits.depth {
            let message = format!("nested deeper than {} levels", self.limits.depth);
            return Err(error_at(YamlErrorKind::Limit, message, span));
        }
        let nodes_before = self.nodes;
        self.count(1, span)?;
        if anchor != 0 {
            self.open_anchors.insert(anchor);
        }
        let is_flow = style == StructureStyle::Flow;
        self.stack.push(Frame { span, anchor, is_flow, depth: 0, nodes_before, content });
        Ok(())
    }

    fn close(&mut self, end: Span) -> Result<(), YamlError> {
        let Some(frame) = self.stack.pop() else {
            return Ok(());
        };
        let count = self.nodes - frame.nodes_before;
        let has_type_mismatch = matches!(&frame.content, Content::Mapping(mapping) if mapping.has_type_mismatch);
        let (value, last) = match frame.content {
            Content::Sequence(mut items) => {
                items.shrink_to_fit();
                let last = items.last().map(|item| item.span.end());
                (Value::Sequence(items.into()), last)
            }
            Content::Mapping(mut mapping) => {
                mapping.entries.shrink_to_fit();
                let last = mapping.entries.last().map(|entry| entry.value.span.end().max(entry.key_span.end()));
                (Value::Mapping(self.merge(mapping)?), last)
            }
        };
        // The end of a block collection is reported where the next token begins: its last child is closer.
        let end = if end.end() > end.start() { end.end() } else { last.unwrap_or(end.end()) };
        let mut node = Node::with_span(value, frame.span.until(end.max(frame.span.start())));
        if frame.is_flow {
            node.set_style(Style::Flow);
        }
        if has_type_mismatch {
            node.set_style(Style::TypeMismatch);
        }
        let depth = frame.depth + 1;
        if frame.anchor != 0 {
            self.open_anchors.remove(&frame.anchor);
            self.remember(frame.anchor, &node, count, depth, frame.span)?;
        }
        self.place(node, depth)
    }

    /// Keeps what an anchor names. The copy counts, so that anchors cannot multiply memory either.
    fn remember(
        &mut self,
        anchor: usize,
        node: &Node,
        count: usize,
        depth: usize,
        span: Span,
    ) -> Result<(), YamlError> {
        // Long texts count too: a thousand aliases of one are a thousand copies.
        let count = count.saturating_add(node.span.end().saturating_sub(node.span.start()) / BYTES_OF_A_NODE);
        self.count(count, span)?;
        self.anchors.insert(anchor, Anchor { node: node.clone(), count, depth });
        Ok(())
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), YamlError> {
        if self.open_anchors.contains(&anchor) {
            return Err(error_at(YamlErrorKind::Alias, "an anchor contains itself", span));
        }
        let Some(found) = self.anchors.get(&anchor) else {
            return Err(error_at(YamlErrorKind::Alias, "the alias has no anchor", span));
        };
        let (count, depth) = (found.count, found.depth);
        if self.stack.len() + depth > self.limits.depth {
            let message = format!("nested deeper than {} levels through an alias", self.limits.depth);
            return Err(error_at(YamlErrorKind::Limit, message, span));
        }
        self.count(count, span)?;
        let Some(found) = self.anchors.get(&anchor) else {
            return Ok(());
        };
        let mut node = found.node.clone();
        node.span = span;
        if self.awaits_key() {
            let text = node.as_str().map(Text::from);
            let Some(text) = text else {
                return Err(error_at(YamlErrorKind::KeyType, "the alias of a key is not text", span));
            };
            return self.key(Key::Text(text, span), span);
        }
        self.place(node, depth)
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<(), YamlError> {
        // The event parser writes a value that is not there as `~`.
        let text = if style == ScalarStyle::Plain && span.start() == span.end() { Cow::Borrowed("") } else { text };
        self.refuse_what_libyaml_refuses(&text, style, span)?;
        let text = self.unended_block(text, style, span);
        if self.awaits_key() {
            let key = self.scalar_key(&text, style, tag, span)?;
            if anchor != 0
                && let Key::Text(text, _) = &key
            {
                let node = Node::with_span(Value::String(text.clone()), span);
                self.remember(anchor, &node, 1, 0, span)?;
            }
            return self.key(key, span);
        }
        self.count(1, span)?;
        let node = self.scalar_node(text, style, tag, span)?;
        if anchor != 0 {
            self.remember(anchor, &node, 1, 0, span)?;
        }
        self.place(node, 0)
    }

    fn place(&mut self, mut node: Node, depth: usize) -> Result<(), YamlError> {
        let Some(frame) = self.stack.last_mut() else {
            if !node.is_null() {
                self.finished.push(Document { root: node, duplicates: std::mem::take(&mut self.duplicates) });
            }
            return Ok(());
        };
        frame.depth = frame.depth.max(depth);
        match &mut frame.content {
            Content::Sequence(items) => items.push(node),
            Content::Mapping(mapping) => match mapping.key.take() {
                Some(Key::Text(key, key_span)) => {
                    if self.has_remarks
                        && !node.is_scalar()
                        && let Some((holder, text)) = remark::find(self.source, key_span, &node)
                    {
                        node.set_remark(holder, text);
                    }
                    mapping.entries.push(Entry { key, key_span, value: node });
                }
                Some(Key::TypeMismatch(key, key_span)) => {
                    mapping.has_type_mismatch = true;
                    mapping.entries.push(Entry { key, key_span, value: node });
                }
                Some(Key::Repeated(key, span)) => {
                    let earlier = mapping.entries.iter().find(|entry| entry.key == key);
                    if let Some(earlier) = earlier.filter(|entry| entry.value != node) {
                        let line = earlier.key_span.line();
                        let message = format!("the key `{key}` is already on line {line}, with another value");
                        return Err(error_at(YamlErrorKind::DuplicateKey, message, span));
                    }
                }
                Some(Key::Merge(span)) => match node.value {
                    Value::Sequence(items) => mapping.merges.extend(items.into_iter().map(|item| (item, span))),
                    _ => mapping.merges.push((node, span)),
                },
                None => {
                    let message = "a value without a key";
                    return Err(error_at(YamlErrorKind::Syntax, message, node.span));
                }
            },
        }
        Ok(())
    }
}
