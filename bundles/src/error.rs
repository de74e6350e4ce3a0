//! What is wrong with a manifest, and where.

use yaml::{YamlError, YamlErrorKind};

/// A manifest that cannot be read.
///
/// Displays as `path:line:column: message; hint`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}:{column}: {message}; {hint}")]
pub struct BundleError {
    /// The path that was given to the parser.
    pub path: String,
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
    /// What was found.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl BundleError {
    pub(crate) fn new(
        path: &str,
        (line, column): (usize, usize),
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { path: path.to_owned(), line, column, message: message.into(), hint: hint.into() }
    }

    pub(crate) fn yaml(path: &str, error: &YamlError) -> Self {
        let hint = match error.kind {
            YamlErrorKind::Encoding => "save the file as UTF-8 text",
            YamlErrorKind::DuplicateKey => "remove one of the two; a merge may have kept both",
            YamlErrorKind::Limit => {
                "no published manifest is as large or as deep as that; take the file anew from its release"
            }
            YamlErrorKind::Syntax | YamlErrorKind::KeyType | YamlErrorKind::Value | YamlErrorKind::Alias => {
                "compare the file with the one that was published; it may be cut short or merged by hand"
            }
        };
        Self::new(path, (error.line, error.column), error.message.clone(), hint)
    }
}
