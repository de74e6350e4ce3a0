//! A text with `${…}`.

use super::TemplateError;
use super::expression::Part;
use super::read::Reader;

/// A text with expressions, read once and expanded as often as there are sets of values.
///
/// Only `${…}` is an expression: `$name` is text. `$$` is one `$`, so that `$${name}` is the text `${name}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub(super) parts: Vec<Part>,
}

impl Template {
    /// Reads a text.
    ///
    /// # Errors
    /// An expression that the grammar does not have, with its place.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        Ok(Self { parts: Reader::new(source).template()? })
    }

    /// The text in its stretches.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Says whether there is nothing to expand and nothing to unescape: the text comes out as it went in.
    pub(super) fn stays(source: &str) -> bool {
        !source.contains("${") && !source.contains("$$")
    }
}
