//! What the command line says when a verb fails: the chain of causes, then what to do.

use std::fmt;
use std::io::Write as _;

use crate::cli::terminal::printable::printable;

/// An error of a verb together with what the person can do about it.
///
/// Hints are data, not text glued to the message, so that `-o json` and a terminal can show them apart.
#[derive(Debug)]
pub struct CommandError {
    source: anyhow::Error,
    hints: Vec<String>,
}

impl CommandError {
    /// An error from a message alone.
    pub fn new(message: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        Self { source: anyhow::Error::msg(message), hints: Vec::new() }
    }

    /// Adds one thing to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Says what was being done when the error came.
    #[must_use]
    pub fn context(self, context: impl fmt::Display + Send + Sync + 'static) -> Self {
        Self { source: self.source.context(context), hints: self.hints }
    }

    /// Writes `error: …`, each deeper cause on a line of its own, and the hints, to standard error.
    pub fn report(&self) {
        let mut stderr = anstream::stderr().lock();
        let mut seen = String::new();
        for (depth, cause) in self.source.chain().enumerate() {
            let text = cause.to_string();
            // Libraries often repeat their source in their own message: say each thing once.
            if depth > 0 && seen.contains(&text) {
                continue;
            }
            let label = if depth == 0 { "error" } else { "  caused by" };
            // A closed standard error leaves nobody to tell.
            let _ = writeln!(stderr, "{label}: {}", printable(&text));
            seen.push_str(&text);
        }
        for hint in &self.hints {
            let _ = writeln!(stderr, "hint: {}", printable(hint));
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#}", self.source)
    }
}

impl<E> From<E> for CommandError
where
    E: Into<anyhow::Error>,
{
    fn from(error: E) -> Self {
        Self { source: error.into(), hints: Vec::new() }
    }
}
