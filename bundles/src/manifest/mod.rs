//! Manifest files: which objects they hold.

mod truncation;

use yaml::{Limits, Node, Rules};

use self::truncation::missing_end;
use crate::bundles::Bundles;
use crate::eks_d::EksdRelease;
use crate::eksa_release::EksaRelease;
use crate::error::BundleError;
use crate::field::{position, text};

/// Published Bundles have 290 KB, 20,000 nodes and 8 levels.
const LIMITS: Limits = Limits { bytes: 16 << 20, documents: 10_000, depth: 64, nodes: 1_000_000 };

/// An object of a manifest file.
#[derive(Debug, Clone)]
pub enum Manifest {
    /// `anywhere.eks.amazonaws.com/…`, kind `Bundles`.
    Bundles(Bundles),
    /// `anywhere.eks.amazonaws.com/…`, kind `EKSARelease`.
    EksaRelease(EksaRelease),
    /// `distro.eks.amazonaws.com/…`, kind `Release`.
    EksdRelease(EksdRelease),
}

/// Reads every known object of a manifest file, in the order of the file.
///
/// Takes several documents, comments, anchors, CRLF and a byte order mark. Objects of other kinds and empty documents
/// are passed over, so a file without any known object gives an empty list. `path` is for error messages only.
///
/// # Errors
/// Text that is not UTF-8 or not YAML, is too large or too deep; Bundles without a versionsBundle or with two of one
/// Kubernetes version; a field of the wrong type where this package needs it.
pub fn parse(path: &str, text: &[u8]) -> Result<Vec<Manifest>, BundleError> {
    let yaml = |error| BundleError::yaml(path, &error);
    let source = yaml::decode(text).map_err(yaml)?;
    // Published Bundles of 2021 hold `cloudStack` twice.
    let documents = yaml::parse_with(&source, &LIMITS, Rules::V3RepeatedKeys).map_err(yaml)?;
    let mut manifests = Vec::new();
    for document in documents {
        for object in items(document.root) {
            manifests.extend(read(path, &source, object)?);
        }
    }
    Ok(manifests)
}

/// The items of a List, in any depth, or the object itself.
fn items(root: Node) -> Vec<Node> {
    let is_list = root.get("kind").and_then(text).is_some_and(|kind| kind.ends_with("List"));
    match root.get("items").and_then(Node::as_sequence).filter(|_| is_list) {
        Some(objects) => objects.iter().cloned().flat_map(items).collect(),
        None => vec![root],
    }
}

/// Reads the one Bundles object of a file.
///
/// # Errors
/// As [`parse`]; also when the file holds none, or more than one.
pub fn parse_bundles(path: &str, text: &[u8]) -> Result<Bundles, BundleError> {
    let mut found: Option<Bundles> = None;
    for manifest in parse(path, text)? {
        if let Manifest::Bundles(bundles) = manifest {
            if let Some(first) = &found {
                let message =
                    format!("the file holds a second Bundles object, after the one in line {}", first.node.span.line());
                return Err(BundleError::new(
                    path,
                    position(&bundles.node),
                    message,
                    "keep one Bundles object in a file",
                ));
            }
            found = Some(bundles);
        }
    }
    found.ok_or_else(|| {
        let message = if text.is_empty() { "the file is empty" } else { "the file holds no Bundles object" };
        let hint = "expected a document with `apiVersion: anywhere.eks.amazonaws.com/v1alpha1` and `kind: Bundles`";
        BundleError::new(path, (1, 1), message, hint)
    })
}

fn read(path: &str, source: &str, root: Node) -> Result<Option<Manifest>, BundleError> {
    let field = |key| root.get(key).and_then(text).unwrap_or_default();
    let (api_version, kind) = (field("apiVersion"), field("kind"));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Ok(match (group, kind.as_str()) {
        ("anywhere.eks.amazonaws.com", "Bundles") => {
            if let Some(key) = missing_end(source, &root) {
                let message = format!("the file ends within a line, and `{key}` of its last versionsBundle is missing");
                let hint = "it was cut short: take it anew from its release; if it is whole, end it with a line end";
                return Err(BundleError::new(path, end(source), message, hint));
            }
            Some(Manifest::Bundles(Bundles::read(path, root)?))
        }
        ("anywhere.eks.amazonaws.com", "EKSARelease") => Some(Manifest::EksaRelease(EksaRelease::read(path, root)?)),
        ("distro.eks.amazonaws.com", "Release") => Some(Manifest::EksdRelease(EksdRelease::read(path, root)?)),
        _ => None,
    })
}

/// Line and column of the end of a text.
fn end(source: &str) -> (usize, usize) {
    let last = source.rsplit('\n').next().unwrap_or_default();
    (1 + source.bytes().filter(|byte| *byte == b'\n').count(), 1 + last.chars().count())
}

#[cfg(test)]
mod tests;
