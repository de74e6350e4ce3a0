//! The images that nodes pull in the course of a rollout.

use std::collections::{BTreeMap, BTreeSet};

use overlays::ObjectSummary;
use rollout::check::PlannedImage;
use rollout::{ObjectReference, StageName};
use yaml::Node;

use crate::stage_tree::StageTree;

/// The registry that EKS Anywhere mirrors where the specification names none (`pkg/registrymirror`).
const MIRRORED: &str = "public.ecr.aws";

/// Each image once: those of parts that change, and of all parts where nodes are made anew.
#[must_use]
pub fn images(parts: &[StageTree]) -> Vec<PlannedImage> {
    let is_of_machines = |part: &&StageTree| matches!(part.stage.name, StageName::ControlPlane | StageName::Workers(_));
    let rolls = parts.iter().filter(is_of_machines).any(StageTree::is_moved);
    let specification: Vec<Node> = parts.iter().filter(|part| part.component.is_none()).flat_map(nodes).collect();
    let mirrors = mirrors(&specification);
    let mut found: BTreeMap<String, PlannedImage> = BTreeMap::new();
    for part in parts.iter().filter(|part| part.component.is_some() && (rolls || part.is_moved())) {
        // The objects of a part that nothing changes are not gathered.
        match part.objects.as_slice() {
            [] if rolls => add(&mut found, nodes(part).iter().filter_map(ObjectSummary::of), &mirrors),
            objects => add(&mut found, objects.iter().cloned(), &mirrors),
        }
    }
    if rolls {
        add(&mut found, specification.iter().flat_map(static_pods), &mirrors);
    }
    found.into_values().collect()
}

fn nodes(part: &StageTree) -> Vec<Node> {
    let files = part.after.files.iter().filter(|(path, _)| path.is_yaml());
    files.flat_map(|(_, bytes)| overlays::objects_of(bytes)).collect()
}

fn add(
    found: &mut BTreeMap<String, PlannedImage>,
    objects: impl Iterator<Item = ObjectSummary>,
    mirrors: &BTreeMap<String, String>,
) {
    for object in objects {
        for image in &object.images {
            let known = found.entry(image.clone()).or_insert_with(|| PlannedImage {
                image: image.clone(),
                object: ObjectReference {
                    api_version: object.api_version.clone(),
                    kind: object.kind.clone(),
                    namespace: object.namespace.clone(),
                    name: object.name.clone(),
                },
                mirror: mirrored(image, mirrors),
                architectures: object.architectures.clone(),
                has_pull_secrets: object.has_pull_secrets,
            });
            known.has_pull_secrets |= object.has_pull_secrets;
            // Whoever runs on any node needs it for all of them.
            if known.architectures.is_empty() || object.architectures.is_empty() {
                known.architectures.clear();
            } else {
                let all: BTreeSet<&String> = known.architectures.iter().chain(&object.architectures).collect();
                known.architectures = all.into_iter().cloned().collect();
            }
        }
    }
}

/// The Pods that kubelets run from files which a KubeadmControlPlane writes.
fn static_pods(node: &Node) -> Vec<ObjectSummary> {
    let text = |node: &Node, path: &[&str]| node.at(path).and_then(Node::as_str).map(str::to_owned);
    let files = node.at(&["spec", "kubeadmConfigSpec", "files"]).and_then(Node::as_sequence).unwrap_or_default();
    let contents = files.iter().filter_map(|file| {
        let is_manifest = text(file, &["path"])?.starts_with("/etc/kubernetes/manifests/");
        text(file, &["content"]).filter(|_| is_manifest)
    });
    let owner = (text(node, &["apiVersion"]), text(node, &["kind"]), text(node, &["metadata", "name"]));
    let (Some(api_version), Some(kind), Some(name)) = owner else { return Vec::new() };
    let namespace = text(node, &["metadata", "namespace"]);
    let pods = contents.flat_map(|content| overlays::objects_of(content.as_bytes()));
    let pods = pods.filter_map(|pod| ObjectSummary::of(&pod)).map(|pod| ObjectSummary {
        api_version: api_version.clone(),
        kind: kind.clone(),
        namespace: namespace.clone(),
        name: name.clone(),
        ..pod
    });
    pods.collect()
}

/// By registry, where the nodes of an EKS Anywhere cluster pull from instead.
fn mirrors(specification: &[Node]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for node in specification {
        let is_eksa = node.get("apiVersion").and_then(Node::as_str).is_some_and(|it| it.starts_with("anywhere.eks."));
        let Some(mirror) = node.at(&["spec", "registryMirrorConfiguration"]).filter(|_| is_eksa) else { continue };
        let text = |node: &Node, key: &str| node.get(key).and_then(Node::as_str).unwrap_or_default().to_owned();
        let endpoint = text(mirror, "endpoint");
        if endpoint.is_empty() {
            continue;
        }
        let host = if endpoint.contains(':') { format!("[{endpoint}]") } else { endpoint };
        let number = mirror.get("port").and_then(Node::as_i64).map(|port| port.to_string());
        let port = number.unwrap_or_else(|| text(mirror, "port"));
        let base = if port.is_empty() { host } else { format!("{host}:{port}") };
        let namespaces = mirror.get("ociNamespaces").and_then(Node::as_sequence).unwrap_or_default();
        for entry in namespaces {
            let (registry, namespace) = (text(entry, "registry"), text(entry, "namespace"));
            let place = if namespace.is_empty() { base.clone() } else { format!("{base}/{namespace}") };
            found.insert(registry, place);
        }
        if namespaces.is_empty() {
            found.insert(MIRRORED.to_owned(), base);
        }
    }
    found
}

fn mirrored(image: &str, mirrors: &BTreeMap<String, String>) -> Option<String> {
    let (host, rest) = image.split_once('/')?;
    mirrors.get(host).map(|place| format!("{place}/{rest}"))
}

#[cfg(test)]
mod tests {
    use overlays::{ComponentName, RenderedTree};

    use super::*;

    fn tree(text: &str) -> RenderedTree {
        let path = domain::RepoPath::new("clusters/a/x/all.yaml").unwrap();
        RenderedTree { files: [(path, std::sync::Arc::from(text.as_bytes()))].into() }
    }

    fn component(before: &str, after: &str) -> StageTree {
        let unchanged = StageTree::unchanged(StageName::Cilium.into(), ComponentName::Cilium, tree(after));
        StageTree { before: tree(before), ..unchanged }
    }

    fn specification(stage: StageName, before: &str, after: &str) -> StageTree {
        StageTree { stage: stage.into(), component: None, ..component(before, after) }
    }

    fn workload(image: &str, more: &str) -> String {
        format!(
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: d, namespace: n}}\nspec: {{template: {{spec: \
             {{containers: [{{name: a, image: '{image}'}}]{more}}}}}}}\n"
        )
    }

    fn told(parts: &[StageTree]) -> Vec<String> {
        let objects = |part: &StageTree| nodes(part).iter().filter_map(ObjectSummary::of).collect();
        let parts: Vec<StageTree> = parts
            .iter()
            .map(|part| match part.is_moved() {
                true => StageTree { objects: objects(part), ..part.clone() },
                false => part.clone(),
            })
            .collect();
        images(&parts).iter().map(|known| format!("{} of {}", known.image, known.object)).collect()
    }

    #[test]
    fn images_of_parts_that_change_are_pulled_and_all_where_nodes_are_new() {
        let changed = component(&workload("a.example/x:1", ""), &workload("a.example/x:2", ""));
        let unchanged = component(&workload("a.example/y:1", ""), &workload("a.example/y:1", ""));
        let parts = [changed, unchanged];
        assert_eq!(told(&parts), ["a.example/x:2 of DaemonSet n/d"]);
        let rolls = |version: &str| {
            format!(
                "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\nmetadata: {{name: cp, \
                 namespace: n}}\nspec:\n  version: {version}\n  kubeadmConfigSpec:\n    files:\n    - path: \
                 /etc/kubernetes/manifests/kube-vip.yaml\n      content: |\n        apiVersion: v1\n        kind: Pod\n        \
                 metadata: {{name: kube-vip}}\n        spec: {{containers: [{{name: a, image: 'a.example/vip:1'}}]}}\n"
            )
        };
        let control_plane = specification(StageName::ControlPlane, &rolls("v1.34.0"), &rolls("v1.35.0"));
        let all = [&parts[..], &[control_plane]].concat();
        let expected = [
            "a.example/vip:1 of KubeadmControlPlane n/cp",
            "a.example/x:2 of DaemonSet n/d",
            "a.example/y:1 of DaemonSet n/d",
        ];
        assert_eq!(told(&all), expected);
        let still = specification(StageName::ControlPlane, &rolls("v1.34.0"), &rolls("v1.34.0"));
        assert_eq!(told(&[still]), [""; 0]);
    }

    #[test]
    fn an_image_is_pulled_where_the_mirror_of_the_nodes_has_it() {
        let eksa = |mirror: &str| {
            format!(
                "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: a}}\nspec: \
                 {{registryMirrorConfiguration: {mirror}}}\n"
            )
        };
        let of = |mirror: &str| {
            let workload = component("", &workload("public.ecr.aws/eks/x:1", ""));
            let parts = [
                StageTree { objects: nodes(&workload).iter().filter_map(ObjectSummary::of).collect(), ..workload },
                specification(StageName::ControlPlane, &eksa(mirror), &eksa(mirror)),
            ];
            images(&parts).remove(0).mirror
        };
        assert_eq!(of("{endpoint: 10.0.0.1, port: 443}").as_deref(), Some("10.0.0.1:443/eks/x:1"));
        let mapped = "{endpoint: m.example, ociNamespaces: [{registry: public.ecr.aws, namespace: eks-a}]}";
        assert_eq!(of(mapped).as_deref(), Some("m.example/eks-a/eks/x:1"));
        assert_eq!(of("{endpoint: m.example, ociNamespaces: [{registry: other.example, namespace: a}]}"), None);
    }

    #[test]
    fn pods_that_are_bound_to_machines_need_images_for_these_alone() {
        let of = |more: &[&str]| {
            let texts: Vec<String> = more.iter().map(|more| workload("a.example/x:1", more)).collect();
            let part = component("", &texts.join("---\n"));
            let objects = nodes(&part).iter().filter_map(ObjectSummary::of).collect();
            let found = images(&[StageTree { objects, ..part }]).remove(0);
            (found.architectures, found.has_pull_secrets)
        };
        let arm = ", nodeSelector: {kubernetes.io/arch: arm64}";
        let terms = ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
                     [{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}]}}}";
        assert_eq!(of(&[arm]), (vec!["arm64".to_owned()], false));
        assert_eq!(of(&[arm, terms]), (vec!["amd64".to_owned(), "arm64".to_owned()], false));
        assert_eq!(of(&[arm, ""]), (vec![], false));
        assert_eq!(of(&[", imagePullSecrets: [{name: login}]"]), (vec![], true));
    }
}
