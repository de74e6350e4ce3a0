//! `OSImage`, and the query by which a cluster chooses one.

use std::collections::BTreeMap;
use std::str::FromStr;

use yaml::Node;

use super::{RECORD_ANEW, RecordError};
use crate::field;

/// An image of one operating system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsImage {
    /// `metadata.name`.
    pub name: String,
    /// Its labels, with those that follow from its `spec`: `os-name`, `os-version`, `os-arch`, `os-type`, `image-type`.
    pub labels: BTreeMap<String, String>,
    /// The `VirtualMachineImage` that it stands for (`spec.image.ref.name` of type `vmop`).
    pub machine_image: Option<String>,
}

impl OsImage {
    /// Reads an object of that kind.
    ///
    /// # Errors
    /// No name.
    pub fn read(object: &Node) -> Result<Self, RecordError> {
        let name = field::name(object)
            .ok_or_else(|| RecordError::new(&["metadata"], "an OSImage has no metadata.name", RECORD_ANEW))?;
        let text = |path: &[&str]| object.at(path).and_then(field::text).filter(|text| !text.is_empty());
        let written = object.at(&["metadata", "labels"]).and_then(Node::as_mapping);
        let written = written.into_iter().flat_map(yaml::Mapping::iter);
        let mut labels: BTreeMap<String, String> =
            written.filter_map(|entry| Some((entry.key.as_str().to_owned(), field::text(&entry.value)?))).collect();
        for (label, path) in [
            ("os-name", ["spec", "os", "name"]),
            ("os-version", ["spec", "os", "version"]),
            ("os-arch", ["spec", "os", "arch"]),
            ("os-type", ["spec", "os", "type"]),
            ("image-type", ["spec", "image", "type"]),
        ] {
            if let Some(value) = text(&path) {
                labels.entry(label.to_owned()).or_insert(value);
            }
        }
        Ok(Self { name, labels, machine_image: text(&["spec", "image", "ref", "name"]) })
    }
}

/// A query of labels: `os-name=ubuntu,os-version!=20.04`, `os-arch in (amd64, arm64)`, `gpu`, `!gpu`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelQuery {
    clauses: Vec<Clause>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Clause {
    key: String,
    /// Whether the label has to be as the rest says, or must not be.
    is_wanted: bool,
    /// The values, any of which it may have; none: any value at all.
    values: Vec<String>,
}

/// A text is no query of labels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid query of labels: expected clauses such as os-name=ubuntu, parted by commas")]
pub struct LabelQueryError(String);

impl FromStr for LabelQuery {
    type Err = LabelQueryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut clauses = Vec::new();
        let (mut depth, mut start) = (0_u32, 0);
        for (at, character) in text.char_indices() {
            match character {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    clauses.push(text.get(start..at).unwrap_or_default());
                    start = at + 1;
                }
                _ => {}
            }
        }
        clauses.push(text.get(start..).unwrap_or_default());
        let read = |clause: &str| Clause::read(clause.trim()).ok_or_else(|| LabelQueryError(text.to_owned()));
        if text.trim().is_empty() {
            return Ok(Self { clauses: Vec::new() });
        }
        Ok(Self { clauses: clauses.into_iter().map(read).collect::<Result<_, _>>()? })
    }
}

impl LabelQuery {
    /// Whether an image has labels as asked for.
    #[must_use]
    pub fn is_met_by(&self, image: &OsImage) -> bool {
        self.clauses.iter().all(|clause| {
            let value = image.labels.get(&clause.key);
            let is_met = value.is_some_and(|value| clause.values.is_empty() || clause.values.contains(value));
            is_met == clause.is_wanted
        })
    }
}

impl Clause {
    fn read(text: &str) -> Option<Self> {
        let is_plain =
            |text: &str| text.chars().all(|character| character.is_ascii_alphanumeric() || "-._/".contains(character));
        let of = |key: &str, is_wanted: bool, values: Vec<&str>| {
            let is_valid = !key.is_empty() && is_plain(key) && values.iter().all(|value| is_plain(value));
            let values = values.into_iter().map(str::to_owned).collect();
            is_valid.then(|| Self { key: key.to_owned(), is_wanted, values })
        };
        if let Some(inner) = text.strip_suffix(')') {
            let (before, values) = inner.split_once('(')?;
            let (key, operator) = before.trim().rsplit_once(char::is_whitespace)?;
            let values = values.split(',').map(str::trim).collect();
            return match operator {
                "in" => of(key.trim(), true, values),
                "notin" => of(key.trim(), false, values),
                _ => None,
            };
        }
        for (operator, is_wanted) in [("!=", false), ("==", true), ("=", true)] {
            if let Some((key, value)) = text.split_once(operator) {
                return of(key.trim(), is_wanted, vec![value.trim()]);
            }
        }
        match text.strip_prefix('!') {
            Some(key) => of(key.trim(), false, Vec::new()),
            None => of(text, true, Vec::new()),
        }
    }
}
