//! Text to nodes. The only file that knows the event parser.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use base64::Engine;
use granit_parser::{Event, Options, Parser, ScalarStyle, StructureStyle, Tag};

use super::node::{Entry, Mapping, Node, Span, Style, Value};
use super::resolve::{Scalar, resolve_with};
use super::shared::Text;
use super::{Limits, YamlError, YamlErrorKind, remark};

/// One document of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its top node; never null.
    pub root: Node,
    /// Keys that were given twice, where the rules let the last one win: only [`Rules::V2`] does.
    pub duplicates: Vec<(Text, Span)>,
}

/// Whose reading rules decide what a plain scalar means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rules {
    /// go-yaml v3: `yes` is text. Kubernetes objects are read so.
    #[default]
    V3,
    /// As `V3`, and as kustomize takes it in: an empty value inside of `{}` is the empty text, and a quoted `<<` is no
    /// key.
    Manifest,
    /// go-yaml v2, which kustomize reads kustomization files with: `yes`, `no`, `on`, `off`, `y`, `n` are booleans, in
    /// keys too, and every scalar key becomes text.
    V2,
    /// go-yaml v3, but a key may be repeated with an equal value, as published Bundles of 2021 do. Kubernetes takes
    /// the last one; here a repeated key with another value stays an error.
    V3RepeatedKeys,
}

/// Returns `bytes` as text without byte order mark. All spans refer to the returned text.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, YamlError> {
    match bytes {
        [0xFF, 0xFE, rest @ ..] => return utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => return utf16(rest, u16::from_be_bytes),
        _ => {}
    }
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
            Err(YamlError::new(YamlErrorKind::Encoding, "the file is not UTF-8", line, column))
        }
    }
}

fn utf16<'a>(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Cow<'a, str>, YamlError> {
    let units = bytes.chunks(2).map(|pair| match pair {
        [first, second] => unit([*first, *second]),
        _ => 0xFFFF,
    });
    char::decode_utf16(units)
        .collect::<Result<String, _>>()
        .map(Cow::Owned)
        .map_err(|_| YamlError::new(YamlErrorKind::Encoding, "the file is not UTF-16", 1, 1))
}

/// Reads all documents of `source` by go-yaml v3's rules: aliases expanded, `<<` merged, empty documents dropped.
pub fn parse(source: &str, limits: &Limits) -> Result<Vec<Document>, YamlError> {
    parse_with(source, limits, Rules::V3)
}

/// As [`parse`], with a choice of rules.
pub fn parse_with(source: &str, limits: &Limits, rules: Rules) -> Result<Vec<Document>, YamlError> {
    if source.len() > limits.bytes {
        let message = format!("the text has {} bytes, more than the limit of {}", source.len(), limits.bytes);
        return Err(YamlError::new(YamlErrorKind::Limit, message, 1, 1));
    }
    let has_remarks = rules == Rules::Manifest && remark::may_be_in(source);
    if !has_remarks && let Some(documents) = super::plain::read(source, limits, rules) {
        return Ok(documents);
    }
    parse_events(source, limits, rules)
}

/// Reads any text, by the events of the parser.
pub(super) fn parse_events(source: &str, limits: &Limits, rules: Rules) -> Result<Vec<Document>, YamlError> {
    let mut options = Options::default();
    // kustomize cuts a file at its `---` lines before it reads it, which leaves directives without a document.
    options.disallow_directives = rules == Rules::Manifest;
    options.set_emit_comments(false);
    options.emit_anchor_events = true;
    options.block_nesting_limit = limits.depth.saturating_add(1);
    options.flow_nesting_limit = limits.depth.saturating_add(1);
    let mut builder = Builder {
        source,
        limits,
        rules,
        has_remarks: rules == Rules::Manifest && remark::may_be_in(source),
        nodes: 0,
        documents: 0,
        anchors: HashMap::new(),
        open_anchors: HashSet::new(),
        stack: Vec::new(),
        finished: Vec::new(),
        duplicates: Vec::new(),
    };
    for event in Parser::new_from_str_with_options(source, options) {
        match event {
            Ok((event, span)) => builder.event(event, convert(&span))?,
            // go-yaml v2 does not look behind the first document.
            Err(_) if rules == Rules::V2 && !builder.finished.is_empty() => break,
            Err(error) => {
                let marker = error.marker();
                let kind = match error.kind() {
                    granit_parser::ErrorKind::UnknownAnchor => YamlErrorKind::Alias,
                    granit_parser::ErrorKind::RecursionLimitExceeded => YamlErrorKind::Limit,
                    _ => YamlErrorKind::Syntax,
                };
                let message = match kind {
                    YamlErrorKind::Limit => format!("nested deeper than {} levels", limits.depth),
                    _ => error.kind().to_string(),
                };
                return Err(YamlError::new(kind, message, marker.line().max(1), marker.col() + 1));
            }
        }
    }
    Ok(builder.finished)
}

fn convert(span: &granit_parser::Span) -> Span {
    let range = span.byte_range().unwrap_or_default();
    Span { start: range.start, end: range.end, line: span.start.line(), column: span.start.col() + 1 }
}

fn error_at(kind: YamlErrorKind, message: impl Into<String>, span: Span) -> YamlError {
    YamlError::new(kind, message, span.line, span.column)
}

/// So many bytes of an anchor's text count as one node.
const BYTES_OF_A_NODE: usize = 64;

/// A subtree that an alias can name.
struct Anchor {
    node: Node,
    /// Nodes in it, and levels.
    count: usize,
    depth: usize,
}

/// A collection that is being read.
struct Frame {
    span: Span,
    anchor: usize,
    /// Written with brackets or braces.
    is_flow: bool,
    /// Levels below this one so far.
    depth: usize,
    /// Value of the node counter when it began.
    nodes_before: usize,
    content: Content,
}

enum Content {
    Sequence(Vec<Node>),
    Mapping(MappingFrame),
}

#[derive(Default)]
struct MappingFrame {
    entries: Vec<Entry>,
    /// Keys, once there are too many to look through.
    seen: HashSet<Text>,
    key: Option<Key>,
    merges: Vec<(Node, Span)>,
    merge_seen: bool,
    /// A key is no text.
    has_misfit: bool,
}

enum Key {
    Text(Text, Span),
    /// One that is already there, whose value has to be the same.
    Repeated(Text, Span),
    /// One of another type.
    Misfit(Text, Span),
    Merge(Span),
}

struct Builder<'l> {
    source: &'l str,
    limits: &'l Limits,
    rules: Rules,
    /// Comments may hold schemas.
    has_remarks: bool,
    nodes: usize,
    documents: usize,
    anchors: HashMap<usize, Anchor>,
    open_anchors: HashSet<usize>,
    stack: Vec<Frame>,
    finished: Vec<Document>,
    duplicates: Vec<(Text, Span)>,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
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
        let has_misfit = matches!(&frame.content, Content::Mapping(mapping) if mapping.has_misfit);
        let (value, last) = match frame.content {
            Content::Sequence(mut items) => {
                items.shrink_to_fit();
                let last = items.last().map(|item| item.span.end);
                (Value::Sequence(items.into()), last)
            }
            Content::Mapping(mut mapping) => {
                mapping.entries.shrink_to_fit();
                let last = mapping.entries.last().map(|entry| entry.value.span.end.max(entry.key_span.end));
                (Value::Mapping(self.merge(mapping)?), last)
            }
        };
        // The end of a block collection is reported where the next token begins: its last child is closer.
        let end = if end.end > end.start { end.end } else { last.unwrap_or(end.end) };
        let mut node = Node::with_span(value, Span { end: end.max(frame.span.start), ..frame.span });
        if frame.is_flow {
            node.set_style(Style::Flow);
        }
        if has_misfit {
            node.set_style(Style::Misfit);
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
        let count = count.saturating_add(node.span.end.saturating_sub(node.span.start) / BYTES_OF_A_NODE);
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
                return Err(error_at(YamlErrorKind::KeyType, "the alias of a key is no text", span));
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
        let text = if style == ScalarStyle::Plain && span.start == span.end { Cow::Borrowed("") } else { text };
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

    /// The event parser reads more than go-yaml: surrogate pairs as JSON has them, and breaks of YAML 1.1 as text.
    fn refuse_what_libyaml_refuses(&self, text: &str, style: ScalarStyle, span: Span) -> Result<(), YamlError> {
        if text.is_ascii() {
            return Ok(());
        }
        let fail = |message: &str| Err(error_at(YamlErrorKind::Syntax, message, span));
        if style == ScalarStyle::Plain && text.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
            return fail("a line break of YAML 1.1 inside of unquoted text");
        }
        if style == ScalarStyle::DoubleQuoted && text.chars().any(|character| character > '\u{FFFF}') {
            let source = self.source.get(span.start..span.end).unwrap_or_default();
            let mut escapes = source.match_indices("\\u").filter_map(|(at, _)| source.get(at + 2..at + 6));
            if escapes.any(|digits| {
                digits.starts_with(['d', 'D']) && u16::from_str_radix(digits, 16).is_ok_and(|code| code >= 0xD800)
            }) {
                return fail("an escape of half a character; write \\U and eight digits");
            }
        }
        Ok(())
    }

    /// A block scalar that ends the text in the middle of a line has no break at its end; the event parser adds one.
    fn unended_block<'t>(&self, text: Cow<'t, str>, style: ScalarStyle, span: Span) -> Cow<'t, str> {
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let last = self.source.rsplit('\n').next().unwrap_or_default();
        if !is_block || last.trim().is_empty() || span.end + last.len() < self.source.len() {
            return text;
        }
        let ends_here = text.ends_with('\n') && text.trim_end_matches('\n').ends_with(last.trim_start());
        match ends_here {
            true => Cow::Owned(text.strip_suffix('\n').unwrap_or(&text).to_owned()),
            false => text,
        }
    }

    fn scalar_node(
        &self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<Node, YamlError> {
        let scalar = match tag {
            None if style == ScalarStyle::Plain => self.resolve(&text),
            None => Scalar::Text,
            Some(tag) => {
                let binary = tag.handle() == "tag:yaml.org,2002:" && tag.suffix() == "binary";
                if binary {
                    let mut node = Node::with_span(Value::String(decode_binary(&text, span)?.into()), span);
                    node.set_written(&text);
                    return Ok(node);
                }
                match self.resolve_tagged(&text, style, tag, span) {
                    // kustomize finds this out when it prints the object, if it is still there.
                    Err(error) if self.rules == Rules::Manifest && error.kind == YamlErrorKind::Value => {
                        let mut node = Node::with_span(Value::String(text.into()), span);
                        node.set_style(Style::Misfit);
                        return Ok(node);
                    }
                    result => result?,
                }
            }
        };
        let empty_in_braces = scalar == Scalar::Text && text.is_empty() && style == ScalarStyle::Plain && tag.is_none();
        let mut node = scalar_value(scalar, text, span);
        node.set_style(match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
        });
        if empty_in_braces {
            node.set_written("");
        }
        Ok(node)
    }

    fn resolve(&self, text: &str) -> Scalar {
        match self.rules {
            Rules::Manifest if text.is_empty() && self.in_flow_mapping() => Scalar::Text,
            rules => resolve_with(text, rules),
        }
    }

    /// A scalar with an explicit tag: the core types must fit, every other tag means text.
    fn resolve_tagged(&self, text: &str, style: ScalarStyle, tag: &Tag, span: Span) -> Result<Scalar, YamlError> {
        if tag.handle() == "!" && tag.suffix().is_empty() || tag.handle().is_empty() && tag.suffix() == "!" {
            // The non-specific tag changes nothing in go-yaml v3; in v2 it means text.
            let plain = style == ScalarStyle::Plain && self.rules != Rules::V2;
            return Ok(if plain { self.resolve(text) } else { Scalar::Text });
        }
        let Some(name) = tag.core_suffix().or_else(|| timestamp_tag(tag)) else {
            return Ok(Scalar::Text);
        };
        let found = self.resolve(text);
        let fits = match (name, &found) {
            ("str", _) => return Ok(Scalar::Text),
            ("float", Scalar::Int(number)) => {
                #[allow(clippy::cast_precision_loss, reason = "what the tag asks for")]
                return Ok(Scalar::Float(*number as f64));
            }
            ("null", Scalar::Null)
            | ("bool", Scalar::Bool(_))
            | ("int", Scalar::Int(_) | Scalar::Uint(_))
            | ("float", Scalar::Float(_))
            | ("timestamp", Scalar::Timestamp(_)) => true,
            _ => false,
        };
        if fits {
            return Ok(found);
        }
        Err(error_at(YamlErrorKind::Value, format!("`{text}` is no value of the tag !!{name}"), span))
    }

    fn scalar_key(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Result<Key, YamlError> {
        if style == ScalarStyle::Plain && tag.is_none() && text == "<<" {
            return Ok(Key::Merge(span));
        }
        let node = self.scalar_node(Cow::Borrowed(text), style, tag, span)?;
        let key = match node.value {
            Value::String(text) => text,
            Value::Int(number) => number.to_string().into(),
            Value::Uint(number) if self.rules != Rules::V2 => number.to_string().into(),
            Value::Bool(value) if self.rules == Rules::V2 => value.to_string().into(),
            Value::Float(number) if self.rules == Rules::V2 => super::float_text(number).into(),
            // kustomize finds this out when it prints the object, if it is still there.
            Value::Bool(_) | Value::Null | Value::Float(_) if self.rules == Rules::Manifest => {
                return Ok(Key::Misfit(text.into(), span));
            }
            _ => {
                let message = format!("the key `{text}` is no text; put it in quotes");
                return Err(error_at(YamlErrorKind::KeyType, message, span));
            }
        };
        Ok(Key::Text(key, span))
    }

    fn in_flow_mapping(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { content: Content::Mapping(_), is_flow: true, .. }))
    }

    fn awaits_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { content: Content::Mapping(mapping), .. }) if mapping.key.is_none())
    }

    fn key(&mut self, key: Key, span: Span) -> Result<(), YamlError> {
        let Some(Frame { content: Content::Mapping(mapping), .. }) = self.stack.last_mut() else {
            return Ok(());
        };
        match &key {
            Key::Merge(_) => {
                if std::mem::replace(&mut mapping.merge_seen, true) {
                    return Err(error_at(YamlErrorKind::DuplicateKey, "the merge key `<<` is already there", span));
                }
            }
            Key::Text(text, _) => {
                if let Some(earlier) = mapping.duplicate(text) {
                    if self.rules == Rules::V3RepeatedKeys {
                        mapping.key = Some(Key::Repeated(text.clone(), span));
                        return Ok(());
                    }
                    if self.rules == Rules::V2 {
                        self.duplicates.push((text.clone(), earlier));
                        mapping.entries.retain(|entry| entry.key != *text);
                        mapping.key = Some(key);
                        return Ok(());
                    }
                    let message = format!("the key `{text}` is already on line {}", earlier.line);
                    return Err(error_at(YamlErrorKind::DuplicateKey, message, span));
                }
            }
            Key::Repeated(..) | Key::Misfit(..) => {}
        }
        mapping.key = Some(key);
        Ok(())
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
                Some(Key::Misfit(key, key_span)) => {
                    mapping.has_misfit = true;
                    mapping.entries.push(Entry { key, key_span, value: node });
                }
                Some(Key::Repeated(key, span)) => {
                    let earlier = mapping.entries.iter().find(|entry| entry.key == key);
                    if let Some(earlier) = earlier.filter(|entry| entry.value != node) {
                        let line = earlier.key_span.line;
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

    /// Adds what `<<` names: own keys win, then the first of a list.
    fn merge(&mut self, mut frame: MappingFrame) -> Result<Mapping, YamlError> {
        if self.rules == Rules::Manifest {
            frame.drop_quoted_merge_key();
        }
        let mut mapping = Mapping::from_entries(frame.entries);
        let mut known: Option<HashSet<Text>> = None;
        for (node, span) in frame.merges {
            let Value::Mapping(merged) = node.value else {
                let message = "the merge key `<<` needs a mapping or a list of mappings";
                return Err(error_at(YamlErrorKind::Value, message, span));
            };
            let known = known.get_or_insert_with(|| mapping.iter().map(|entry| entry.key.clone()).collect());
            for entry in merged {
                if known.insert(entry.key.clone()) {
                    mapping.push_entry(entry);
                }
            }
        }
        Ok(mapping)
    }
}

impl MappingFrame {
    /// kustomize removes the first key that reads `<<`, also one in quotes that merges nothing.
    fn drop_quoted_merge_key(&mut self) {
        let merged_at = self.merges.first().map(|(_, span)| span.start);
        let is_first = |entry: &Entry| merged_at.is_none_or(|start| entry.key_span.start < start);
        if let Some(at) = self.entries.iter().position(|entry| entry.key == "<<" && is_first(entry)) {
            self.entries.remove(at);
        }
    }

    /// Returns where `key` was before, and remembers it.
    fn duplicate(&mut self, key: &str) -> Option<Span> {
        const LOOK_THROUGH: usize = 24;
        let find = |entries: &[Entry]| entries.iter().find(|entry| entry.key == key).map(|entry| entry.key_span);
        if self.entries.len() < LOOK_THROUGH {
            return find(&self.entries);
        }
        if self.seen.is_empty() {
            self.seen.extend(self.entries.iter().map(|entry| entry.key.clone()));
        }
        if self.seen.insert(key.into()) { None } else { find(&self.entries) }
    }
}

/// The node of a scalar whose meaning is known.
pub(super) fn scalar_value(scalar: Scalar, text: Cow<'_, str>, span: Span) -> Node {
    let value = match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => Value::Bool(value),
        Scalar::Int(number) => Value::Int(number),
        Scalar::Uint(number) => Value::Uint(number),
        Scalar::Float(number) => Value::Float(number),
        Scalar::Timestamp(time) => Value::String(time.into()),
        Scalar::Merge | Scalar::Text => return Node::with_span(Value::String(text.into()), span),
    };
    let mut node = Node::with_span(value, span);
    if node.scalar_text().is_some_and(|canonical| canonical != text) {
        node.set_written(&text);
    }
    node
}

fn timestamp_tag(tag: &Tag) -> Option<&'static str> {
    (tag.handle() == "tag:yaml.org,2002:" && tag.suffix() == "timestamp").then_some("timestamp")
}

fn decode_binary(text: &str, span: Span) -> Result<String, YamlError> {
    let compact: String = text.chars().filter(|character| !matches!(character, '\n' | '\r')).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(compact)
        .map_err(|error| error_at(YamlErrorKind::Value, format!("!!binary is no base64: {error}"), span))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
