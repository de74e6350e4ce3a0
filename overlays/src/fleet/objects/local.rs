//! Objects that are for tools alone: kustomize, and so Flux, leaves them out of what it applies.

use std::collections::BTreeSet;
use std::sync::Arc;

use yaml::Node;

use super::{FoundObject, scalar};
use domain::{Problem, ProblemCode, RepoPath, Severity};

/// The annotation that says so; `false` takes it back.
const MARK: &str = "config.kubernetes.io/local-config";

/// Groups of documents that tools read, and no API server serves.
const OF_TOOLS: [&str; 10] = [
    "kind.x-k8s.io",
    "ctlptl.dev",
    "k3d.io",
    "k0sctl.k0sproject.io",
    "kubeadm.k8s.io",
    "kubelet.config.k8s.io",
    "kubeproxy.config.k8s.io",
    "kubescheduler.config.k8s.io",
    "apiserver.config.k8s.io",
    "audit.k8s.io",
];

/// Whether an object is never applied.
pub(in crate::fleet) fn is_local(node: &Node) -> bool {
    let mark = node.at(&["metadata", "annotations"]).and_then(|annotations| annotations.get(MARK));
    mark.and_then(scalar).is_some_and(|value| value != "false")
}

/// Whether a document is for a tool: its kind is served by no API server, and Flux fails at it.
pub(in crate::fleet) fn is_of_tool(object: &FoundObject) -> bool {
    match (object.group.as_str(), object.kind.as_str()) {
        ("clusterctl.cluster.x-k8s.io", kind) => kind != "Provider",
        ("", kind) => kind == "Config" && object.node.get("clusters").is_some(),
        (group, _) => OF_TOOLS.contains(&group),
    }
}

/// Tells the objects that would be parts of clusters, and are never applied.
pub(in crate::fleet) fn told(objects: &[Arc<FoundObject>]) -> Vec<Problem> {
    let is_part = |object: &&Arc<FoundObject>| object.is_local && object.is_of_clusters();
    let told = objects.iter().filter(is_part).map(|object| {
        let message = format!("{} {:?} is marked {MARK}, so it is applied by nobody", object.kind, object.name);
        let is_cluster = matches!(object.kind.as_str(), "Cluster" | "TanzuKubernetesCluster" | "ClusterConfig");
        let severity = if is_cluster { Severity::Warning } else { Severity::Note };
        let place = object.place_of(&["metadata", "annotations", MARK]);
        let problem = Problem::new(ProblemCode::Skipped, message).path(&place.path).at(place.line, place.column);
        problem.severity(severity).hint("it is left out; where it should be applied, take the annotation away")
    });
    told.collect()
}

/// Tells the documents for tools that are beside the file of a cluster.
pub(in crate::fleet) fn told_of_tools(objects: &[Arc<FoundObject>]) -> Vec<Problem> {
    let folders: BTreeSet<RepoPath> =
        objects.iter().filter(|object| object.is_cluster()).filter_map(|object| object.path.parent()).collect();
    let is_beside = |object: &&Arc<FoundObject>| object.path.parent().is_some_and(|folder| folders.contains(&folder));
    let found = objects.iter().filter(|object| is_of_tool(object)).filter(is_beside).map(|object| {
        let group = if object.group.is_empty() { "v1" } else { object.group.as_str() };
        let message = format!("{} of {group} is for a tool, and no API server serves it; it is left out", object.kind);
        let place = object.place_of(&["kind"]);
        let problem = Problem::new(ProblemCode::Skipped, message).path(&place.path).at(place.line, place.column);
        problem.severity(Severity::Note).hint("Flux fails at it where it is applied; list the file under `ignore:`")
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use crate::fleet::read_fleet;
    use crate::testing::memory;

    const CLUSTER: &str = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: prod, namespace: n}\n\
                           spec: {topology: {version: v1.34.0, classRef: {name: c}}}\n";

    #[test]
    fn a_document_for_a_tool_is_no_part_of_a_cluster() {
        for document in [
            "apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\nnodes: [{role: control-plane}]\n",
            "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries: []\n",
            "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\n",
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n",
        ] {
            let files = [("clusters/prod/cluster.yaml", CLUSTER), ("clusters/prod/tool.yaml", document)];
            let fleet = read_fleet(&memory(&files));
            let paths = fleet.clusters[0].files.iter().map(|file| file.path.as_str());
            assert_eq!(paths.collect::<Vec<_>>(), ["clusters/prod/cluster.yaml"], "{document}");
            let told = fleet.problems.iter().filter(|problem| problem.to_string().contains("is for a tool"));
            assert_eq!(told.count(), 1, "{document}");
        }
    }

    #[test]
    fn what_an_api_server_serves_stays_a_part_of_its_cluster() {
        let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: n}\ndata: {clusters: a}\n";
        let files = [("clusters/prod/cluster.yaml", CLUSTER), ("clusters/prod/a.yaml", object)];
        assert_eq!(read_fleet(&memory(&files)).clusters[0].files.len(), 2);
    }
}
