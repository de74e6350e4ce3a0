//! The corpus F1000: 1,000 cluster overlays of 6 components, about 3,030 files.
//!
//! Per component a base with a Deployment of two containers, a Service, a `ServiceAccount`, a `ClusterRole`, a
//! `ClusterRoleBinding` and a generated ConfigMap; per cluster an overlay with namespace, name prefix, two labels, six image
//! tags, one JSON patch and one strategic merge patch, and an EKS Anywhere Cluster. Version 2 changes two files of every
//! cluster.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use domain::CommitId;
use domain::RepoPath;
use git::{CommitDraft, CommitMessage, CommitOutcome, PushOutcome, Repository, Signing};

/// Clusters of the corpus.
pub const CLUSTERS: usize = 1_000;

/// Name, tag in version 1, tag in version 2.
pub const COMPONENTS: [(&str, &str, &str); 6] = [
    ("cert-manager", "v1.18.2-eks-a-79", "v1.19.3-eks-a-80"),
    ("cluster-api", "v1.10.2-eks-a-79", "v1.11.1-eks-a-80"),
    ("eks-anywhere", "v0.25.0-eks-a-79", "v0.26.0-eks-a-80"),
    ("cilium", "v1.17.8-0", "v1.18.4-0"),
    ("source-controller", "v1.6.2-eks-a-79", "v1.7.3-eks-a-80"),
    ("kube-vip", "v0.9.1-eks-a-79", "v0.9.1-eks-a-80"),
];

/// The files of a version (1 or 2).
pub fn files(version: usize) -> BTreeMap<RepoPath, Arc<[u8]>> {
    let mut files = BTreeMap::new();
    let mut add = |path: String, text: String| {
        if let Ok(path) = RepoPath::new(path) {
            files.insert(path, Arc::from(text.into_bytes()));
        }
    };
    for (component, _, _) in COMPONENTS {
        let base = format!("base/{component}");
        add(format!("{base}/deployment.yaml"), deployment(component));
        add(format!("{base}/service.yaml"), service(component));
        add(format!("{base}/service-account.yaml"), head("v1", "ServiceAccount", component));
        add(format!("{base}/role.yaml"), role(component));
        add(format!("{base}/kustomization.yaml"), base_kustomization(component));
    }
    for cluster in 0..CLUSTERS {
        let folder = format!("clusters/cluster-{cluster:04}");
        add(format!("{folder}/kustomization.yaml"), overlay(cluster, version));
        add(format!("{folder}/patch.yaml"), patch(cluster));
        add(format!("{folder}/cluster.yaml"), cluster_file(cluster, version));
    }
    files
}

/// Makes a bare repository whose branch `main` holds version 1 and then version 2; returns both commits.
pub fn repository(folder: &Path, versions: &[usize]) -> anyhow::Result<(Repository, Vec<CommitId>)> {
    let main = "main".parse()?;
    let repository = Repository::create(folder, &main)?;
    let mut commits: Vec<CommitId> = Vec::new();
    for version in versions {
        let draft = draft(commits.last().cloned(), *version)?;
        let CommitOutcome::Created(commit) = repository.commit(&draft, &Signing::None)? else { bail!("no changes") };
        if repository.push(&main, &commit, draft.parent.as_ref())? != PushOutcome::Pushed {
            bail!("another writer in a temporary folder");
        }
        commits.push(commit);
    }
    crate::measure::run(folder, "git", &["repack", "-adq"])?;
    Ok((repository, commits))
}

/// The commit of a version.
pub fn draft(parent: Option<CommitId>, version: usize) -> anyhow::Result<CommitDraft> {
    let mut edits: BTreeMap<_, _> = files(version).into_iter().map(|(path, bytes)| (path, Some(bytes))).collect();
    if parent.is_some() {
        edits.retain(|path, _| path.as_str().starts_with("clusters/") && path.file_name() != "patch.yaml");
    }
    Ok(CommitDraft {
        parent,
        prefix: None,
        edits,
        message: CommitMessage { subject: format!("Version {version}"), ..CommitMessage::default() },
        author: "Benchmark <benchmark@example.com>".parse()?,
        time: jiff::Timestamp::from_second(1_700_000_000 + i64::try_from(version)?)?,
        merges: None,
        allow_empty: false,
    })
}

fn head(api_version: &str, kind: &str, name: &str) -> String {
    format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: {name}\n  labels:\n    app.kubernetes.io/name: {name}\n"
    )
}

fn deployment(name: &str) -> String {
    let mut text = head("apps/v1", "Deployment", name);
    let _ = write!(
        text,
        "spec:\n  replicas: 2\n  selector:\n    matchLabels:\n      app.kubernetes.io/name: {name}\n  template:\n    metadata:\n      labels:\n        app.kubernetes.io/name: {name}\n    spec:\n      serviceAccountName: {name}\n      containers:\n"
    );
    for container in ["manager", "proxy"] {
        let _ = write!(
            text,
            "      - name: {container}\n        image: registry.example.com/{name}/{container}:latest\n        args:\n        - --leader-elect\n        - --metrics-bind-address=:8080\n        ports:\n        - containerPort: 8080\n          name: metrics\n        resources:\n          limits:\n            cpu: 500m\n            memory: 128Mi\n          requests:\n            cpu: 10m\n            memory: 64Mi\n"
        );
    }
    text
}

fn service(name: &str) -> String {
    head("v1", "Service", name)
        + &format!(
            "spec:\n  selector:\n    app.kubernetes.io/name: {name}\n  ports:\n  - name: metrics\n    port: 8080\n    targetPort: metrics\n"
        )
}

fn role(name: &str) -> String {
    let role = head("rbac.authorization.k8s.io/v1", "ClusterRole", name);
    let binding = head("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", name);
    format!(
        "{role}rules:\n- apiGroups: ['']\n  resources: [pods, secrets]\n  verbs: [get, list, watch]\n---\n{binding}roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: {name}\nsubjects:\n- kind: ServiceAccount\n  name: {name}\n  namespace: default\n"
    )
}

fn base_kustomization(name: &str) -> String {
    format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- deployment.yaml\n- role.yaml\n- service-account.yaml\n- service.yaml\nconfigMapGenerator:\n- name: {name}-settings\n  literals:\n  - level=info\n  - component={name}\n"
    )
}

fn overlay(cluster: usize, version: usize) -> String {
    let mut text = format!(
        "# Overlay of cluster {cluster}.\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: team-{}\nnamePrefix: c{cluster}-\nlabels:\n- pairs:\n    cluster: cluster-{cluster:04}\n    team: team-{}\nresources:\n",
        cluster % 17,
        cluster % 17
    );
    for (component, _, _) in COMPONENTS {
        let _ = writeln!(text, "- ../../base/{component}");
    }
    text.push_str("images:\n");
    for (component, old, new) in COMPONENTS {
        let tag = if version == 1 { old } else { new };
        let _ = write!(text, "- name: registry.example.com/{component}/manager\n  newTag: {tag}\n");
    }
    text.push_str("patches:\n- path: patch.yaml\n- target:\n    kind: Deployment\n    name: cilium\n  patch: |-\n    - op: replace\n      path: /spec/replicas\n      value: 3\n");
    text
}

fn patch(cluster: usize) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: cert-manager\nspec:\n  template:\n    spec:\n      containers:\n      - name: manager\n        env:\n        - name: CLUSTER\n          value: cluster-{cluster:04}\n"
    )
}

fn cluster_file(cluster: usize, version: usize) -> String {
    let (kubernetes, release) = if version == 1 { ("1.33", "v0.25.0") } else { ("1.34", "v0.26.0") };
    format!(
        "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata:\n  name: cluster-{cluster:04}\n  namespace: default\nspec:\n  kubernetesVersion: \"{kubernetes}\"\n  eksaVersion: {release}\n  clusterNetwork:\n    cniConfig:\n      cilium: {{}}\n    pods:\n      cidrBlocks: [192.168.0.0/16]\n    services:\n      cidrBlocks: [10.96.0.0/12]\n  controlPlaneConfiguration:\n    count: 3\n    endpoint:\n      host: 10.0.{}.{}\n    machineGroupRef:\n      kind: VSphereMachineConfig\n      name: cluster-{cluster:04}-cp\n  datacenterRef:\n    kind: VSphereDatacenterConfig\n    name: cluster-{cluster:04}\n  managementCluster:\n    name: management\n  workerNodeGroupConfigurations:\n  - name: md-0\n    count: {}\n    machineGroupRef:\n      kind: VSphereMachineConfig\n      name: cluster-{cluster:04}-md-0\n",
        cluster / 250,
        cluster % 250,
        1 + cluster % 5
    )
}
