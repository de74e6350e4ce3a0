//! What clusterctl has to find in the cluster: its inventory, and the labels by which it knows what belongs to a provider.
//!
//! EKS Anywhere installs Cluster API and cert-manager through clusterctl, which keeps a `Provider` object for each provider
//! and reads from it which version runs; by the labels it finds what to remove before the next upgrade. An upgrade through git
//! keeps both as clusterctl would have written them, or the next run of clusterctl (or of EKS Anywhere's own command line)
//! would start from versions that are gone.
//!
//! Upstream: `cmd/clusterctl/client/repository/components.go` (labels, inventory object), `.../client/cluster/cert_manager.go`,
//! and `pkg/executables/config/clusterctl.yaml` of EKS Anywhere (names of its providers).

use yaml::{Limits, Mapping, Node};

const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";
const CORE: &str = "clusterctl.cluster.x-k8s.io/core";
const PROVIDER: &str = "cluster.x-k8s.io/provider";
const CERT_MANAGER_VERSION: &str = "cert-manager.clusterctl.cluster.x-k8s.io/version";

/// How clusterctl calls a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProviderName {
    /// `CoreProvider`, `BootstrapProvider`, `ControlPlaneProvider` or `InfrastructureProvider`.
    kind: &'static str,
    name: &'static str,
    /// The value of the provider label, and the name of the inventory object.
    label: &'static str,
}

impl ProviderName {
    /// The provider of a section of a bundle; `None` for sections that hold none.
    pub fn of_section(section: &str) -> Option<Self> {
        let (kind, name, label) = match section {
            "clusterAPI" => ("CoreProvider", "cluster-api", "cluster-api"),
            "bootstrap" => ("BootstrapProvider", "kubeadm", "bootstrap-kubeadm"),
            "etcdadmBootstrap" => ("BootstrapProvider", "etcdadm-bootstrap", "bootstrap-etcdadm-bootstrap"),
            // It controls etcd, and clusterctl has no kind for that.
            "etcdadmController" => ("BootstrapProvider", "etcdadm-controller", "bootstrap-etcdadm-controller"),
            "controlPlane" => ("ControlPlaneProvider", "kubeadm", "control-plane-kubeadm"),
            "docker" => ("InfrastructureProvider", "docker", "infrastructure-docker"),
            "vSphere" => ("InfrastructureProvider", "vsphere", "infrastructure-vsphere"),
            "tinkerbell" => ("InfrastructureProvider", "tinkerbell", "infrastructure-tinkerbell"),
            "nutanix" => ("InfrastructureProvider", "nutanix", "infrastructure-nutanix"),
            "snow" => ("InfrastructureProvider", "snow", "infrastructure-snow"),
            "cloudStack" => ("InfrastructureProvider", "cloudstack", "infrastructure-cloudstack"),
            _ => return None,
        };
        Some(Self { kind, name, label })
    }

    /// Labels an object as one of this provider.
    pub fn label(self, object: &mut Node) {
        mark(object, "labels", &[(CLUSTERCTL, ""), (PROVIDER, self.label)]);
    }

    /// The inventory object of this provider at `version`; `None` when its objects name no namespace.
    pub fn inventory(self, version: &str, objects: &[&Node]) -> Option<Node> {
        let labels = [(CLUSTERCTL, ""), (CORE, "inventory"), (PROVIDER, self.label)];
        let labels: Mapping = labels.into_iter().map(|(key, value)| (key.to_owned(), Node::from(value))).collect();
        let mut metadata = Mapping::new();
        metadata.insert("labels", labels);
        metadata.insert("name", self.label);
        metadata.insert("namespace", namespace(objects)?);
        let mut root = Mapping::new();
        root.insert("apiVersion", "clusterctl.cluster.x-k8s.io/v1alpha3");
        root.insert("kind", "Provider");
        root.insert("metadata", metadata);
        root.insert("providerName", self.name);
        root.insert("type", self.kind);
        root.insert("version", version);
        Some(Node::from(root))
    }
}

/// The namespace that a provider is installed in: the one it brings, else that of its controller.
fn namespace(objects: &[&Node]) -> Option<String> {
    let kind = |node: &&&Node, kind: &str| node.get("kind").and_then(Node::as_str) == Some(kind);
    let text = |node: &&Node, key: &str| node.at(&["metadata", key]).and_then(Node::as_str).map(str::to_owned);
    let own = objects.iter().find(|node| kind(node, "Namespace")).and_then(|node| text(node, "name"));
    own.or_else(|| objects.iter().find(|node| kind(node, "Deployment")).and_then(|node| text(node, "namespace")))
}

/// Marks an object of cert-manager as installed at `version`, as clusterctl does.
pub(super) fn mark_cert_manager(object: &mut Node, version: &str) {
    mark(object, "labels", &[(CLUSTERCTL, ""), (CORE, "cert-manager")]);
    mark(object, "annotations", &[(CERT_MANAGER_VERSION, version)]);
}

/// Puts entries into `metadata.<key>`.
fn mark(object: &mut Node, key: &str, entries: &[(&str, &str)]) {
    let Some(root) = object.as_mapping_mut() else { return };
    let metadata = root.get_or_insert_with("metadata", || Node::from(Mapping::new()));
    let Some(map) = metadata.as_mapping_mut().map(|it| it.get_or_insert_with(key, || Node::from(Mapping::new())))
    else {
        return;
    };
    if map.is_null() {
        *map = Node::from(Mapping::new());
    }
    if let Some(map) = map.as_mapping_mut() {
        for (key, value) in entries {
            map.insert(*key, *value);
        }
    }
}

/// The definition of `Provider`: clusterctl brings it along and installs it where it is missing, so a cluster that was never
/// touched by clusterctl needs it from here.
pub(super) fn definition() -> Vec<Node> {
    let documents = yaml::parse(DEFINITION, &Limits::default()).unwrap_or_default();
    documents.into_iter().map(|document| document.root).collect()
}

const DEFINITION: &str = r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  labels:
    clusterctl.cluster.x-k8s.io: ""
    clusterctl.cluster.x-k8s.io/core: inventory
  name: providers.clusterctl.cluster.x-k8s.io
spec:
  group: clusterctl.cluster.x-k8s.io
  names:
    categories: [cluster-api]
    kind: Provider
    listKind: ProviderList
    plural: providers
    singular: provider
  scope: Namespaced
  versions:
  - name: v1alpha3
    served: true
    storage: true
    additionalPrinterColumns:
    - {jsonPath: .metadata.creationTimestamp, name: Age, type: date}
    - {jsonPath: .type, name: Type, type: string}
    - {jsonPath: .providerName, name: Provider, type: string}
    - {jsonPath: .version, name: Version, type: string}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          providerName: {type: string}
          type: {type: string}
          version: {type: string}
          watchedNamespace: {type: string}
    subresources: {}
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::objects_of;

    #[test]
    fn a_provider_is_recorded_where_it_is_installed() {
        let objects = |text: &str| objects_of(text.as_bytes());
        let namespaced =
            objects("kind: Namespace\nmetadata: {name: capv-system}\n---\nkind: Service\nmetadata: {name: s}\n");
        let bare = objects("kind: Deployment\nmetadata: {name: d, namespace: own}\n");
        let recorded = |section: &str, objects: &[Node]| {
            let name = ProviderName::of_section(section).unwrap();
            name.inventory("v1.2.3+abcdef1", &objects.iter().collect::<Vec<_>>())
        };
        let vsphere = recorded("vSphere", &namespaced).unwrap();
        assert_eq!(
            crate::json::compact(&vsphere),
            concat!(
                r#"{"apiVersion":"clusterctl.cluster.x-k8s.io/v1alpha3","kind":"Provider","metadata":{"labels":"#,
                r#"{"cluster.x-k8s.io/provider":"infrastructure-vsphere","clusterctl.cluster.x-k8s.io":"","#,
                r#""clusterctl.cluster.x-k8s.io/core":"inventory"},"name":"infrastructure-vsphere","namespace":"capv-system"},"#,
                r#""providerName":"vsphere","type":"InfrastructureProvider","version":"v1.2.3+abcdef1"}"#
            )
        );
        let namespace = |node: &Node| node.at(&["metadata", "namespace"]).and_then(Node::as_str).map(str::to_owned);
        assert_eq!(namespace(&recorded("etcdadmController", &bare).unwrap()).as_deref(), Some("own"));
        assert_eq!(recorded("clusterAPI", &[]), None);
        assert_eq!(ProviderName::of_section("cilium"), None);
    }

    #[test]
    fn labels_are_added_to_those_that_are_there() {
        let mut object =
            objects_of(b"kind: A\nmetadata: {name: a, labels: {x: y, cluster.x-k8s.io/provider: old}}\n").remove(0);
        ProviderName::of_section("bootstrap").unwrap().label(&mut object);
        let labels = crate::json::compact(object.at(&["metadata", "labels"]).unwrap());
        assert_eq!(
            labels,
            r#"{"cluster.x-k8s.io/provider":"bootstrap-kubeadm","clusterctl.cluster.x-k8s.io":"","x":"y"}"#
        );
        let mut object = objects_of(b"kind: A\nmetadata: {name: a, labels: null}\n").remove(0);
        mark_cert_manager(&mut object, "v1.20.2+a");
        let metadata = crate::json::compact(object.get("metadata").unwrap());
        assert!(metadata.contains(r#""cert-manager.clusterctl.cluster.x-k8s.io/version":"v1.20.2+a""#), "{metadata}");
        assert!(metadata.contains(r#""clusterctl.cluster.x-k8s.io/core":"cert-manager""#), "{metadata}");
    }

    #[test]
    fn the_definition_serves_what_is_recorded() {
        let definitions = definition();
        assert_eq!(definitions.len(), 1);
        let summary = crate::object::ObjectSummary::of(&definitions[0]).unwrap().crd.unwrap();
        assert_eq!((summary.group.as_str(), summary.kind.as_str()), ("clusterctl.cluster.x-k8s.io", "Provider"));
        let versions: Vec<_> =
            summary.versions.iter().map(|version| (version.name.as_str(), version.storage)).collect();
        assert_eq!(versions, [("v1alpha3", true)]);
    }
}
