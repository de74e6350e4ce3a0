//! Real reads, probes, backups and applies against the scripted API server.

mod acting;
mod fargate;
mod identity;
mod inspecting;
mod leading;
mod objects;
mod probing;
mod pull_logins;
mod reading;
mod showing;
mod telling;
mod workload;
mod writers;

use std::path::{Path, PathBuf};

use rollout::{
    ControlPlaneExpectation, Expectation, KubeletVersions, MachineOrderRules, Observation, Reachability,
    WorkersExpectation,
};
use serde_json::{Value, json};

use crate::client::server::{ApiServer, Script};
use crate::kubernetes::KubernetesCluster;
use crate::{Cluster as _, Freshness, ObserveRequest};

const CAPI: &str = "/apis/cluster.x-k8s.io/v1beta2";
const KCP: &str = "/apis/controlplane.cluster.x-k8s.io/v1beta2/kubeadmcontrolplanes";
const COMMIT: &str = "0123456789012345678901234567890123456789";

/// The kinds of Cluster API and Flux, as a server of today serves them.
fn served() -> Script {
    Script::default().serves(&[
        (
            "v1",
            &[
                ("nodes", "Node", false),
                ("namespaces", "Namespace", false),
                ("configmaps", "ConfigMap", true),
                ("serviceaccounts", "ServiceAccount", true),
            ],
        ),
        ("apps/v1", &[("deployments", "Deployment", true)]),
        ("apiextensions.k8s.io/v1", &[("customresourcedefinitions", "CustomResourceDefinition", false)]),
        (
            "admissionregistration.k8s.io/v1",
            &[("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false)],
        ),
        ("cluster.x-k8s.io/v1beta2", &[("clusters", "Cluster", true), ("machines", "Machine", true)]),
        ("cluster.x-k8s.io/v1beta1", &[("clusters", "Cluster", true), ("machines", "Machine", true)]),
        ("controlplane.cluster.x-k8s.io/v1beta2", &[("kubeadmcontrolplanes", "KubeadmControlPlane", true)]),
        ("kustomize.toolkit.fluxcd.io/v1", &[("kustomizations", "Kustomization", true)]),
        ("source.toolkit.fluxcd.io/v1", &[("gitrepositories", "GitRepository", true)]),
        ("cert-manager.io/v1", &[("certificates", "Certificate", true)]),
    ])
}

/// The cluster at rest of the fixtures, as its API server lists it.
fn settled() -> Script {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/clusters/settled");
    let text = std::fs::read_to_string(folder.join("cluster-api.yaml")).unwrap();
    let documents = yaml::parse(&text, &yaml::Limits::default()).unwrap();
    let mut objects: Vec<Value> = documents.iter().map(|document| crate::objects::from_yaml(&document.root)).collect();
    let machines: Value = serde_json::from_slice(&std::fs::read(folder.join("machines.json")).unwrap()).unwrap();
    objects.extend(machines["items"].as_array().unwrap().clone());
    let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).cloned().collect::<Vec<_>>();
    served()
        .list(&format!("{CAPI}/clusters"), &of("Cluster"))
        .list(&format!("{CAPI}/machinedeployments"), &of("MachineDeployment"))
        .list(&format!("{CAPI}/machinesets"), &of("MachineSet"))
        .list(&format!("{CAPI}/machines"), &of("Machine"))
        .list(KCP, &of("KubeadmControlPlane"))
        .list("/api/v1/nodes", &[node("prod-abc12"), node("prod-md-0-new-x1")])
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.34.1"}}})
}

fn control_plane() -> ControlPlaneExpectation {
    ControlPlaneExpectation {
        namespace: String::from("eksa-system"),
        cluster: String::from("prod"),
        version: String::from("v1.34.1"),
        replicas: Some(1),
        infrastructure_template: None,
        stacked_etcd: true,
        kubelet_versions: KubeletVersions::Required,
        kube_vip: None,
        order: MachineOrderRules::default(),
        gate: policy::ControlPlaneGate::Whole,
    }
}

fn workers() -> WorkersExpectation {
    WorkersExpectation {
        namespace: String::from("eksa-system"),
        cluster: String::from("prod"),
        group: "md-0".parse().unwrap(),
        version: String::from("v1.34.1"),
        replicas: Some(1),
        infrastructure_template: None,
        bootstrap_template: None,
        kubelet_versions: KubeletVersions::Required,
    }
}

fn request(expectations: Vec<Expectation>) -> ObserveRequest {
    ObserveRequest {
        expectations,
        kustomizations: Vec::new(),
        deployed: std::sync::Arc::default(),
        freshness: Freshness::Fresh,
        at: "2026-03-01T12:00:00Z".parse().unwrap(),
    }
}

fn deployment() -> Expectation {
    Expectation::Deployment {
        namespace: String::from("capi-system"),
        name: String::from("capi-controller-manager"),
        images: Vec::new(),
    }
}

async fn observe(script: Script, expectations: Vec<Expectation>) -> (Observation, ApiServer) {
    let server = ApiServer::start(script).await;
    let cluster = KubernetesCluster::management(server.connection(), PathBuf::from("/nonexistent"));
    (cluster.observe(&request(expectations)).await, server)
}

fn unreachable(observation: &Observation) -> &str {
    match &observation.reachable {
        Reachability::Unreachable { reason } => reason,
        Reachability::Reachable => panic!("reachable: {observation:?}"),
    }
}
