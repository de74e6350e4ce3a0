//! Checks of a running cluster: by the verb, in the preflight gate, and past a waiver.

use std::process::{Command, Output};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{Cluster as _, DeployedObjects, Freshness, ObserveRequest};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use rollout::check::RemovedApis;
use rollout::{ApiUse, ApiUseKind, ChecksExpectation, DriftKind, Expectation, RollingNodes};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, apply_as, objects};
use tests::servers::{ApiServer, ApiServerOptions, FleetRepository, Folder, Registry, demo_fleet, isolated};

use super::installed::{NEEDED, install, refused};
use super::scene::POLICY;

const BUNDLE: &str = "bundles/bundles-80.yaml";
const SPECIFICATION: &str = "clusters/mgmt/cluster.yaml";

/// A fleet of one management cluster, and its API server.
pub(super) struct Fleet {
    pub(super) folder: Folder,
    pub(super) repository: FleetRepository,
    pub(super) server: ApiServer,
    bundle: String,
}

impl Fleet {
    pub(super) async fn start(programs: &tests::servers::Programs) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let mut fleet = demo_fleet(folder.path())?;
        let bundle = fleet.remove(BUNDLE).context("no bundle")?;
        let specification = fleet.remove(SPECIFICATION).context("no cluster")?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        let files = [("stepgate.yaml", POLICY), (BUNDLE, bundle.as_str()), (SPECIFICATION, &specification)];
        repository.push("Describe the fleet", &files)?;
        let server = ApiServer::start(programs, &folder.path().join("server"), ApiServerOptions::default()).await?;
        Ok(Self { folder, repository, server, bundle })
    }

    pub(super) fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        let authority = self.folder.path().join("registry/ca.pem");
        command
            .args(arguments)
            .env("SSL_CERT_FILE", authority)
            .env("STEPGATE_PRIVATE_HOSTS", "127.0.0.1")
            .env("STEPGATE_REPO", self.repository.bare())
            .env("STEPGATE_KUBECONFIG", self.server.kubeconfig())
            .env("STEPGATE_MIRROR", self.folder.path().join("mirror"))
            .env("STEPGATE_BACKUPS", self.folder.path().join("backups"));
        Ok(command.output()?)
    }

    /// What the checks say, by name, and the exit code.
    fn checked(&self) -> anyhow::Result<(Value, Option<i32>)> {
        self.checked_with(&[])
    }

    fn checked_with(&self, more: &[&str]) -> anyhow::Result<(Value, Option<i32>)> {
        let output = self.run(&[&["check", "--cluster", "mgmt", "-o", "json"], more].concat())?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        Ok((report["checks"].clone(), output.status.code()))
    }

    /// State and message of the cluster after one pass.
    fn pass(&self) -> anyhow::Result<String> {
        self.pass_with(&[])
    }

    fn pass_with(&self, more: &[&str]) -> anyhow::Result<String> {
        let output = self.run(&[&["run", "--once", "-o", "json"], more].concat())?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let cluster = &report["clusters"][0];
        Ok(format!("{} {} {}", cluster["state"], cluster["message"], cluster["help"]))
    }
}

pub(super) fn check<'a>(checks: &'a Value, name: &str) -> anyhow::Result<&'a Value> {
    checks.as_array().and_then(|all| all.iter().find(|check| check["name"] == name)).context("no such check")
}

#[test]
fn a_webhook_that_would_keep_nodes_out_holds_until_it_is_waived() {
    let name = "checks::a_webhook_that_would_keep_nodes_out_holds_until_it_is_waived";
    isolated(name, &["etcd", "kube-apiserver"], async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let adopted = fleet.run(&["adopt", "--yes"])?;
        ensure!(adopted.status.success(), "{adopted:?}");
        let (checks, exit) = fleet.checked()?;
        ensure!(exit == Some(0) && check(&checks, "webhooks")?["status"] == "pass", "{exit:?} {checks}");

        let hook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "policy"}, "webhooks": [{"name": "nodes.example.com", "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
                "clientConfig": {"service": {"namespace": "policy", "name": "hook"}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]}]}]});
        apply(&fleet.server.client().await?, &[hook]).await?;
        let (checks, exit) = fleet.checked()?;
        let webhooks = check(&checks, "webhooks")?;
        ensure!(exit == Some(3) && webhooks["status"] == "fail", "{exit:?} {checks}");
        let finding = &webhooks["findings"][0];
        assert_eq!(finding["object"], "ValidatingWebhookConfiguration policy");
        ensure!(finding["message"].to_string().contains("there is no Service policy/hook"), "{finding}");

        // The gate of the next rollout says the same, and holds nothing but what is not settled yet: that comes first.
        let bump = fleet.bundle.replace("v1.18.2+552744a", "v1.18.2+0123456");
        fleet.repository.push("Take cert-manager as it was built again", &[(BUNDLE, &bump)])?;
        let said = fleet.pass()?;
        ensure!(said.contains("check webhooks: webhook nodes.example.com"), "{said}");

        let waiver = "waivers:\n- {check: webhooks, object: ValidatingWebhookConfiguration/policy, reason: it moves, \
                      owner: security, expires: 9999-12-31}\n";
        let pushed = fleet.repository.push("Live with it", &[("stepgate.yaml", &format!("{POLICY}{waiver}"))])?;
        // Nobody who pushes waives what they push: the policy before says nothing of it.
        let (checks, exit) = fleet.checked()?;
        let webhooks = check(&checks, "webhooks")?;
        ensure!(exit == Some(3) && webhooks["status"] == "fail", "{exit:?} {checks}");
        let remedy = webhooks["findings"][0]["remedy"].to_string();
        ensure!(remedy.contains("it moves") && remedy.contains("--trust-policy"), "{remedy}");
        let said = fleet.pass()?;
        ensure!(said.contains("check webhooks"), "{said}");

        let trusting = ["--trust-policy", pushed.as_str()];
        let (checks, exit) = fleet.checked_with(&trusting)?;
        let webhooks = check(&checks, "webhooks")?;
        ensure!(exit == Some(0) && webhooks["status"] == "pass", "{exit:?} {checks}");
        let waived = &webhooks["waived"][0];
        assert_eq!((&waived["reason"], &waived["owner"]), (&json!("it moves"), &json!("security")));
        let said = fleet.pass_with(&trusting)?;
        ensure!(!said.contains("check webhooks"), "{said}");
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn what_a_release_says_holds_until_it_is_said_to_be_done() {
    let name = "checks::what_a_release_says_holds_until_it_is_said_to_be_done";
    isolated(name, &["etcd", "kube-apiserver"], async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let notes = "notes:\n- {name: acme, component: certManager, from: '1.18.3', says: our issuers break, \
                     remedy: renew them, blocking: true, source: 'https://wiki.example.com/acme'}\n\
                     - {name: later, component: certManager, from: '1.19', says: it is not told}\n";
        let noted = format!("{POLICY}{notes}");
        fleet.repository.push("Note what is known", &[("stepgate.yaml", &noted)])?;
        let adopted = fleet.run(&["adopt", "--yes"])?;
        ensure!(adopted.status.success(), "{adopted:?}");
        let (checks, _) = fleet.checked()?;
        ensure!(check(&checks, "release-notes")?["status"] == "pass", "{checks}");

        // Who bumps the version takes no note out with it.
        let bump = fleet.bundle.replace("v1.18.2+552744a", "v1.18.3+0123456");
        fleet.repository.push("Renew cert-manager", &[(BUNDLE, &bump), ("stepgate.yaml", POLICY)])?;
        let (checks, exit) = fleet.checked()?;
        let found = check(&checks, "release-notes")?;
        ensure!(exit == Some(3) && found["status"] == "fail", "{exit:?} {checks}");
        assert_eq!(found["findings"].as_array().map(Vec::len), Some(1), "{found}");
        let finding = &found["findings"][0];
        assert_eq!(finding["object"], "ReleaseNote acme");
        let message = finding["message"].to_string();
        ensure!(message.contains("v1.18.3") && message.contains("https://wiki.example.com/acme"), "{message}");
        ensure!(finding["remedy"].to_string().contains("renew them; once that is done"), "{finding}");
        let said = fleet.pass()?;
        ensure!(said.contains("ReleaseNote acme: check release-notes: certManager goes"), "{said}");

        let done =
            "waivers: [{check: release-notes, object: ReleaseNote/acme, reason: renewed, expires: 9999-12-31}]\n";
        let pushed = fleet.repository.push("They are renewed", &[("stepgate.yaml", &format!("{noted}{done}"))])?;
        let (checks, exit) = fleet.checked_with(&["--trust-policy", &pushed])?;
        let found = check(&checks, "release-notes")?;
        ensure!(exit == Some(0) && found["status"] == "pass", "{exit:?} {checks}");
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn images_of_the_plan_are_looked_for_in_their_registry() {
    let name = "checks::images_of_the_plan_are_looked_for_in_their_registry";
    isolated(name, &["etcd", "kube-apiserver", "registry"], async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let registry = Registry::start(&programs, &fleet.folder.path().join("registry"))?;
        let policy = format!("{POLICY}fetch: {{allow: ['{}']}}\n", registry.address());
        fleet.repository.push("Let the registry be asked", &[("stepgate.yaml", &policy)])?;
        let adopted = fleet.run(&["adopt", "--yes"])?;
        ensure!(adopted.status.success(), "{adopted:?}");
        let client = fleet.server.client().await?;
        let node = |name: &str, architecture: &str| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "status": {"nodeInfo": {"architecture": architecture, "operatingSystem": "linux", "bootID": "b",
                    "containerRuntimeVersion": "c", "kernelVersion": "k", "kubeProxyVersion": "", "kubeletVersion": "v1.36.0",
                    "machineID": "m", "osImage": "o", "systemUUID": "u"}}})
        };
        apply(&client, &[node("a", "amd64"), node("b", "arm64")]).await?;
        // An image comes with an overlay, at a digest that its registry may have or not.
        let wants = |image: &str| {
            let workload = format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: probe, namespace: cert-manager}}\nspec:\n  \
                 selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    spec: \
                 {{containers: [{{name: a, image: '{image}'}}]}}\n"
            );
            let overlay = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [probe.yaml]\n";
            let files = [
                ("overlays/cert-manager/kustomization.yaml", overlay),
                ("overlays/cert-manager/probe.yaml", workload.as_str()),
            ];
            fleet.repository.push("Probe it", &files)
        };
        let said = || -> anyhow::Result<(String, String)> {
            let (checks, _) = fleet.checked()?;
            let images = check(&checks, "images")?;
            let about = images["findings"].as_array().into_iter().flatten();
            let ours = about.filter(|finding| finding.to_string().contains("probe"));
            let told: Vec<String> = ours.map(ToString::to_string).collect();
            Ok((images["status"].as_str().unwrap_or_default().to_owned(), told.join("\n")))
        };
        let image = format!("{}/tools/probe", registry.address());
        wants(&format!("{image}:1"))?;
        let (status, told) = said()?;
        ensure!(
            status == "fail" && told.contains("there is no image") && told.contains("Deployment cert-manager/probe"),
            "{told}"
        );
        let digest = registry.push("tools/probe", "1", &["amd64"]).await?;
        wants(&format!("{image}:1@{digest}"))?;
        let (status, told) = said()?;
        ensure!(status == "fail" && told.contains("is for amd64 alone, and there are nodes of arm64"), "{told}");
        let digest = registry.push("tools/probe", "1", &["amd64", "arm64"]).await?;
        wants(&format!("{image}:1@{digest}"))?;
        let (status, told) = said()?;
        ensure!(status != "fail" && told.is_empty(), "{status}: {told}");
        // It is there, and a node could not pull it all the same.
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe-1", "namespace": "default"},
            "spec": {"nodeName": "a", "containers": [{"name": "a", "image": format!("{image}:1@{digest}")}]}});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}});
        apply(&client, &[account, pod]).await?;
        let waiting = json!({"status": {"containerStatuses": [{"name": "a", "image": image, "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}});
        let pods = Api::<Pod>::namespaced(client.clone(), "default");
        pods.patch_status("probe-1", &PatchParams::default(), &Patch::Merge(&waiting)).await?;
        let (status, told) = said()?;
        ensure!(status == "fail" && told.contains("could not be pulled on node a: ImagePullBackOff"), "{told}");
        pods.delete("probe-1", &DeleteParams::default().grace_period(0)).await?;
        drop(registry);
        let (checks, _) = fleet.checked()?;
        let images = check(&checks, "images")?;
        ensure!(
            images["status"] == "unknown" && images["findings"].to_string().contains("\"isAdvisory\":true"),
            "{images}"
        );
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn the_installed_identity_may_read_what_checks_look_at() {
    let name = "checks::the_installed_identity_may_read_what_checks_look_at";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let connection = install(&server, &server.client().await?).await?;
        let cluster = KubernetesCluster::management(connection, folder.path().join("backups"));
        let expectation = ChecksExpectation {
            cluster: Some(("eksa-system".to_owned(), "mgmt".to_owned())),
            // Everything that the server serves, and much that it does not any more.
            removed_apis: Some(RemovedApis { deployed: Some(25), target: 42, rendered: Vec::new() }),
            rolling: Some(RollingNodes { cluster: "mgmt".to_owned(), control_plane: true, groups: Vec::new() }),
            ..ChecksExpectation::default()
        };
        let request = ObserveRequest {
            expectations: vec![Expectation::Checks(expectation)],
            kustomizations: Vec::new(),
            deployed: Arc::default(),
            freshness: Freshness::Fresh,
            at: Timestamp::now(),
        };
        let inspection = cluster.observe(&request).await.inspection.context("nothing was inspected")?;
        ensure!(inspection.unread.is_empty(), "{inspection:?}");
        let unread = |used: &&ApiUse| matches!(used.kind, ApiUseKind::Unread { .. });
        ensure!(!inspection.api_uses.iter().any(|used| unread(&used)), "{inspection:?}");
        assert_eq!(refused(&server)?, Vec::<String>::new());
        folder.done();
        Ok(())
    });
}

/// What the deploy branch holds, as Flux has applied it.
const HELD: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - {name: manager, image: 'a.example/manager:1', resources: {requests: {cpu: 1000m}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {a: b}
";

/// What another tool has made, and the deploy branch wants otherwise.
const WANTED: &str = "\
apiVersion: v1
kind: Service
metadata: {name: manager, namespace: default}
spec: {selector: {a: b}, ports: [{port: 443, targetPort: 9443}]}
";

#[test]
fn what_somebody_changed_past_git_is_told_with_who_and_when() {
    let name = "checks::what_somebody_changed_past_git_is_told_with_who_and_when";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let installed = install(&server, &client).await?;
        let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
        let administrator = Connection::open(&source).await?;
        let path = "clusters/mgmt/capi/all.yaml";
        let said = async |connection: &Connection| -> anyhow::Result<Vec<String>> {
            let cluster = KubernetesCluster::management(connection.clone(), folder.path().join("backups"));
            let file = (domain::RepoPath::new(path)?, Arc::from(format!("{HELD}---\n{WANTED}").as_bytes()));
            let compared = vec![path.to_owned()];
            let request = ObserveRequest {
                expectations: vec![Expectation::Checks(ChecksExpectation { compared, ..ChecksExpectation::default() })],
                kustomizations: Vec::new(),
                deployed: Arc::new(DeployedObjects::new([file])),
                freshness: Freshness::Fresh,
                at: Timestamp::now(),
            };
            let inspection = cluster.observe(&request).await.inspection.context("nothing was inspected")?;
            ensure!(inspection.unread.is_empty(), "{inspection:?}");
            let told = inspection.drifts.iter().map(|drift| match &drift.kind {
                DriftKind::Gone => format!("{} gone", drift.object),
                DriftKind::Changed { fields, manager, at } => {
                    format!("{} {} by {manager} {}", drift.object, fields.join(" "), at.is_some())
                }
            });
            Ok(told.collect())
        };
        apply_as(&client, "kustomize-controller", &objects(HELD)?).await?;
        apply_as(&client, "kustomize-controller", &objects(WANTED)?).await?;
        for connection in [&installed, &administrator] {
            assert_eq!(said(connection).await?, Vec::<String>::new());
        }
        let edit = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
        let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
        deployments.patch("manager", &edit, &Patch::Merge(json!({"spec": {"replicas": 3}}))).await?;
        Api::<ConfigMap>::namespaced(client.clone(), "default").delete("settings", &DeleteParams::default()).await?;
        let services = Api::<k8s_openapi::api::core::v1::Service>::namespaced(client.clone(), "default");
        services.delete("manager", &DeleteParams::default()).await?;
        let other = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "manager", "namespace": "default"},
            "spec": {"selector": {"a": "b"}, "ports": [{"port": 443, "targetPort": 8443}]}});
        apply_as(&client, "helm", &[other]).await?;
        let everybody =
            ["Deployment default/manager spec.replicas by kubectl-edit true", "ConfigMap default/settings gone"];
        let mut told = said(&installed).await?;
        told.sort_by_key(|line| line.starts_with("ConfigMap"));
        assert_eq!(told, everybody);
        // Who may apply it learns what others made otherwise, too.
        let told = said(&administrator).await?;
        ensure!(everybody.iter().all(|line| told.contains(&(*line).to_owned())) && told.len() == 3, "{told:?}");
        let service = told.iter().find(|line| line.starts_with("Service default/manager")).context("no Service")?;
        ensure!(service.contains("spec.ports") && service.ends_with("by helm true"), "{service}");
        assert_eq!(refused(&server)?, Vec::<String>::new());
        folder.done();
        Ok(())
    });
}
