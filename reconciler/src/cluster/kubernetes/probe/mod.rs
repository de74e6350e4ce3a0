//! Whether an admission webhook answers: a dry-run request that has to pass through it.
//!
//! An object that exists is the best probe, as it satisfies its schema: it is changed by a dry run. Where there is none, one is made up
//! and created by a dry run. Nothing is kept of either.

use rollout::WebhookOutcome;
use serde_json::{Value, json};

use super::connection::Connection;
use super::error::RequestError;
use super::kind::{CUSTOM_RESOURCE_DEFINITION, MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION};
use super::request::{Address, Selection};
use super::specimen::specimen;

/// At most this many resources of one configuration are tried.
const TRIES: usize = 4;

/// Name and namespace of made-up objects.
const PROBE: &str = "stepgate-probe";
const NAMESPACE: &str = "default";

/// A resource that a webhook is called for.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    api_version: String,
    plural: String,
    create: bool,
    update: bool,
}

/// What one request tells.
enum Told {
    Outcome(WebhookOutcome),
    /// Nothing: the request did not come as far as the webhook, for this reason.
    Nothing(String),
}

/// Calls the webhooks of the configuration of this name, whether they check or change.
pub(super) async fn probe(connection: &Connection, name: &str) -> Result<WebhookOutcome, RequestError> {
    let mut last = String::from("no webhook configuration of this name");
    for (kind, mutating) in [(VALIDATING_WEBHOOK_CONFIGURATION, false), (MUTATING_WEBHOOK_CONFIGURATION, true)] {
        let Some(configuration) = connection.get(&kind.resource("v1"), None, name).await? else { continue };
        last = String::from("no resource of its rules can be used to call it");
        for target in targets(&configuration.data).into_iter().take(TRIES) {
            match probe_target(connection, &target, mutating).await? {
                Told::Outcome(outcome) => return Ok(outcome),
                Told::Nothing(reason) => last = reason,
            }
        }
    }
    Ok(WebhookOutcome::Refused { message: last })
}

/// The resources of a configuration's rules that are named in full, in their order.
fn targets(configuration: &Value) -> Vec<Target> {
    let list = |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let texts = |value: &Value, key: &str| -> Vec<String> {
        list(value, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut targets = Vec::new();
    for rule in list(configuration, "webhooks").iter().flat_map(|webhook| list(webhook, "rules")) {
        let operations = texts(&rule, "operations");
        let allows = |operation: &str| operations.iter().any(|known| known == operation || known == "*");
        let (create, update) = (allows("CREATE"), allows("UPDATE"));
        for group in texts(&rule, "apiGroups") {
            for version in texts(&rule, "apiVersions") {
                for plural in texts(&rule, "resources") {
                    let plural = plural.trim_end_matches("/*").to_owned();
                    let is_exact = ![&group, &version, &plural].into_iter().any(|part| part.contains('*'));
                    if is_exact && !plural.contains('/') && (create || update) {
                        let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
                        targets.push(Target { api_version, plural, create, update });
                    }
                }
            }
        }
    }
    targets
}

async fn probe_target(connection: &Connection, target: &Target, mutating: bool) -> Result<Told, RequestError> {
    let Some(address) = connection.address_of_plural(&target.api_version, &target.plural).await? else {
        return Ok(Told::Nothing(format!("{} of {} is not served", target.plural, target.api_version)));
    };
    let mut told = Told::Nothing(format!("there is no {} to change", address.resource.kind));
    if target.update {
        told = change(connection, &address).await?;
    }
    if target.create && matches!(told, Told::Nothing(_)) {
        let namespace = address.namespaced.then_some(NAMESPACE);
        let created = connection.create_dry_run(&address.resource, namespace, &made_up(&address)).await;
        told = tell(created, mutating)?;
        // What is known of a kind is not enough: its definition knows better.
        if matches!(told, Told::Nothing(_))
            && let Some(object) = of_definition(connection, &address).await?
        {
            told = tell(connection.create_dry_run(&address.resource, namespace, &object).await, mutating)?;
        }
    }
    Ok(told)
}

async fn change(connection: &Connection, address: &Address) -> Result<Told, RequestError> {
    let resource = &address.resource;
    let attempt = format!("list one {} for a probe", resource.kind);
    let selection = Selection { at_most: Some(1), ..Selection::default() };
    let found = connection.list_resource(resource, None, selection, &attempt).await?;
    let Some(object) = found.first() else {
        return Ok(Told::Nothing(format!("there is no {} to change", resource.kind)));
    };
    let patch = json!({"metadata": {"annotations": {"stepgate.dev/probe": "dry-run"}}});
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let namespace = object.metadata.namespace.as_deref();
    tell(connection.merge(resource, namespace, name, &patch, true).await.map(drop), false)
}

/// What the answer to a dry run tells of the webhook. The words are those of the API server's admission.
fn tell(answer: Result<(), RequestError>, mutating: bool) -> Result<Told, RequestError> {
    let error = match answer {
        Ok(()) => return Ok(Told::Outcome(WebhookOutcome::Answered)),
        Err(error) => error,
    };
    let message = match &error {
        RequestError::Forbidden { message, .. }
        | RequestError::Conflict { message, .. }
        | RequestError::Refused { message, .. }
        | RequestError::Unavailable { message, .. } => message.clone(),
        _ => return Err(error),
    };
    if message.contains("failed calling webhook") || message.contains("failed to call webhook") {
        return Ok(Told::Outcome(WebhookOutcome::Unreachable { message }));
    }
    if message.contains("admission webhook") && message.contains("denied the request") {
        return Ok(Told::Outcome(WebhookOutcome::Answered));
    }
    match error {
        // The schema is checked after the webhooks that change an object and before those that check it.
        RequestError::Refused { code: 422, .. } if mutating => Ok(Told::Outcome(WebhookOutcome::Answered)),
        RequestError::Refused { .. } | RequestError::Conflict { .. } => Ok(Told::Nothing(message)),
        // A missing verb or a server in trouble says nothing of the webhook, and the reading has to say so.
        _ => Err(error),
    }
}

/// An object that its schema allows, for the kinds that a management cluster always has; for others an empty one.
fn made_up(address: &Address) -> Value {
    let resource = &address.resource;
    let spec = match (resource.group.as_str(), resource.kind.as_str()) {
        ("cert-manager.io", "Certificate") => {
            json!({"secretName": PROBE, "dnsNames": ["probe.stepgate.invalid"], "issuerRef": {"name": PROBE}})
        }
        ("cert-manager.io", "Issuer" | "ClusterIssuer") => json!({"selfSigned": {}}),
        ("cluster.x-k8s.io", "Cluster") => json!({"clusterNetwork": {"pods": {"cidrBlocks": ["192.0.2.0/24"]}}}),
        _ => json!({}),
    };
    json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": PROBE}, "spec": spec})
}

/// An object with everything that the definition of its kind requires; none for kinds without a definition.
async fn of_definition(connection: &Connection, address: &Address) -> Result<Option<Value>, RequestError> {
    let resource = &address.resource;
    if resource.group.is_empty() {
        return Ok(None);
    }
    let name = format!("{}.{}", resource.plural, resource.group);
    let definition = connection.get(&CUSTOM_RESOURCE_DEFINITION.resource("v1"), None, &name).await?;
    let specimen = definition.and_then(|definition| specimen(&definition.data, &resource.version));
    Ok(specimen.map(|mut object| {
        object.insert("apiVersion".to_owned(), json!(resource.api_version));
        object.insert("kind".to_owned(), json!(resource.kind));
        object.insert("metadata".to_owned(), json!({"name": PROBE}));
        Value::Object(object)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str) -> RequestError {
        RequestError::Refused {
            attempt: String::from("create"),
            server: String::from("s"),
            code,
            message: message.to_owned(),
        }
    }

    #[test]
    fn answers_of_the_admission_chain_are_told_apart() {
        let unavailable = |message: &str| RequestError::Unavailable {
            attempt: String::from("create"),
            server: String::from("s"),
            code: 500,
            message: message.to_owned(),
        };
        let denied = "admission webhook \"webhook.cert-manager.io\" denied the request: spec.dnsNames: Required value";
        let down = "Internal error occurred: failed calling webhook \"webhook.cert-manager.io\": connection refused";
        for (answer, mutating, expected) in [
            (Ok(()), false, "answered"),
            (Err(refused(400, denied)), false, "answered"),
            (Err(unavailable(down)), false, "unreachable"),
            (Err(refused(422, "Certificate is invalid: spec: Required value")), false, "nothing"),
            (Err(refused(422, "Certificate is invalid: spec: Required value")), true, "answered"),
            (Err(unavailable("etcdserver: request timed out")), false, "error"),
            (Err(refused(404, "namespace not found")), false, "nothing"),
        ] {
            let text = format!("{answer:?}");
            let told = match tell(answer, mutating) {
                Ok(Told::Outcome(WebhookOutcome::Answered)) => "answered",
                Ok(Told::Outcome(WebhookOutcome::Unreachable { .. })) => "unreachable",
                Ok(Told::Outcome(WebhookOutcome::Refused { .. })) => "refused",
                Ok(Told::Nothing(_)) => "nothing",
                Err(_) => "error",
            };
            assert_eq!(told, expected, "{text} mutating {mutating}");
        }
    }

    #[test]
    fn only_resources_that_are_named_in_full_are_tried() {
        let rule = |groups: Value, resources: Value, operations: Value| json!({"apiGroups": groups, "apiVersions": ["v1"], "resources": resources, "operations": operations});
        let configuration = json!({"webhooks": [
            {"rules": [rule(json!(["*"]), json!(["pods"]), json!(["CREATE"])), rule(json!(["a.b"]), json!(["*/*"]), json!(["*"]))]},
            {"rules": [rule(json!(["a.b"]), json!(["things", "things/status"]), json!(["CREATE", "UPDATE"]))]},
            {"rules": [rule(json!([""]), json!(["pods"]), json!(["DELETE"])), rule(json!([""]), json!(["nodes"]), json!(["*"]))]},
            {}
        ]});
        let seen: Vec<_> = targets(&configuration)
            .into_iter()
            .map(|target| (target.api_version, target.plural, target.create, target.update))
            .collect();
        assert_eq!(
            seen,
            [("a.b/v1".into(), "things".into(), true, true), ("v1".into(), String::from("nodes"), true, true)]
        );
    }
}
