//! What gates need to know about a rendered object.

use std::fmt;

use serde::Serialize;
use yaml::{Limits, Node};

/// Identity of a Kubernetes object: group and kind, namespace, name. The version of its API is no part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectId {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace, when written.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{} {namespace}/{}", self.kind, self.name),
            None => write!(formatter, "{} {}", self.kind, self.name),
        }
    }
}

/// One version of a `CustomResourceDefinition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CrdVersion {
    /// Its name, such as `v1beta2`.
    pub name: String,
    /// Whether the API server serves it.
    pub served: bool,
    /// Whether objects are stored at it.
    pub storage: bool,
    /// Whether it is marked as deprecated.
    pub deprecated: bool,
}

/// What a `CustomResourceDefinition` declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CrdSummary {
    /// `spec.group`.
    pub group: String,
    /// `spec.names.kind`.
    pub kind: String,
    /// `spec.versions`, in their order.
    pub versions: Vec<CrdVersion>,
    /// Contracts of Cluster API by label: contract (`v1beta1`) and the API versions that fulfil it (`v1alpha3_v1beta1`
    /// gives two).
    pub contract_labels: Vec<(String, Vec<String>)>,
    /// `spec.conversion.strategy`, `None` when absent.
    pub conversion: String,
    /// Bytes as compact JSON.
    pub json_bytes: usize,
}

impl CrdSummary {
    /// The version that objects are stored at.
    pub fn storage_version(&self) -> Option<&str> {
        self.versions.iter().find(|version| version.storage).map(|version| version.name.as_str())
    }
}

/// One webhook of a webhook configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSummary {
    /// Its name.
    pub name: String,
    /// `Fail` or `Ignore`; `Fail` when absent, as the API server takes it.
    pub failure_policy: String,
    /// `admissionReviewVersions`: the forms of the request that it takes.
    pub review_versions: Vec<String>,
    /// `namespace/name` of its service.
    pub service: Option<String>,
}

/// What gates need to know about one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSummary {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `metadata.namespace`, when written.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// Images of its containers and init containers, each once, in order.
    pub images: Vec<String>,
    /// The architectures that its pods are bound to; empty where they may run on any node.
    #[serde(skip)]
    pub architectures: Vec<String>,
    /// The Secrets to pull with that its pods name, or that a `ServiceAccount` gives to pods which name none.
    #[serde(skip)]
    pub pull_secrets: Vec<String>,
    /// The `ServiceAccount` of its pods; none where it has none.
    #[serde(skip)]
    pub service_account: Option<String>,
    /// `spec.replicas` of a workload: 1 for a Deployment that does not say.
    pub replicas: Option<u32>,
    /// For a `CustomResourceDefinition`.
    pub crd: Option<CrdSummary>,
    /// For a webhook configuration.
    pub webhooks: Vec<WebhookSummary>,
}

impl ObjectSummary {
    /// Reads one object; `None` when it has no kind or name.
    pub fn of(node: &Node) -> Option<Self> {
        let text = |path: &[&str]| node.at(path).and_then(Node::as_str).map(str::to_owned);
        let (kind, name) = (text(&["kind"])?, text(&["metadata", "name"])?);
        let api_version = text(&["apiVersion"]).unwrap_or_default();
        let mut images = Vec::new();
        for container in containers(node) {
            if let Some(image) = container.get("image").and_then(Node::as_str)
                && !images.iter().any(|known| known == image)
            {
                images.push(image.to_owned());
            }
        }
        let replicas = match kind.as_str() {
            "Deployment" | "StatefulSet" | "ReplicaSet" => {
                let written = node.at(&["spec", "replicas"]).and_then(Node::as_i64);
                Some(written.and_then(|number| u32::try_from(number).ok()).unwrap_or(1))
            }
            _ => None,
        };
        let crd = (kind == "CustomResourceDefinition").then(|| crd_summary(node));
        let webhooks = match kind.as_str() {
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => webhook_summaries(node),
            _ => Vec::new(),
        };
        let namespace = text(&["metadata", "namespace"]);
        let pod = pod_path(&kind).and_then(|path| node.at(path));
        let holder = if kind == "ServiceAccount" { Some(node) } else { pod };
        let secrets = holder.and_then(|holder| holder.get("imagePullSecrets")).and_then(Node::as_sequence);
        let named = |secret: &Node| secret.get("name").and_then(Node::as_str).map(str::to_owned);
        let pull_secrets = secrets.unwrap_or_default().iter().filter_map(named).collect();
        let service_account = pod.map(service_account);
        let architectures = pod.map(architectures).unwrap_or_default();
        Some(Self {
            api_version,
            kind,
            namespace,
            name,
            images,
            architectures,
            pull_secrets,
            service_account,
            replicas,
            crd,
            webhooks,
        })
    }

    /// Its identity.
    pub fn id(&self) -> ObjectId {
        let group = self.api_version.split_once('/').map(|(group, _)| group).unwrap_or_default();
        ObjectId {
            group: group.to_owned(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// The `ServiceAccount` of pods; `serviceAccount` is its name of before.
fn service_account(pod: &Node) -> String {
    let mut written = ["serviceAccountName", "serviceAccount"].iter().filter_map(|key| pod.get(key)?.as_str());
    written.find(|name| !name.is_empty()).unwrap_or("default").to_owned()
}

/// The identity of an object, when it has kind and name.
pub fn object_id(node: &Node) -> Option<ObjectId> {
    let text = |path: &[&str]| node.at(path).and_then(Node::as_str).map(str::to_owned);
    let api_version = text(&["apiVersion"]).unwrap_or_default();
    let group = api_version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
    Some(ObjectId {
        group,
        kind: text(&["kind"])?,
        namespace: text(&["metadata", "namespace"]),
        name: text(&["metadata", "name"])?,
    })
}

/// Reads the objects of a manifest, with `List` objects opened; a manifest that cannot be read gives none.
pub fn objects_of(bytes: &[u8]) -> Vec<Node> {
    let Ok(text) = yaml::decode(bytes) else { return Vec::new() };
    let Ok(documents) = yaml::parse(&text, &Limits::default()) else { return Vec::new() };
    documents.into_iter().flat_map(|document| open_list(document.root)).collect()
}

/// The items of a `List`, or the object itself.
pub(crate) fn open_list(root: Node) -> Vec<Node> {
    match items(&root) {
        Some(items) => items,
        None => vec![root],
    }
}

/// The items of a `List`, those of Lists among them opened as well; `None` for whatever is not a List.
pub(crate) fn items(root: &Node) -> Option<Vec<Node>> {
    let is_list = root.get("kind").and_then(Node::as_str).is_some_and(|kind| kind.ends_with("List"));
    let items = root.get("items").and_then(Node::as_sequence).filter(|_| is_list)?;
    Some(items.iter().cloned().flat_map(open_list).collect())
}

/// The pod template of a workload, or the pod itself.
pub(crate) fn pod_path(kind: &str) -> Option<&'static [&'static str]> {
    match kind {
        "Pod" => Some(&["spec"]),
        "Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet" | "Job" => Some(&["spec", "template", "spec"]),
        "CronJob" => Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
        _ => None,
    }
}

/// Init containers, then containers, of a workload.
pub(crate) fn containers(node: &Node) -> Vec<&Node> {
    let Some(path) = node.get("kind").and_then(Node::as_str).and_then(pod_path) else { return Vec::new() };
    let Some(pod) = node.at(path) else { return Vec::new() };
    ["initContainers", "containers"]
        .iter()
        .filter_map(|key| pod.get(key).and_then(Node::as_sequence))
        .flatten()
        .collect()
}

/// The architectures of nodes that a pod is bound to.
fn architectures(pod: &Node) -> Vec<String> {
    const KEY: &str = "kubernetes.io/arch";
    let text = |node: &Node, key: &str| node.get(key).and_then(Node::as_str).map(str::to_owned);
    if let Some(one) = pod.at(&["nodeSelector", KEY]).and_then(Node::as_str) {
        return vec![one.to_owned()];
    }
    let terms = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let terms = pod.at(&terms).and_then(Node::as_sequence).unwrap_or_default();
    let mut found = Vec::new();
    for term in terms {
        let expressions = term.get("matchExpressions").and_then(Node::as_sequence).unwrap_or_default();
        let is_it =
            |it: &&Node| text(it, "key").as_deref() == Some(KEY) && text(it, "operator").as_deref() == Some("In");
        // One term is enough: one that does not bind them lets them go anywhere.
        let Some(bound) = expressions.iter().find(is_it) else { return Vec::new() };
        let values = bound.get("values").and_then(Node::as_sequence).unwrap_or_default();
        found.extend(values.iter().filter_map(Node::as_str).map(str::to_owned));
    }
    found
}

fn crd_summary(node: &Node) -> CrdSummary {
    let text = |path: &[&str]| node.at(path).and_then(Node::as_str).unwrap_or_default().to_owned();
    let versions = node.at(&["spec", "versions"]).and_then(Node::as_sequence).unwrap_or_default();
    let flag = |version: &Node, key: &str| version.get(key).and_then(Node::as_bool).unwrap_or(false);
    let mut contract_labels = Vec::new();
    for entry in node.at(&["metadata", "labels"]).and_then(Node::as_mapping).into_iter().flatten() {
        if let Some(contract) = entry.key.strip_prefix("cluster.x-k8s.io/")
            && is_api_version(contract)
            && let Some(value) = entry.value.as_str()
        {
            contract_labels.push((contract.to_owned(), value.split('_').map(str::to_owned).collect()));
        }
    }
    contract_labels.sort();
    let conversion = text(&["spec", "conversion", "strategy"]);
    CrdSummary {
        group: text(&["spec", "group"]),
        kind: text(&["spec", "names", "kind"]),
        versions: versions
            .iter()
            .map(|version| CrdVersion {
                name: version.get("name").and_then(Node::as_str).unwrap_or_default().to_owned(),
                served: flag(version, "served"),
                storage: flag(version, "storage"),
                deprecated: flag(version, "deprecated"),
            })
            .collect(),
        contract_labels,
        conversion: if conversion.is_empty() { "None".to_owned() } else { conversion },
        json_bytes: yaml::json::to_json(node).len(),
    }
}

/// Whether `text` is `v1`, `v1beta2`, `v2alpha1` and the like.
pub(crate) fn is_api_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('v') else { return false };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let major = rest.trim_start_matches(|character: char| character.is_ascii_digit());
    if major.len() == rest.len() {
        return false;
    }
    major.is_empty()
        || major.strip_prefix("alpha").is_some_and(digits)
        || major.strip_prefix("beta").is_some_and(digits)
}

fn webhook_summaries(node: &Node) -> Vec<WebhookSummary> {
    let webhooks = node.get("webhooks").and_then(Node::as_sequence).unwrap_or_default();
    webhooks
        .iter()
        .map(|webhook| {
            let service = webhook.at(&["clientConfig", "service"]).map(|service| {
                let text = |key: &str| service.get(key).and_then(Node::as_str).unwrap_or_default();
                format!("{}/{}", text("namespace"), text("name"))
            });
            let text = |key: &str| webhook.get(key).and_then(Node::as_str).map(str::to_owned);
            let versions = webhook.get("admissionReviewVersions").and_then(Node::as_sequence).unwrap_or_default();
            WebhookSummary {
                name: text("name").unwrap_or_default(),
                failure_policy: text("failurePolicy").unwrap_or_else(|| "Fail".to_owned()),
                review_versions: versions.iter().filter_map(Node::as_str).map(str::to_owned).collect(),
                service,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> ObjectSummary {
        ObjectSummary::of(&objects_of(text.as_bytes())[0]).unwrap()
    }

    #[test]
    fn workloads_have_images_and_replicas() {
        let deployment = object(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: n}\nspec: {template: {spec: \
             {containers: [{image: x}, {image: y}], initContainers: [{image: x}]}}}",
        );
        assert_eq!((deployment.images, deployment.replicas), (vec!["x".to_owned(), "y".to_owned()], Some(1)));
        let daemon_set = object("apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a}\nspec: {}");
        assert_eq!((daemon_set.images.len(), daemon_set.replicas), (0, None));
    }

    #[test]
    fn definitions_have_versions_and_contracts() {
        let crd = object(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.g, labels: \
             {cluster.x-k8s.io/provider: p, cluster.x-k8s.io/v1beta1: v1alpha3_v1beta1}}\nspec: {group: g, names: \
             {kind: A}, versions: [{name: v1, served: true, storage: true}, {name: v1beta1, served: true, storage: \
             false, deprecated: true}]}",
        )
        .crd
        .unwrap();
        assert_eq!(crd.storage_version(), Some("v1"));
        let versions = ["v1alpha3".to_owned(), "v1beta1".to_owned()].to_vec();
        assert_eq!(crd.contract_labels, [("v1beta1".to_owned(), versions)]);
        assert!(crd.versions[1].deprecated && crd.conversion == "None");
    }

    #[test]
    fn api_versions_are_told_from_other_labels() {
        for (text, expected) in [
            ("v1", true),
            ("v1beta2", true),
            ("v10alpha3", true),
            ("provider", false),
            ("v", false),
            ("v1x", false),
            ("vv1", false),
            ("v1beta", false),
        ] {
            assert_eq!(is_api_version(text), expected, "{text}");
        }
    }
}
