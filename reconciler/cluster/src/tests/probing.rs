//! Probes of admission webhooks: what proves that one was called, and what is looked at where nothing does.

use fake_api_server::ServedKind;
use rollout::WebhookOutcome;

use super::*;
use crate::client::server::Answer;

const NAME: &str = "cert-manager-webhook";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/cert-manager-webhook";
const CERTIFICATES: &str = "/apis/cert-manager.io/v1/certificates";
const CREATED: &str = "POST /apis/cert-manager.io/v1/namespaces/default/certificates";
const SERVING: &str = "/apis/cert-manager.io/v1/namespaces/capi-system/certificates/serving";
const SERVICE: &str = "/api/v1/namespaces/cert-manager/services/webhook";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/cert-manager/endpointslices";

/// A configuration with one webhook that has these fields besides.
fn configuration(more: &Value) -> Value {
    let mut hook = json!({"name": "webhook.cert-manager.io",
        "clientConfig": {"service": {"namespace": "cert-manager", "name": "webhook"}, "caBundle": "Zm9v"},
        "rules": [{"apiGroups": ["cert-manager.io"], "apiVersions": ["v1"], "resources": ["certificates"], "operations": ["CREATE", "UPDATE"]}]});
    hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": NAME, "creationTimestamp": "2026-01-01T00:00:00Z"}, "webhooks": [hook]})
}

fn with(configuration: &Value, certificates: &[Value]) -> Script {
    let certificate = ServedKind::custom("cert-manager.io/v1", "Certificate", "certificates");
    served().keeps(certificate).object(VALIDATING, configuration.clone()).list(CERTIFICATES, certificates)
}

/// The Service behind the webhook, with endpoints that are ready or not.
fn behind(script: Script, ready: &[bool]) -> Script {
    let endpoint = |ready: &bool| json!({"addresses": ["10.1.0.1"], "conditions": {"ready": ready}});
    let endpoints: Vec<Value> = ready.iter().map(endpoint).collect();
    let slice =
        json!({"metadata": {"name": "webhook-1"}, "ports": [{"name": "https", "port": 10250}], "endpoints": endpoints});
    script
        .object(SERVICE, json!({"metadata": {"name": "webhook"}, "spec": {"ports": [{"name": "https", "port": 443}]}}))
        .list(SLICES, &[slice])
}

async fn probe(script: Script) -> (WebhookOutcome, ApiServer) {
    let (observation, server) = observe(script, vec![Expectation::Webhook { name: NAME.to_owned() }]).await;
    let [probe] = observation.webhooks.as_slice() else { panic!("{observation:?}") };
    (probe.outcome.clone(), server)
}

#[track_caller]
fn assert_unproven(outcome: &WebhookOutcome, words: &[&str]) {
    let WebhookOutcome::Unproven { message } = outcome else { panic!("{outcome:?}") };
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
}

#[tokio::test]
async fn webhooks_are_probed_by_dry_runs_alone() {
    let existing = [json!({"metadata": {"name": "serving", "namespace": "capi-system"}})];
    let down = Answer::Error(
        500,
        "Internal error occurred: failed calling webhook \"webhook.cert-manager.io\": connection refused",
    );
    let denied = Answer::Error(403, "admission webhook \"webhook.cert-manager.io\" denied the request: no");
    let plain = configuration(&json!({}));

    let (outcome, server) = probe(with(&plain, &existing).holds(SERVING, json!({}))).await;
    assert_eq!(outcome, WebhookOutcome::Answered);
    assert!(server.asked().iter().any(|asked| asked.method == "PATCH" && asked.query.contains("dryRun=All")));
    let (outcome, server) = probe(with(&plain, &[]).on(CREATED, denied)).await;
    assert_eq!(outcome, WebhookOutcome::Answered);
    assert!(server.asked().iter().any(|asked| asked.method == "POST" && asked.query.contains("dryRun=All")));
    let (outcome, _server) = probe(with(&plain, &[]).on(CREATED, down)).await;
    assert!(matches!(&outcome, WebhookOutcome::Unreachable { message } if message.contains("connection refused")));
    let (outcome, _server) = probe(served()).await;
    assert_unproven(&outcome, &["no webhook configuration"]);
    let forbidden = with(&plain, &[]).on(CREATED, Answer::Error(403, "certificates is forbidden"));
    let (observation, _server) = observe(forbidden, vec![Expectation::Webhook { name: NAME.to_owned() }]).await;
    assert!(observation.unread["Webhook"].contains("grant that verb"), "{observation:?}");
}

#[tokio::test]
async fn a_request_that_passes_without_a_call_is_no_answer_and_endpoints_are_looked_at() {
    for (more, reason) in [
        (json!({"failurePolicy": "Ignore"}), "failurePolicy Ignore"),
        (json!({"matchConditions": [{"name": "a", "expression": "false"}]}), "matchConditions"),
        (
            json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": [""]}, {"key": "a", "operator": "Exists"}]}}),
            "leave the probe out",
        ),
        (json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}), "there is no Certificate to change"),
        (
            json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]}),
            "no resource of its rules",
        ),
    ] {
        let configuration = configuration(&more);
        let script = || {
            with(&configuration, &[])
                .object("/api/v1/namespaces/default", json!({"metadata": {"name": "default"}}))
                .list("/api/v1/namespaces", &[])
        };
        let (outcome, _server) = probe(behind(script(), &[true, false, true])).await;
        let WebhookOutcome::Serving { endpoints, reason: said } = &outcome else { panic!("{more}: {outcome:?}") };
        assert!(*endpoints == 2 && said.contains(reason), "{more}: {outcome:?}");
        let (outcome, _server) = probe(behind(script(), &[false])).await;
        assert_unproven(&outcome, &["Service cert-manager/webhook has no endpoint that is ready", reason]);
        let (outcome, _server) = probe(script()).await;
        assert_unproven(&outcome, &["there is no Service cert-manager/webhook", reason]);
    }
}

#[tokio::test]
async fn selectors_are_met_where_they_can_be_and_the_call_is_proven() {
    let selectors = json!({"objectSelector": {"matchLabels": {"checked": "yes"}}, "namespaceSelector": {"matchLabels": {"team": "a"}}});
    let script = with(&configuration(&selectors), &[])
        .object("/api/v1/namespaces/default", json!({"metadata": {"name": "default"}}))
        .list("/api/v1/namespaces", &[json!({"metadata": {"name": "team-a", "labels": {"team": "a"}}})]);
    let (outcome, server) = probe(script).await;
    assert_eq!(outcome, WebhookOutcome::Answered);
    let asked = server.asked();
    let created = asked.iter().find(|asked| asked.method == "POST").unwrap();
    assert_eq!(created.body["metadata"]["labels"], json!({"checked": "yes"}));
    assert!(
        asked.iter().any(|asked| asked.path == "/api/v1/namespaces" && asked.query.contains("labelSelector=team%3Da")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn each_program_behind_a_configuration_has_to_answer() {
    let mut two = configuration(&json!({}));
    let mut other = two["webhooks"][0].clone();
    other["name"] = json!("other.cert-manager.io");
    other["failurePolicy"] = json!("Ignore");
    other["clientConfig"]["service"]["name"] = json!("other");
    two["webhooks"].as_array_mut().unwrap().push(other);
    let script = || with(&two, &[]);
    let (outcome, _server) = probe(script()).await;
    assert_unproven(&outcome, &["there is no Service cert-manager/other"]);
    // One of the same program as a webhook that was called needs no call of its own.
    two["webhooks"][1]["clientConfig"]["service"]["name"] = json!("webhook");
    let (outcome, _server) = probe(with(&two, &[])).await;
    assert_eq!(outcome, WebhookOutcome::Answered);
}

#[tokio::test]
async fn an_authority_that_is_still_missing_is_named_with_who_writes_it() {
    let mut ignored = configuration(&json!({"failurePolicy": "Ignore"}));
    ignored["webhooks"][0]["clientConfig"].as_object_mut().unwrap().remove("caBundle");
    ignored["metadata"]["annotations"] = json!({"cert-manager.io/inject-ca-from": "cert-manager/webhook"});
    let (outcome, _server) = probe(behind(with(&ignored, &[]), &[true])).await;
    assert_unproven(&outcome, &["caBundle of webhook.cert-manager.io is empty", "cainjector"]);
}

#[tokio::test]
async fn what_was_configured_a_moment_ago_is_waited_for() {
    let mut recent = configuration(&json!({}));
    recent["metadata"]["creationTimestamp"] = json!("2026-03-01T11:59:58Z");
    let (outcome, server) = probe(with(&recent, &[])).await;
    assert_unproven(&outcome, &["only just changed"]);
    assert!(server.asked().iter().all(|asked| asked.method == "GET"));
}

#[tokio::test]
async fn a_webhook_at_an_address_of_its_own_has_to_be_called() {
    let at_url =
        configuration(&json!({"clientConfig": {"url": "https://hooks.example.com/"}, "failurePolicy": "Ignore"}));
    let (outcome, _server) = probe(with(&at_url, &[])).await;
    assert_unproven(
        &outcome,
        &["whether https://hooks.example.com/ answers only a call can tell", "failurePolicy Ignore"],
    );
    let at_url = configuration(&json!({"clientConfig": {"url": "https://hooks.example.com/"}}));
    let (outcome, _server) = probe(with(&at_url, &[])).await;
    assert_eq!(outcome, WebhookOutcome::Answered);
}
