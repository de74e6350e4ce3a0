//! A set of fields, by their paths.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    /// A field of an object.
    Field(String),
    /// An item of a list of texts that is kept as a set.
    Item(String),
}

pub(crate) type Path = Vec<Element>;

/// Fields, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(pub(crate) BTreeSet<Path>);

impl FieldSet {
    /// The fields of a configuration, with those that the server writes itself.
    pub(crate) fn of(object: &Value) -> Self {
        let mut set = Self::default();
        set.add(&mut Vec::new(), object);
        set
    }

    fn add(&mut self, path: &mut Path, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    path.push(Element::Field(name.clone()));
                    let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                    if is_empty || !super::is_named(path) {
                        self.0.insert(path.clone());
                    }
                    self.add(path, value);
                    path.pop();
                }
            }
            Value::Array(items) if super::is_set(path) => {
                for item in items {
                    path.push(Element::Item(item.as_str().unwrap_or_default().to_owned()));
                    self.0.insert(path.clone());
                    path.pop();
                }
            }
            _ => {
                self.0.insert(path.clone());
            }
        }
    }

    /// Without the fields that the server writes itself, of which nobody is the owner.
    pub(crate) fn without_system_fields(mut self) -> Self {
        const SYSTEM: &[&str] = &[
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "selfLink",
            "managedFields",
        ];
        self.0.retain(|path| match path.as_slice() {
            [] => false,
            [Element::Field(first)] => !["apiVersion", "kind", "metadata"].contains(&first.as_str()),
            [Element::Field(first), Element::Field(second), ..] => {
                first != "metadata" || !SYSTEM.contains(&second.as_str())
            }
            _ => true,
        });
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a field is in here, or one below it.
    pub(crate) fn covers(&self, path: &[Element]) -> bool {
        self.0.range(path.to_vec()..).next().is_some_and(|next| next.starts_with(path))
    }

    pub(crate) fn remove_all(&mut self, others: &Self) {
        self.0.retain(|path| !others.0.contains(path));
    }

    pub(crate) fn union(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// As messages name them: of each object first its own fields, then those below them.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let mut paths: Vec<&Path> = self.0.iter().collect();
        paths.sort_by_key(|path| {
            let last = path.len().saturating_sub(1);
            path.iter().enumerate().map(|(depth, element)| (depth < last, element)).collect::<Vec<_>>()
        });
        paths.into_iter().map(|path| path.iter().map(ToString::to_string).collect()).collect()
    }

    /// `fieldsV1`.
    pub(crate) fn to_value(&self) -> Value {
        let mut root = Value::Object(Map::new());
        for path in &self.0 {
            let mut node = &mut root;
            for element in path {
                node = &mut node[element.key()];
                if node.is_null() {
                    *node = Value::Object(Map::new());
                }
            }
            // Paths come before those below them: a field that has others below it says with a dot that it is in here itself.
            let below = self.0.range(path.clone()..).nth(1);
            if below.is_some_and(|below| below.starts_with(path)) {
                node["."] = Value::Object(Map::new());
            }
        }
        root
    }
}

impl Element {
    /// As `fieldsV1` writes it.
    fn key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Item(text) => format!("v:{}", Value::String(text.clone())),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Item(text) => write!(formatter, "[={}]", Value::String(text.clone())),
        }
    }
}
