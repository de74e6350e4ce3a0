//! The table of API versions that go, held against what a Kubernetes API server serves and warns of.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, ensure};
use axum::http::Request;
use kube::Client;
use rollout::check::{REMOVALS, minor_of};
use serde_json::{Value, json};
use tests::servers::manifests::apply;
use tests::servers::{ApiServer, ApiServerOptions, Folder, isolated};

const NEEDED: &[&str] = &["etcd", "kube-apiserver"];

/// Kinds of a group and version, with the path of their collection.
type Served = BTreeMap<String, String>;

async fn served(client: &Client, api_version: &str) -> anyhow::Result<Served> {
    let request = Request::get(format!("/apis/{api_version}")).body(Vec::new())?;
    let list: Value = match client.request(request).await {
        Ok(list) => list,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Served::new()),
        Err(error) => return Err(error.into()),
    };
    let resources = list["resources"].as_array().into_iter().flatten();
    let text = |resource: &Value, key: &str| resource[key].as_str().unwrap_or_default().to_owned();
    Ok(resources
        .filter(|resource| !text(resource, "name").contains('/'))
        .map(|resource| (text(resource, "kind"), text(resource, "name")))
        .collect())
}

/// What the server warns whoever lists a collection of.
async fn warning(client: &Client, api_version: &str, collection: &str) -> anyhow::Result<String> {
    let request = Request::get(format!("/apis/{api_version}/{collection}")).body(kube::client::Body::empty())?;
    let answer = client.send(request).await?;
    let warning = answer.headers().get("warning").and_then(|warning| warning.to_str().ok());
    Ok(warning.unwrap_or_default().to_owned())
}

#[test]
fn the_table_is_what_an_api_server_serves_and_warns_of() {
    let name = "api_removals::the_table_is_what_an_api_server_serves_and_warns_of";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let options = ApiServerOptions { every_api: true, ..ApiServerOptions::default() };
        let server = ApiServer::start(&programs, &folder.path().join("server"), options).await?;
        let client = server.client().await?;
        let minor = minor_of(&client.apiserver_version().await?.git_version).context("no minor")?;
        let (mut checked, mut warned) = (0, 0);
        for removal in REMOVALS {
            let api_version = removal.api_version();
            let known = served(&client, &api_version).await?;
            for kind in removal.kinds {
                let Some(collection) = known.get(*kind) else {
                    ensure!(removal.removed <= minor, "{api_version} {kind} is not served");
                    continue;
                };
                ensure!(removal.removed > minor, "{api_version} {kind} is served at 1.{minor}");
                checked += 1;
                if removal.deprecated <= minor {
                    let warning = warning(&client, &api_version, collection).await?;
                    let releases =
                        format!("is deprecated in v1.{}+, unavailable in v1.{}+", removal.deprecated, removal.removed);
                    ensure!(warning.contains(&releases), "{api_version} {kind}: {warning:?}, {releases} expected");
                    warned += 1;
                }
            }
        }
        println!("{checked} kinds served at 1.{minor}, {warned} with a warning");
        ensure!(checked > 10 && warned > 5, "{checked} {warned}");
        a_running_cluster_is_looked_into(&server, &client, minor).await?;
        folder.done();
        Ok(())
    });
}

/// `stepgate check apis --live`, where the next minors take something away that somebody uses.
async fn a_running_cluster_is_looked_into(server: &ApiServer, client: &Client, minor: u32) -> anyhow::Result<()> {
    let address = json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "IPAddress", "metadata": {"name": "10.0.0.77",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration":
                "{\"apiVersion\":\"networking.k8s.io/v1beta1\",\"kind\":\"IPAddress\"}"}},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}}});
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "old", "namespace": "default"},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1beta2", "kind": "Deployment", "name": "d"}}});
    apply(client, &[address, scaler]).await?;
    let run = |target: u32| {
        Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"))
            .args(["check", "apis", "--live", "-o", "json", "--target", &format!("1.{target}")])
            .env("STEPGATE_KUBECONFIG", server.kubeconfig())
            .output()
    };
    let output = run(37.max(minor + 1))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(3), "{} {text} {error}", output.status);
    let report: Value = serde_json::from_str(&text)?;
    let uses = report["uses"].as_array().context("no uses")?;
    let is_told = |standing: &str, object: &str| {
        uses.iter().any(|found| found["standing"] == standing && found["object"] == object)
    };
    ensure!(is_told("removed", "HorizontalPodAutoscaler default/old"), "{report}");
    ensure!(is_told("suspected", "IPAddress 10.0.0.77"), "{report}");
    ensure!(report["unread"] == json!([]), "{report}");
    Ok(())
}
