//! Probes on a real API server: webhooks by dry runs, and definitions with their stored versions.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use rollout::{Expectation, Observation, WebhookOutcome};
use serde_json::{Value, json};
use tests::servers::{Admission, ApiServer, ApiServerOptions, Folder, Webhook, isolated};
use tests::waiting::until;

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
    let reading = async || {
        let seen = observe(cluster, expected.clone()).await;
        Ok(seen.custom_resource_definitions.iter().any(|definition| definition.established).then_some(seen))
    };
    until(&format!("definition {name} is established"), reading).await
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
        let in_force = async || {
            probe("cert-manager-webhook").await?;
            Ok((!webhook.asked().is_empty()).then_some(()))
        };
        until("the configuration is in force", in_force).await?;
        for name in ["cert-manager-webhook", "capi-validating-webhook-configuration"] {
            webhook.say(Admission::Allow);
            // Until it is certain that a configuration is in force, nothing is concluded from it.
            let answered = async || Ok((probe(name).await? == WebhookOutcome::Answered).then_some(()));
            until(&format!("{name} answers"), answered).await?;
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

/// A webhook of the kind `Widget`, and whether a dry run can prove that it was called.
struct Variant {
    name: &'static str,
    more: Value,
    says: Admission,
    is_provable: bool,
}

fn variants() -> Vec<Variant> {
    let variant = |name, more, is_provable| Variant { name, more, says: Admission::Allow, is_provable };
    let team = |team: &str| json!({"namespaceSelector": {"matchLabels": {"team": team}}});
    let never = json!([{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "DoesNotExist"}]);
    let cluster_wide = json!([{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["*"], "scope": "Cluster"}]);
    vec![
        variant("plain", json!({}), true),
        variant("ignore", json!({"failurePolicy": "Ignore"}), false),
        Variant { says: Admission::Silence, ..variant("silent", json!({"failurePolicy": "Ignore"}), false) },
        variant("conditions", json!({"matchConditions": [{"name": "never", "expression": "false"}]}), false),
        variant("no-namespace", team("nobody"), false),
        variant("one-namespace", team("b"), true),
        variant("labels", json!({"objectSelector": {"matchLabels": {"checked": "yes"}}}), true),
        variant("no-labels", json!({"objectSelector": {"matchExpressions": never}}), false),
        variant("scope", json!({"rules": cluster_wide}), false),
    ]
}

#[test]
fn a_call_is_claimed_only_of_webhooks_that_were_called() {
    isolated("probing::a_call_is_claimed_only_of_webhooks_that_were_called", NEEDED, async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let (client, cluster) = (server.client().await?, start(&server).await?);
        let definitions = api(&client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", None);
        let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        create(&definitions, definition("example.com", "Widget", "widgets", &[("v1", true)], &any)).await?;
        established(&cluster, "widgets.example.com").await?;
        let namespaces = api(&client, "v1", "Namespace", None);
        create(
            &namespaces,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b", "labels": {"team": "b"}}}),
        )
        .await?;
        let hooks = api(&client, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", None);
        let configuration = |name: &str, config: Value, more: &Value| {
            let mut hook = json!({"name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 1, "clientConfig": config,
                "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE", "UPDATE"]}]});
            hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": name}, "webhooks": [hook]})
        };
        let mut started = Vec::new();
        for variant in variants() {
            let webhook = Webhook::start(server.authority()).await?;
            webhook.say(variant.says);
            let config = json!({"url": webhook.url(), "caBundle": STANDARD.encode(server.authority().certificate())});
            create(&hooks, configuration(variant.name, config, &variant.more)).await?;
            started.push((variant, webhook));
        }
        let service = json!({"service": {"namespace": "team-b", "name": "hook"}});
        create(&hooks, configuration("service", service, &json!({"failurePolicy": "Ignore"}))).await?;
        let probe = async |name: &str| {
            let seen = observe(&cluster, Expectation::Webhook { name: name.to_owned() }).await;
            seen.webhooks.into_iter().next().map(|probe| probe.outcome).with_context(|| format!("{:?}", seen.unread))
        };
        let is_recent = |outcome: &WebhookOutcome| matches!(outcome, WebhookOutcome::Unproven { message } if message.contains("only just changed"));
        let in_force = async || Ok((!is_recent(&probe("service").await?)).then_some(()));
        until("the last configuration is in force", in_force).await?;
        for (variant, webhook) in &started {
            let before = webhook.asked().len();
            let outcome = probe(variant.name).await?;
            let is_called = webhook.asked().len() > before;
            assert_eq!(outcome == WebhookOutcome::Answered, variant.is_provable, "{}: {outcome:?}", variant.name);
            assert!(is_called || outcome != WebhookOutcome::Answered, "{} was not called: {outcome:?}", variant.name);
        }

        // Behind a Service there is something to look at.
        let services = api(&client, "v1", "Service", Some("team-b"));
        create(&services, json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}})).await?;
        let none = probe("service").await?;
        assert!(
            matches!(&none, WebhookOutcome::Unproven { message } if message.contains("no endpoint that is ready")),
            "{none:?}"
        );
        let slices = api(&client, "discovery.k8s.io/v1", "EndpointSlice", Some("team-b"));
        create(&slices, json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
            "ports": [{"name": "", "port": 9443}], "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}]})).await?;
        let ready = probe("service").await?;
        assert!(matches!(ready, WebhookOutcome::Serving { endpoints: 1, .. }), "{ready:?}");
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
