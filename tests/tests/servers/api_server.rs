//! Reading a real API server.

use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::PostParams;
use rollout::{Expectation, Reachability};
use serde_json::json;
use tests::servers::{ApiServer, ApiServerOptions, FakeKubelet, Folder, isolated};
use tests::waiting::end_of;

const NEEDED: &[&str] = &["etcd", "kube-apiserver", "kube-controller-manager"];

#[test]
fn a_deployment_is_read_as_it_is_and_an_outage_as_one() {
    isolated("api_server::a_deployment_is_read_as_it_is_and_an_outage_as_one", NEEDED, async |programs| {
        let folder = Folder::new()?;
        let mut server = ApiServer::start(
            &programs,
            folder.path(),
            ApiServerOptions { controllers: true, ..ApiServerOptions::default() },
        )
        .await?;
        let client = server.client().await?;
        let _kubelet = FakeKubelet::start(&client, &["one", "two"], "v1.36.4").await?;
        let image = "example.org/web:v1@sha256:0000000000000000000000000000000000000000000000000000000000000001";
        let deployment = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}}},
        }))?;
        let deployments: Api<Deployment> = Api::namespaced(client, "default");
        deployments.create(&PostParams::default(), &deployment).await?;
        let ready = kube::runtime::wait::await_condition(deployments, "web", |found: Option<&Deployment>| {
            found.and_then(|found| found.status.as_ref()).is_some_and(|status| status.available_replicas == Some(2))
        });
        end_of("both Pods are available", ready).await??;

        let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
        let cluster = KubernetesCluster::management(Connection::open(&source).await?, folder.path().join("backups"));
        let request = ObserveRequest {
            expectations: vec![Expectation::Deployment {
                namespace: String::from("default"),
                name: String::from("web"),
                images: vec![image.to_owned()],
            }],
            kustomizations: Vec::new(),
            deployed: std::sync::Arc::default(),
            freshness: Freshness::Fresh,
            at: Timestamp::now(),
        };
        let read = cluster.observe(&request).await;
        assert_eq!(read.reachable, Reachability::Reachable);
        let [found] = read.deployments.as_slice() else { panic!("{:?}", read.deployments) };
        assert_eq!((found.spec_replicas, found.available_replicas), (2, Some(2)));
        assert_eq!(found.images, [image]);
        let running: Vec<_> =
            found.running.iter().map(|container| (container.ready, container.digest.as_deref())).collect();
        assert_eq!(running, [(true, image.split_once('@').map(|(_, digest)| digest)); 2]);

        server.server.kill()?;
        let read = cluster.observe(&request).await;
        assert!(matches!(read.reachable, Reachability::Unreachable { .. }), "{:?}", read.reachable);
        server.server.restart()?;
        server.wait_until_ready().await?;
        assert_eq!(cluster.observe(&request).await.deployments.len(), 1);
        folder.done();
        Ok(())
    });
}
