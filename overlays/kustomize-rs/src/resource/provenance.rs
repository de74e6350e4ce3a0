//! `buildMetadata`: where objects came from and what changed them, as annotations.

use yaml::{Node, Text, emit};

use crate::error::BuildError;
use crate::resource::Resource;

pub(crate) const ORIGIN: &str = "config.kubernetes.io/origin";
pub(crate) const TRANSFORMATIONS: &str = "alpha.config.kubernetes.io/transformations";

/// Annotations that only kustomize itself may leave on an object.
pub(crate) const INTERNAL: [&str; 18] = [
    "internal.config.kubernetes.io/previousKinds",
    "internal.config.kubernetes.io/previousNames",
    "internal.config.kubernetes.io/prefixes",
    "internal.config.kubernetes.io/suffixes",
    "internal.config.kubernetes.io/previousNamespaces",
    "internal.config.kubernetes.io/allowNameChange",
    "internal.config.kubernetes.io/allowKindChange",
    "internal.config.kubernetes.io/refBy",
    "internal.config.kubernetes.io/generatorBehavior",
    "internal.config.kubernetes.io/needsHashSuffix",
    "internal.config.kubernetes.io/path",
    "internal.config.kubernetes.io/index",
    "internal.config.kubernetes.io/seqindent",
    "internal.config.kubernetes.io/id",
    "internal.config.kubernetes.io/annotations-migration-resource-id",
    "config.kubernetes.io/path",
    "config.kubernetes.io/index",
    "config.k8s.io/id",
];

/// What configured a generator or transformer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Configured {
    pub(crate) file: String,
    pub(crate) api_version: String,
    pub(crate) kind: Text,
    pub(crate) name: Text,
    pub(crate) namespace: Text,
}

impl Configured {
    pub(crate) fn builtin(file: &str, kind: &str) -> Self {
        Self { file: file.to_owned(), api_version: "builtin".into(), kind: kind.into(), ..Self::default() }
    }

    /// A plugin that is an object of its own; `None` if it has no origin.
    pub(crate) fn object(resource: &Resource) -> Option<Self> {
        let origin = resource.origin.annotation.as_ref()?;
        Some(Self {
            file: origin.strip_prefix("path: ").unwrap_or(origin).trim_end().to_owned(),
            api_version: resource.gvk().api_version(),
            kind: resource.kind(),
            name: resource.name(),
            namespace: resource.namespace(),
        })
    }

    /// The text of an annotation.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("configuredIn: {}", emit(&Node::from(self.file.as_str())));
        text.push_str("configuredBy:\n");
        for (key, value) in [
            ("apiVersion", self.api_version.as_str()),
            ("kind", &self.kind),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !value.is_empty() {
                text.push_str(&format!("  {key}: {}", emit(&Node::from(value))));
            }
        }
        text
    }
}

/// The text of an origin annotation for a file.
pub(crate) fn path_text(path: &str) -> String {
    format!("path: {path}\n")
}

/// Joins two relative paths; leading `..` stay.
pub(crate) fn join(base: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Notes a transformer on all objects; those without origin were made by it.
pub(crate) fn note(resources: &mut [Resource], by: &Configured) -> Result<(), BuildError> {
    let text = by.text();
    for resource in resources {
        if resource.origin.annotation.is_none() {
            resource.set_origin_annotation(&text)?;
        } else {
            resource.transformations.push(text.clone());
            resource.rewrite_annotations()?;
        }
    }
    Ok(())
}

/// What kustomize notes in annotations about where an object is from.
pub(crate) fn annotations(resource: &Resource) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    if let Some(text) = &resource.origin.annotation {
        pairs.push((ORIGIN, text.clone()));
    }
    if !resource.transformations.is_empty() {
        let mut text = String::new();
        for one in &resource.transformations {
            for (index, line) in one.lines().enumerate() {
                text.push_str(if index == 0 { "- " } else { "  " });
                text.push_str(line);
                text.push('\n');
            }
        }
        pairs.push((TRANSFORMATIONS, text));
    }
    pairs
}

/// Writes the annotations that were asked for, and takes away those of kustomize.
pub(crate) fn finish(resource: &mut Resource, origins: bool, transformations: bool) -> Result<(), BuildError> {
    let has_annotations = |metadata: &Node| metadata.get("annotations").is_some();
    let has_none = resource.node.get("metadata").is_some_and(|metadata| !has_annotations(metadata));
    if has_none && !origins && !transformations {
        return Ok(());
    }
    let mut pairs = resource.metadata_map("annotations");
    let before = pairs.len();
    // For its state, if there are any, for the origin and for the transformations.
    let times = usize::from(before > 0 || resource.has_state()) + usize::from(!origins) + usize::from(!transformations);
    pairs.retain(|(key, _)| !INTERNAL.contains(&key.as_str()) && *key != ORIGIN && *key != TRANSFORMATIONS);
    for (key, text) in annotations(resource) {
        if if key == ORIGIN { origins } else { transformations } {
            pairs.push((key.into(), text.into()));
        }
    }
    if before != pairs.len() || origins || transformations {
        let pairs = pairs.into_iter().map(|(key, text)| (key, Node::from(text)));
        resource.set_metadata_map("annotations", pairs.collect());
    }
    // kustomize makes the metadata where there is none.
    if resource.node.get("metadata").is_none() {
        resource.metadata_mut();
    }
    resource.finish_annotations(times)
}
