//! What can be wrong with a YAML text, and where.

/// Kind of a [`YamlError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum YamlErrorKind {
    /// The bytes are not UTF-8.
    Encoding,
    /// The text is not YAML.
    Syntax,
    /// The same key twice in one mapping.
    DuplicateKey,
    /// A key that is no string, integer or date, for example `true:` or a list.
    KeyType,
    /// A value that its tag or YAML 1.1 forbids, for example `!!int x` or a merge key without a mapping.
    Value,
    /// An alias without anchor, or an anchor that contains itself.
    Alias,
    /// One of the [`Limits`](super::Limits) is exceeded.
    Limit,
}

/// An error with its place. `line` and `column` are 1-based, 0 if unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct YamlError {
    /// Kind of the error.
    pub kind: YamlErrorKind,
    /// What is wrong, in lower case and without the place.
    pub message: String,
    /// 1-based line in the decoded text.
    pub line: usize,
    /// 1-based column in characters.
    pub column: usize,
}

impl YamlError {
    pub(crate) fn new(kind: YamlErrorKind, message: impl Into<String>, line: usize, column: usize) -> Self {
        Self { kind, message: message.into(), line, column }
    }
}
