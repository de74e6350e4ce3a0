//! Components of a versionsBundle and the artifacts they are made of.

use serde::Serialize;
use yaml::{Mapping, Node, Value};

use crate::digest::Digest;
use crate::field::text;
use crate::version::Version;

/// A section of a versionsBundle: every map in it, known or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// The manifest's own key: `certManager`, `eksD`.
    pub name: String,
    /// The field `version`; `None` when it is absent or null. An empty text is a version (an opaque one).
    pub version: Option<Version>,
    /// Everything in it that has an address, by name.
    pub artifacts: Vec<Artifact>,
}

/// A map with the field `uri`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The dotted path inside the component: `controller`, `tinkerbellStack.actions.cexec`. Empty when the component
    /// itself holds the `uri`. An item of a list is named by its index.
    pub name: String,
    /// The address, verbatim. EKS Anywhere writes `<placeholder>` where there is none.
    pub uri: String,
    /// `imageDigest`, else `sha256`, where it is a digest.
    pub digest: Option<Digest>,
    /// `imageDigest`, else `sha256`, verbatim; `None` when both are absent, null, empty or a `<placeholder>`.
    pub digest_text: Option<String>,
    /// What the address leads to.
    pub kind: ArtifactKind,
}

/// What the address of an [`Artifact`] leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArtifactKind {
    /// A container image or a Helm chart in a registry.
    Image,
    /// A file with checksums: an OVA, a tarball.
    Archive,
    /// A YAML file. Its map holds nothing but `uri`, so it has no digest of its own: see [`crate::Lock`].
    Manifest,
}

impl Component {
    pub(crate) fn read(name: &str, mapping: &Mapping) -> Self {
        let version = mapping.get("version").and_then(text).map(Version::new);
        let mut artifacts = Vec::new();
        collect(mapping, &mut String::new(), &mut artifacts);
        artifacts.sort_by(|left, right| left.name.cmp(&right.name));
        Self { name: name.to_owned(), version, artifacts }
    }

    /// The artifact with this dotted path.
    #[must_use]
    pub fn artifact(&self, name: &str) -> Option<&Artifact> {
        self.artifacts.iter().find(|artifact| artifact.name == name)
    }

    /// Whether the component is kept in the manifest for compatibility only, as cloudStack is in release 0.26: its
    /// version is `deprecated`, or it has artifacts and none of them has a real address. Such a component cannot be
    /// installed and must not be planned.
    #[must_use]
    pub fn is_placeholder(&self) -> bool {
        self.version.as_ref().is_some_and(|version| version.as_str() == "deprecated")
            || !self.artifacts.is_empty() && self.artifacts.iter().all(Artifact::is_placeholder)
    }
}

impl Artifact {
    fn read(path: &str, uri: String, mapping: &Mapping) -> Self {
        let digest_text = ["imageDigest", "sha256"]
            .iter()
            .find_map(|key| mapping.get(key).and_then(text))
            .filter(|text| !text.is_empty() && !is_placeholder(text));
        let kind = if mapping.len() == 1 {
            ArtifactKind::Manifest
        } else if mapping.contains_key("sha256") || mapping.contains_key("sha512") {
            ArtifactKind::Archive
        } else {
            ArtifactKind::Image
        };
        let digest = digest_text.as_deref().and_then(|text| text.parse().ok());
        Self { name: path.to_owned(), uri, digest, digest_text, kind }
    }

    /// Whether the address is empty or of the form `<placeholder>`: nothing can be fetched from it.
    #[must_use]
    pub fn is_placeholder(&self) -> bool {
        self.uri.is_empty() || is_placeholder(&self.uri)
    }
}

fn is_placeholder(text: &str) -> bool {
    text.starts_with('<') && text.ends_with('>')
}

/// Adds every artifact at or below `mapping`; `path` is where that is, and is the same again on return.
fn collect(mapping: &Mapping, path: &mut String, artifacts: &mut Vec<Artifact>) {
    if let Some(uri) = mapping.get("uri").and_then(text) {
        artifacts.push(Artifact::read(path, uri, mapping));
    }
    for entry in mapping {
        collect_value(&entry.value, &entry.key, path, artifacts);
    }
}

fn collect_value(node: &Node, key: &str, path: &mut String, artifacts: &mut Vec<Artifact>) {
    let length = path.len();
    let enter = |path: &mut String| {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    };
    match &node.value {
        Value::Mapping(mapping) => {
            enter(path);
            collect(mapping, path, artifacts);
        }
        Value::Sequence(items) if !items.iter().all(Node::is_scalar) => {
            enter(path);
            for (index, item) in items.iter().enumerate() {
                collect_value(item, &index.to_string(), path, artifacts);
            }
        }
        _ => {}
    }
    path.truncate(length);
}
