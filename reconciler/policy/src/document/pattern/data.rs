//! What may be deleted although it holds data.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use yaml::Node;

use crate::document::pattern::matches_pattern;
use crate::document::read::Reader;

/// Objects that may be deleted although they hold data, as a team names them: `Kind/name` or `Kind/namespace/name`, where each `*` of
/// namespace and name stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPattern {
    kind: String,
    namespace: Option<String>,
    name: String,
}

/// A text names no objects that hold data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of Kind/name and Kind/namespace/name; the kind is written out, such as Namespace/old-system")]
pub struct DataPatternError(String);

impl std::str::FromStr for DataPattern {
    type Err = DataPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || DataPatternError(text.to_owned());
        let mut parts = text.split('/');
        let kind = parts.next().unwrap_or_default();
        // A consent to whatever there is would be none.
        let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase())
            && kind.chars().all(|character| character.is_ascii_alphanumeric());
        let (namespace, name) = match (parts.next(), parts.next(), parts.next()) {
            (Some(name), None, None) => (None, name),
            (Some(namespace), Some(name), None) => (Some(namespace), name),
            _ => return Err(error()),
        };
        if !is_kind || name.is_empty() || namespace.is_some_and(str::is_empty) {
            return Err(error());
        }
        Ok(Self { kind: kind.to_owned(), namespace: namespace.map(str::to_owned), name: name.to_owned() })
    }
}

impl std::fmt::Display for DataPattern {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(formatter, "{}/{}", self.kind, self.name),
        }
    }
}

impl Serialize for DataPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DataPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl DataPattern {
    /// Whether it names this object. An object of a namespace is named with its namespace only.
    #[must_use]
    pub fn matches(&self, kind: &str, namespace: Option<&str>, name: &str) -> bool {
        let namespaces = match (&self.namespace, namespace) {
            (Some(pattern), Some(namespace)) => matches_pattern(pattern, namespace),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        namespaces && self.kind == kind && matches_pattern(&self.name, name)
    }
}

impl Reader<'_> {
    pub(in crate::document) fn data_patterns(&mut self, node: &Node) -> Vec<DataPattern> {
        let texts = self.texts(node, "deleteData");
        let mut patterns = Vec::new();
        for text in texts {
            match text.parse() {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => self.problem(node.span, format!("deleteData: {error}"), None),
            }
        }
        patterns
    }

    /// An object as people name them.
    pub(in crate::document) fn data_pattern(&mut self, node: &Node, place: &str) -> Option<DataPattern> {
        match self.text(node, place)?.parse() {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                self.problem(node.span, format!("{place}: {error}"), None);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_by_kind_and_place() {
        let matches = |pattern: &str, kind: &str, namespace: Option<&str>, name: &str| {
            pattern.parse::<DataPattern>().unwrap().matches(kind, namespace, name)
        };
        assert!(matches("Namespace/old-system", "Namespace", None, "old-system"));
        assert!(!matches("Namespace/old-system", "Namespace", None, "old-system-2"));
        assert!(matches(
            "CustomResourceDefinition/*.old.example.com",
            "CustomResourceDefinition",
            None,
            "a.old.example.com"
        ));
        assert!(matches("PersistentVolumeClaim/db/*", "PersistentVolumeClaim", Some("db"), "data-0"));
        assert!(!matches("PersistentVolumeClaim/*", "PersistentVolumeClaim", Some("db"), "data-0"));
        assert!(!matches("Namespace/*", "PersistentVolume", None, "a"));
    }

    #[test]
    fn a_consent_names_a_kind() {
        for text in ["", "*", "*/a", "Namespace", "Namespace/", "Namespace//a", "a/b", "Secret/a/b/c", "Na me/a"] {
            assert!(text.parse::<DataPattern>().is_err(), "{text}");
        }
        let text = "PersistentVolumeClaim/db/data-*";
        assert_eq!(text.parse::<DataPattern>().unwrap().to_string(), text);
    }
}
