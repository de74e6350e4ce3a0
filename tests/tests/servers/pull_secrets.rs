//! Images behind a login: pull secrets of pods, as kubelets find them, where the operator lets them be used.

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tests::servers::manifests::apply;
use tests::servers::{LOGIN, Registry, isolated};

use super::checks::{Fleet, check};
use super::scene::POLICY;

const NAMESPACE: &str = "cert-manager";

/// What the check of images says of the workload `probe`, and its status. No output holds the password in any form.
fn said(fleet: &Fleet, more: &[&str]) -> anyhow::Result<(String, String)> {
    let output = fleet.run(&[&["check", "--cluster", "mgmt", "-o", "json"], more].concat())?;
    let shown = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for canary in [LOGIN.1.to_owned(), STANDARD.encode(LOGIN.1), STANDARD.encode(format!("{}:{}", LOGIN.0, LOGIN.1))] {
        ensure!(!shown.contains(&canary), "{canary} is shown: {shown}");
    }
    let report: Value = serde_json::from_slice(&output.stdout).context(shown)?;
    let images = check(&report["checks"], "images")?;
    let about = images["findings"].as_array().into_iter().flatten();
    let told: Vec<String> = about.filter(|it| it.to_string().contains("probe")).map(ToString::to_string).collect();
    Ok((images["status"].as_str().unwrap_or_default().to_owned(), told.join("\n")))
}

fn secret(host: &str, password: &str) -> Value {
    let auths = json!({"auths": {host: {"username": LOGIN.0, "password": password}}}).to_string();
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "login", "namespace": NAMESPACE}, "data": {".dockerconfigjson": STANDARD.encode(auths)}})
}

#[test]
fn an_image_behind_a_login_is_asked_for_with_that_of_its_pods() {
    let name = "pull_secrets::an_image_behind_a_login_is_asked_for_with_that_of_its_pods";
    isolated(name, &["etcd", "kube-apiserver", "registry"], async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let registry = Registry::start_asking(&programs, &fleet.folder.path().join("registry"))?;
        let policy = format!("{POLICY}fetch: {{allow: ['{}']}}\n", registry.address());
        fleet.repository.push("Let the registry be asked", &[("stepgate.yaml", &policy)])?;
        let adopted = fleet.run(&["adopt", "--yes"])?;
        ensure!(adopted.status.success(), "{adopted:?}");
        let digest = registry.push("tools/probe", "1", &["amd64"]).await?;
        let wants = |image: &str, pod: &str| {
            let workload = format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: probe, namespace: {NAMESPACE}}}\nspec:\n  \
                 selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    spec: \
                 {{containers: [{{name: a, image: '{image}'}}]{pod}}}\n"
            );
            let overlay = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [probe.yaml]\n";
            let files = [
                ("overlays/cert-manager/kustomization.yaml", overlay),
                ("overlays/cert-manager/probe.yaml", workload.as_str()),
            ];
            fleet.repository.push("Probe it", &files)
        };
        let image = format!("{}/tools/probe:1@{digest}", registry.address());
        wants(&image, ", imagePullSecrets: [{name: login}]")?;
        let client = fleet.server.client().await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        apply(&client, &[namespace, secret(registry.address(), LOGIN.1)]).await?;

        // Nobody has said that it may be used.
        let (status, told) = said(&fleet, &[])?;
        ensure!(status != "fail" && told.contains("Secret cert-manager/login is not read"), "{status}: {told}");
        ensure!(told.contains("--pull-secrets cert-manager") && told.contains("\"isAdvisory\":true"), "{told}");
        let using = ["--pull-secrets", NAMESPACE];
        let (status, told) = said(&fleet, &using)?;
        ensure!(status != "fail" && told.is_empty(), "{status}: {told}");
        // What the registry has not is missing with the login, too.
        wants(&format!("{}/tools/probe:2", registry.address()), ", imagePullSecrets: [{name: login}]")?;
        let (status, told) = said(&fleet, &using)?;
        ensure!(status == "fail" && told.contains("there is no image"), "{status}: {told}");

        // The ServiceAccount of pods that name none gives them its own, as in the cluster.
        wants(&image, "")?;
        let (status, told) = said(&fleet, &using)?;
        ensure!(status != "fail" && told.contains("is not known"), "{status}: {told}");
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "imagePullSecrets": [{"name": "login"}],
            "metadata": {"name": "default", "namespace": NAMESPACE}});
        apply(&client, &[account]).await?;
        let (status, told) = said(&fleet, &using)?;
        ensure!(status != "fail" && told.is_empty(), "{status}: {told}");

        // A login that has been changed since, one for another host, and none at all.
        for (held, expected) in [
            (Some(secret(registry.address(), "closed sesame")), "fail: refuses the login"),
            (Some(secret("other.example", LOGIN.1)), "unknown: is not known"),
            (None, "warn: there is no Secret cert-manager/login"),
        ] {
            let secrets = Api::<Secret>::namespaced(client.clone(), NAMESPACE);
            secrets.delete("login", &DeleteParams::default()).await?;
            apply(&client, &held.into_iter().collect::<Vec<_>>()).await?;
            let (_, told) = said(&fleet, &using)?;
            let (status, words) = expected.split_once(": ").context("a status")?;
            ensure!(told.contains(words) && told.contains(&format!("\"status\":\"{status}\"")), "{expected}: {told}");
        }
        fleet.folder.done();
        Ok(())
    });
}
