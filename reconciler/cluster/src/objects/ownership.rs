//! Which fields that the deploy branch sets were taken over by somebody else: read off `metadata.managedFields`.
//!
//! Whoever applies with `--force-conflicts` becomes the only owner of what differs, so a field of ours that is owned, and not by us, says that
//! there is a second writer. Fields that others add beside ours are none of our business.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::DynamicObject;
use serde_json::Value;

/// The field managers that write what the deploy branch says: Flux, and this program where there is no Flux.
const OURS: [&str; 2] = ["kustomize-controller", "stepgate"];

/// By these Flux is told to leave an object as it is.
const LEFT_ALONE: [(&str, &[&str]); 2] = [
    ("kustomize.toolkit.fluxcd.io/ssa", &["Ignore", "IfNotPresent"]),
    ("kustomize.toolkit.fluxcd.io/reconcile", &["disabled"]),
];

/// Where a Kustomization or a source is told to stand still.
const SUSPEND: &str = "spec.suspend";

/// Fields of a Kustomization that change what it applies: whoever adds one has something else applied than the deploy branch holds.
const CHANGING: [&str; 9] = [
    "commonMetadata",
    "components",
    "decryption",
    "images",
    "namePrefix",
    "nameSuffix",
    "patches",
    "postBuild",
    "targetNamespace",
];

/// A field that the deploy branch sets and somebody else owns, or that somebody added to what the deploy branch has applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Where it is, such as `spec.template.spec.containers[name=manager].image`.
    pub(crate) field: String,
    /// Whether the deploy branch does not set it at all.
    pub(crate) added: bool,
    /// The name under which it was written.
    pub(crate) manager: String,
    /// When that manager wrote the object last.
    pub(crate) at: Option<Timestamp>,
}

/// The fields of `deployed` that somebody else has taken over in `object`. None before it was applied at all.
pub(crate) fn taken(deployed: &Value, object: &DynamicObject) -> Vec<Taken> {
    if is_left_alone(deployed) {
        return Vec::new();
    }
    let entries = object.metadata.managed_fields.as_deref().unwrap_or_default();
    let is_ours = |entry: &&ManagedFieldsEntry| {
        entry.manager.as_deref().is_some_and(|manager| OURS.contains(&manager)) && !is_of_subresource(entry)
    };
    let ours: Vec<&Value> = entries.iter().filter(is_ours).filter_map(fields).collect();
    if ours.is_empty() {
        return if is_of_flux(deployed) { other_values(deployed, object, entries) } else { Vec::new() };
    }
    let mut found = Vec::new();
    for entry in entries.iter().filter(|entry| !is_ours(entry) && !is_of_subresource(entry)) {
        let mut paths = Vec::new();
        if let Some(fields) = fields(entry) {
            compare(fields, deployed, &ours, "", &mut paths);
        }
        // The rules of a ClusterRole that aggregates others are Kubernetes' own to write, whatever a manifest says.
        if deployed.get("aggregationRule").is_some() {
            paths.retain(|path| path != "rules");
        }
        // Gates name a suspend by itself, with whoever wants it.
        if is_of_flux(deployed) {
            paths.retain(|path| path != SUSPEND);
        }
        let added = added(deployed, entry, &ours);
        let paths = paths.into_iter().map(|path| (path, false)).chain(added.into_iter().map(|path| (path, true)));
        found.extend(paths.map(|(field, added)| Taken {
            field,
            added,
            manager: entry.manager.clone().unwrap_or_default(),
            at: written_at(entry),
        }));
    }
    found
}

/// Whether Flux is told to leave the object as it is.
pub(crate) fn is_left_alone(deployed: &Value) -> bool {
    let annotation = |key: &str| deployed.get("metadata")?.get("annotations")?.get(key)?.as_str();
    LEFT_ALONE.iter().any(|(key, values)| annotation(key).is_some_and(|value| values.contains(&value)))
}

/// The manager under which the deploy branch was applied to an object; none where it never was.
pub(crate) fn applier(object: &DynamicObject) -> Option<String> {
    let mut entries = object.metadata.managed_fields.iter().flatten().filter(|entry| !is_of_subresource(entry));
    entries.find_map(|entry| entry.manager.clone().filter(|manager| OURS.contains(&manager.as_str())))
}

/// Who wrote an object last, and when, other than its status.
pub(crate) fn last_writer(object: &DynamicObject) -> (String, Option<Timestamp>) {
    let entries = object.metadata.managed_fields.iter().flatten().filter(|entry| !is_of_subresource(entry));
    let last = entries.max_by_key(|entry| written_at(entry));
    (last.and_then(|entry| entry.manager.clone()).unwrap_or_default(), last.and_then(written_at))
}

/// Whether this is one of Flux' own objects, which say what is applied at all.
fn is_of_flux(deployed: &Value) -> bool {
    let api_version = deployed.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    api_version.split_once('/').is_some_and(|(group, _)| group.ends_with(".toolkit.fluxcd.io"))
}

/// What somebody has added to a Kustomization so that it applies something else.
fn added(deployed: &Value, entry: &ManagedFieldsEntry, ours: &[&Value]) -> Vec<String> {
    if !is_of_flux(deployed) || deployed.get("kind").and_then(Value::as_str) != Some("Kustomization") {
        return Vec::new();
    }
    let owns = |fields: &Value, field: &str| fields.pointer(&format!("/f:spec/f:{field}")).is_some();
    let is_added = |field: &&str| {
        fields(entry).is_some_and(|fields| owns(fields, field))
            && !ours.iter().any(|fields| owns(fields, field))
            && deployed.pointer(&format!("/spec/{field}")).is_none()
    };
    CHANGING.iter().copied().filter(is_added).map(|field| format!("spec.{field}")).collect()
}

/// The fields of the specification that have other values than the deploy branch says, of an object that others have made: with another path
/// or source, what it says of a commit is not about what the deploy branch holds.
fn other_values(deployed: &Value, object: &DynamicObject, entries: &[ManagedFieldsEntry]) -> Vec<Taken> {
    let (Some(wanted), Some(actual)) = (deployed.get("spec"), object.data.get("spec")) else { return Vec::new() };
    let mut paths = Vec::new();
    differing(wanted, actual, "spec", &mut paths);
    let by = |path: &str| {
        let owns = |entry: &&ManagedFieldsEntry| {
            let keys = path.split('.').map(|key| format!("f:{key}"));
            fields(entry)
                .is_some_and(|fields| keys.into_iter().try_fold(fields, |fields, key| fields.get(key)).is_some())
        };
        entries.iter().find(owns)
    };
    paths.retain(|path| path != SUSPEND);
    let taken = |field: String| {
        let entry = by(&field);
        Taken {
            added: false,
            manager: entry.and_then(|entry| entry.manager.clone()).unwrap_or_default(),
            at: entry.and_then(written_at),
            field,
        }
    };
    paths.into_iter().map(taken).collect()
}

fn differing(wanted: &Value, actual: &Value, path: &str, found: &mut Vec<String>) {
    match wanted {
        Value::Object(fields) => {
            for (key, wanted) in fields {
                differing(wanted, actual.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}"), found);
            }
        }
        // What Flux substitutes is another text in the cluster, and lists have defaults in their elements.
        Value::String(text) if text.contains("${") => {}
        Value::Array(_) => {}
        // The server writes durations and the like in its own way: `10m` is `10m0s`.
        Value::String(_) if path.ends_with("nterval") || path.ends_with("imeout") => {}
        _ if wanted == actual || (wanted.is_null() || wanted == &Value::Bool(false)) && actual.is_null() => {}
        _ => found.push(path.to_owned()),
    }
}

fn written_at(entry: &ManagedFieldsEntry) -> Option<Timestamp> {
    entry.time.as_ref().and_then(|time| time.0.to_string().parse().ok())
}

/// Autoscalers and controllers write through subresources what nobody else is to write.
fn is_of_subresource(entry: &ManagedFieldsEntry) -> bool {
    entry.subresource.as_deref().is_some_and(|name| !name.is_empty())
}

fn fields(entry: &ManagedFieldsEntry) -> Option<&Value> {
    entry.fields_v1.as_ref().map(|fields| &fields.0)
}

/// Collects the leaves of `owned` that `deployed` sets and none of `ours` holds.
fn compare(owned: &Value, deployed: &Value, ours: &[&Value], path: &str, found: &mut Vec<String>) {
    for (key, below) in owned.as_object().into_iter().flatten() {
        let Some((segment, deployed)) = descend(key, deployed) else { continue };
        let ours: Vec<&Value> = ours.iter().filter_map(|fields| fields.get(key)).collect();
        let path =
            if path.is_empty() { segment.trim_start_matches('.').to_owned() } else { format!("{path}{segment}") };
        let is_leaf = below.as_object().is_none_or(|below| below.keys().all(|key| key == "."));
        if !is_leaf {
            compare(below, deployed, &ours, &path, found);
        } else if ours.is_empty() {
            found.push(path);
        }
    }
}

/// The part of the manifest that a key of `fieldsV1` names (`f:field`, `k:{"name":"x"}`, `v:"element"`), with its place as a path says it.
fn descend<'a>(key: &str, deployed: &'a Value) -> Option<(String, &'a Value)> {
    let (kind, rest) = key.split_once(':')?;
    match kind {
        "f" => Some((format!(".{rest}"), deployed.get(rest).filter(|value| !value.is_null())?)),
        "k" => {
            let keys: Value = serde_json::from_str(rest).ok()?;
            let keys = keys.as_object()?;
            // A key that has a default may be left out of the manifest, as the protocol of a port.
            let is_it = |item: &&Value| {
                keys.iter().all(|(name, value)| item.get(name).is_none_or(|known| known == value))
                    && keys.iter().any(|(name, _)| item.get(name).is_some())
            };
            let item = deployed.as_array()?.iter().find(is_it)?;
            let shown: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
            Some((format!("[{}]", shown.join(",")), item))
        }
        "v" => {
            let value: Value = serde_json::from_str(rest).ok()?;
            let item = deployed.as_array()?.iter().find(|item| **item == value)?;
            Some((format!("[{}]", plain(&value)), item))
        }
        _ => None,
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployed() -> Value {
        json!({"metadata": {"name": "a", "labels": {"app": "a"}}, "spec": {"replicas": 2, "paused": null, "template": {"spec": {
            "containers": [{"name": "manager", "image": "a:v2", "args": ["--x"]}]}}}})
    }

    fn entry(manager: &str, subresource: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Apply", "subresource": subresource, "time": "2026-01-02T00:00:00Z", "fieldsV1": fields})
    }

    fn image(below: &Value) -> Value {
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"manager\"}": below}}}}})
    }

    #[track_caller]
    fn check(deployed: &Value, entries: &[Value], expected: &[(&str, &str)]) {
        let object = serde_json::from_value(json!({"metadata": {"name": "a", "managedFields": entries}})).unwrap();
        let found = taken(deployed, &object);
        let found: Vec<(&str, &str)> =
            found.iter().map(|taken| (taken.field.as_str(), taken.manager.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_forced_away_from_us_is_named_with_its_place_and_its_owner() {
        let ours = entry("kustomize-controller", "", &image(&json!({".": {}, "f:name": {}, "f:args": {}})));
        let theirs = entry("kubectl", "", &image(&json!({".": {}, "f:name": {}, "f:image": {}})));
        let path = "spec.template.spec.containers[name=manager].image";
        check(&deployed(), &[ours.clone(), theirs.clone()], &[(path, "kubectl")]);
        // Before we have applied anything, nothing can have been taken.
        check(&deployed(), std::slice::from_ref(&theirs), &[]);
        let mut left_alone = deployed();
        left_alone["metadata"]["annotations"] = json!({"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"});
        check(&left_alone, &[ours, theirs], &[]);
    }

    /// A Kustomization as the deploy branch has it.
    fn kustomization() -> Value {
        json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "a"}, "spec": {
            "interval": "10m", "path": "./clusters/prod/capi", "prune": true, "suspend": false,
            "sourceRef": {"kind": "GitRepository", "name": "fleet"}, "postBuild": {"substitute": {"a": "${A}"}}}})
    }

    #[test]
    fn an_edited_path_or_source_of_flux_objects_is_taken_and_a_suspend_is_not() {
        let own = json!({"f:spec": {"f:interval": {}, "f:prune": {}, "f:suspend": {}, "f:sourceRef": {"f:kind": {}, "f:name": {}}}});
        let edit = entry("kubectl-edit", "", &json!({"f:spec": {"f:path": {}, "f:sourceRef": {"f:name": {}}}}));
        let ours = entry("kustomize-controller", "", &own);
        check(&kustomization(), &[ours, edit], &[("spec.path", "kubectl-edit")]);
        let mut without_name = own;
        without_name["f:spec"]["f:sourceRef"].as_object_mut().unwrap().remove("f:name");
        without_name["f:spec"].as_object_mut().unwrap().remove("f:suspend");
        let edit = entry("kubectl-edit", "", &json!({"f:spec": {"f:suspend": {}, "f:sourceRef": {"f:name": {}}}}));
        let ours = entry("kustomize-controller", "", &without_name);
        check(&kustomization(), &[ours, edit], &[("spec.sourceRef.name", "kubectl-edit")]);
    }

    #[test]
    fn what_somebody_adds_to_a_kustomization_so_that_it_applies_something_else_is_taken() {
        let own = entry("kustomize-controller", "", &json!({"f:spec": {"f:path": {}, "f:images": {}}}));
        let theirs = json!({"f:spec": {"f:patches": {}, "f:images": {}, "f:force": {}}});
        let expected = [("spec.patches", "kubectl-edit")];
        check(&kustomization(), &[own, entry("kubectl-edit", "", &theirs)], &expected);
        // Of other objects what is added is nobody's business.
        check(
            &deployed(),
            &[entry("stepgate", "", &image(&json!({"f:name": {}}))), entry("kubectl-edit", "", &theirs)],
            &[],
        );
    }

    #[test]
    fn flux_objects_that_others_made_are_compared_by_their_values() {
        let of = |spec: Value| {
            let fields = json!({"f:spec": {"f:path": {}, "f:sourceRef": {"f:name": {}}}});
            let metadata = json!({"name": "a", "managedFields": [entry("kubectl-create", "", &fields)]});
            let object = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
            let taken = taken(&kustomization(), &object).into_iter();
            taken.map(|taken| format!("{} {}", taken.field, taken.manager)).collect::<Vec<_>>()
        };
        let mut spec = kustomization()["spec"].clone();
        (spec["interval"], spec["postBuild"]["substitute"]["a"]) = (json!("10m0s"), json!("x"));
        spec.as_object_mut().unwrap().remove("suspend");
        assert_eq!(of(spec.clone()), Vec::<String>::new());
        (spec["path"], spec["suspend"]) = (json!("./elsewhere"), json!(true));
        assert_eq!(of(spec.clone()), ["spec.path kubectl-create"]);
        spec["sourceRef"]["name"] = json!("other");
        assert_eq!(of(spec), ["spec.path kubectl-create", "spec.sourceRef.name kubectl-create"]);
    }

    #[test]
    fn what_is_shared_added_or_scaled_by_others_is_not_taken() {
        let ours = entry("stepgate", "", &json!({"f:metadata": {"f:labels": {"f:app": {}}}}));
        for theirs in [
            entry("kubectl", "", &json!({"f:metadata": {"f:labels": {"f:app": {}, "f:tier": {}}}})),
            entry("autoscaler", "scale", &json!({"f:spec": {"f:replicas": {}}})),
            entry("controller", "status", &json!({"f:status": {"f:replicas": {}}})),
            entry("person", "", &json!({"f:spec": {"f:paused": {}, "f:strategy": {"f:type": {}}}})),
            entry("person", "", &image(&json!({"f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}}}}))),
        ] {
            check(&deployed(), &[ours.clone(), theirs], &[]);
        }
        let mut aggregated = deployed();
        (aggregated["aggregationRule"], aggregated["rules"]) = (json!({}), json!([]));
        let aggregator = entry("clusterrole-aggregation-controller", "", &json!({"f:rules": {}}));
        check(&aggregated, &[ours.clone(), aggregator], &[]);
        let taken = entry(
            "kubectl-edit",
            "",
            &json!({"f:spec": {"f:replicas": {}}, "f:metadata": {"f:finalizers": {"v:\"a\"": {}}}}),
        );
        check(&deployed(), &[ours, taken], &[("spec.replicas", "kubectl-edit")]);
    }
}
