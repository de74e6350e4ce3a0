//! Who uses API versions that the rollout takes away: what is stored, and what was asked for.

use rollout::check::{ApiRemoval, REMOVALS, RemovedApis};
use rollout::{ApiUse, ApiUseKind, ObjectReference};
use serde_json::Value;

use kube::core::DynamicObject;

use super::helm;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{HORIZONTAL_POD_AUTOSCALER, Kind};
use crate::client::request::Selection;

/// Where `kubectl apply` keeps what it was given.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The metric by which an API server tells which deprecated APIs it was asked for.
const REQUESTED: &str = "apiserver_requested_deprecated_apis{";

/// What refers to versions that are not served at the end. What is only suspected may not be readable: that is told.
pub(super) async fn uses(
    own: &Connection,
    asked: &RemovedApis,
    configurations: &[(&'static Kind, DynamicObject)],
) -> Result<Vec<ApiUse>, RequestError> {
    let scalers = own.list(&HORIZONTAL_POD_AUTOSCALER, Some("v2"), None, None).await?;
    let mut found: Vec<ApiUse> = scalers.iter().filter_map(|object| scale_target(object, asked.target)).collect();
    found.extend(configurations.iter().flat_map(|(kind, object)| rules(kind, object, asked.target)));
    found.extend(helm::uses(own, asked.target).await?);
    for removal in leaving(asked) {
        let api_version = removal.api_version();
        match last_written(own, removal).await {
            Ok(written) => found.extend(written),
            Err(error) => found.push(unread(api_version, removal, &error)),
        }
    }
    match own.text("/metrics", "read metrics").await {
        Ok(text) => found.extend(requested(&text, asked)),
        Err(error) => found.extend(leaving(asked).next().map(|removal| unread("/metrics".to_owned(), removal, &error))),
    }
    Ok(found)
}

/// What is served now and not at the end.
fn leaving(asked: &RemovedApis) -> impl Iterator<Item = &'static ApiRemoval> {
    let (deployed, target) = (asked.deployed.unwrap_or(asked.target), asked.target);
    REMOVALS.iter().filter(move |known| known.removed > deployed && known.removed <= target)
}

fn unread(api_version: String, removal: &ApiRemoval, error: &RequestError) -> ApiUse {
    let kind = ApiUseKind::Unread { reason: error.to_string() };
    ApiUse { object: None, api_version, removed: removal.removed, advice: removal.advice(), kind }
}

pub(super) fn use_of(object: ObjectReference, removal: &ApiRemoval, kind: ApiUseKind) -> ApiUse {
    ApiUse {
        object: Some(object),
        api_version: removal.api_version(),
        removed: removal.removed,
        advice: removal.advice(),
        kind,
    }
}

fn scale_target(object: &DynamicObject, target: u32) -> Option<ApiUse> {
    let text = |name: &str| object.data.pointer(&format!("/spec/scaleTargetRef/{name}")).and_then(Value::as_str);
    let removal = gone(text("apiVersion")?, text("kind")?, target)?;
    Some(use_of(reference("autoscaling/v2", HORIZONTAL_POD_AUTOSCALER.kind, object), removal, ApiUseKind::ScaleTarget))
}

/// Rules that name no version but those that go, of a resource that goes with them.
fn rules(kind: &Kind, object: &DynamicObject, target: u32) -> Vec<ApiUse> {
    let hooks = object.data.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    let rules = hooks.flat_map(|hook| hook.get("rules").and_then(Value::as_array).into_iter().flatten());
    let texts = |rule: &Value, key: &str| -> Vec<String> {
        let list = rule.get(key).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut found: Vec<ApiUse> = Vec::new();
    for rule in rules {
        let (groups, versions) = (texts(rule, "apiGroups"), texts(rule, "apiVersions"));
        let resources = texts(rule, "resources");
        let names = |removal: &ApiRemoval, resource: &str| {
            let singular = removal.kinds.iter().map(|kind| kind.to_lowercase());
            singular.into_iter().any(|kind| resource.split('/').next().is_some_and(|name| is_plural(name, &kind)))
        };
        let is_gone = |removal: &&ApiRemoval| {
            removal.removed <= target
                && groups.iter().any(|group| group == removal.group)
                && versions.as_slice() == [removal.version]
                && resources.iter().any(|resource| names(removal, resource))
        };
        for removal in REMOVALS.iter().filter(is_gone) {
            let known = use_of(
                reference("admissionregistration.k8s.io/v1", kind.kind, object),
                removal,
                ApiUseKind::WebhookRule,
            );
            if !found.contains(&known) {
                found.push(known);
            }
        }
    }
    found
}

/// `policies` of `policy`, `ingresses` of `ingress`, `nodes` of `node`.
fn is_plural(plural: &str, singular: &str) -> bool {
    let stem = singular.strip_suffix('y').map(|stem| format!("{stem}ies"));
    plural == format!("{singular}s") || plural == format!("{singular}es") || stem.is_some_and(|stem| plural == stem)
}

/// Objects of a kind that goes, read in the version that stays, which somebody wrote in the one that goes.
async fn last_written(own: &Connection, removal: &ApiRemoval) -> Result<Vec<ApiUse>, RequestError> {
    let Some(stays) = removal.replacement else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for address in own.kinds(stays).await? {
        if !removal.kinds.contains(&address.resource.kind.as_str()) {
            continue;
        }
        let attempt = format!("list {}", address.resource.plural);
        let selection = Selection { managers: true, ..Selection::default() };
        let listed = own.list_resource(&address.resource, None, selection, &attempt).await?;
        found.extend(listed.iter().filter_map(|object| {
            let by = writer(object, &removal.api_version())?;
            let object = reference(stays, &address.resource.kind, object);
            Some(use_of(object, removal, ApiUseKind::LastWritten { by }))
        }));
    }
    Ok(found)
}

/// Who last wrote an object in this version. The API server's own defaults are nobody's.
fn writer(object: &DynamicObject, api_version: &str) -> Option<String> {
    let managers = object.metadata.managed_fields.iter().flatten();
    let managed = managers
        .filter(|entry| entry.api_version.as_deref() == Some(api_version) && entry.subresource.is_none())
        .filter_map(|entry| entry.manager.clone())
        .find(|manager| !manager.starts_with("kube-") && !manager.starts_with("api-priority-and-fairness"));
    managed.or_else(|| {
        let applied = object.metadata.annotations.as_ref()?.get(LAST_APPLIED)?;
        let applied: Value = serde_json::from_str(applied).ok()?;
        (applied.get("apiVersion")?.as_str()? == api_version).then(|| "kubectl apply".to_owned())
    })
}

/// What the metric tells of versions that go.
fn requested(metrics: &str, asked: &RemovedApis) -> Vec<ApiUse> {
    let mut found: Vec<ApiUse> = Vec::new();
    for line in metrics.lines().filter_map(|line| line.strip_prefix(REQUESTED)) {
        let label = |name: &str| {
            let (_, rest) = line.split_once(&format!("{name}=\""))?;
            rest.split_once('"').map(|(value, _)| value)
        };
        let Some((group, version)) = label("group").zip(label("version")) else { continue };
        let removal = leaving(asked).find(|known| known.group == group && known.version == version);
        // Controllers of the system ask for everything that is served, whatever it is.
        let Some(removal) = removal.filter(|_| line.ends_with(" 1")) else { continue };
        let known = ApiUse {
            object: None,
            api_version: removal.api_version(),
            removed: removal.removed,
            advice: removal.advice(),
            kind: ApiUseKind::Requested,
        };
        if !found.contains(&known) {
            found.push(known);
        }
    }
    found
}

/// The removal of a kind that the target does not serve.
pub(super) fn gone(api_version: &str, kind: &str, target: u32) -> Option<&'static ApiRemoval> {
    rollout::check::removal_of(api_version, kind).filter(|removal| removal.removed <= target)
}

fn reference(api_version: &str, kind: &str, object: &DynamicObject) -> ObjectReference {
    ObjectReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: object.metadata.namespace.clone(),
        name: object.metadata.name.clone().unwrap_or_default(),
    }
}
