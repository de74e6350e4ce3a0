//! What somebody has declared of an object: without what the server writes, what controllers set,
//! and defaults.
//!
//! Who set a field stands in `metadata.managedFields`. Who applies on the server's side owns what
//! was declared and no more; of who
//! writes otherwise, defaults included, kubectl's annotation tells what was declared.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Managers that are controllers wherever they write.
const CONTROLLERS: [&str; 3] = ["kube-controller-manager", "kubelet", "manager"];

/// What the names begin with under which Cluster API's controllers apply.
const OF_CLUSTER_API: &str = "capi-";

/// Beginnings of the names of those who bring what people have declared, whatever else they write.
const DECLARERS: [&str; 8] =
    ["kubectl", "kustomize-controller", "helm", "argocd", "eks-a-cli", "eksctl", "clusterctl", "stepgate"];

/// Those of kubectl's names under which whole objects are declared. Others, such as `kubectl-edit`,
/// change single fields.
const WHOLE: [&str; 3] = ["kubectl-client-side-apply", "kubectl-create", "kubectl-replace"];

/// What kubectl has applied last, itself included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Beginnings of labels and annotations that say who applied the object, or ask somebody to look at
/// it.
const STAMPS: [&str; 4] =
    ["kubectl.kubernetes.io/", "kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/", "reconcile.fluxcd.io/"];

/// The managers among these objects that are controllers: they write status.
pub(super) fn controllers<'a>(objects: impl Iterator<Item = &'a Value>) -> BTreeSet<&'a str> {
    let mut found: BTreeSet<&str> = CONTROLLERS.into();
    for entry in objects.flat_map(entries) {
        let Some(manager) = entry.get("manager").and_then(Value::as_str) else { continue };
        let is_declarer = DECLARERS.iter().any(|known| manager.starts_with(known));
        let writes_status = entry.get("subresource").and_then(Value::as_str) == Some("status")
            || entry.pointer("/fieldsV1/f:status").is_some();
        if (writes_status || manager.starts_with(OF_CLUSTER_API)) && !is_declarer {
            found.insert(manager);
        }
    }
    found
}

fn entries(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten()
}

/// Fields that a declarer owns, and what it has declared where that is known otherwise.
#[derive(Clone)]
struct Owned<'a> {
    fields: &'a Value,
    applied: Option<&'a Value>,
}

/// What was declared of the object; `keeps_status` where its status is what people publish.
pub(super) fn declared(object: &Value, controllers: &BTreeSet<&str>, keeps_status: bool) -> Value {
    let last_applied: Option<Value> = object
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations")?.get(LAST_APPLIED)?.as_str())
        .and_then(|text| serde_json::from_str(text).ok());
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_declarer = |entry: &&Value| {
        text(entry, "subresource").is_empty() && !controllers.contains(text(entry, "manager").as_str())
    };
    let owner = |entry| {
        let by_kubectl = text(entry, "operation") == "Update" && text(entry, "manager").starts_with(WHOLE[0]);
        Some(Owned { fields: entry.get("fieldsV1")?, applied: last_applied.as_ref().filter(|_| by_kubectl) })
    };
    // Where somebody has only edited what another program made, what that program wrote was
    // declared.
    let is_edited_alone = entries(object).filter(is_declarer).all(|entry| is_editor(&text(entry, "manager")));
    let owners: Vec<Owned<'_>> =
        entries(object).filter(is_declarer).filter(|_| !is_edited_alone).filter_map(owner).collect();
    let mut declared = Map::new();
    for (key, value) in object.as_object().into_iter().flatten() {
        match key.as_str() {
            "apiVersion" | "kind" => drop(declared.insert(key.clone(), value.clone())),
            "metadata" => drop(declared.insert(key.clone(), metadata(value, &owners))),
            "status" if keeps_status => drop(declared.insert(key.clone(), value.clone())),
            "status" => {}
            // Nobody is known to have declared anything: then all of it may be.
            _ if owners.is_empty() => drop(declared.insert(key.clone(), value.clone())),
            _ => declared.extend(part(key, value, &owners).map(|kept| (key.clone(), kept))),
        }
    }
    Value::Object(declared)
}

fn is_editor(manager: &str) -> bool {
    manager.starts_with("kubectl-") && !WHOLE.contains(&manager)
}

fn metadata(metadata: &Value, owners: &[Owned<'_>]) -> Value {
    let mut kept = Map::new();
    for key in ["name", "namespace"] {
        kept.extend(metadata.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    let below = below(owners, "metadata");
    for key in ["annotations", "labels"] {
        let Some(entries) = metadata.get(key).and_then(Value::as_object) else { continue };
        let of_key = self::below(&below, key);
        let is_kept = |name: &str| {
            !STAMPS.iter().any(|stamp| name.starts_with(stamp))
                && (owners.is_empty() || !self::below(&of_key, name).is_empty())
        };
        let entries: Map<String, Value> = entries
            .iter()
            .filter(|(name, _)| is_kept(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !entries.is_empty() {
            kept.insert(key.to_owned(), Value::Object(entries));
        }
    }
    Value::Object(kept)
}

/// What owners own below a field.
fn below<'a>(owners: &[Owned<'a>], key: &str) -> Vec<Owned<'a>> {
    let of = |owner: &Owned<'a>| {
        let fields = owner.fields.get(format!("f:{key}"))?;
        match owner.applied {
            Some(applied) => Some(Owned { fields, applied: Some(applied.get(key)?) }),
            None => Some(Owned { fields, applied: None }),
        }
    };
    owners.iter().filter_map(of).collect()
}

/// The declared part of a field; none where nobody has declared it. Lists are kept as a whole.
fn part(key: &str, value: &Value, owners: &[Owned<'_>]) -> Option<Value> {
    let owners = below(owners, key);
    if owners.is_empty() {
        return None;
    }
    let is_whole =
        |owner: &Owned<'_>| owner.fields.as_object().is_none_or(|fields| fields.keys().all(|key| key == "."));
    match value.as_object() {
        // An empty object below which others own fields was declared empty.
        Some(fields)
            if !fields.is_empty() && !owners.iter().any(|owner| is_whole(owner) && owner.fields.get(".").is_none()) =>
        {
            let kept = fields.iter().filter_map(|(key, value)| Some((key.clone(), part(key, value, &owners)?)));
            Some(Value::Object(kept.collect()))
        }
        _ => Some(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, subresource: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": fields})
    }

    fn object(entries: &[Value]) -> Value {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "prod", "namespace": "fleet", "uid": "1", "resourceVersion": "2", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a"], "ownerReferences": [{"kind": "A"}],
                "labels": {"team": "a", "kustomize.toolkit.fluxcd.io/name": "apps", "set-by-controller": "x"},
                "annotations": {LAST_APPLIED: "{\"spec\":{\"paths\":{\"own\":1}}}"}, "managedFields": entries},
            "spec": {"paths": {"own": 1, "default": 2}, "endpoint": {"host": "10.0.0.1"}, "list": [{"name": "a", "default": true}]},
            "status": {"phase": "Provisioned"}})
    }

    #[track_caller]
    fn check(entries: &[Value], spec: &Value, labels: &Value) {
        let object = object(entries);
        let controllers = controllers(std::iter::once(&object));
        let expected = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "prod", "namespace": "fleet", "labels": labels}, "spec": spec});
        assert_eq!(declared(&object, &controllers, false), expected);
    }

    #[test]
    fn what_controllers_set_and_defaults_are_left_out() {
        let status = entry("capi-controller", "Update", "status", &json!({"f:status": {"f:phase": {}}}));
        let theirs = entry(
            "capi-controller",
            "Update",
            "",
            &json!({"f:spec": {"f:endpoint": {"f:host": {}}}, "f:metadata": {"f:labels": {"f:set-by-controller": {}}}}),
        );
        let labels = json!({"f:labels": {"f:team": {}, "f:kustomize.toolkit.fluxcd.io/name": {}}});
        // By server-side apply: a default is nobody's.
        let fields = json!({"f:metadata": labels, "f:spec": {"f:paths": {"f:own": {}}, "f:list": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}}});
        let applied = entry("kustomize-controller", "Apply", "", &fields);
        let list = json!([{"name": "a", "default": true}]);
        check(
            &[applied, theirs.clone(), status.clone()],
            &json!({"paths": {"own": 1}, "list": list}),
            &json!({"team": "a"}),
        );
        // By kubectl: its annotation knows.
        let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:team": {}}}, "f:spec": {".": {}, "f:paths": {".": {}, "f:own": {}, "f:default": {}}}});
        let update = entry("kubectl-client-side-apply", "Update", "", &fields);
        let edit = entry("kubectl-edit", "Update", "", &json!({"f:metadata": {"f:labels": {"f:team": {}}}}));
        check(&[update, edit, theirs, status], &json!({"paths": {"own": 1}}), &json!({"team": "a"}));
    }

    #[test]
    fn where_nobody_is_known_to_own_anything_all_is_kept() {
        let (spec, labels) = (object(&[])["spec"].clone(), json!({"team": "a", "set-by-controller": "x"}));
        check(&[], &spec, &labels);
        // What another program has made is not the one field that somebody edited.
        let made = entry("manager", "Update", "", &json!({"f:spec": {"f:paths": {"f:own": {}}}}));
        let edited = entry("kubectl-edit", "Update", "", &json!({"f:spec": {"f:endpoint": {"f:host": {}}}}));
        check(&[made, edited], &spec, &labels);
    }
}
