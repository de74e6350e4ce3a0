//! The add-ons that an image brings, each in a property of its own.

use yaml::{Limits, Node};

use crate::field;

/// What properties of add-ons begin with.
const PREFIX: &str = "vmware-system.guest.kubernetes.addons.";

/// Manifests of a CNI are a few hundred kilobytes.
const LIMITS: Limits = Limits { bytes: 3 << 20, documents: 1, depth: 16, nodes: 2_000 };

/// An add-on of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageAddon {
    /// As its property names it: `antrea`, `pvcsi`.
    pub name: String,
    /// Its own version; none where it is that of the release.
    pub version: Option<String>,
    /// What it consists of.
    pub content: AddonContent,
}

/// What an add-on consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddonContent {
    /// A stream of YAML documents.
    Inline(String),
    /// Nothing that is understood, and why.
    Unreadable(String),
}

impl ImageAddon {
    /// The add-on in a property; none where the property is none of an add-on.
    pub(super) fn read(key: &str, text: &str) -> Option<Self> {
        let name = key.strip_prefix(PREFIX).filter(|name| !name.is_empty())?.to_owned();
        let unreadable = |version, why: String| Self {
            name: name.clone(),
            version,
            content: AddonContent::Unreadable(format!("its property {key} {why}")),
        };
        let documents = match yaml::parse(text, &LIMITS) {
            Ok(documents) => documents,
            Err(problem) => return Some(unreadable(None, format!("is not valid JSON: {problem}"))),
        };
        let Some(root) = documents.first().map(|document| &document.root).filter(|root| root.as_mapping().is_some())
        else {
            return Some(unreadable(None, "is not a JSON object".to_owned()));
        };
        let at = |field: &str| root.get(field).and_then(field::text).filter(|text| !text.is_empty());
        let version = at("version");
        let kind = at("type").unwrap_or_default();
        let value = root.get("value").and_then(Node::as_str).filter(|text| !text.trim().is_empty());
        match (kind.as_str(), value) {
            ("inline", Some(value)) => {
                let content = AddonContent::Inline(value.to_owned());
                Some(Self { name, version, content })
            }
            ("inline", None) => Some(unreadable(version, "has no manifests in its value".to_owned())),
            (kind, _) => Some(unreadable(version, format!("is of type {kind:?}, and inline is read alone"))),
        }
    }
}
