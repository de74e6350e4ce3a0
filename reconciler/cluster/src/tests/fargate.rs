//! What runs on Fargate, of which one workload is restarted after another.

use std::sync::Arc;

use domain::RolloutId;
use host::waiting::end_of;
use rollout::EksPart;
use rollout::eksctl::fargate::{FargateAct, next_restart};

use super::*;
use crate::client::server::Answer;
use crate::kubernetes::{ChangeScope, ManagementWatches};

const ROLLOUT: &str = "aaaaaaaaaaaa";

/// The path at which the pods of a node are listed.
fn on(node: &str) -> String {
    format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")
}

/// The request of stage `fargate`, where Stepgate restarts what runs there.
fn replaced() -> ObserveRequest {
    let part = EksPart::Fargate { version: "1.32".to_owned(), restarts: true };
    request(vec![Expectation::Eks(part.into())])
}

/// An old node of Fargate, which carries a pod.
fn old_of_fargate(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"eks.amazonaws.com/compute-type": "fargate"}},
        "status": {"nodeInfo": {"kubeletVersion": "v1.31.4-eks-1"}}})
}

fn pod_on_fargate(name: &str, node: &str, kind: &str, owner: &str) -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u", "controller": true}]);
    json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": "1", "ownerReferences": owner,
        "labels": {"pod-template-hash": "6c"}}, "spec": {"nodeName": node}, "status": {"phase": "Running"}})
}

#[tokio::test]
async fn what_a_restart_on_fargate_waits_for_is_told_at_once() {
    let workload = |name: &str| json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": "1"}});
    let cart = pod_on_fargate("cart-6c-x", "fargate-1", "ReplicaSet", "cart-6c");
    let store = pod_on_fargate("store-0", "fargate-2", "StatefulSet", "store");
    let resources = ["/api/v1/nodes", "/api/v1/pods", "/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets"];
    let read = resources.iter().fold(served(), |script, path| script.watch(path, &[]));
    let read = read
        .list("/api/v1/nodes", &[old_of_fargate("fargate-1"), old_of_fargate("fargate-2")])
        .list(&on("fargate-1"), std::slice::from_ref(&cart))
        .list(&on("fargate-2"), &[store])
        .list("/apis/apps/v1/deployments", &[])
        .list("/apis/apps/v1/statefulsets", &[])
        .object("/apis/apps/v1/namespaces/shop/deployments/cart", workload("cart"))
        .object("/apis/apps/v1/namespaces/shop/statefulsets/store", workload("store"));
    let request = replaced();
    for (path, object) in [(1, cart), (2, workload("cart")), (3, workload("store"))] {
        let server = ApiServer::start(read.clone().watch(resources[path], &[object])).await;
        let watches = Arc::new(ManagementWatches::default());
        let cluster = KubernetesCluster::management(server.connection(), PathBuf::new()).watched("prod", &watches);
        cluster.follow(&request, &[]).await;
        let read = cluster.observe(&request).await.fargate.unwrap();
        assert_eq!(read.workloads.iter().map(|known| known.old_pods).collect::<Vec<_>>(), [1, 1], "{read:?}");
        // A reading names what is followed from then on, which a visit does at once.
        assert_eq!(watches.changes().take().get("prod"), Some(&ChangeScope::More));
        cluster.follow(&request, &[]).await;
        end_of(&format!("a change of {}", resources[path]), watches.changes().changed()).await;
        drop(watches.changes().take());
        // Of what is followed already nothing is to be asked for at once.
        cluster.observe(&request).await;
        assert_eq!(watches.changes().of("prod"), None);
    }
}

/// A workload of one pod, of which so many are ready.
fn of_one(name: &str, ready: u32) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"replicas": 1},
        "status": {"replicas": 1, "updatedReplicas": 1, "readyReplicas": ready}})
}

/// What is done next, where `cart` is on an old node and no pod of `store` has a node.
async fn next_beside(store: impl FnOnce(Script) -> Script) -> String {
    let cart = pod_on_fargate("cart-6c-x", "fargate-1", "ReplicaSet", "cart-6c");
    let script = served()
        .list("/api/v1/nodes", &[old_of_fargate("fargate-1")])
        .list(&on("fargate-1"), &[cart])
        .list("/apis/apps/v1/deployments", &[])
        .object("/apis/apps/v1/namespaces/shop/deployments/cart", of_one("cart", 1));
    let server = ApiServer::start(store(script)).await;
    let cluster = KubernetesCluster::management(server.connection(), PathBuf::new());
    let read = cluster.observe(&replaced()).await.fargate.unwrap();
    match next_restart(&read, &ROLLOUT.parse::<RolloutId>().unwrap()) {
        FargateAct::Nothing => format!("nothing: {}", read.unread.join(", ")),
        FargateAct::WaitFor(workload) => format!("waits for {}", workload.subject()),
        FargateAct::Restart(workload) => format!("restarts {}", workload.subject()),
    }
}

#[tokio::test]
async fn a_restarted_workload_is_waited_for_while_its_pods_have_no_node() {
    let store = |ready: u32| {
        let mut store = of_one("store", ready);
        store["metadata"]["labels"] = json!({"stepgate.dev/restarted-for": ROLLOUT});
        move |script: Script| {
            script.list("/apis/apps/v1/statefulsets?labelSelector=stepgate.dev%2Frestarted-for", &[store])
        }
    };
    assert_eq!(next_beside(store(0)).await, "waits for StatefulSet shop/store");
    assert_eq!(next_beside(store(1)).await, "restarts Deployment shop/cart");
    let refused =
        |script: Script| script.on("GET /apis/apps/v1/statefulsets", Answer::Error(403, "statefulsets is forbidden"));
    let next = next_beside(refused).await;
    assert!(next.starts_with("nothing: ") && next.contains("statefulsets is forbidden"), "{next}");
}
