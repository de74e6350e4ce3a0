//! The extension's own certificate, in a cluster without cert-manager.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use cluster::kubernetes::in_place_definitions;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, define, kind_in, kind_of_cluster};
use tests::servers::{ApiServer, ApiServerOptions, Folder, Process, Programs, isolated};
use tests::waiting::until;

use super::bench::{EXTENSION_CONFIG, needed};
use crate::machines::is_true;
use crate::simulator::machines::MachineProvider;

const SECRET: &str = "extension-tls";

const WEBHOOK: (&str, &str) = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration");

const OWNER: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "MachineDeployment");

/// Two of them, as they are installed.
const PORTS: [u16; 2] = [9541, 9542];

fn extension(folder: &Path, server: &ApiServer, port: u16) -> anyhow::Result<Process> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
    command
        .args(["extension", "--listen", &format!("127.0.0.1:{port}"), "--tls-name", "127.0.0.1", "--tls-secret"])
        .arg(format!("default/{SECRET}"))
        .args(["--webhook", "stepgate-extension"])
        .arg("--tls-dir")
        .arg(folder.join(format!("tls-{port}")))
        .env("STEPGATE_KUBECONFIG", server.kubeconfig());
    Process::start(folder, &format!("extension-{port}"), command)
}

async fn secrets(client: &Client) -> anyhow::Result<Api<DynamicObject>> {
    kind_in(client, ("v1", "Secret"), "default").await
}

/// What asks the extension, as it is installed without cert-manager.
fn webhook() -> Value {
    let rule = json!({"apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
        "resources": ["machinedeployments"]});
    json!({"apiVersion": WEBHOOK.0, "kind": WEBHOOK.1, "metadata": {"name": "stepgate-extension"}, "webhooks": [{
        "name": "pause-owners.inplace.stepgate.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "failurePolicy": "Fail", "rules": [rule],
        "clientConfig": {"url": format!("https://127.0.0.1:{}/pause-owners", PORTS[0])}}]})
}

/// Waits until Cluster API trusts what the Secret holds, and has been answered since.
async fn is_trusted(client: &Client, folder: &Path) -> anyhow::Result<String> {
    let configs = kind_of_cluster(client, EXTENSION_CONFIG).await?;
    until("Cluster API trusts the extension's certificate", async || {
        let Some(secret) = secrets(client).await?.get_opt(SECRET).await? else { return Ok(None) };
        let authorities = secret.data.pointer("/data/ca.crt").cloned().context("no authority")?;
        let config = configs.get("stepgate").await?;
        let is_known = config.data.pointer("/spec/clientConfig/caBundle") == Some(&authorities);
        let served = PORTS.map(|port| std::fs::read_to_string(folder.join(format!("tls-{port}/tls.crt"))).ok());
        let is_same = served[0].is_some() && served[0] == served[1];
        let told = authorities.as_str().unwrap_or_default().to_owned();
        Ok((is_known && is_same && is_true(&config, "Discovered")).then_some(told))
    })
    .await
}

#[test]
fn extension_makes_its_certificate_and_cluster_api_trusts_it() {
    let name = "in_place::certificate::extension_makes_its_certificate_and_cluster_api_trusts_it";
    isolated(name, &needed(), async |programs: Programs| {
        let folder = Folder::new()?;
        let options = ApiServerOptions { controllers: true, ..ApiServerOptions::default() };
        let server = ApiServer::start(&programs, &folder.path().join("management"), options).await?;
        let client = server.client().await?;
        let _provider = MachineProvider::start_with_in_place_updates(&programs, &server).await?;
        define(&client, &in_place_definitions()).await?;
        let mut extensions = Vec::new();
        for port in PORTS {
            extensions.push(extension(folder.path(), &server, port)?);
        }
        let registration = json!({"apiVersion": EXTENSION_CONFIG.0, "kind": EXTENSION_CONFIG.1, "metadata": {
            "name": "stepgate",
            "annotations": {"runtime.cluster.x-k8s.io/inject-ca-from-secret": format!("default/{SECRET}")},
        }, "spec": {
            "clientConfig": {"url": format!("https://127.0.0.1:{}/", PORTS[0])}, "namespaceSelector": {},
        }});
        apply(&client, &[registration, webhook()]).await?;
        let first = is_trusted(&client, folder.path()).await?;
        // The Secret is lost: another authority, and everybody goes by it.
        secrets(&client).await?.delete(SECRET, &DeleteParams::default()).await?;
        for extension in &mut extensions {
            extension.kill()?;
            extension.restart()?;
        }
        let second = is_trusted(&client, folder.path()).await?;
        ensure!(first != second, "the lost authority is still served");
        // Whoever installs it again takes its authority away: asked, the extension answers again all the same.
        let webhooks = kind_of_cluster(&client, WEBHOOK).await?;
        webhooks.delete("stepgate-extension", &DeleteParams::default()).await?;
        apply(&client, &[webhook()]).await?;
        until("a change of an owner is let through, and pauses it", async || {
            let owner = json!({"apiVersion": OWNER.0, "kind": OWNER.1, "metadata": {"name": "edge", "namespace": "default",
                "annotations": {"inplace.stepgate.dev/strategy": "controller"}},
                "spec": {"clusterName": "edge", "replicas": 0, "selector": {}, "template": {"spec": {"clusterName": "edge",
                "version": "v1.35.0", "bootstrap": {"dataSecretName": "none"}, "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "edge"}}}}});
            apply(&client, &[owner]).await?;
            let owners = kind_in(&client, OWNER, "default").await?;
            let patch = json!({"spec": {"template": {"spec": {"version": "v1.36.0"}}}});
            match owners.patch("edge", &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(owner) => Ok(owner.annotations().contains_key("cluster.x-k8s.io/paused").then_some(())),
                Err(kube::Error::Api(refused)) if refused.message.contains("failed calling webhook") => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
        .await?;
        folder.done();
        Ok(())
    });
}
