//! Comments that hold a schema: they count for what they stand at instead of what is known.

use yaml::{Holder, Node};

use super::strategic::Merger;
use crate::error::{BuildError, BuildErrorKind};
use crate::schema::{Place, Schema};

/// More comments with definitions of their own than this are refused: each costs a copy of the schema.
const MOST_COPIES: usize = 200;

impl<'s> Merger<'s> {
    /// Walks by what a comment says instead of what is known, if there is one that says something.
    pub(super) fn by_remark(
        &self,
        own: Option<(Holder, String)>,
        given: Option<(Holder, String)>,
        place: Option<Place<'s>>,
        walk: impl for<'t> FnOnce(&Merger<'t>, Option<Place<'t>>) -> Result<Option<Node>, BuildError>,
    ) -> Result<Option<Node>, BuildError> {
        let Some((_, text)) = own.as_ref().or(given.as_ref()) else {
            return walk(self, place);
        };
        let Some((schema, property)) = self.schema.with_remark(text) else {
            return walk(self, place);
        };
        let mut merged = walk(&self.with_schema(schema.as_ref())?, Some(Place::Property(&property)))?;
        let is_new = |merged: &Node| merged.as_sequence().is_some() && property.merges();
        match (&mut merged, last_remark(own, given)) {
            (Some(merged), Some((Holder::Value, _))) if is_new(merged) => merged.drop_remark(),
            (Some(merged), Some((holder, text))) if !merged.is_scalar() => merged.set_remark(holder, &text),
            _ => {}
        }
        Ok(merged)
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

pub(super) fn remark(node: Option<&Node>) -> Option<(Holder, String)> {
    node.and_then(Node::remark).map(|(holder, text)| (holder, text.to_owned()))
}

/// Keys keep their comments. The comment of a value goes from the patch to the object, but a list with merge keys is
/// made anew.
pub(super) fn last_remark(own: Option<(Holder, String)>, given: Option<(Holder, String)>) -> Option<(Holder, String)> {
    match own {
        Some(own @ (Holder::Key, _)) => Some(own),
        own => given.filter(|(holder, _)| *holder == Holder::Value).or(own),
    }
}
