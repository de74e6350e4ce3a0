//! What is read for checks.

use policy::CheckName;
use rollout::{ChecksExpectation, Inspection, SystemRequest};

use super::*;
use crate::client::server::Answer;

const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

fn rule(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["*"], "resources": [resource]})
}

fn configuration(name: &str, hook: &Value) -> Value {
    let mut whole = json!({"name": format!("{name}.example.com"),
        "clientConfig": {"service": {"namespace": "policy", "name": "hook"}}});
    whole.as_object_mut().unwrap().extend(hook.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "webhooks": [whole]})
}

fn with(configurations: &[Value]) -> Script {
    served().list("/api/v1/nodes", &[node("a")]).list(VALIDATING, configurations).list(MUTATING, &[])
}

async fn inspected(script: Script) -> (Inspection, ApiServer) {
    let cluster = Some(("eksa-system".to_owned(), "prod".to_owned()));
    let expectation = ChecksExpectation { cluster, waivers: Vec::new() };
    let (observation, server) = observe(script, vec![Expectation::Checks(expectation)]).await;
    (observation.inspection.unwrap(), server)
}

#[tokio::test]
async fn webhooks_are_told_that_refuse_nodes_and_system_pods_while_silent() {
    use SystemRequest::{CertificateSigningRequest, Node, NodeLease, SystemLease, SystemPod};
    let not_system = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn",
        "values": ["kube-system", "kube-node-lease"]}]});
    for (hook, expected) in [
        (json!({"rules": [rule("", "nodes")]}), vec![Node]),
        (json!({"rules": [rule("", "pods")]}), vec![SystemPod]),
        (json!({"rules": [rule("coordination.k8s.io", "leases")]}), vec![NodeLease, SystemLease]),
        (json!({"rules": [rule("*", "*")]}), vec![Node, CertificateSigningRequest, NodeLease, SystemPod, SystemLease]),
        // A selector of namespaces leaves nothing out that has none.
        (json!({"rules": [rule("*", "*")], "namespaceSelector": not_system}), vec![Node, CertificateSigningRequest]),
        (json!({"rules": [rule("", "pods")], "namespaceSelector": not_system}), vec![]),
        (json!({"rules": [rule("", "pods")], "objectSelector": {"matchLabels": {"a": "b"}}}), vec![]),
        (json!({"rules": [rule("", "nodes")], "failurePolicy": "Ignore"}), vec![]),
        (json!({"rules": [rule("apps", "deployments")]}), vec![]),
    ] {
        let (inspection, _server) = inspected(with(&[configuration("policy", &hook)])).await;
        assert_eq!(inspection.unread, std::collections::BTreeMap::new(), "{hook}");
        let called = inspection.webhooks.first().map(|known| known.called_for.clone()).unwrap_or_default();
        assert_eq!(called, expected, "{hook}");
        if let Some(known) = inspection.webhooks.first() {
            assert_eq!(known.unserved.as_deref(), Some("there is no Service policy/hook"), "{hook}");
        }
    }
}

#[tokio::test]
async fn a_webhook_that_is_served_is_told_as_such() {
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
    let slice = json!({"metadata": {"name": "hook-1"}, "ports": [{"port": 8443}],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}]});
    let hook = json!({"rules": [rule("", "nodes")], "matchConditions": [{"name": "a", "expression": "true"}]});
    let script = with(&[configuration("policy", &hook)])
        .object("/api/v1/namespaces/policy/services/hook", service)
        .list("/apis/discovery.k8s.io/v1/namespaces/policy/endpointslices", &[slice]);
    let (inspection, _server) = inspected(script).await;
    let known = &inspection.webhooks[0];
    assert_eq!((known.unserved.as_deref(), known.conditional), (None, true));
    assert_eq!(known.backend, "Service policy/hook");
}

#[tokio::test]
async fn what_may_not_be_read_is_unknown_to_its_checks() {
    let forbidden = Answer::Error(403, "webhooks are forbidden");
    let (inspection, _server) = inspected(with(&[]).on(&format!("GET {MUTATING}"), forbidden)).await;
    for check in [CheckName::Webhooks, CheckName::Certificates] {
        let reason = &inspection.unread[&check];
        assert!(reason.contains("list mutatingwebhookconfigurations"), "{reason}");
    }
    let secret = "GET /api/v1/namespaces/eksa-system/secrets/prod-ca";
    let (inspection, server) = inspected(with(&[]).on(secret, Answer::Error(403, "secrets are forbidden"))).await;
    assert!(inspection.unread[&CheckName::Certificates].contains("get Secret eksa-system/prod-ca"));
    assert_eq!(inspection.unread.get(&CheckName::Webhooks), None);
    // Nobody has to be allowed to list Secrets.
    assert!(server.lines().iter().all(|line| !line.ends_with("/secrets")), "{:?}", server.lines());
}
