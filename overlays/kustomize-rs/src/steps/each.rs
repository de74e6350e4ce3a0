//! Steps that change each object by itself.

use std::sync::Arc;

use crate::error::BuildError;
use crate::resource::Resource;
use crate::schema::{FieldSpec, Schema};
use crate::transform::images::{self, NamedImage};
use crate::transform::labels;
use crate::transform::names::{self, End};

/// A step that needs no other objects, and can be run on a few of them at a time.
pub(crate) enum Each {
    Name(End, String, Arc<Vec<FieldSpec>>),
    Labels(Vec<(String, String)>, Arc<Vec<FieldSpec>>),
    Annotations(Vec<(String, String)>, Arc<Vec<FieldSpec>>),
    Images(Vec<NamedImage>, Arc<Vec<FieldSpec>>),
}

impl Each {
    pub(super) fn run(&self, objects: &mut [Resource], schema: &Schema) -> Result<(), BuildError> {
        match self {
            Self::Name(end, text, fields) => names::add(objects, *end, text, fields, schema),
            Self::Labels(pairs, fields) => labels::add(objects, pairs, fields),
            Self::Annotations(pairs, fields) => labels::add(objects, pairs, fields),
            Self::Images(images, fields) => images::change(objects, images, fields),
        }
    }

    /// The longest text that it may put in one place, in bytes, and in how many fields it may look.
    pub(super) fn cost(&self) -> (usize, usize) {
        let length = |pairs: &[(String, String)]| pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
        match self {
            Self::Name(_, text, fields) => (text.len(), fields.len()),
            Self::Labels(pairs, fields) | Self::Annotations(pairs, fields) => (length(pairs), fields.len()),
            Self::Images(images, fields) => {
                let longest = images.iter().map(NamedImage::longest).max().unwrap_or(0);
                (longest, fields.len().saturating_mul(images.len()))
            }
        }
    }

    /// The fields that it changes.
    pub(super) fn fields(&self) -> &[FieldSpec] {
        match self {
            Self::Name(_, _, fields)
            | Self::Labels(_, fields)
            | Self::Annotations(_, fields)
            | Self::Images(_, fields) => fields,
        }
    }
}
