//! Whether an admission webhook answers: a dry-run request that cannot be accepted without a call of it, else the endpoints behind it.
//!
//! An object that exists is the best probe, as it satisfies its schema: it is changed by a dry run. Where there is none, one is made up
//! and created by a dry run. Nothing is kept of either.
//!
//! Architecture Invariant: what proves nothing is no evidence. A webhook counts as called only
//! where a dry run cannot have been accepted without it, or was denied by it; else the endpoints
//! behind it are looked at.

mod answer;
mod endpoints;
mod hook;
mod minimal_object;
mod system;

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::DynamicObject;
use rollout::WebhookOutcome;
use serde_json::{Value, json};

use self::answer::{AdmissionAnswer, tell};
use self::hook::{Admission, Backend, Hook, Labels, Operation, Target};
use self::minimal_object::specimen;
pub(crate) use self::system::called_for_system;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{
    CUSTOM_RESOURCE_DEFINITION, MUTATING_WEBHOOK_CONFIGURATION, NAMESPACE, VALIDATING_WEBHOOK_CONFIGURATION,
};
use crate::client::request::{Address, Selection};
use crate::objects;

/// At most this many resources are tried for what serves a webhook.
const TRIES: usize = 4;

/// Name and namespace of made-up objects.
const PROBE: &str = "stepgate-probe";
const PLACE: &str = "default";

/// What serves webhooks and has not been called yet.
struct Open {
    tries: usize,
    /// Why nothing proves that it was.
    reason: String,
}

/// Calls the webhooks of the configurations of this name, whether they check or change: each program that serves some of them.
pub(crate) async fn probe(connection: &Connection, name: &str, at: Timestamp) -> Result<WebhookOutcome, RequestError> {
    let mut hooks = Vec::new();
    for (kind, mutates) in [(VALIDATING_WEBHOOK_CONFIGURATION, false), (MUTATING_WEBHOOK_CONFIGURATION, true)] {
        let Some(found) = connection.get(&kind.resource("v1"), None, name).await? else { continue };
        if hook::is_recent(&found, at) {
            let message = format!("{} has only just changed, and may not be in force yet", kind.kind);
            return Ok(WebhookOutcome::Unproven { message });
        }
        hooks.extend(Hook::of(&found, mutates));
    }
    if hooks.is_empty() {
        let message = String::from("no webhook configuration of this name has webhooks");
        return Ok(WebhookOutcome::Unproven { message });
    }
    let mut open: BTreeMap<&Backend, Open> = BTreeMap::new();
    for hook in &hooks {
        let reason = hook.unprovable().unwrap_or("no resource of its rules can be used to call it");
        open.entry(&hook.backend).or_insert_with(|| Open { tries: 0, reason: reason.to_owned() });
    }
    for hook in hooks.iter().filter(|hook| hook.unprovable().is_none()) {
        for target in hook.targets() {
            match open.get_mut(&hook.backend) {
                Some(known) if known.tries < TRIES => known.tries += 1,
                _ => break,
            }
            match try_target(connection, &hooks, hook, &target).await? {
                AdmissionAnswer::Answered(backends) => open.retain(|known, _| !backends.contains(known)),
                AdmissionAnswer::Unreachable(message) => return Ok(WebhookOutcome::Unreachable { message }),
                AdmissionAnswer::Nothing(reason) => {
                    open.entry(&hook.backend).and_modify(|known| known.reason = reason);
                }
            }
        }
    }
    uncalled(connection, &hooks, &open).await
}

/// What is known of those that nothing proves to have been called.
async fn uncalled(
    connection: &Connection,
    hooks: &[Hook],
    open: &BTreeMap<&Backend, Open>,
) -> Result<WebhookOutcome, RequestError> {
    let (mut least, mut reasons) = (u32::MAX, Vec::new());
    for (backend, Open { reason, .. }) in open {
        if let Some(hook) = hooks.iter().find(|hook| hook.backend == **backend && hook.lacks_authority) {
            let message = format!(
                "clientConfig.caBundle of {} is empty; look at cert-manager's cainjector, which writes it",
                hook.name
            );
            return Ok(WebhookOutcome::Unproven { message });
        }
        match endpoints::ready(connection, backend).await? {
            Ok(count) => least = least.min(count),
            Err(problem) => {
                let message = format!("{problem}, and no dry run proves a call: {reason}");
                return Ok(WebhookOutcome::Unproven { message });
            }
        }
        reasons.push(reason.as_str());
    }
    if reasons.is_empty() {
        return Ok(WebhookOutcome::Answered);
    }
    Ok(WebhookOutcome::Serving { endpoints: least, reason: reasons.join("; ") })
}

/// What requests for this resource tell, as far as rules and selectors of `hook` ask for them.
async fn try_target(
    connection: &Connection,
    hooks: &[Hook],
    hook: &Hook,
    target: &Target,
) -> Result<AdmissionAnswer, RequestError> {
    let Some(address) = connection.address_of_plural(&target.api_version, &target.plural).await? else {
        return Ok(AdmissionAnswer::Nothing(format!("{} of {} is not served", target.plural, target.api_version)));
    };
    let mut told = AdmissionAnswer::Nothing(format!("there is no {} to change", address.resource.kind));
    if hook.is_for(target, Operation::Update)
        && let Some(object) = existing(connection, &address, hook).await?
    {
        told = change(connection, hooks, target, &address, &object).await?;
    }
    if hook.is_for(target, Operation::Create)
        && matches!(told, AdmissionAnswer::Nothing(_))
        && let Some(place) = place(connection, &address, hook).await?
    {
        told = create(connection, hooks, target, &address, &place, made_up(&address, hook)).await?;
        // What is known of a kind is not enough: its definition knows better.
        if matches!(told, AdmissionAnswer::Nothing(_))
            && let Some(object) = of_definition(connection, &address, hook).await?
        {
            told = create(connection, hooks, target, &address, &place, object).await?;
        }
    }
    Ok(told)
}

/// An object of this kind that the webhook is called for by its labels.
async fn existing(
    connection: &Connection,
    address: &Address,
    hook: &Hook,
) -> Result<Option<DynamicObject>, RequestError> {
    let attempt = format!("list one {} for a probe", address.resource.kind);
    let labels = objects::selector_text(&hook.objects);
    let selection = Selection { at_most: Some(1), labels: labels.as_deref(), ..Selection::default() };
    Ok(connection.list_resource(&address.resource, None, selection, &attempt).await?.into_iter().next())
}

async fn change(
    connection: &Connection,
    hooks: &[Hook],
    target: &Target,
    address: &Address,
    object: &DynamicObject,
) -> Result<AdmissionAnswer, RequestError> {
    let metadata = &object.metadata;
    let namespace = metadata.namespace.as_deref();
    let of_namespace = match namespace {
        Some(namespace) => labels_of_namespace(connection, hooks, namespace).await?,
        None => None,
    };
    let none = Labels::new();
    let admission = Admission {
        target,
        operation: Operation::Update,
        namespace: of_namespace.as_ref(),
        namespaced: address.namespaced,
        labels: metadata.labels.as_ref().unwrap_or(&none),
    };
    let patch = json!({"metadata": {"annotations": {"stepgate.dev/probe": "dry-run"}}});
    let name = metadata.name.as_deref().unwrap_or_default();
    tell(connection.merge(&address.resource, namespace, name, &patch, true).await.map(drop), &admission, hooks)
}

/// Where a made-up object goes: its namespace with the labels of that, as far as somebody asks for them.
struct Place {
    namespace: Option<String>,
    labels: Option<Labels>,
}

/// A namespace that the webhook is called for; none where there is none.
async fn place(connection: &Connection, address: &Address, hook: &Hook) -> Result<Option<Place>, RequestError> {
    if !address.namespaced {
        return Ok(Some(Place { namespace: None, labels: None }));
    }
    let default = |labels| Some(Place { namespace: Some(PLACE.to_owned()), labels });
    if objects::is_empty_selector(&hook.namespaces) {
        return Ok(default(None));
    }
    let labels = read_namespace(connection, PLACE).await?;
    if objects::admits(&hook.namespaces, labels.as_ref()) {
        return Ok(default(labels));
    }
    let labels = objects::selector_text(&hook.namespaces);
    let selection = Selection { at_most: Some(1), labels: labels.as_deref(), ..Selection::default() };
    let attempt = "list one Namespace for a probe";
    let found = connection.list_resource(&NAMESPACE.resource("v1"), None, selection, attempt).await?;
    Ok(found
        .into_iter()
        .next()
        .map(|found| Place { namespace: found.metadata.name, labels: Some(found.metadata.labels.unwrap_or_default()) }))
}

async fn create(
    connection: &Connection,
    hooks: &[Hook],
    target: &Target,
    address: &Address,
    place: &Place,
    object: Value,
) -> Result<AdmissionAnswer, RequestError> {
    let labels: Labels = object
        .pointer("/metadata/labels")
        .and_then(|labels| serde_json::from_value(labels.clone()).ok())
        .unwrap_or_default();
    let admission = Admission {
        target,
        operation: Operation::Create,
        namespace: place.labels.as_ref(),
        namespaced: address.namespaced,
        labels: &labels,
    };
    let created = connection.create_dry_run(&address.resource, place.namespace.as_deref(), &object).await;
    tell(created, &admission, hooks)
}

/// The labels of a namespace, where one of the webhooks asks for them.
async fn labels_of_namespace(
    connection: &Connection,
    hooks: &[Hook],
    namespace: &str,
) -> Result<Option<Labels>, RequestError> {
    if hooks.iter().all(|hook| objects::is_empty_selector(&hook.namespaces)) {
        return Ok(None);
    }
    read_namespace(connection, namespace).await
}

async fn read_namespace(connection: &Connection, name: &str) -> Result<Option<Labels>, RequestError> {
    let found = connection.get_metadata(&NAMESPACE.resource("v1"), None, name).await?;
    Ok(found.map(|namespace| namespace.metadata.labels.unwrap_or_default()))
}

/// An object that its schema allows, for the kinds that a management cluster always has; for others an empty one.
fn made_up(address: &Address, hook: &Hook) -> Value {
    let resource = &address.resource;
    let spec = match (resource.group.as_str(), resource.kind.as_str()) {
        ("cert-manager.io", "Certificate") => {
            json!({"secretName": PROBE, "dnsNames": ["probe.stepgate.invalid"], "issuerRef": {"name": PROBE}})
        }
        ("cert-manager.io", "Issuer" | "ClusterIssuer") => json!({"selfSigned": {}}),
        ("cluster.x-k8s.io", "Cluster") => json!({"clusterNetwork": {"pods": {"cidrBlocks": ["192.0.2.0/24"]}}}),
        _ => json!({}),
    };
    json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata(hook), "spec": spec})
}

/// Name and labels of a made-up object: those that the webhook is called for.
fn metadata(hook: &Hook) -> Value {
    let labels = objects::fitting_labels(&hook.objects);
    if labels.is_empty() { json!({"name": PROBE}) } else { json!({"name": PROBE, "labels": labels}) }
}

/// An object with everything that the definition of its kind requires; none for kinds without a definition.
async fn of_definition(connection: &Connection, address: &Address, hook: &Hook) -> Result<Option<Value>, RequestError> {
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
        object.insert("metadata".to_owned(), metadata(hook));
        Value::Object(object)
    }))
}
