//! Why announcements cannot be made at all.

use std::path::PathBuf;

/// What the operator has to repair before anything is told.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// A file cannot be read or written.
    #[error("{} cannot be {action}: {source}", file.display())]
    File {
        /// The file or folder.
        file: PathBuf,
        /// `read` or `written`.
        action: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not say what a sink needs.
    #[error("{}: {message}", file.display())]
    Sink {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// What is still to be told cannot be read.
    #[error("{} is not a valid record of announcements: {message}; delete it, and what was not told by then is not told", file.display())]
    Journal {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Requests cannot be made.
    #[error("no client for HTTP: {0}")]
    Client(String),
}

impl NotifyError {
    pub(crate) fn read(file: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let file = file.into();
        move |source| Self::File { file, action: "read", source }
    }

    pub(crate) fn written(file: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let file = file.into();
        move |source| Self::File { file, action: "written", source }
    }
}
