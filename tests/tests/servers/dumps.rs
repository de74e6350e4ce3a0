//! Dumps of a real API server, and what differs between two of them.

use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests::servers::manifests::apply;
use tests::servers::{ApiServer, ApiServerOptions, FleetRepository, Folder, demo_fleet, isolated};

use super::scene::POLICY;

const BUNDLE: &str = "bundles/bundles-80.yaml";
const SPECIFICATION: &str = "clusters/mgmt/cluster.yaml";

/// What no dump may hold.
const SECRET: &str = "s3cret-of-nobody";

/// A pod that asks for Istio's sidecar, and has it or not.
fn pod(name: &str, injected: bool) -> Value {
    let mut containers = vec![json!({"name": "web", "image": "shop/web:1", "args": [SECRET],
        "env": [{"name": "PASSWORD", "value": SECRET}]})];
    let mut annotations = json!({"example.com/note": SECRET});
    if injected {
        containers.push(json!({"name": "istio-proxy", "image": "istio/proxy:1"}));
        annotations["sidecar.istio.io/status"] = json!("{\"containers\":[\"istio-proxy\"]}");
    }
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations,
            "labels": {"app": "web", "pod-template-hash": "6c"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6c", "uid": "u", "controller": true}]},
        "spec": {"automountServiceAccountToken": false, "containers": containers}})
}

#[test]
fn a_dump_holds_no_secret_and_a_later_one_differs_by_owner() {
    let name = "dumps::a_dump_holds_no_secret_and_a_later_one_differs_by_owner";
    isolated(name, &["etcd", "kube-apiserver"], async |programs| {
        let folder = Folder::new()?;
        let mut files = demo_fleet(folder.path())?;
        let bundle = files.remove(BUNDLE).context("no bundle")?;
        let specification = files.remove(SPECIFICATION).context("no cluster")?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        let files = [("stepgate.yaml", POLICY), (BUNDLE, bundle.as_str()), (SPECIFICATION, &specification)];
        repository.push("Describe the fleet", &files)?;
        let server = ApiServer::start(&programs, &folder.path().join("server"), ApiServerOptions::default()).await?;
        let run = |arguments: &[&str]| -> anyhow::Result<Output> {
            let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
            command
                .args(arguments)
                .env("STEPGATE_REPO", repository.bare())
                .env("STEPGATE_KUBECONFIG", server.kubeconfig())
                .env("STEPGATE_MANAGEMENT_CLUSTER", "mgmt")
                .env("STEPGATE_MIRROR", folder.path().join("mirror"))
                .env("STEPGATE_BACKUPS", folder.path().join("backups"));
            Ok(command.output()?)
        };
        let client = server.client().await?;
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "shop/web:1",
                    "env": [{"name": "PASSWORD", "value": SECRET}]}]}}}});
        let objects = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"istio-injection": "enabled"}}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}, "stringData": {"a": SECRET}}),
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop"}, "type": "Warning",
                "reason": "Unhealthy", "message": SECRET, "count": 3,
                "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-6c-a"}}),
            deployment,
            pod("web-6c-a", true),
        ];
        apply(&client, &objects).await?;
        let merge = PatchParams::default();
        let pods = Api::<Pod>::namespaced(client.clone(), "shop");
        let ready = json!({"status": {"phase": "Running", "containerStatuses": [
            {"name": "web", "image": "shop/web:1", "imageID": "i", "ready": true, "restartCount": 0},
            {"name": "istio-proxy", "image": "istio/proxy:1", "imageID": "i", "ready": true, "restartCount": 0}]}});
        pods.patch_status("web-6c-a", &merge, &Patch::Merge(ready)).await?;
        let deployments = Api::<Deployment>::namespaced(client.clone(), "shop");
        let all = json!({"status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}});
        deployments.patch_status("web", &merge, &Patch::Merge(all)).await?;

        let place = folder.path().join("dumps");
        let place = place.to_str().context("no text")?;
        let written = run(&["dump", "mgmt", "--to", place, "-o", "json"])?;
        ensure!(written.status.success(), "{written:?}");
        let report: Value = serde_json::from_slice(&written.stdout)?;
        let file = report["file"].as_str().context("no file")?.to_owned();
        let text = std::fs::read_to_string(&file)?;
        ensure!(!text.contains(SECRET), "{text}");
        let dump: Value = serde_json::from_str(&text)?;
        assert_eq!(dump["pods"][0]["owner"]["name"], "web");
        assert_eq!((&dump["pods"][0]["ready"], &dump["events"][0]["count"]), (&json!(2), &json!(3)));
        assert_eq!(dump["unread"], Value::Null);
        let digest = report["digest"].as_str().context("no digest")?;
        ensure!(file.ends_with(&format!("{}.json", digest.trim_start_matches("sha256:"))), "{file} {digest}");

        // The pod is made anew under another name: nothing differs.
        let same = run(&["compare", "mgmt", "--from", &file])?;
        ensure!(same.status.code() == Some(0), "{same:?}");
        pods.delete("web-6c-a", &DeleteParams::default().grace_period(0)).await?;
        apply(&client, &[pod("web-6c-b", false)]).await?;
        let ready = json!({"status": {"phase": "Running", "containerStatuses": [
            {"name": "web", "image": "shop/web:1", "imageID": "i", "ready": true, "restartCount": 0}]}});
        pods.patch_status("web-6c-b", &merge, &Patch::Merge(ready)).await?;
        // Without its sidecar it is named, with what restarts it.
        let differs = run(&["compare", "mgmt", "--from", place, "-o", "json"])?;
        ensure!(differs.status.code() == Some(1), "{differs:?}");
        let report: Value = serde_json::from_slice(&differs.stdout)?;
        let told = &report["differences"];
        ensure!(told.as_array().is_some_and(|all| all.len() == 1), "{told}");
        assert_eq!((&told[0]["kind"], &told[0]["object"]), (&json!("not injected"), &json!("Deployment shop/web")));
        assert_eq!(told[0]["help"], "kubectl rollout restart deployment/web -n shop");
        let page = run(&["compare", "mgmt", "--from", &file, "-o", "markdown"])?;
        let page = String::from_utf8(page.stdout)?;
        ensure!(page.contains("| not injected | Deployment shop/web |"), "{page}");
        let nothing = run(&["compare", "mgmt"])?;
        ensure!(nothing.status.code() == Some(2), "{nothing:?}");
        folder.done();
        Ok(())
    });
}
