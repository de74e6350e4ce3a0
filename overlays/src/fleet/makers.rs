//! Objects that other programs make clusters of: what they make is not in files, and so not read.

use std::sync::Arc;

use yaml::{Limits, Node, emit};

use super::objects::{FoundObject, field};
use crate::Files;
use domain::{Problem, ProblemCode, RepoPath, Severity};

/// Text that stands in files with such objects, beside the groups that are read anyway.
const TEXTS: [&str; 13] = [
    "argoproj.io/",
    "crossplane.io/",
    "upbound.io/",
    "compositionRef",
    "compositionSelector",
    "writeConnectionSecretToRef",
    "hypershift.openshift.io/",
    "hive.openshift.io/",
    "gardener.cloud/",
    "k0rdent.mirantis.com/",
    "containerservice.azure.com/",
    "container.cnrm.cloud.google.com/",
    "kamaji.clastix.io/",
];

/// Kinds that are clusters of other programs, by the end of their group.
const CLUSTERS: [(&str, &str); 8] = [
    ("hypershift.openshift.io", "HostedCluster"),
    ("hive.openshift.io", "ClusterDeployment"),
    ("core.gardener.cloud", "Shoot"),
    ("k0rdent.mirantis.com", "ClusterDeployment"),
    ("containerservice.azure.com", "ManagedCluster"),
    ("containerservice.azure.upbound.io", "KubernetesCluster"),
    ("container.cnrm.cloud.google.com", "ContainerCluster"),
    ("kamaji.clastix.io", "TenantControlPlane"),
];

/// Groups of objects that make up clusters, as they stand in texts.
const PARTS: [&str; 4] =
    ["cluster.x-k8s.io/", "anywhere.eks.amazonaws.com/", "run.tanzu.vmware.com/", "provisioning.cattle.io/"];

/// Keys of values that charts of clusters have, and others rarely.
const VALUES: [&str; 8] = [
    "kubernetesVersion",
    "controlPlane",
    "controlPlaneEndpoint",
    "machineDeployments",
    "machinePools",
    "nodePools",
    "nodeGroups",
    "workerNodePools",
];

/// An object that makes clusters, or may.
#[derive(Clone)]
pub(super) struct Maker {
    path: RepoPath,
    line: usize,
    column: usize,
    name: String,
    /// Whether what it says is of clusters.
    is_likely: bool,
    /// The folders of this repository that it applies, where it names some.
    folders: Vec<String>,
}

/// Those of a file that nothing else is read of; what is no YAML holds none.
pub(super) fn in_text(path: &RepoPath, bytes: &Arc<[u8]>, text: &str) -> Vec<Maker> {
    if !TEXTS.iter().any(|word| text.contains(word)) {
        return Vec::new();
    }
    let limits = Limits { nodes: 500_000, depth: 100, ..Limits::default() };
    let documents = yaml::parse(text, &limits).unwrap_or_default();
    let objects = documents.into_iter().flat_map(|document| FoundObject::all(path, bytes, document.root));
    objects.filter_map(|object| Maker::of(&object)).collect()
}

impl Maker {
    /// Of an object; none where it makes nothing.
    pub fn of(object: &FoundObject) -> Option<Self> {
        let is_argo = object.group == "argoproj.io" && matches!(object.kind.as_str(), "Application" | "ApplicationSet");
        let is_helm = object.group == "helm.toolkit.fluxcd.io" && object.kind == "HelmRelease";
        let is_composition = object.group == "apiextensions.crossplane.io" && object.kind == "Composition";
        let is_known = |(group, kind): &(&str, &str)| object.group.ends_with(group) && object.kind == *kind;
        let is_cluster = CLUSTERS.iter().any(is_known) || is_claim(object) || is_cloud_cluster(object);
        let is_artifact = is_of_artifact(object);
        if object.is_local || !(is_argo || is_helm || is_composition || is_cluster || is_artifact) {
            return None;
        }
        let is_named = || ["name", "path"].iter().any(|name| text_of(object, name).contains("cluster"));
        let is_likely = is_cluster || says_clusters(&object.node) || (is_artifact && is_named());
        let place = object.place_of(&["metadata", "name"]);
        let name = format!("{} {:?}", object.kind, object.name);
        let folders = if is_argo { folders_of(&object.node) } else { Vec::new() };
        Some(Self { path: place.path, line: place.line, column: place.column, name, is_likely, folders })
    }

    /// What comes near to a cluster here.
    pub fn near_miss(&self) -> String {
        format!("{} ({}, which may make clusters)", self.path, self.name)
    }

    /// What is said of it, where `clusters` are the files of those that are found.
    pub fn told(&self, files: &dyn Files, clusters: &[&RepoPath]) -> Option<Problem> {
        let is_below = |path: &RepoPath| self.folders.iter().any(|folder| path.is_below(folder));
        let problem = |message: String| {
            let problem = Problem::new(ProblemCode::NotRead, message).path(&self.path).at(self.line, self.column);
            problem.severity(Severity::Warning)
        };
        let holds = |folder: &&String| clusters.iter().any(|path| path.is_below(folder));
        if let Some(folder) = self.folders.iter().find(holds) {
            let message = format!(
                "{} applies folder {folder:?}, which holds clusters; what it changes of them is not read",
                self.name
            );
            let hint = "take the clusters from it before they are recorded: two programs would apply them";
            return Some(problem(message).hint(hint));
        }
        // What is in files of this repository is read there.
        let is_here = files.paths().iter().any(|entry| is_below(&entry.path));
        (self.is_likely && !is_here).then(|| {
            problem(format!("{} makes objects of clusters, or may, and what it makes is not read", self.name))
                .hint("clusters that it makes are not found; write them as files, or upgrade them by its own means")
        })
    }
}

/// A Kustomization of Flux over an artifact, which is not this repository.
fn is_of_artifact(object: &FoundObject) -> bool {
    let source = field(&object.node, &["spec", "sourceRef", "kind"]).unwrap_or_default();
    let is_kustomization = object.group == "kustomize.toolkit.fluxcd.io" && object.kind == "Kustomization";
    is_kustomization && matches!(source.as_str(), "OCIRepository" | "Bucket")
}

/// Name or path of a Kustomization.
fn text_of(object: &FoundObject, name: &str) -> String {
    let place = if name == "name" { "metadata" } else { "spec" };
    field(&object.node, &[place, name]).unwrap_or_default()
}

/// A claim or composite resource of Crossplane for a cluster: what only those have, and a name of a kind that says so.
fn is_claim(object: &FoundObject) -> bool {
    let is_kind = ["Cluster", "EKS", "AKS", "GKE", "Kubernetes", "K8s"].iter().any(|word| object.kind.contains(word));
    let fields = ["compositionRef", "compositionSelector", "compositionRevisionSelector", "crossplane"];
    is_kind && fields.iter().any(|name| object.node.at(&["spec", name]).is_some())
}

/// A managed resource of Crossplane or of a cloud's own controller for a cluster.
fn is_cloud_cluster(object: &FoundObject) -> bool {
    let is_group = ["eks.", "container.", "containerservice."].iter().any(|start| object.group.starts_with(start));
    let is_made = ["upbound.io", "crossplane.io", "services.k8s.aws"].iter().any(|end| object.group.ends_with(end));
    is_group && is_made && matches!(object.kind.as_str(), "Cluster" | "KubernetesCluster")
}

/// Whether an object says anything that is said of clusters alone.
fn says_clusters(node: &Node) -> bool {
    let chart = |path: &[&str]| field(node, path).is_some_and(|name| is_cluster_chart(&name));
    let charts: [&[&str]; 4] = [
        &["spec", "chart", "spec", "chart"],
        &["spec", "chartRef", "name"],
        &["spec", "source", "chart"],
        &["spec", "template", "spec", "source", "chart"],
    ];
    let sources = [&["spec", "sources"][..], &["spec", "template", "spec", "sources"]];
    let mut sources = sources.iter().filter_map(|path| node.at(path).and_then(Node::as_sequence)).flatten();
    if charts.iter().any(|path| chart(path))
        || sources.any(|source| field(source, &["chart"]).is_some_and(|name| is_cluster_chart(&name)))
    {
        return true;
    }
    let text = emit(node);
    let is_key = |line: &str| {
        let key = line.trim_start().trim_start_matches("- ");
        VALUES.iter().any(|name| key.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
    };
    PARTS.iter().any(|group| text.contains(group)) || text.lines().any(is_key)
}

/// Whether a chart is one of a cluster by its name, as `openstack-cluster` or `cluster-aws`; an add-on such as
/// `cluster-autoscaler` is none.
fn is_cluster_chart(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    let addons =
        ["autoscaler", "proportional", "operator", "issuer", "secret", "logging", "monitor", "role", "overprov"];
    let is_addon = addons.iter().any(|word| name.contains(word));
    let providers =
        ["aws", "azure", "gcp", "openstack", "vsphere", "capi", "cloud", "eks", "aks", "gke", "class", "k8s", "kube"];
    let is_provider = providers.iter().any(|word| name.contains(word));
    name.contains("cluster") && !is_addon && (is_provider || name == "cluster")
}

/// The folders that an Application or its generators name, as far as they are fixed.
fn folders_of(node: &Node) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for top in [&["spec"][..], &["spec", "template", "spec"]] {
        let Some(spec) = node.at(top) else { continue };
        let sources = spec.get("sources").and_then(Node::as_sequence).unwrap_or_default();
        paths.extend(spec.get("source").into_iter().chain(sources).filter_map(|source| field(source, &["path"])));
        let generators = spec.get("generators").and_then(Node::as_sequence).unwrap_or_default();
        let directories =
            generators.iter().filter_map(|generator| generator.at(&["git", "directories"])?.as_sequence());
        paths.extend(directories.flatten().filter_map(|directory| field(directory, &["path"])));
    }
    let is_fixed = |part: &&str| !part.contains(['{', '*', '$']);
    let fixed = |path: String| {
        let parts = path.split('/').take_while(is_fixed).filter(|part| !part.is_empty() && *part != ".");
        parts.collect::<Vec<_>>().join("/")
    };
    paths.into_iter().map(fixed).filter(|folder| !folder.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::read_fleet;
    use super::*;
    use crate::testing::memory;

    fn told(text: &str) -> Vec<String> {
        let fleet = read_fleet(&memory(&[("apps/a.yaml", text)]));
        let problems = fleet.problems.iter().filter(|problem| problem.code == ProblemCode::NotRead);
        problems.map(|problem| problem.message.clone()).collect()
    }

    #[test]
    fn objects_that_make_clusters_are_named() {
        for text in [
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a}\nspec: {chart: {spec: {chart: openstack-cluster}}}\n",
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a}\nspec: {values: {kubernetesVersion: 1.30.1}}\n",
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec: {sources: [{chart: cluster-aws}]}\n",
            "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: a}\nspec: {template: {spec: {source: {chart: capi-cluster}}}}\n",
            "apiVersion: apiextensions.crossplane.io/v1\nkind: Composition\nmetadata: {name: a}\nspec: {resources: [{base: {apiVersion: cluster.x-k8s.io/v1beta1}}]}\n",
            "apiVersion: example.org/v1\nkind: TeamCluster\nmetadata: {name: a}\nspec: {compositionRef: {name: eks}}\n",
            "apiVersion: eks.aws.upbound.io/v1beta1\nkind: Cluster\nmetadata: {name: a}\n",
            "apiVersion: hypershift.openshift.io/v1beta1\nkind: HostedCluster\nmetadata: {name: a}\n",
            "apiVersion: core.gardener.cloud/v1beta1\nkind: Shoot\nmetadata: {name: a}\n",
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\nspec: {path: ./clusters, sourceRef: {kind: OCIRepository, name: a}}\n",
        ] {
            assert_eq!(told(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn objects_of_applications_are_not_named() {
        for text in [
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a}\nspec: {chart: {spec: {chart: cluster-autoscaler}}}\n",
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a}\nspec: {values: {replicas: 2}}\n",
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec: {source: {path: apps/web}}\n",
            "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: a}\n",
            "apiVersion: database.example.org/v1\nkind: Database\nmetadata: {name: a}\nspec: {compositionRef: {name: eks}}\n",
        ] {
            assert_eq!(told(text), [""; 0], "{text}");
        }
    }
}
