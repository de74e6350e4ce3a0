//! Metrics by the word of a real API server: the program asks it about each token, under the
//! installed identity.

use std::process::Command;

use anyhow::ensure;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stepgate::install::{RUNBOOKS, Settings, manifests};
use tests::servers::manifests::{apply, objects};
use tests::servers::service_account_token;
use tests::servers::{ApiServer, ApiServerOptions, FleetRepository, Folder, Process, isolated, service_account};
use tests::waiting::until;

use super::installed::{NEEDED, SYSTEM, asked, install, refused, settings};
use super::scene::POLICY;

const ADDRESS: &str = "127.0.0.1:8080";

/// Whose token Prometheus shows, and what lets it read.
const SCRAPER: &str = "stepgate-metrics";
const KINDS: [&str; 3] = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"];

/// Two service accounts: the one that the installation makes for Prometheus, and somebody else.
fn accounts() -> anyhow::Result<Vec<Value>> {
    let installed = manifests(&Settings { runbooks: Some(RUNBOOKS.to_owned()), ..settings() })?;
    let is_of_rbac = |object: &Value| object["kind"].as_str().is_some_and(|kind| KINDS.contains(&kind));
    let installed = objects(&installed)?.into_iter();
    let mut accounts: Vec<Value> =
        installed.filter(|object| object["metadata"]["name"] == SCRAPER && is_of_rbac(object)).collect();
    ensure!(accounts.len() == KINDS.len(), "{accounts:?}");
    let somebody =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "somebody", "namespace": SYSTEM}});
    accounts.push(somebody);
    Ok(accounts)
}

/// Status and text of an endpoint, asked with this token.
async fn get(path: &str, token: Option<&str>) -> anyhow::Result<(u16, String)> {
    let request = reqwest::Client::new().get(format!("http://{ADDRESS}{path}"));
    let request = token.into_iter().fold(request, |request, token| request.bearer_auth(token));
    let answer = request.send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// Takes these resources from the installed role.
async fn take(client: &kube::Client, resources: &[&str]) -> anyhow::Result<()> {
    let roles = Api::<ClusterRole>::all(client.clone());
    let mut rules = roles.get("stepgate").await?.rules.unwrap_or_default();
    rules.retain(|rule| !rule.resources.iter().flatten().any(|resource| resources.contains(&resource.as_str())));
    roles.patch("stepgate", &PatchParams::default(), &Patch::Merge(json!({"rules": rules}))).await?;
    Ok(())
}

#[test]
fn metrics_are_shown_to_whom_the_cluster_lets_see_them() {
    let name = "scraping::metrics_are_shown_to_whom_the_cluster_lets_see_them";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let server =
            ApiServer::start(&programs, &folder.path().join("management"), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        install(&server, &client).await?;
        apply(&client, &accounts()?).await?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        repository.push("Describe the fleet", &[("stepgate.yaml", POLICY)])?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        command
            .args(["run", "--listen", ADDRESS, "--health-address", "off", "--metrics-authentication", "kubernetes"])
            .env("STEPGATE_REPO", repository.bare())
            .env("STEPGATE_KUBECONFIG", service_account(&server, SYSTEM, "stepgate").await?)
            .env("STEPGATE_BACKUPS", folder.path().join("backups"));
        let mut controller = Process::start(folder.path(), "stepgate", command)?;
        controller.wait_until(async || get("/healthz", None).await.is_ok_and(|(status, _)| status == 200)).await?;

        let prometheus = service_account_token(&server, SYSTEM, SCRAPER).await?;
        let somebody = service_account_token(&server, SYSTEM, "somebody").await?;
        let forged = format!("{prometheus}x");
        for (token, expected) in [
            (None, 401),
            (Some("nonsense"), 401),
            (Some(forged.as_str()), 401),
            (Some(somebody.as_str()), 403),
            (Some(prometheus.as_str()), 200),
        ] {
            let (status, text) = get("/metrics", token).await?;
            ensure!(status == expected, "{expected} expected, {status} answered: {text}");
            ensure!(text.contains("stepgate_passes_total") == (expected == 200), "{text}");
        }
        // Health is everybody's.
        assert_eq!(get("/healthz", None).await?.0, 200);

        // All of it is what the installed role grants, and nothing is asked of who shows no token.
        assert_eq!(refused(&server)?, Vec::<String>::new());
        let asked = asked(&server)?;
        let reviews = |resource: &str| {
            let of = |line: &&Value| line["stage"] == "RequestReceived" && line["objectRef"]["resource"] == resource;
            asked.iter().filter(of).count()
        };
        assert_eq!((reviews("tokenreviews"), reviews("subjectaccessreviews")), (4, 2));
        let log = std::fs::read_to_string(folder.path().join("stepgate.log"))?;
        ensure!(!log.contains(&prometheus) && !log.contains(&somebody), "a token is in the log");

        // Without either grant nobody is let in whom the cluster did not let in a moment ago.
        for resources in [&["subjectaccessreviews"][..], &["tokenreviews"]] {
            take(&client, resources).await?;
            let unknown = async || {
                let token = service_account_token(&server, SYSTEM, SCRAPER).await?;
                Ok((get("/metrics", Some(&token)).await?.0 == 503).then_some(()))
            };
            until(&format!("{resources:?} are missed"), unknown).await?;
        }
        folder.done();
        Ok(())
    });
}
