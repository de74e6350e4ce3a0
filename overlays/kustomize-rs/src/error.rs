//! The error of a build: what was attempted, on what, where, and what to do.

use std::fmt;

use yaml::{Span, YamlError, YamlErrorKind};

/// Kind of a [`BuildError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BuildErrorKind {
    /// A file or directory is missing, unreadable or outside of what may be read.
    File,
    /// A text is not what it should be: YAML, a kustomization, a patch.
    Syntax,
    /// Objects with one name, references that fit several, targets that fit none.
    Conflict,
    /// A patch, replacement or other transformation cannot be done.
    Transform,
    /// A limit of [`Options`](crate::Options) is exceeded.
    Limit,
    /// Something that is off or that this crate leaves out: remote bases, exec, plugins.
    Unsupported,
}

/// Why a build failed. Prints as `file:line:column: message; hint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError {
    /// Kind of the error.
    pub kind: BuildErrorKind,
    /// What was attempted, in lower case.
    pub message: String,
    /// Path of the file that caused the error, if any.
    pub file: Option<String>,
    /// 1-based, 0 where unknown.
    pub line: usize,
    /// 1-based, 0 where unknown.
    pub column: usize,
    /// Suggested fix.
    pub hint: Option<String>,
}

impl std::error::Error for BuildError {}

impl fmt::Display for BuildError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(formatter, "{file}:")?;
            if self.line > 0 {
                write!(formatter, "{}:{}:", self.line, self.column)?;
            }
            write!(formatter, " ")?;
        }
        write!(formatter, "{}", self.message)?;
        match &self.hint {
            Some(hint) => write!(formatter, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl BuildError {
    pub(crate) fn new(kind: BuildErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), file: None, line: 0, column: 0, hint: None }
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(BuildErrorKind::Conflict, message)
    }

    pub(crate) fn transform(message: impl Into<String>) -> Self {
        Self::new(BuildErrorKind::Transform, message)
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new(BuildErrorKind::Syntax, message)
    }

    pub(crate) fn from_yaml(error: YamlError, file: &str) -> Self {
        let kind = match error.kind {
            YamlErrorKind::Limit => BuildErrorKind::Limit,
            _ => BuildErrorKind::Syntax,
        };
        let (line, column) = (error.line, error.column);
        Self { kind, message: error.message, file: Some(file.to_owned()), line, column, hint: None }
    }

    pub(crate) fn at(mut self, file: &str, span: Span) -> Self {
        if self.file.is_none() {
            self.file = Some(file.to_owned());
            self.line = span.line();
            self.column = span.column();
        }
        self
    }

    pub(crate) fn in_file(mut self, file: &str) -> Self {
        if self.file.is_none() {
            self.file = Some(file.to_owned());
        }
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn context(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}
