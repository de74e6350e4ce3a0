//! The release that is meant, written into the files of a cluster: so the same commit means the same version on every day.
//!
//! v1alpha1 gets the full version beside its hint; later versions the name of the release, in the control plane and in every
//! pool, and no `distribution` beside it. Everything else of the files stays as it is written.

use std::sync::Arc;

use bundles::tanzu::DistributionVersion;
use yaml::Node;

use super::release::requested_version;
use crate::edit::{self, EditError, insert_after, splice};
use crate::object::object_id;
use crate::spec_rollout::lines_of;
use crate::tanzu::{node_pools, release_of};
use crate::{ClusterSpec, SpecFile};

const DISTRIBUTION: &[&str] = &["spec", "distribution"];
const CONTROL_PLANE: &[&str] = &["spec", "topology", "controlPlane"];
const POOLS: &[&str] = &["spec", "topology", "nodePools"];
const NAME: &[&str] = &["tkr", "reference", "name"];

/// Writes the release of the control plane, and those of the pools that name one, where the files do not say them as they are
/// to be said.
///
/// # Errors
/// What is in the way, and where.
pub(super) fn write(
    cluster: &mut ClusterSpec,
    plane: &DistributionVersion,
    pools: &[(String, DistributionVersion)],
) -> Result<(), String> {
    let id = object_id(&cluster.node);
    let is_it = |node: &Node| object_id(node).is_some() && object_id(node) == id;
    for at in 0..cluster.files.len() {
        let Some(file) = cluster.files.get(at) else { break };
        let Ok(text) = yaml::decode(&file.bytes) else { continue };
        let find = |text: &str| -> Option<Node> {
            edit::documents(text).ok()?.into_iter().map(|(_, root)| root).find(|root| is_it(root))
        };
        let Some(root) = find(&text) else { continue };
        let is_first = root.get("apiVersion").and_then(Node::as_str).is_some_and(|text| text.ends_with("/v1alpha1"));
        let mut edited = text.to_string();
        if is_first {
            edited = full_version(&edited, &root, plane).map_err(|error| error.to_string())?;
        } else {
            for (path, version) in places(&root, plane, pools) {
                let Some(root) = find(&edited) else { return Err("the cluster is lost by an edit".to_owned()) };
                edited = named(&edited, &root, &path, version)?;
            }
            if let Some(root) = find(&edited) {
                edited = without_distribution(&edited, &root)?;
            }
        }
        if edited == *text {
            return Ok(());
        }
        let Some(after) = find(&edited).filter(|after| says(after, plane, pools) && rest(after) == rest(&root)) else {
            return Err(EditError::Unsafe.to_string());
        };
        let path = file.path.clone();
        if let Some(file) = cluster.files.get_mut(at) {
            *file = SpecFile { path, bytes: edited.into_bytes().into() };
        }
        cluster.node = Arc::new(after);
        return Ok(());
    }
    // What is rendered from elsewhere has no file of its own to be written into.
    Ok(())
}

/// Where a release is to be named: the control plane and every pool.
fn places<'a>(
    root: &Node,
    plane: &'a DistributionVersion,
    pools: &'a [(String, DistributionVersion)],
) -> Vec<(Vec<String>, &'a DistributionVersion)> {
    let owned = |path: &[&str]| path.iter().map(|key| (*key).to_owned()).collect::<Vec<String>>();
    let items = root.at(POOLS).and_then(Node::as_sequence).unwrap_or_default();
    let of_pools = items.iter().enumerate().map(|(index, item)| {
        let name = item.get("name").and_then(Node::as_str).unwrap_or_default();
        let version = pools.iter().find(|(known, _)| known == name).map_or(plane, |(_, version)| version);
        let mut path = owned(POOLS);
        path.push(index.to_string());
        (path, version)
    });
    std::iter::once((owned(CONTROL_PLANE), plane)).chain(of_pools).collect()
}

/// The text with the full version beside the hint.
fn full_version(text: &str, root: &Node, version: &DistributionVersion) -> Result<String, EditError> {
    let field = || EditError::NoField(DISTRIBUTION.join("."));
    let distribution = root.at(DISTRIBUTION).and_then(Node::as_mapping).ok_or_else(field)?;
    let Some(full) = distribution.entry("fullVersion") else {
        let hint = distribution.entry("version").ok_or_else(field)?;
        let node = root.at(DISTRIBUTION).ok_or_else(field)?;
        return Ok(added(text, node, hint, ["fullVersion", version.as_str()]));
    };
    let written = full.value.scalar_text().unwrap_or_default();
    if written.parse::<DistributionVersion>().is_ok_and(|written| written == *version) {
        return Ok(text.to_owned());
    }
    set(text, full.key_span.end(), &full.value, version.as_str())
}

/// Whether the keys of a mapping are written as in JSON.
fn is_json(text: &str, entry: &yaml::Entry) -> bool {
    text.get(entry.key_span.range()).is_some_and(|key| key.starts_with('"'))
}

/// The text with one more entry in the mapping `node`, behind another one.
fn added(text: &str, node: &Node, behind: &yaml::Entry, [key, value]: [&str; 2]) -> String {
    let is_flow = text.get(node.span.start()..).is_some_and(|text| text.starts_with('{'));
    let end = behind.value.span.end();
    match (is_flow, is_json(text, behind)) {
        (true, true) if value.starts_with('{') => splice(text, end..end, &format!(", \"{key}\": {value}")),
        (true, true) => splice(text, end..end, &format!(", \"{key}\": \"{value}\"")),
        (true, false) => splice(text, end..end, &format!(", {key}: {value}")),
        (false, _) => insert_after(text, behind.key_span, behind.value.span, &format!("{key}: {value}")),
    }
}

/// The text with another scalar, also where none stands behind its key.
fn set(text: &str, key_end: usize, node: &Node, value: &str) -> Result<String, EditError> {
    if node.is_null() && node.text(text).is_empty() {
        let after = text.get(key_end..).unwrap_or_default();
        let colon = after.find(':').ok_or(EditError::Unsafe)?;
        return Ok(splice(text, key_end + colon + 1..key_end + colon + 1, &format!(" {value}")));
    }
    edit::replace_scalar(text, node.span, value)
}

/// The text with the release named in the part at `path`.
fn named(text: &str, root: &Node, path: &[String], version: &DistributionVersion) -> Result<String, String> {
    let keys: Vec<&str> = path.iter().map(String::as_str).collect();
    let place = path.join(".");
    let error = |error: EditError| format!("{place}: {error}");
    let part = edit::field(root, &keys).ok_or_else(|| error(EditError::NoField(place.clone())))?;
    let name = version.name();
    if let Some(written) = part.at(NAME).filter(|written| !written.is_null()) {
        if written.as_str() == Some(&name) {
            return Ok(text.to_owned());
        }
        return edit::replace_scalar(text, written.span, &name).map_err(error);
    }
    let mapping = part.as_mapping().ok_or_else(|| error(EditError::NoField(place.clone())))?;
    if mapping.entry("tkr").is_some() {
        return Err(format!("{place}.tkr is there and names no release"));
    }
    let scalar = mapping.iter().find(|entry| entry.value.is_scalar() && !entry.value.text(text).is_empty());
    let scalar = scalar.ok_or_else(|| format!("{place} has no plain field to write tkr behind"))?;
    let release = if is_json(text, scalar) {
        format!("{{\"reference\": {{\"name\": \"{name}\"}}}}")
    } else {
        format!("{{reference: {{name: {name}}}}}")
    };
    Ok(added(text, part, scalar, ["tkr", &release]))
}

/// The text without `spec.distribution`, which later versions have as a field of the past.
fn without_distribution(text: &str, root: &Node) -> Result<String, String> {
    let spec = root.get("spec").and_then(Node::as_mapping);
    let Some(entry) = spec.and_then(|spec| spec.entry("distribution")) else { return Ok(text.to_owned()) };
    if let Some(lines) = lines_of(text, entry.key_span, &entry.value) {
        return Ok(splice(text, lines, ""));
    }
    // In one line with others: with the comma before it, or behind it.
    let (start, end) = (entry.key_span.start(), entry.value.span.end());
    let others: Vec<_> =
        spec.into_iter().flat_map(yaml::Mapping::iter).filter(|other| other.key != "distribution").collect();
    let next = others.iter().map(|other| other.key_span.start()).filter(|other| *other > start).min();
    let before = others.iter().map(|other| other.value.span.end()).filter(|other| *other <= start).max();
    let range = match (next, before) {
        (Some(next), _) => start..next,
        (None, Some(before)) => before..end,
        (None, None) => start..end,
    };
    Ok(splice(text, range, ""))
}

/// Whether the object names the releases as they are meant.
fn says(root: &Node, plane: &DistributionVersion, pools: &[(String, DistributionVersion)]) -> bool {
    let is_plane = release_of(root).as_ref() == Some(plane) && requested_version(root).as_ref() == Some(plane);
    is_plane
        && node_pools(root).iter().all(|(name, pool)| {
            let wanted = pools.iter().find(|(known, _)| known == name).map_or(plane, |(_, version)| version);
            pool.release.as_ref() == Some(wanted)
        })
}

/// The object without what names its releases.
fn rest(root: &Node) -> Node {
    fn drop_release(node: Option<&mut Node>) {
        if let Some(mapping) = node.and_then(Node::as_mapping_mut) {
            mapping.remove("tkr");
        }
    }
    let mut root = root.clone();
    let Some(spec) = root.get_mut("spec") else { return root };
    if let Some(spec) = spec.as_mapping_mut() {
        spec.remove("distribution");
    }
    let Some(topology) = spec.get_mut("topology") else { return root };
    drop_release(topology.get_mut("controlPlane"));
    let pools = topology.get_mut("nodePools").and_then(Node::as_sequence_mut);
    pools.into_iter().flatten().for_each(|pool| drop_release(Some(pool)));
    root
}
