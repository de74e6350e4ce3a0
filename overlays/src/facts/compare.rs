//! Deployed objects against target objects.

use std::collections::BTreeMap;

use yaml::Node;

use super::index::{Index, index};
use super::webhooks::webhooks;
use crate::note::{Note, NoteKind, RemovedVersion, Weight};
use crate::object::{CrdSummary, ObjectId, ObjectSummary};

/// What a comparison tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Notes, risks, one-way doors, blocks.
    pub notes: Vec<Note>,
    /// Versions that disappear from definitions.
    pub removed_versions: Vec<RemovedVersion>,
}

/// Client-side apply keeps the whole object in an annotation of at most this many bytes.
const ANNOTATION_LIMIT: usize = 256 * 1024;

/// Compares what is deployed with what shall be. An empty `deployed` is a first installation: nothing can break.
pub fn compare(deployed: &[Node], target: &[Node]) -> Comparison {
    let mut comparison = Comparison::default();
    let (old, new) = (index(deployed), index(target));
    large(&new, &mut comparison);
    if old.is_empty() {
        return comparison;
    }
    definitions(&old, &new, &mut comparison);
    for (id, (summary, node)) in &old {
        match new.get(id) {
            Some((_, after)) => immutable(id, node, after, &mut comparison),
            None => removed(id, summary, &mut comparison),
        }
    }
    comparison.notes.extend(webhooks(&old, &new));
    comparison
}

fn large(new: &Index, comparison: &mut Comparison) {
    let large: Vec<String> = new
        .values()
        .filter_map(|(summary, _)| {
            let crd = summary.crd.as_ref()?;
            (crd.json_bytes > ANNOTATION_LIMIT).then(|| format!("{} ({} KiB)", summary.name, crd.json_bytes / 1024))
        })
        .collect();
    if !large.is_empty() {
        let message = format!(
            "{} above the 256 KiB that client-side apply can keep: server-side apply only",
            several(&large, "definition is", "definitions are")
        );
        comparison.notes.push(Note::new(Weight::Note, NoteKind::LargeDefinition, message));
    }
}

/// `1 definition is: a` or `3 definitions are: a, b, c`.
fn several(names: &[String], one: &str, many: &str) -> String {
    format!(
        "{} ({})",
        if names.len() == 1 { one.to_owned() } else { format!("{} {many}", names.len()) },
        names.join(", ")
    )
}

fn definitions(old: &Index, new: &Index, comparison: &mut Comparison) {
    // One note for each kind of change and group, not one for each of dozens of definitions.
    let mut storage: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
    let mut gone: BTreeMap<(String, String), Vec<RemovedVersion>> = BTreeMap::new();
    let mut conversion: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
    let mut unconverted: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
    let mut contracts: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
    let mut deprecated: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (id, (before, _)) in old {
        let (Some(was), Some((after, _))) = (&before.crd, new.get(id)) else { continue };
        let Some(is) = &after.crd else { continue };
        let group = was.group.clone();
        if let (Some(from), Some(to)) = (was.storage_version(), is.storage_version())
            && from != to
        {
            let key = (group.clone(), from.to_owned(), to.to_owned());
            if is.conversion == "None" {
                unconverted.entry(key.clone()).or_default().push(was.kind.clone());
            }
            storage.entry(key).or_default().push(was.kind.clone());
        }
        for version in removed_versions(&before.name, was, is) {
            gone.entry((group.clone(), version.version.clone())).or_default().push(version.clone());
            comparison.removed_versions.push(version);
        }
        let marked =
            |crd: &CrdSummary, name: &str| crd.versions.iter().any(|other| other.name == name && other.deprecated);
        for version in is.versions.iter().filter(|version| version.served && version.deprecated) {
            if !marked(was, &version.name) {
                deprecated.entry((group.clone(), version.name.clone())).or_default().push(was.kind.clone());
            }
        }
        if was.conversion != is.conversion {
            let key = (group.clone(), was.conversion.clone(), is.conversion.clone());
            conversion.entry(key).or_default().push(was.kind.clone());
        }
        let labels = |crd: &CrdSummary| {
            crd.contract_labels.iter().map(|(label, _)| label.clone()).collect::<Vec<_>>().join(", ")
        };
        if labels(was) != labels(is) {
            contracts.entry((group, labels(was), labels(is))).or_default().push(was.kind.clone());
        }
    }
    let mut add = |weight, kind, message: String| comparison.notes.push(Note::new(weight, kind, message));
    for ((group, from, to), kinds) in storage {
        add(
            Weight::OneWay,
            NoteKind::StorageVersionChanged,
            format!(
                "objects of {group} will be stored at {to} instead of {from} ({}): once written, the old controllers cannot \
                 read them back",
                kinds.join(", ")
            ),
        );
    }
    for ((group, from, to), kinds) in unconverted {
        add(
            Weight::Risk,
            NoteKind::ConversionMissing,
            format!(
                "nothing converts objects of {group} from {from} to {to} ({}): the API server changes their apiVersion and \
                 drops fields that {to} does not have",
                kinds.join(", ")
            ),
        );
    }
    for ((group, version), removed) in gone {
        let kinds: Vec<&str> = removed.iter().map(|removed| removed.kind.as_str()).collect();
        let message = format!(
            "version {version} is removed from {group} ({}): the API server refuses it while status.storedVersions \
             lists {version}; rewrite those objects at the storage version, then take {version} out of \
             status.storedVersions",
            kinds.join(", ")
        );
        comparison.notes.push(Note { removed, ..Note::new(Weight::Risk, NoteKind::VersionRemoved, message) });
    }
    let mut add = |weight, kind, message: String| comparison.notes.push(Note::new(weight, kind, message));
    for ((group, version), kinds) in deprecated {
        add(
            Weight::Note,
            NoteKind::VersionDeprecated,
            format!(
                "version {version} of {group} becomes deprecated ({}): it is still served, but a later update will remove \
                 it; move manifests that name it",
                kinds.join(", ")
            ),
        );
    }
    for ((group, from, to), kinds) in conversion {
        add(
            Weight::Risk,
            NoteKind::ConversionChanged,
            format!("conversion of {group} changes from {from} to {to} ({})", kinds.join(", ")),
        );
    }
    for ((group, from, to), kinds) in contracts {
        let shown = |labels: String| if labels.is_empty() { "none".to_owned() } else { labels };
        add(
            Weight::Risk,
            NoteKind::ContractChanged,
            format!("contract labels of {group} change from {} to {} ({})", shown(from), shown(to), kinds.join(", ")),
        );
    }
}

fn removed_versions(name: &str, was: &CrdSummary, is: &CrdSummary) -> Vec<RemovedVersion> {
    was.versions
        .iter()
        .filter(|version| !is.versions.iter().any(|other| other.name == version.name))
        .map(|version| RemovedVersion {
            definition: name.to_owned(),
            kind: was.kind.clone(),
            version: version.name.clone(),
            was_storage: version.storage,
            was_served: version.served,
        })
        .collect()
}

/// Fields that the API server never changes in place.
fn immutable(id: &ObjectId, before: &Node, after: &Node, comparison: &mut Comparison) {
    let field: &[&str] = match id.kind.as_str() {
        "Deployment" | "DaemonSet" | "StatefulSet" => &["spec", "selector"],
        "RoleBinding" | "ClusterRoleBinding" => &["roleRef"],
        "Job" => &["spec", "template"],
        _ => return,
    };
    if before.at(field) == after.at(field) {
        return;
    }
    let annotation = after.at(&["metadata", "annotations", "kustomize.toolkit.fluxcd.io/force"]).and_then(Node::as_str);
    let forced = annotation.is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "enabled" | "true"));
    let weight = if forced { Weight::Risk } else { Weight::Block };
    let advice = if forced {
        "it will be deleted and made anew"
    } else {
        "delete it first, or patch the annotation kustomize.toolkit.fluxcd.io/force: enabled onto it in an overlay"
    };
    let message = format!("{} differs and cannot be changed in place: {advice}", field.join("."));
    comparison.notes.push(Note::new(weight, NoteKind::ImmutableFieldChanged, message).object(id));
}

fn removed(id: &ObjectId, summary: &ObjectSummary, comparison: &mut Comparison) {
    let (weight, message) = if summary.crd.is_some() {
        (Weight::Risk, "is no longer part of the component; it is not pruned, and its objects stay")
    } else {
        (Weight::Note, "is no longer part of the component and will be pruned")
    };
    comparison.notes.push(Note::new(weight, NoteKind::ObjectRemoved, message).object(id));
}
