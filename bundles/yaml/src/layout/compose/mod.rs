//! Tokens to a tree, with comments handed out as go-yaml v3 does it.

mod block;
mod flow;

use granit_parser::{Event, Options, Parser, ScalarStyle, TokenType};

use super::comments::{Comment, Position, Token, scan};
use super::{Comments, Layout, Quotes, Written};
use crate::limits::Limits;
use crate::node::{Node, Value};
use crate::parse::escaped_slash;
use crate::resolve::{Scalar, resolve_v3};

/// Reads the first document of a text; `None` if it is not valid YAML or defines tag handles.
pub fn compose(source: &str, limits: &Limits) -> Option<Layout> {
    if source.len() > limits.bytes {
        return None;
    }
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.block_nesting_limit = limits.depth.saturating_add(1);
    options.flow_nesting_limit = limits.depth.saturating_add(1);
    for event in Parser::new_from_str_with_options(source, options) {
        match event.ok()? {
            (Event::DocumentEnd, _) => break,
            (Event::Scalar(_, ScalarStyle::DoubleQuoted, ..), span) => {
                let written = span.byte_range().and_then(|range| source.get(range));
                if written.is_some_and(|written| escaped_slash(written).is_some()) {
                    return None;
                }
            }
            _ => {}
        }
    }
    let (tokens, comments) = scan(source)?;
    let mut composer = Composer {
        source,
        tokens: tokens.into_iter().peekable(),
        comments: comments.into_iter().peekable(),
        taken: Comments::default(),
        stem: String::new(),
        layout: Layout::default(),
    };
    composer.document()?;
    Some(composer.layout)
}

struct Composer<'s> {
    source: &'s str,
    tokens: std::iter::Peekable<std::vec::IntoIter<Token<'s>>>,
    comments: std::iter::Peekable<std::vec::IntoIter<Comment>>,
    /// Comments that the next node takes.
    taken: Comments,
    /// Comments above an item of a list that is a list or map.
    stem: String,
    layout: Layout,
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

/// Anchor and tag in front of a node.
#[derive(Default)]
struct Properties {
    anchor: Option<String>,
    tag: Option<String>,
}

impl<'s> Composer<'s> {
    /// Looks at the next token; the comments up to it are taken.
    fn peek(&mut self) -> Option<TokenType<'s>> {
        let token = self.tokens.peek()?;
        let is_end = token.kind == TokenType::BlockEnd;
        while let Some(comment) = self
            .comments
            .next_if(|comment| comment.from <= token.start && !(is_end && comment.position == Position::Head))
        {
            let slot = match comment.position {
                Position::Head => &mut self.taken.head,
                Position::Line => &mut self.taken.line,
                Position::Foot => &mut self.taken.foot,
            };
            join(slot, &comment.text);
        }
        Some(token.kind.clone())
    }

    fn skip(&mut self) {
        self.tokens.next();
    }

    fn take(&mut self) -> Comments {
        self.stem.clear();
        std::mem::take(&mut self.taken)
    }

    fn document(&mut self) -> Option<()> {
        self.skip();
        while matches!(self.peek()?, TokenType::VersionDirective(..)) {
            self.skip();
        }
        match self.peek()? {
            TokenType::DocumentStart => {
                self.skip();
                self.peek()?;
            }
            TokenType::TagDirective(..) | TokenType::ReservedDirective(..) => return None,
            _ => self.split_head(),
        }
        let root = match self.peek()? {
            TokenType::DocumentStart | TokenType::DocumentEnd | TokenType::StreamEnd => return None,
            _ => self.node(true, false)?,
        };
        self.peek()?;
        let end = self.take();
        self.layout.root = root;
        self.layout.foot = if end.foot.is_empty() { end.head } else { end.foot };
        Some(())
    }

    /// What stands above an empty line is about the whole document.
    fn split_head(&mut self) {
        let head = std::mem::take(&mut self.taken.head);
        if let Some(own) = head.strip_suffix('\n') {
            self.layout.head = own.to_owned();
        } else if let Some((before, after)) = head.rsplit_once("\n\n") {
            (self.layout.head, self.taken.head) = (before.to_owned(), after.to_owned());
        } else {
            self.taken.head = head;
        }
    }

    fn node(&mut self, block: bool, beside_key: bool) -> Option<Node> {
        let mut properties = Properties::default();
        loop {
            match self.peek()? {
                TokenType::Alias(name) => {
                    let comments = self.take();
                    self.skip();
                    let alias = Some(name.into_owned());
                    let span = self.layout.add(Written { comments, alias, ..Written::default() });
                    return Some(Node::with_span(Value::Sequence(Vec::new().into()), span));
                }
                TokenType::Anchor(name) => properties.anchor = Some(name.into_owned()),
                TokenType::Tag(handle, suffix) => properties.tag = Some(short_tag(&handle, &suffix)?),
                _ => break,
            }
            self.skip();
        }
        match self.peek()? {
            TokenType::BlockEntry if beside_key => self.list(properties, false),
            TokenType::Scalar(style, text) => {
                let comments = self.take();
                let token = self.tokens.next()?;
                let text = unended(self.source, text.into_owned(), style, &token);
                Some(self.scalar(text, style, properties, comments))
            }
            TokenType::FlowSequenceStart => self.flow_list(properties),
            TokenType::FlowMappingStart => self.flow_map(properties),
            TokenType::BlockSequenceStart if block => self.list(properties, true),
            TokenType::BlockMappingStart if block => self.map(properties),
            _ => Some(self.scalar(String::new(), ScalarStyle::Plain, properties, Comments::default())),
        }
    }

    fn empty(&mut self) -> Node {
        self.scalar(String::new(), ScalarStyle::Plain, Properties::default(), Comments::default())
    }

    fn scalar(&mut self, text: String, style: ScalarStyle, properties: Properties, comments: Comments) -> Node {
        let quotes = match style {
            ScalarStyle::Plain => Quotes::None,
            ScalarStyle::SingleQuoted => Quotes::Single,
            ScalarStyle::DoubleQuoted => Quotes::Double,
            ScalarStyle::Literal => Quotes::Literal,
            ScalarStyle::Folded => Quotes::Folded,
        };
        let is_tagged = properties.tag.is_some();
        let tag = properties.tag.unwrap_or_else(|| {
            let tag = match (quotes, text.as_str()) {
                (Quotes::None, "<<") => "!!merge",
                (Quotes::None, text) => tag_of(text),
                _ => "!!str",
            };
            tag.to_owned()
        });
        let is_null = tag == "!!null";
        let value = if is_null { Value::Null } else { Value::String(text.as_str().into()) };
        let anchor = properties.anchor;
        let mut node = Node::new(value);
        if is_null {
            node.set_written(&text);
        }
        node.span = self.layout.add(Written { comments, anchor, tag, is_tagged, quotes, text, ..Written::default() });
        node
    }

    /// A list or map with its comments: those above it, then those that its end has taken.
    fn collection(&mut self, value: Value, properties: Properties, comments: Comments, is_flow: bool) -> Node {
        let default = if matches!(value, Value::Mapping(_)) { "!!map" } else { "!!seq" };
        let is_tagged = properties.tag.is_some();
        let tag = properties.tag.unwrap_or_else(|| default.to_owned());
        let anchor = properties.anchor;
        let span = self.layout.add(Written { comments, anchor, tag, is_tagged, is_flow, ..Written::default() });
        Node::with_span(value, span)
    }
}

/// The tag that a text without quotes has.
pub(super) fn tag_of(text: &str) -> &'static str {
    match resolve_v3(text) {
        Scalar::Null => "!!null",
        Scalar::Bool(_) => "!!bool",
        Scalar::Int(_) | Scalar::Uint(_) => "!!int",
        Scalar::Float(_) => "!!float",
        Scalar::Timestamp(_) => "!!timestamp",
        Scalar::Merge | Scalar::Text => "!!str",
    }
}

/// A tag as it is written, `!!int` or `!own`.
fn short_tag(handle: &str, suffix: &str) -> Option<String> {
    match handle {
        "!!" | "!" => Some(format!("{handle}{suffix}")),
        "" => Some(suffix.strip_prefix("tag:yaml.org,2002:").map(|name| format!("!!{name}"))?),
        _ => None,
    }
}

/// A block text that ends in the middle of the last line has no break at its end.
fn unended(source: &str, text: String, style: ScalarStyle, token: &Token<'_>) -> String {
    let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
    let is_last = source.get(token.end..).is_none_or(|rest| rest.trim().is_empty());
    if is_block && is_last && !source.ends_with('\n') {
        return text.strip_suffix('\n').unwrap_or(&text).to_owned();
    }
    text
}
