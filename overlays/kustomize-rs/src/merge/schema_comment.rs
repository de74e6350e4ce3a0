//! Comments that hold a schema: they count for what they stand at instead of what is known.

use yaml::{Holder, Node};

use super::merger::Merger;
use crate::error::BuildError;
use crate::schema::Place;

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
