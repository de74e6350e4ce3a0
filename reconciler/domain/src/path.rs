//! Paths inside a repository.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

/// A path of a file or folder inside the fleet repository: relative, with `/` between segments, UTF-8.
///
/// It never holds an empty segment, `.`, `..`, a backslash, a control character or a `.git` segment (in any case, as git
/// itself refuses them), so joining it to a folder never leaves that folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(String);

/// Why a text is not a [`RepoPath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepoPathError {
    /// The text is empty.
    #[error("a repository path must not be empty")]
    Empty,
    /// The text begins with `/`.
    #[error("repository path {0:?} must be relative")]
    Absolute(String),
    /// A segment is empty, `.`, `..` or `.git`, or holds a backslash or a control character.
    #[error("repository path {path:?} must not hold the segment {segment:?}")]
    Segment {
        /// The refused path.
        path: String,
        /// Its first refused segment.
        segment: String,
    },
}

impl RepoPath {
    /// Checks `text` and takes it as a path.
    ///
    /// # Errors
    /// [`RepoPathError`] names the rule that the text breaks.
    pub fn new(text: impl Into<String>) -> Result<Self, RepoPathError> {
        let text = text.into();
        if text.is_empty() {
            return Err(RepoPathError::Empty);
        }
        if text.starts_with('/') {
            return Err(RepoPathError::Absolute(text));
        }
        for segment in text.split('/') {
            let refused = segment.is_empty()
                || segment == "."
                || segment == ".."
                || segment.eq_ignore_ascii_case(".git")
                || segment.contains('\\')
                || segment.chars().any(char::is_control);
            if refused {
                let segment = segment.to_owned();
                return Err(RepoPathError::Segment { path: text, segment });
            }
        }
        Ok(Self(text))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last segment.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The folder that holds this path, or `None` at the top level.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// This path with `relative` below it.
    ///
    /// # Errors
    /// [`RepoPathError`] when `relative` is not a valid path by itself.
    pub fn join(&self, relative: &str) -> Result<Self, RepoPathError> {
        let relative = Self::new(relative)?;
        Ok(Self(format!("{}/{}", self.0, relative.0)))
    }

    /// What is left after the folder `prefix`, or `None` when this path is not below it.
    pub fn strip_prefix(&self, prefix: &str) -> Option<Self> {
        let rest = self.0.strip_prefix(prefix)?.strip_prefix('/')?;
        (!rest.is_empty()).then(|| Self(rest.to_owned()))
    }

    /// Whether this path lies below the folder `prefix`.
    pub fn is_below(&self, prefix: &str) -> bool {
        self.0.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The segments, first to last.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// Whether the name ends in `.yaml` or `.yml`.
    pub fn is_yaml(&self) -> bool {
        self.0.ends_with(".yaml") || self.0.ends_with(".yml")
    }

    /// Whether the name ends in `.json`.
    pub fn is_json(&self) -> bool {
        self.0.ends_with(".json")
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for RepoPath {
    type Err = RepoPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl Borrow<str> for RepoPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for RepoPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl serde::Serialize for RepoPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_plain_relative_paths_and_refuses_the_rest() {
        for good in ["a", "a/b.yaml", "clusters/ü/c.yaml", "a/.github/x", "..a/b"] {
            assert_eq!(RepoPath::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "/a", "a//b", "a/", "./a", "a/../b", "..", ".git/config", "a/.GIT/b", "a\\b", "a\0b", "a\nb"] {
            assert!(RepoPath::new(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn a_prefix_ends_at_a_segment() {
        let path = RepoPath::new("clusters/one/x.yaml").unwrap();
        assert_eq!(path.strip_prefix("clusters/one").unwrap().as_str(), "x.yaml");
        assert_eq!(path.strip_prefix("clusters/on"), None);
        assert!(path.is_below("clusters") && !path.is_below("clusters/one/x.yaml"));
        assert_eq!(path.parent().unwrap().as_str(), "clusters/one");
        assert_eq!(path.file_name(), "x.yaml");
    }
}
