//! The add-ons of an image, as they are applied while nodes of two releases run side by side.
//!
//! A node of before has the images of before alone, so pods of `DaemonSets` stay there until it goes; and a Deployment waits for the
//! first node that has its images.

use std::collections::BTreeMap;

use bundles::tanzu::{AddonContent, ImageAddon};
use yaml::{Limits, Mapping, Node, Value};

use crate::object::{ObjectId, items, object_id, pod_path};

/// Manifests of an add-on.
const LIMITS: Limits = Limits { bytes: 3 << 20, documents: 1_000, depth: 64, nodes: 200_000 };

/// How long a Deployment may wait for a node: longer than any node's replacement takes.
const PROGRESS_DEADLINE: i64 = 3600;

/// The longest value of a label.
const LABEL: usize = 63;

/// An add-on of an image, as it is applied.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedAddon {
    /// Its name.
    pub name: String,
    /// Its version: its own, or that of the release.
    pub version: String,
    /// What becomes of it.
    pub state: AddonState,
}

/// What becomes of an add-on.
#[derive(Clone, Debug, PartialEq)]
pub enum AddonState {
    /// It is applied.
    Rendered {
        /// Its objects.
        objects: Vec<Node>,
        /// What is worth knowing of them.
        remarks: Vec<String>,
    },
    /// It cannot be read, and why: what is applied of it stays.
    Unreadable(String),
    /// Others look after it.
    Unmanaged,
}

/// The add-ons of an image whose nodes have the label `label`.
pub(crate) fn rendered(
    addons: &[ImageAddon],
    unmanaged: &[String],
    (cluster, release): (&str, &str),
    label: (&str, &str),
) -> Vec<RenderedAddon> {
    let rendered = |addon: &ImageAddon| {
        let state = match &addon.content {
            _ if unmanaged.contains(&addon.name) => AddonState::Unmanaged,
            _ if !is_name(&addon.name) => {
                AddonState::Unreadable(format!("its name {:?} is not a valid name of an add-on", addon.name))
            }
            _ if kustomization_name(cluster, &addon.name).len() > LABEL => AddonState::Unreadable(
                "its name and that of the cluster are longer than a label's value may be".to_owned(),
            ),
            AddonContent::Unreadable(why) => AddonState::Unreadable(why.clone()),
            AddonContent::Inline(text) => match objects(text) {
                Ok((objects, remarks)) => rewritten(objects, remarks, label),
                Err(why) => AddonState::Unreadable(why),
            },
        };
        let version = addon.version.clone().unwrap_or_else(|| release.to_owned());
        RenderedAddon { name: addon.name.clone(), version, state }
    };
    addons.iter().map(rendered).collect()
}

/// Whether a text names a folder and is part of the name of an object.
fn is_name(text: &str) -> bool {
    let is_plain = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '-';
    let ends_well = text.starts_with(|first: char| first.is_ascii_alphanumeric()) && !text.ends_with('-');
    ends_well && text.chars().all(is_plain)
}

/// The name of the Flux Kustomization that applies an add-on.
pub(crate) fn kustomization_name(cluster: &str, addon: &str) -> String {
    format!("{cluster}-addons-{addon}")
}

/// The objects of a stream of documents, each once, with what was said of them.
fn objects(text: &str) -> Result<(Vec<Node>, Vec<String>), String> {
    let documents =
        yaml::parse(text, &LIMITS).map_err(|problem| format!("its manifests are not valid YAML: {problem}"))?;
    let mut objects: Vec<(ObjectId, Node)> = Vec::new();
    let mut remarks = Vec::new();
    for (index, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.root.is_null()) {
        let listed = items(&document.root);
        for node in listed.unwrap_or_else(|| vec![document.root]) {
            let has_version = node.get("apiVersion").and_then(Node::as_str).is_some_and(|text| !text.is_empty());
            let Some(id) = object_id(&node).filter(|_| has_version) else {
                return Err(format!("document {} of its manifests is not an object of Kubernetes", index + 1));
            };
            match objects.iter_mut().find(|(known, _)| *known == id) {
                // As if they were applied one after another.
                Some((_, known)) if *known != node => {
                    remarks.push(format!("{id} is there twice, and the later one counts"));
                    *known = node;
                }
                Some(_) => {}
                None => objects.push((id, node)),
            }
        }
    }
    if objects.is_empty() {
        return Err("its manifests hold no object".to_owned());
    }
    Ok((objects.into_iter().map(|(_, node)| node).collect(), remarks))
}

fn rewritten(mut objects: Vec<Node>, mut remarks: Vec<String>, label: (&str, &str)) -> AddonState {
    for node in &mut objects {
        let kind = node.get("kind").and_then(Node::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "DaemonSet" => set(node, &["spec", "updateStrategy"], mapping([("type", Node::from("OnDelete"))])),
            "Deployment" => deployment(node, label),
            other if pod_path(other).is_some() => {
                let id = object_id(node).map(|id| id.to_string()).unwrap_or_default();
                remarks.push(format!("{id} is left as it is: its pods are made by rules of their own"));
            }
            _ => {}
        }
    }
    AddonState::Rendered { objects, remarks }
}

/// New pods go to nodes of the release, and old ones stay until they are there.
fn deployment(node: &mut Node, (label, value): (&str, &str)) {
    let number = |value: i64| Node::new(Value::Int(value));
    let strategy = mapping([
        ("type", Node::from("RollingUpdate")),
        ("rollingUpdate", mapping([("maxSurge", number(1)), ("maxUnavailable", number(0))])),
    ]);
    set(node, &["spec", "strategy"], strategy);
    let path = ["spec", "progressDeadlineSeconds"];
    if node.at(&path).and_then(Node::as_i64).is_none_or(|limit| limit < PROGRESS_DEADLINE) {
        set(node, &path, number(PROGRESS_DEADLINE));
    }
    set(node, &["spec", "template", "spec", "nodeSelector", label], Node::from(value));
}

fn mapping<const N: usize>(entries: [(&str, Node); N]) -> Node {
    Node::from(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Mapping>())
}

/// Sets the value at `path`, making the mappings on the way.
fn set(node: &mut Node, path: &[&str], value: Node) {
    let Some((key, rest)) = path.split_first() else {
        *node = value;
        return;
    };
    if node.as_mapping().is_none() {
        node.value = Value::Mapping(Mapping::new());
    }
    if let Some(mapping) = node.as_mapping_mut() {
        set(mapping.get_or_insert_with(key, || Node::from(Mapping::new())), rest, value);
    }
}

/// The workloads among objects, by kind, namespace and name, and whether their pods may run on nodes of a control plane.
#[must_use]
pub fn workloads(objects: &[Node]) -> BTreeMap<(String, String, String), bool> {
    let workload = |node: &Node| {
        let text = |path: &[&str]| node.at(path).and_then(Node::as_str).map(str::to_owned);
        let kind = text(&["kind"]).filter(|kind| ["DaemonSet", "Deployment"].contains(&kind.as_str()))?;
        let namespace = text(&["metadata", "namespace"]).unwrap_or_else(|| "default".to_owned());
        Some(((kind, namespace, text(&["metadata", "name"])?), tolerates_control_plane(node)))
    };
    objects.iter().filter_map(workload).collect()
}

/// Whether its pods may run on nodes of a control plane.
fn tolerates_control_plane(node: &Node) -> bool {
    let tolerations = node.at(&["spec", "template", "spec", "tolerations"]).and_then(Node::as_sequence);
    tolerations.unwrap_or_default().iter().any(|toleration| {
        let text = |key: &str| toleration.get(key).and_then(Node::as_str).filter(|text| !text.is_empty());
        let is_of_effect = matches!(text("effect"), None | Some("NoSchedule"));
        let of_role = text("key").is_none_or(|key| key == "node-role.kubernetes.io/control-plane");
        is_of_effect
            && of_role
            && (text("operator") == Some("Exists") || text("key").is_some() && text("value").is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: (&str, &str) = ("run.tanzu.vmware.com/kubernetesDistributionVersion", "v1.26.5_vmware.2-tkg.1");

    fn render(text: &str) -> AddonState {
        let content = AddonContent::Inline(text.to_owned());
        let addon = ImageAddon { name: "antrea".to_owned(), version: None, content };
        rendered(&[addon], &[], ("depot", "v1.26.5+vmware.2-tkg.1"), LABEL).swap_remove(0).state
    }

    #[track_caller]
    fn objects_of(text: &str) -> (Vec<Node>, Vec<String>) {
        match render(text) {
            AddonState::Rendered { objects, remarks } => (objects, remarks),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn daemon_sets_keep_their_pods_whatever_strategy_they_had() {
        for strategy in [
            "",
            ", updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}",
            ", updateStrategy: {type: OnDelete}",
        ] {
            let text = format!(
                "{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: a}}, spec: {{selector: {{}}{strategy}}}}}"
            );
            let (objects, remarks) = objects_of(&text);
            let found = objects[0].at(&["spec", "updateStrategy"]).map(yaml::emit);
            assert_eq!((found.as_deref(), remarks.len()), (Some("type: OnDelete\n"), 0), "{strategy}");
        }
    }

    #[test]
    fn deployments_wait_for_a_node_of_the_release_beside_their_old_pods() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: a}\n  spec:\n    \
                    progressDeadlineSeconds: 60\n    template: {spec: {initContainers: [{name: b}], nodeSelector: {zone: a}}}\n- apiVersion: \
                    apps/v1\n  kind: Deployment\n  metadata: {name: b}\n  spec: {strategy: {type: Recreate}, progressDeadlineSeconds: 7200}\n";
        let (objects, _) = objects_of(text);
        let emitted: Vec<String> = objects.iter().map(|node| yaml::emit(&node.get("spec").cloned().unwrap())).collect();
        let selector = "run.tanzu.vmware.com/kubernetesDistributionVersion: v1.26.5_vmware.2-tkg.1\n";
        for text in [selector, "zone: a", "progressDeadlineSeconds: 3600", "maxUnavailable: 0", "maxSurge: 1"] {
            assert!(emitted[0].contains(text), "{text}: {}", emitted[0]);
        }
        for text in [selector, "progressDeadlineSeconds: 7200", "type: RollingUpdate"] {
            assert!(emitted[1].contains(text), "{text}: {}", emitted[1]);
        }
    }

    #[test]
    fn other_workloads_and_twins_are_told_and_nothing_else_is_touched() {
        let set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a, namespace: b}\nspec: {replicas: 1}\n";
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}\n";
        let (objects, remarks) =
            objects_of(&format!("{set}---\n{map}---\n---\n{map}---\n{}", map.replace("'1'", "'2'")));
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[1].at(&["data", "a"]).and_then(Node::as_str), Some("2"));
        let told = ["ConfigMap c is there twice, and the later one counts", "StatefulSet b/a is left as it is"];
        assert!(told.iter().zip(&remarks).all(|(told, remark)| remark.starts_with(told)), "{remarks:?}");
    }

    #[test]
    fn an_add_on_that_cannot_be_read_says_why() {
        for (text, why) in [
            ("a: [", "is not valid YAML"),
            ("just a text", "document 1 of its manifests is not an object of Kubernetes"),
            ("kind: ConfigMap\nmetadata: {name: a}\n", "is not an object of Kubernetes"),
            ("---\n", "hold no object"),
        ] {
            let AddonState::Unreadable(said) = render(text) else { panic!("{text}") };
            assert!(said.contains(why) || why == "is not valid YAML" && said.contains("not valid YAML"), "{said}");
        }
    }
}
