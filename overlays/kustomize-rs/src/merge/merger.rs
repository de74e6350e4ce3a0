//! What all parts of a strategic merge share: the schema, its place in the object, and what is refused.

use std::cell::Cell;

use yaml::{Entry, Mapping, Node, Span, Style};

use crate::error::{BuildError, BuildErrorKind};
use crate::id::Gvk;
use crate::schema::{Place, Schema};

/// More items than this without distinct keys are refused: the careful way costs their square.
const LONGEST_UNKEYED_LIST: usize = 10_000;

/// More comments with definitions of their own than this are refused: each costs a copy of the schema.
const MOST_COPIES: usize = 200;

pub(super) struct Merger<'s> {
    pub(super) schema: &'s Schema,
    /// How often comments had it copied.
    pub(super) copies: &'s Cell<usize>,
    /// The last number of a list or map that is in several places.
    pub(super) numbers: &'s Cell<u32>,
}

impl<'s> Merger<'s> {
    pub(super) fn place(&self, known: Option<Place<'s>>, nodes: [Option<&Node>; 2]) -> Option<Place<'s>> {
        if known.is_some() {
            return known;
        }
        nodes.into_iter().flatten().find_map(|node| {
            let kind = node.get("kind")?.as_str()?;
            let api_version = node.get("apiVersion")?.as_str()?;
            self.root(api_version, kind)
        })
    }

    /// Where an object of this kind begins.
    pub(super) fn root(&self, api_version: &str, kind: &str) -> Option<Place<'s>> {
        self.schema.root(&Gvk::new(api_version, kind))
    }

    /// The same with the schema of a comment, if it has one of its own.
    pub(super) fn with_schema<'t>(&'t self, schema: Option<&'t Schema>) -> Result<Merger<'t>, BuildError> {
        self.copies.set(self.copies.get() + usize::from(schema.is_some()));
        if self.copies.get() > MOST_COPIES {
            let message = format!("more than {MOST_COPIES} comments hold schemas of objects");
            return Err(BuildError::new(BuildErrorKind::Limit, message));
        }
        Ok(Merger { schema: schema.unwrap_or(self.schema), copies: self.copies, numbers: self.numbers })
    }
}

pub(super) fn is_null(node: &Node) -> bool {
    // A null that kustomize made itself is a text for it.
    (node.is_null() && node.style() != Style::Untyped) || node.is_flow_null()
}

pub(super) fn is_nothing(node: Option<&Node>) -> bool {
    node.is_none_or(is_null)
}

/// The refusal of a patch that has another shape than the object.
pub(super) fn other_shape(own: &str, given: &str, span: Span) -> BuildError {
    let mut error = BuildError::transform(format!("the patch has a {given} where the object has a {own}"));
    (error.line, error.column) = (span.line(), span.column());
    error
}

/// An item of a list that is not there any more.
pub(super) fn is_gone(item: &Node) -> bool {
    item.is_null() || item.as_mapping().is_some_and(Mapping::is_empty)
}

/// An item that only one side has: kustomize writes a scalar anew, without its type.
pub(super) fn written_anew(mut item: Node) -> Option<Node> {
    item.lose_type();
    Some(item).filter(|item| !is_gone(item))
}

/// kustomize cannot set a field whose name is empty, and sets each one that it walks by.
pub(super) fn refuse_nameless(entry: &Entry) -> Result<(), BuildError> {
    if !entry.key.is_empty() {
        return Ok(());
    }
    let mut error = BuildError::transform("a patch meets a field without a name");
    (error.line, error.column) = (entry.key_span.line(), entry.key_span.column());
    Err(error)
}

pub(super) fn refuse_longest(length: usize) -> Result<(), BuildError> {
    if length <= LONGEST_UNKEYED_LIST {
        return Ok(());
    }
    let message = format!("a list of {length} items without distinct merge keys is too long");
    Err(BuildError::new(BuildErrorKind::Limit, message))
}
