//! CODEOWNERS: who owns which paths, as the forges read it.
//!
//! Each forge has rules of its own for what is the same file by name. A line that cannot be followed is an error, although forges pass over
//! it: what it was meant to protect would be open otherwise.

mod line;
mod pattern;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::OwningEntry;
use line::{Line, Section};
use pattern::Pattern;

/// How a file of owners is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnersDialect {
    /// Patterns like those of `.gitignore`; of those that match a path, the last one owns it. Without a forge, too.
    GitHub,
    /// The same in sections: the last one of each section owns a path.
    GitLab,
    /// Regular expressions; all that match own the path.
    Gitea,
}

impl OwnersDialect {
    /// Where the file is looked for; the first one there counts.
    #[must_use]
    pub fn places(self) -> &'static [&'static str] {
        match self {
            Self::GitHub => &[".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"],
            Self::GitLab => &["CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"],
            Self::Gitea => &["CODEOWNERS", "docs/CODEOWNERS", ".gitea/CODEOWNERS", ".forgejo/CODEOWNERS"],
        }
    }
}

/// A line that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct OwnersError {
    /// Its number, from 1.
    pub line: usize,
    /// Why.
    pub reason: String,
}

/// A file of owners.
#[derive(Debug, Clone)]
pub struct Owners {
    dialect: OwnersDialect,
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    line: usize,
    text: String,
    pattern: Pattern,
    /// Whether it takes paths out instead of owning them.
    excludes: bool,
    section: Section,
    owners: Vec<super::Owner>,
}

impl Owners {
    /// Reads a file.
    ///
    /// # Errors
    /// [`OwnersError`] for the first line that cannot be followed.
    pub fn read(text: &str, dialect: OwnersDialect) -> Result<Self, OwnersError> {
        let mut rules = Vec::new();
        let mut section = Section::default();
        for (index, text) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let line = index + 1;
            let failed = |reason: String| OwnersError { line, reason };
            match Line::read(text, dialect).map_err(failed)? {
                Line::Empty => {}
                Line::Section(begun) => section = begun,
                Line::Rule { pattern, excludes, owners } => {
                    let known = Pattern::read(&pattern, dialect).map_err(failed)?;
                    let owners = if owners.is_empty() { section.owners.clone() } else { owners };
                    rules.push(Rule {
                        line,
                        text: pattern,
                        pattern: known,
                        excludes,
                        section: section.clone(),
                        owners,
                    });
                }
            }
        }
        Ok(Self { dialect, rules })
    }

    /// The entries that own any of these paths, in the order of the file.
    #[must_use]
    pub fn of<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Vec<OwningEntry> {
        let mut found = BTreeSet::new();
        for path in paths {
            match self.dialect {
                OwnersDialect::Gitea => found.extend(self.all(path)),
                OwnersDialect::GitHub | OwnersDialect::GitLab => found.extend(self.last_of_each_section(path)),
            }
        }
        let rules = found.into_iter().filter_map(|index| self.rules.get(index));
        let asked = rules.filter(|rule| !rule.owners.is_empty() && !rule.section.optional);
        asked
            .map(|rule| OwningEntry {
                entry: format!("`{}` (CODEOWNERS, line {})", rule.text, rule.line),
                wanted: rule.section.wanted.max(1),
                owners: rule.owners.clone(),
            })
            .collect()
    }

    fn all(&self, path: &str) -> impl Iterator<Item = usize> {
        let owns = |rule: &Rule| rule.pattern.matches(path) != rule.excludes;
        self.rules
            .iter()
            .enumerate()
            .filter(move |(_, rule)| owns(rule))
            .map(|(index, _)| index)
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn last_of_each_section(&self, path: &str) -> Vec<usize> {
        let names: BTreeSet<&str> = self.rules.iter().map(|rule| rule.section.name.as_str()).collect();
        let last = |name: &str| {
            let own = self.rules.iter().enumerate().filter(|(_, rule)| rule.section.name == name);
            let matching: Vec<_> = own.filter(|(_, rule)| rule.pattern.matches(path)).collect();
            if matching.iter().any(|(_, rule)| rule.excludes) {
                return None;
            }
            matching.last().map(|(index, _)| *index)
        };
        names.into_iter().filter_map(last).collect()
    }
}
