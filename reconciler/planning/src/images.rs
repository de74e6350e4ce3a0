//! The images that nodes pull in the course of a rollout.

use std::collections::{BTreeMap, BTreeSet};

use overlays::ObjectSummary;
use rollout::check::PlannedImage;
use rollout::{LoginSource, ObjectReference, StageName};
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
    let mirrors = Mirrors { of_registries: mirrors(&specification), logins: mirror_logins(&specification) };
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

/// Where nodes pull from instead of the registries themselves, and the logins that they have there.
struct Mirrors {
    of_registries: BTreeMap<String, String>,
    logins: BTreeSet<LoginSource>,
}

/// The namespace of what names none.
const DEFAULT_NAMESPACE: &str = "default";

fn namespace_of(object: &ObjectSummary) -> &str {
    object.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
}

/// Where kubelets find logins for the pods of an object: the Secrets that these name, else those of their `ServiceAccount`,
/// in the target tree (`accounts`) and in the cluster.
fn logins(object: &ObjectSummary, accounts: &BTreeMap<(String, String), Vec<String>>) -> BTreeSet<LoginSource> {
    let Some(account) = &object.service_account else { return BTreeSet::new() };
    let namespace = namespace_of(object).to_owned();
    let secret = |name: &String| LoginSource::Secret { namespace: namespace.clone(), name: name.clone() };
    if !object.pull_secrets.is_empty() {
        return object.pull_secrets.iter().map(secret).collect();
    }
    let named = accounts.get(&(namespace.clone(), account.clone())).into_iter().flatten();
    let live = LoginSource::ServiceAccount { namespace: namespace.clone(), name: account.clone() };
    named.map(secret).chain([live]).collect()
}

fn add(found: &mut BTreeMap<String, PlannedImage>, objects: impl Iterator<Item = ObjectSummary>, mirrors: &Mirrors) {
    let objects: Vec<ObjectSummary> = objects.collect();
    let accounts = objects.iter().filter(|object| object.kind == "ServiceAccount");
    let accounts =
        accounts.map(|object| ((namespace_of(object).to_owned(), object.name.clone()), object.pull_secrets.clone()));
    let accounts: BTreeMap<(String, String), Vec<String>> = accounts.collect();
    for object in objects {
        let logins = logins(&object, &accounts);
        for image in &object.images {
            let known = found.entry(image.clone()).or_insert_with(|| PlannedImage {
                image: image.clone(),
                object: ObjectReference {
                    api_version: object.api_version.clone(),
                    kind: object.kind.clone(),
                    namespace: object.namespace.clone(),
                    name: object.name.clone(),
                },
                mirror: mirrored(image, &mirrors.of_registries),
                architectures: object.architectures.clone(),
                logins: BTreeSet::new(),
            });
            known.logins.extend(logins.iter().cloned());
            if known.mirror.is_some() {
                known.logins.extend(mirrors.logins.iter().cloned());
            }
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
        // No Secret and no account counts for them: kubelets run them before there is an API server.
        pull_secrets: Vec::new(),
        service_account: None,
        ..pod
    });
    pods.collect()
}

/// What containerd calls the configuration for every registry that has none of its own.
const EVERY_OTHER: &str = "_default";

/// By registry, where the nodes pull from instead: of an EKS Anywhere cluster by its mirror, of others by what their bootstrap
/// configuration tells containerd.
fn mirrors(specification: &[Node]) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = specification.iter().flat_map(told_to_containerd).collect();
    for node in specification {
        let Some((mirror, base)) = eksa_mirror(node) else { continue };
        let text = |node: &Node, key: &str| node.get(key).and_then(Node::as_str).unwrap_or_default().to_owned();
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

/// The `registryMirrorConfiguration` of an EKS Anywhere cluster, with its host and port.
fn eksa_mirror(node: &Node) -> Option<(&Node, String)> {
    let is_eksa = node.get("apiVersion").and_then(Node::as_str).is_some_and(|it| it.starts_with("anywhere.eks."));
    let mirror = node.at(&["spec", "registryMirrorConfiguration"]).filter(|_| is_eksa)?;
    let text = |key: &str| mirror.get(key).and_then(Node::as_str).unwrap_or_default().to_owned();
    let endpoint = text("endpoint");
    if endpoint.is_empty() {
        return None;
    }
    let host = if endpoint.contains(':') { format!("[{endpoint}]") } else { endpoint };
    let number = mirror.get("port").and_then(Node::as_i64).map(|port| port.to_string());
    let port = number.unwrap_or_else(|| text("port"));
    Some((mirror, if port.is_empty() { host } else { format!("{host}:{port}") }))
}

/// The login that EKS Anywhere gives nodes for their mirror, where that asks for one.
fn mirror_logins(specification: &[Node]) -> BTreeSet<LoginSource> {
    let asks = |mirror: &Node| mirror.get("authenticate").and_then(Node::as_bool) == Some(true);
    let mirrors = specification.iter().filter_map(eksa_mirror).filter(|(mirror, _)| asks(mirror));
    mirrors.map(|(_, host)| LoginSource::Mirror { host }).collect()
}

/// Registries with the mirror that is asked first, by the files of a KubeadmControlPlane or a `KubeadmConfigTemplate`.
fn told_to_containerd(node: &Node) -> Vec<(String, String)> {
    let places = [&["spec", "kubeadmConfigSpec", "files"][..], &["spec", "template", "spec", "files"]];
    let files = places.iter().filter_map(|path| node.at(path)?.as_sequence()).flatten();
    let text = |file: &Node, key: &str| file.get(key).and_then(Node::as_str).map(str::to_owned);
    let of_file = |file: &Node| {
        let (path, content) = (text(file, "path")?, text(file, "content")?);
        let registry = path.strip_prefix("/etc/containerd/certs.d/")?.strip_suffix("/hosts.toml")?;
        Some((registry.to_owned(), first_host(&content)?))
    };
    files.filter_map(of_file).collect()
}

/// The first mirror of a `hosts.toml` (`containerd/docs/hosts.md`), as images name it.
fn first_host(content: &str) -> Option<String> {
    let mut lines = content.lines().map(str::trim);
    let address = lines.find_map(|line| line.strip_prefix("[host.")?.strip_suffix(']'))?.trim_matches(['"', '\'']);
    let (_, place) = address.split_once("://")?;
    let is_own_path = |line: &str| {
        let plain = line.split('#').next().unwrap_or_default().replace(' ', "");
        plain == "override_path=true"
    };
    let overrides = lines.take_while(|line| !line.starts_with("[host.")).any(is_own_path);
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    // Paths of images have no /v2; where the path is not overridden, containerd puts it before.
    let path = if overrides { path.strip_prefix("v2").unwrap_or(path) } else { path };
    let path = path.trim_matches('/');
    Some(if path.is_empty() { host.to_owned() } else { format!("{host}/{path}") })
}

fn mirrored(image: &str, mirrors: &BTreeMap<String, String>) -> Option<String> {
    let (host, rest) = image.split_once('/')?;
    let place = mirrors.get(host).or_else(|| mirrors.get(EVERY_OTHER))?;
    Some(format!("{place}/{rest}"))
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
    fn an_image_is_pulled_where_containerd_is_told_to() {
        let image = |path: &str, content: &str| {
            let file = format!("{{path: {path}, content: {}}}", serde_json::to_string(content).unwrap());
            let template = format!(
                "apiVersion: bootstrap.cluster.x-k8s.io/v1beta2\nkind: KubeadmConfigTemplate\nmetadata: {{name: md, namespace: \
                 n}}\nspec: {{template: {{spec: {{files: [{file}]}}}}}}\n"
            );
            let found = mirrors(&overlays::objects_of(template.as_bytes()));
            mirrored("public.ecr.aws/eks/cilium:1", &found)
        };
        let hosts = "/etc/containerd/certs.d/public.ecr.aws/hosts.toml";
        for (path, content, expected) in [
            (
                hosts,
                "server = \"https://public.ecr.aws\"\n[host.\"https://m.example:5000\"]\n",
                Some("m.example:5000/eks/cilium:1"),
            ),
            (
                hosts,
                "[host.\"https://h.example/v2/ecr\"]\n  capabilities = [\"pull\"]\n  override_path = true # a project\n",
                Some("h.example/ecr/eks/cilium:1"),
            ),
            (
                hosts,
                "[host.\"http://a.example\"]\n[host.\"http://b.example/v2/x\"]\noverride_path = true\n",
                Some("a.example/eks/cilium:1"),
            ),
            (
                "/etc/containerd/certs.d/_default/hosts.toml",
                "[host.'https://all.example']\n",
                Some("all.example/eks/cilium:1"),
            ),
            ("/etc/containerd/certs.d/docker.io/hosts.toml", "[host.\"https://m.example\"]\n", None),
            ("/etc/containerd/config.toml", "[host.\"https://m.example\"]\n", None),
            (hosts, "server = \"https://public.ecr.aws\"\n", None),
        ] {
            assert_eq!(image(path, content).as_deref(), expected, "{path} {content}");
        }
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
            found.architectures
        };
        let arm = ", nodeSelector: {kubernetes.io/arch: arm64}";
        let terms = ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
                     [{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}]}}}";
        assert_eq!(of(&[arm]), ["arm64"]);
        assert_eq!(of(&[arm, terms]), ["amd64", "arm64"]);
        assert_eq!(of(&[arm, ""]), [""; 0]);
    }

    #[test]
    fn logins_are_looked_for_where_kubelets_find_them() {
        let of = |more: &str, account: &str, mirror: &str| {
            let part = component("", &format!("{}---\n{account}", workload("public.ecr.aws/x:1", more)));
            let part = StageTree { objects: nodes(&part).iter().filter_map(ObjectSummary::of).collect(), ..part };
            let eksa = format!(
                "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: a}}\nspec: \
                 {{registryMirrorConfiguration: {mirror}}}\n"
            );
            let found = images(&[part, specification(StageName::ControlPlane, &eksa, &eksa)]).remove(0);
            let shown = |login: LoginSource| match login {
                LoginSource::Secret { namespace, name } => format!("{namespace}/{name}"),
                LoginSource::ServiceAccount { namespace, name } => format!("of {namespace}/{name}"),
                LoginSource::Mirror { host } => format!("of {host}"),
            };
            found.logins.into_iter().map(shown).collect::<Vec<_>>()
        };
        let account = |name: &str| {
            format!(
                "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}, namespace: n}}\nimagePullSecrets: [{{name: own}}]\n"
            )
        };
        assert_eq!(of("", "", "{}"), ["of n/default"]);
        assert_eq!(of("", &account("default"), "{}"), ["n/own", "of n/default"]);
        assert_eq!(of(", serviceAccountName: runner", &account("default"), "{}"), ["of n/runner"]);
        // Whoever names Secrets has none of its account's.
        assert_eq!(of(", imagePullSecrets: [{name: a}, {name: b}]", &account("default"), "{}"), ["n/a", "n/b"]);
        let mirror = "{endpoint: m.example, port: 443, authenticate: true}";
        assert_eq!(of("", "", mirror), ["of n/default", "of m.example:443"]);
        assert_eq!(of("", "", "{endpoint: m.example, authenticate: false}"), ["of n/default"]);
    }
}
