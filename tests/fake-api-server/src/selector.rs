//! Label and field selectors.

use serde_json::Value;

/// Which objects of a resource are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    /// By `metadata.name` and `metadata.namespace`, which every kind has.
    fields: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
enum Requirement {
    Exists(String),
    Absent(String),
    Is(String, String),
    IsNot(String, String),
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector`, without the `in` and `notin` of labels.
    pub(crate) fn new(labels: Option<&str>, fields: Option<&str>) -> Self {
        let parts = |text: Option<&str>| -> Vec<String> {
            text.unwrap_or("").split(',').filter(|part| !part.is_empty()).map(|part| part.trim().to_owned()).collect()
        };
        let pair = |part: &str| {
            part.split_once('=').map(|(name, value)| (name.to_owned(), value.trim_start_matches('=').to_owned()))
        };
        let requirement = |part: &String| match (part.split_once("!="), pair(part), part.strip_prefix('!')) {
            (Some((name, value)), ..) => Requirement::IsNot(name.to_owned(), value.to_owned()),
            (None, Some((name, value)), _) => Requirement::Is(name, value),
            (None, None, Some(name)) => Requirement::Absent(name.to_owned()),
            (None, None, None) => Requirement::Exists(part.clone()),
        };
        let fields = parts(fields).iter().filter_map(|part| pair(part)).collect();
        Self { labels: parts(labels).iter().map(requirement).collect(), fields }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether it selects one name.
    pub(crate) fn is_of_one(&self) -> bool {
        self.fields.iter().any(|(name, _)| name == "metadata.name")
    }

    pub(crate) fn selects(&self, object: &Value) -> bool {
        let label = |name: &str| object["metadata"]["labels"].get(name).and_then(Value::as_str);
        let labels = self.labels.iter().all(|requirement| match requirement {
            Requirement::Exists(name) => label(name).is_some(),
            Requirement::Absent(name) => label(name).is_none(),
            Requirement::Is(name, value) => label(name) == Some(value),
            Requirement::IsNot(name, value) => label(name) != Some(value),
        });
        let field = |name: &str| {
            name.strip_prefix("metadata.").and_then(|name| object["metadata"].get(name)).and_then(Value::as_str)
        };
        labels && self.fields.iter().all(|(name, value)| field(name).unwrap_or("") == value)
    }
}
