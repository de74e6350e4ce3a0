//! What is open while events are read.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use crate::document::Document;
use crate::error::{YamlError, YamlErrorKind};
use crate::limits::Limits;
use crate::node::{Entry, Node, Span};
use crate::remark;
use crate::rules::Rules;
use crate::text::Text;

/// A subtree that an alias can name.
pub(super) struct Anchor {
    pub(super) node: Node,
    /// Nodes in it, and levels.
    pub(super) count: usize,
    pub(super) depth: usize,
}

/// A collection that is being read.
pub(super) struct Frame {
    pub(super) span: Span,
    pub(super) anchor: usize,
    /// Written with brackets or braces.
    pub(super) is_flow: bool,
    /// Levels below this one so far.
    pub(super) depth: usize,
    /// Value of the node counter when it began.
    pub(super) nodes_before: usize,
    pub(super) content: Content,
}

pub(super) enum Content {
    Sequence(Vec<Node>),
    Mapping(MappingFrame),
}

pub(super) struct Builder<'l> {
    pub(super) source: &'l str,
    pub(super) limits: &'l Limits,
    pub(super) rules: Rules,
    /// Comments may hold schemas.
    pub(super) has_remarks: bool,
    pub(super) nodes: usize,
    pub(super) documents: usize,
    pub(super) anchors: HashMap<usize, Anchor>,
    pub(super) open_anchors: HashSet<usize>,
    pub(super) stack: Vec<Frame>,
    pub(super) finished: Vec<Document>,
    pub(super) duplicates: Vec<(Text, Span)>,
}

impl<'l> Builder<'l> {
    pub(super) fn new(source: &'l str, limits: &'l Limits, rules: Rules) -> Self {
        Self {
            source,
            limits,
            rules,
            has_remarks: rules.is_of_manifests() && remark::may_be_in(source),
            nodes: 0,
            documents: 0,
            anchors: HashMap::new(),
            open_anchors: HashSet::new(),
            stack: Vec::new(),
            finished: Vec::new(),
            duplicates: Vec::new(),
        }
    }
}

#[derive(Default)]
pub(super) struct MappingFrame {
    pub(super) entries: Vec<Entry>,
    /// Keys, once there are too many to look through.
    pub(super) seen: HashSet<Text>,
    pub(super) key: Option<Key>,
    pub(super) merges: Vec<(Node, Span)>,
    pub(super) merge_seen: bool,
    /// A key is not text, or it is there twice.
    pub(super) has_type_mismatch: bool,
}

pub(super) enum Key {
    Text(Text, Span),
    /// One that is already there, whose value has to be the same.
    Repeated(Text, Span),
    /// One of another type, or one that is already there.
    TypeMismatch(Text, Span),
    Merge(Span),
}

pub(super) fn error_at(kind: YamlErrorKind, message: impl Into<String>, span: Span) -> YamlError {
    YamlError::new(kind, message, span.line(), span.column())
}
