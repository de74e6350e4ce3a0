//! What watches tell without being asked.

use std::sync::Arc;

use rollout::{FluxObservation, FluxReference, WorkloadObservation};

use super::acting::{apply_request, applying};
use super::workload::{SECRET, kubeconfig};
use super::*;
use crate::kubernetes::ManagementWatches;
use host::waiting::end_of;

const KUSTOMIZATIONS: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/capi-system/deployments/capi-controller-manager";
const PODS: &str = "/api/v1/namespaces/capi-system/pods";
const SOURCES: &str = "/apis/source.toolkit.fluxcd.io/v1/gitrepositories";

/// A server that tells of a Kustomization and of its source.
fn telling_of_flux(script: Script) -> Script {
    let kustomization = json!({"metadata": {"name": "prod-capi", "namespace": "flux-system", "resourceVersion": "1"},
        "spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet"}}});
    let source = json!({"metadata": {"name": "fleet", "namespace": "flux-system", "resourceVersion": "1"}});
    script.watch(KUSTOMIZATIONS, &[kustomization]).watch(SOURCES, &[source])
}

/// A server that tells of a Deployment and of its pod.
fn telling_of_workloads(script: Script) -> Script {
    let deployment = json!({"metadata": {"name": "capi-controller-manager", "namespace": "capi-system", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"app": "capi"}}}, "status": {"availableReplicas": 1}});
    let pod = json!({"metadata": {"name": "capi-0", "namespace": "capi-system", "resourceVersion": "1", "labels": {"app": "capi"}},
        "status": {"phase": "Running", "containerStatuses": [{"name": "manager", "ready": true}]}});
    script.watch("/apis/apps/v1/deployments", &[deployment]).watch("/api/v1/pods", &[pod])
}

fn flux() -> Expectation {
    Expectation::Flux { namespace: String::from("flux-system"), kustomizations: vec![String::from("prod-capi")] }
}

/// What is told of Flux and of workloads, as soon as both are.
async fn told(
    cluster: &KubernetesCluster,
    watches: &ManagementWatches,
    request: &ObserveRequest,
) -> (FluxObservation, WorkloadObservation) {
    assert_eq!((cluster.told_of_flux(request), cluster.told_of_workloads(request)), (None, None));
    cluster.follow(request, &[]).await;
    let told = async {
        loop {
            if let (Some(flux), Some(workloads)) = (cluster.told_of_flux(request), cluster.told_of_workloads(request)) {
                return (flux, workloads);
            }
            watches.changes().changed().await;
            drop(watches.changes().take());
        }
    };
    end_of("Flux and workloads are told of", told).await
}

#[tokio::test]
async fn what_flux_and_workloads_said_last_is_known_without_asking() {
    let server = ApiServer::start(telling_of_workloads(telling_of_flux(applying()))).await;
    let watches = Arc::new(ManagementWatches::default());
    let cluster = KubernetesCluster::management(server.connection(), PathBuf::new()).watched("prod", &watches);
    let request = request(vec![flux(), deployment()]);
    let (flux, workloads) = told(&cluster, &watches, &request).await;
    assert_eq!((flux.kustomizations.len(), flux.sources.len()), (1, 1));
    assert_eq!(workloads.deployments[0].available_replicas, Some(1));
    assert_eq!(workloads.deployments[0].running[0].pod, "capi-0");
    // What was applied without Flux stands in the place of what its Kustomizations say.
    let at = "2026-03-01T12:00:00Z".parse().unwrap();
    cluster
        .apply(&apply_request("apiVersion: v1\nkind: Namespace\nmetadata: {name: capi-system}\n"), at)
        .await
        .unwrap();
    assert_eq!(cluster.told_of_flux(&request), None);
    assert_eq!(cluster.told_of_workloads(&request), Some(workloads));
}

#[tokio::test]
async fn a_cluster_at_rest_is_told_of_flux_alone() {
    let server = ApiServer::start(telling_of_workloads(telling_of_flux(served()))).await;
    let watches = Arc::new(ManagementWatches::default());
    let cluster = KubernetesCluster::management(server.connection(), PathBuf::new()).watched("prod", &watches);
    let request = request(vec![flux(), deployment()]);
    told(&cluster, &watches, &request).await;
    let kustomizations = [FluxReference { namespace: "flux-system".to_owned(), name: "prod-capi".to_owned() }];
    let before = server.lines().len();
    cluster.rest(&kustomizations);
    let ended = async {
        while cluster.told_of_workloads(&request).is_some() {
            tokio::task::yield_now().await;
        }
    };
    end_of("workloads are told of no more", ended).await;
    assert!(cluster.told_of_flux(&request).is_some());
    // What is watched already goes on, and nothing is read for it.
    let asked = server.lines().split_off(before);
    assert!(
        asked.iter().all(|line| !line.contains("kustomizations") && !line.contains("gitrepositories")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn workloads_of_a_workload_cluster_are_told_of_by_its_own_server() {
    let own = ApiServer::start(telling_of_workloads(served())).await;
    let secret = kubeconfig(&own.url, &json!({"token": "t"}));
    let management = ApiServer::start(telling_of_flux(served()).object(SECRET, secret)).await;
    let watches = Arc::new(ManagementWatches::default());
    let cluster = KubernetesCluster::workload(management.connection(), "eksa-system", "prod", PathBuf::new());
    let cluster = cluster.watched("prod", &watches);
    let request = request(vec![flux(), deployment()]);
    let (flux, workloads) = told(&cluster, &watches, &request).await;
    assert_eq!((flux.sources.len(), workloads.deployments.len()), (1, 1));
}

/// The Deployment that a server tells of, with so many pods by its own count, and this digest in its pod.
fn answering(script: Script, counted: u32, digest: &str) -> Script {
    let metadata = json!({"name": "capi-controller-manager", "namespace": "capi-system"});
    let spec = json!({"selector": {"matchLabels": {"app": "capi"}}});
    let deployment = json!({"metadata": metadata, "spec": spec, "status": {"replicas": counted}});
    script.object(DEPLOYMENT, deployment).list(PODS, &[pod(digest)])
}

fn pod(digest: &str) -> Value {
    let image = format!("registry.example/capi@sha256:{}", digest.repeat(64));
    json!({"metadata": {"name": "capi-0", "namespace": "capi-system", "labels": {"app": "capi"}},
        "status": {"containerStatuses": [{"name": "manager", "ready": true, "imageID": image}]}})
}

/// The digest in the Deployment's pod as it is read again after watches have told of it, and which paths of pods were asked for.
async fn read_again(script: Script) -> (Option<String>, Vec<String>) {
    let server = ApiServer::start(telling_of_workloads(telling_of_flux(served()))).await;
    let watches = Arc::new(ManagementWatches::default());
    let cluster = KubernetesCluster::management(server.connection(), PathBuf::new()).watched("prod", &watches);
    let request = request(vec![flux(), deployment()]);
    told(&cluster, &watches, &request).await;
    server.answer(script);
    let before = server.lines().len();
    let again = ObserveRequest { freshness: Freshness::Again, expectations: vec![deployment()], ..request };
    let read = cluster.observe(&again).await;
    assert_eq!(read.unread, std::collections::BTreeMap::new());
    let digest = read.deployments[0].running.first().and_then(|running| running.digest.clone());
    let mut asked = server.lines().split_off(before);
    // The first two are asked for at once.
    asked.iter_mut().take(2).for_each(|line| *line = line.replacen("GET ", "", 1));
    asked.get_mut(..2).unwrap_or_default().sort();
    (digest, asked)
}

#[tokio::test]
async fn pods_that_were_told_of_are_read_again_by_their_names() {
    let script = answering(served(), 1, "b").object(&format!("{PODS}/capi-0"), pod("a"));
    let (digest, asked) = read_again(script).await;
    // What is read counts, and not what was told.
    assert_eq!(digest, Some(format!("sha256:{}", "a".repeat(64))));
    assert_eq!(asked, [format!("{PODS}/capi-0"), DEPLOYMENT.to_owned()]);
}

#[tokio::test]
async fn where_other_pods_may_be_there_than_were_told_of_all_are_read() {
    // One has gone, and another one is in its place.
    let (digest, asked) = read_again(answering(served(), 1, "b")).await;
    assert_eq!(digest, Some(format!("sha256:{}", "b".repeat(64))));
    assert_eq!(asked, [format!("{PODS}/capi-0"), DEPLOYMENT.to_owned(), format!("GET {PODS}")]);
    // The Deployment has another number of them.
    for counted in [0, 2] {
        let script = answering(served(), counted, "b").object(&format!("{PODS}/capi-0"), pod("a"));
        let (digest, asked) = read_again(script).await;
        assert_eq!(digest, Some(format!("sha256:{}", "b".repeat(64))));
        assert_eq!(asked, [format!("{PODS}/capi-0"), DEPLOYMENT.to_owned(), format!("GET {PODS}")]);
    }
}
