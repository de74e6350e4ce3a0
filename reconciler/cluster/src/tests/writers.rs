//! Second writers on what the deploy branch holds.

use std::sync::Arc;

use super::*;
use crate::DeployedObjects;

/// A file of the deploy branch.
fn file(text: &str) -> (domain::RepoPath, Arc<[u8]>) {
    (domain::RepoPath::new("clusters/prod/capi/all.yaml").unwrap(), Arc::from(text.as_bytes()))
}

#[tokio::test]
async fn a_second_writer_is_seen_on_whatever_the_deploy_branch_holds() {
    let owned = |fields: &Value| {
        let entry =
            |manager: &str, fields: &Value| json!({"manager": manager, "operation": "Apply", "fieldsV1": fields});
        let ours = entry("kustomize-controller", &json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
        json!({"metadata": {"name": "capi-controller-manager", "namespace": "capi-system", "generation": 1,
            "managedFields": [ours, entry("kubectl", fields)]}})
    };
    let path = "/apis/apps/v1/namespaces/capi-system/deployments/capi-controller-manager";
    let read = async |fields: Value| {
        let script = served().list("/api/v1/namespaces/capi-system/pods", &[]).object(path, owned(&fields));
        let server = ApiServer::start(script).await;
        let cluster = KubernetesCluster::management(server.connection(), PathBuf::from("/nonexistent"));
        let manifest = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: capi-controller-manager, namespace: capi-system}, spec: {replicas: 1}}";
        let deployed = Arc::new(DeployedObjects::new([file(manifest)]));
        cluster.observe(&ObserveRequest { deployed, ..request(vec![deployment()]) }).await.taken
    };
    let taken = read(json!({"f:spec": {"f:replicas": {}}})).await;
    let [taken] = taken.as_slice() else { panic!("{taken:?}") };
    assert_eq!(taken.object.to_string(), "Deployment capi-system/capi-controller-manager");
    assert_eq!((taken.field.as_str(), taken.manager.as_str()), ("spec.replicas", "kubectl"));
    assert_eq!(read(json!({"f:spec": {"f:paused": {}}})).await, []);
}

#[tokio::test]
async fn a_second_writer_is_seen_on_cluster_api_s_objects_where_the_deploy_branch_holds_them() {
    let entry = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": fields}});
    let managers =
        [entry("kustomize-controller", json!({"f:version": {}})), entry("autoscaler", json!({"f:replicas": {}}))];
    let object = json!({"metadata": {"name": "prod-md-0", "namespace": "eksa-system", "generation": 1, "managedFields": managers}});
    let manifest = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {name: prod-md-0, namespace: eksa-system}, spec: {replicas: 1}}";
    for (held, expected) in [(manifest, 1), ("{}", 0)] {
        let script = settled().list(&format!("{CAPI}/machinedeployments"), std::slice::from_ref(&object));
        let server = ApiServer::start(script).await;
        let cluster = KubernetesCluster::management(server.connection(), PathBuf::from("/nonexistent"));
        let deployed = Arc::new(DeployedObjects::new([file(held)]));
        let request = ObserveRequest { deployed, ..request(vec![Expectation::Workers(workers())]) };
        let taken = cluster.observe(&request).await.taken;
        assert_eq!(taken.len(), expected, "{taken:?}");
        for taken in taken {
            assert_eq!(taken.object.to_string(), "MachineDeployment eksa-system/prod-md-0");
            assert_eq!((taken.field.as_str(), taken.manager.as_str()), ("spec.replicas", "autoscaler"));
        }
    }
}

#[tokio::test]
async fn an_edited_path_of_a_kustomization_or_its_source_is_seen() {
    let entry = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": fields}});
    let managers = |theirs: Value| {
        json!([entry("kustomize-controller", json!({"f:interval": {}})), entry("kubectl-edit", theirs)])
    };
    let kustomization = json!({"metadata": {"name": "capi", "namespace": "flux-system", "generation": 2, "managedFields": managers(json!({"f:path": {}}))},
        "spec": {"path": "./elsewhere", "sourceRef": {"kind": "GitRepository", "name": "fleet"}}});
    let source = json!({"metadata": {"name": "fleet", "namespace": "flux-system", "generation": 2, "managedFields": managers(json!({"f:url": {}}))},
        "spec": {"url": "https://elsewhere.example.com/fleet"}});
    let base = "/namespaces/flux-system";
    let script = served()
        .object(&format!("/apis/kustomize.toolkit.fluxcd.io/v1{base}/kustomizations/capi"), kustomization)
        .object(&format!("/apis/source.toolkit.fluxcd.io/v1{base}/gitrepositories/fleet"), source);
    let server = ApiServer::start(script).await;
    let cluster = KubernetesCluster::management(server.connection(), PathBuf::from("/nonexistent"));
    let deployed = [
        "{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {name: capi, namespace: flux-system}, spec: {interval: 1m, path: ./clusters/prod/capi}}",
        "{apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, metadata: {name: fleet, namespace: flux-system}, spec: {url: 'https://git.example.com/fleet'}}",
    ];
    let deployed = Arc::new(DeployedObjects::new(deployed.map(file)));
    let flux = Expectation::Flux { namespace: String::from("flux-system"), kustomizations: vec![String::from("capi")] };
    let taken = cluster.observe(&ObserveRequest { deployed, ..request(vec![flux]) }).await.taken;
    let taken: Vec<String> =
        taken.iter().map(|taken| format!("{} {} {}", taken.object, taken.field, taken.manager)).collect();
    assert_eq!(
        taken,
        [
            "Kustomization flux-system/capi spec.path kubectl-edit",
            "GitRepository flux-system/fleet spec.url kubectl-edit"
        ]
    );
}
