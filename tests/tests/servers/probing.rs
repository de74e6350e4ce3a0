//! Probes on a real API server: webhooks by dry runs, and definitions with their stored versions.

use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use rollout::{Expectation, Observation, WebhookOutcome};
use serde_json::{Value, json};
use stepgate::cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use stepgate::cluster::{Cluster as _, Freshness, ObserveRequest};
use tests::servers::{Admission, ApiServer, ApiServerOptions, Folder, Webhook, isolated};

const NEEDED: &[&str] = &["etcd", "kube-apiserver"];

fn api(client: &Client, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn create(api: &Api<DynamicObject>, object: Value) -> anyhow::Result<()> {
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

fn definition(group: &str, kind: &str, plural: &str, versions: &[(&str, bool)], spec: &Value) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(version, storage)| {
            json!({"name": version, "served": true, "storage": storage,
                "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": spec}}}})
        })
        .collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "versions": versions,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")}}})
}

async fn observe(cluster: &KubernetesCluster, expectation: Expectation) -> Observation {
    let (expectations, kustomizations) = (vec![expectation], Vec::new());
    cluster
        .observe(&ObserveRequest {
            expectations,
            kustomizations,
            deployed: std::sync::Arc::default(),
            freshness: Freshness::Fresh,
            at: Timestamp::now(),
        })
        .await
}

async fn start(server: &ApiServer) -> anyhow::Result<KubernetesCluster> {
    let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
    Ok(KubernetesCluster::management(Connection::open(&source).await?, server.folder().join("backups")))
}

async fn established(cluster: &KubernetesCluster, name: &str) -> anyhow::Result<Observation> {
    let expected =
        Expectation::CustomResourceDefinition { name: name.to_owned(), served: Vec::new(), storage: String::new() };
    let reading = async {
        loop {
            let seen = observe(cluster, expected.clone()).await;
            if seen.custom_resource_definitions.iter().any(|definition| definition.established) {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.context("the definition is not established")
}

#[test]
fn a_webhook_is_called_by_a_dry_run_and_its_silence_is_no_answer() {
    isolated("probing::a_webhook_is_called_by_a_dry_run_and_its_silence_is_no_answer", NEEDED, async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let (client, cluster) = (server.client().await?, start(&server).await?);
        let definitions = api(&client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", None);
        // What the schemas of the real ones demand of a Certificate and of a Cluster.
        let certificate = json!({"type": "object", "required": ["secretName", "issuerRef"],
            "properties": {"secretName": {"type": "string"}, "dnsNames": {"type": "array", "items": {"type": "string"}},
                "issuerRef": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}});
        let any = json!({"type": "object", "minProperties": 1, "x-kubernetes-preserve-unknown-fields": true});
        for (group, kind, plural, version, spec) in [
            ("cert-manager.io", "Certificate", "certificates", "v1", &certificate),
            ("cluster.x-k8s.io", "Cluster", "clusters", "v1beta2", &any),
        ] {
            create(&definitions, definition(group, kind, plural, &[(version, true)], spec)).await?;
            established(&cluster, &format!("{plural}.{group}")).await?;
        }
        let webhook = Webhook::start(server.authority()).await?;
        let hooks = api(&client, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", None);
        for (name, group, plural, version) in [
            ("cert-manager-webhook", "cert-manager.io", "certificates", "v1"),
            ("capi-validating-webhook-configuration", "cluster.x-k8s.io", "clusters", "v1beta2"),
        ] {
            create(&hooks, json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": name}, "webhooks": [{"name": format!("{plural}.{group}"), "sideEffects": "None",
                    "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
                    "clientConfig": {"url": webhook.url(), "caBundle": STANDARD.encode(server.authority().certificate())},
                    "rules": [{"apiGroups": [group], "apiVersions": [version], "resources": [plural], "operations": ["CREATE", "UPDATE"]}]}]}))
            .await?;
        }
        let probe = async |name: &str| {
            let seen = observe(&cluster, Expectation::Webhook { name: name.to_owned() }).await;
            seen.webhooks.into_iter().next().map(|probe| probe.outcome).with_context(|| format!("{:?}", seen.unread))
        };
        // A configuration takes a moment to be in force; until then nothing calls the webhook.
        let in_force = async {
            while webhook.asked().is_empty() {
                probe("cert-manager-webhook").await?;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(Duration::from_secs(60), in_force).await??;
        for name in ["cert-manager-webhook", "capi-validating-webhook-configuration"] {
            webhook.say(Admission::Allow);
            assert_eq!(probe(name).await?, WebhookOutcome::Answered, "{name}");
            webhook.say(Admission::Deny);
            assert_eq!(probe(name).await?, WebhookOutcome::Answered, "{name}");
            webhook.say(Admission::Silence);
            let silent = probe(name).await?;
            assert!(
                matches!(&silent, WebhookOutcome::Unreachable { message } if message.contains("failed calling webhook")),
                "{silent:?}"
            );
        }
        let asked = webhook.asked();
        assert!(asked.iter().all(|review| review["request"]["dryRun"] == true), "{asked:?}");
        assert!(asked.iter().any(|review| review["request"]["kind"]["kind"] == "Cluster"), "{asked:?}");
        drop(webhook);
        let gone = probe("cert-manager-webhook").await?;
        assert!(matches!(&gone, WebhookOutcome::Unreachable { .. }), "{gone:?}");
        // Of all that nothing was kept.
        for (api_version, kind) in [("cert-manager.io/v1", "Certificate"), ("cluster.x-k8s.io/v1beta2", "Cluster")] {
            assert_eq!(api(&client, api_version, kind, None).list(&ListParams::default()).await?.items.len(), 0);
        }
        folder.done();
        Ok(())
    });
}

#[test]
fn a_definition_is_read_with_the_versions_that_objects_are_stored_in() {
    isolated("probing::a_definition_is_read_with_the_versions_that_objects_are_stored_in", NEEDED, async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let (client, cluster) = (server.client().await?, start(&server).await?);
        let definitions = api(&client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", None);
        let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let of = |versions: &[(&str, bool)]| definition("example.com", "Widget", "widgets", versions, &any);
        create(&definitions, of(&[("v1alpha1", true)])).await?;
        established(&cluster, "widgets.example.com").await?;
        let newer = of(&[("v1alpha1", false), ("v1", true)]);
        definitions.patch("widgets.example.com", &PatchParams::default(), &Patch::Merge(newer)).await?;
        let seen = established(&cluster, "widgets.example.com").await?;
        let read = &seen.custom_resource_definitions[0];
        assert_eq!(read.storage_version.as_deref(), Some("v1"));
        // Objects of before may lie in the older version still: it must not be dropped.
        assert_eq!(read.stored_versions, ["v1alpha1", "v1"]);
        assert_eq!(read.served_versions, ["v1alpha1", "v1"]);
        folder.done();
        Ok(())
    });
}
