//! Which files of the repository are left out.

use domain::RepoPath;
use serde::{Serialize, Serializer};

use crate::document::pattern::matches_pattern;

/// Files and folders of the repository that are not read for specifications. Each `*` stands for any text within a name, `**` for any
/// number of folders. What has no `/` is a name at any depth; what has one begins at the top. A folder stands for all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    segments: Vec<String>,
}

/// A text that is not a valid pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathPatternError {
    /// It names no path, or every one.
    #[error(
        "{0:?} is not a valid pattern of paths; write one such as `examples`, `clusters/*/templates` or `**/*.tmpl.yaml`"
    )]
    NoPath(String),
    /// It has a sign that other programs read as a part of a pattern.
    #[error(
        "{0:?} is not a valid pattern of paths: {1:?} stands for nothing here; write `*` for any text within a name"
    )]
    Sign(String, char),
}

/// Signs that patterns of git, shells and kustomize have beside `*`.
const OTHER_SIGNS: [char; 6] = ['[', ']', '{', '}', '?', '\\'];

impl std::str::FromStr for PathPattern {
    type Err = PathPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let body = text.strip_prefix("./").unwrap_or(text);
        let is_tied = body.trim_end_matches('/').contains('/');
        let body = body.trim_matches('/');
        let mut segments: Vec<String> = body.split('/').map(str::to_owned).collect();
        let is_refused = |segment: &String| segment.is_empty() || matches!(segment.as_str(), "." | "..");
        // A pattern of everything would leave no fleet.
        if segments.iter().any(is_refused) || segments.iter().all(|segment| segment.chars().all(|sign| sign == '*')) {
            return Err(PathPatternError::NoPath(text.to_owned()));
        }
        let first = text.chars().next().filter(|sign| *sign == '!');
        if let Some(sign) = first.or_else(|| text.chars().find(|sign| OTHER_SIGNS.contains(sign))) {
            return Err(PathPatternError::Sign(text.to_owned(), sign));
        }
        if !is_tied {
            segments.insert(0, "**".to_owned());
        }
        Ok(Self { text: text.to_owned(), segments })
    }
}

impl std::fmt::Display for PathPattern {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Serialize for PathPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl PathPattern {
    /// Whether it names this path, or a folder that this path is in.
    pub fn matches(&self, path: &RepoPath) -> bool {
        let segments: Vec<&str> = path.segments().collect();
        let mut pattern: Vec<&str> = self.segments.iter().map(String::as_str).collect();
        // Several `**` side by side say what one says, and would be tried again and again.
        pattern.dedup_by(|one, other| *one == "**" && *other == "**");
        begins(&pattern, &segments)
    }
}

/// Whether the pattern matches some folders at the beginning, or all, of a path.
fn begins(pattern: &[&str], path: &[&str]) -> bool {
    // What the pattern may have matched of itself after each segment of the path: linear in both, whatever the pattern.
    let open = |mut reached: Vec<usize>| {
        let mut index = 0;
        while let Some(at) = reached.get(index).copied() {
            index += 1;
            if pattern.get(at) == Some(&"**") && !reached.contains(&(at + 1)) {
                reached.push(at + 1);
            }
        }
        reached
    };
    let mut reached = open(vec![0]);
    for segment in path {
        let mut next = Vec::new();
        for at in reached {
            let Some(wanted) = pattern.get(at) else { return true };
            let to = if *wanted == "**" { at } else { at + 1 };
            if (*wanted == "**" || matches_pattern(wanted, segment)) && !next.contains(&to) {
                next.push(to);
            }
        }
        reached = open(next);
    }
    reached.contains(&pattern.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_files_and_whole_folders() {
        for (pattern, path, expected) in [
            ("examples", "examples/a.yaml", true),
            ("examples", "docs/examples/b/a.yaml", true),
            ("examples", "examples.yaml", false),
            ("examples/", "docs/examples/a.yaml", true),
            ("/examples", "examples/a.yaml", true),
            ("/examples", "docs/examples/a.yaml", false),
            ("clusters/*/templates", "clusters/a/templates/x/y.yaml", true),
            ("clusters/*/templates", "clusters/a/b/templates/y.yaml", false),
            ("clusters/**/templates", "clusters/a/b/templates/y.yaml", true),
            ("clusters/**/templates", "clusters/templates/y.yaml", true),
            ("*.tmpl.yaml", "clusters/a/b.tmpl.yaml", true),
            ("*.tmpl.yaml", "clusters/a/b.yaml", false),
            ("clusters/a/b.yaml", "clusters/a/b.yaml", true),
            ("clusters/a/**", "clusters/a/b.yaml", true),
        ] {
            let parsed: PathPattern = pattern.parse().unwrap();
            assert_eq!(parsed.matches(&RepoPath::new(path).unwrap()), expected, "{pattern} {path}");
        }
        for bad in ["", "/", "*", "**", "**/*", "a//b", "../a", "a/./b", "[", "a[0-9]", "{a,b}", "a?", "!a", "a\\*"] {
            assert!(bad.parse::<PathPattern>().is_err(), "{bad}");
        }
    }
}
