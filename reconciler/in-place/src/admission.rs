//! How a new version reaches an owner that our controller upgrades: paused in the same write.
//!
//! Cluster API replaces machines as soon as it reads another version. A pause before that write would need every writer
//! to know of it, and a pause after it comes too late. So the API server asks here first, whoever writes: Flux, Stepgate
//! or a person.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{CONTROLLER, LEASE, Lease, PAUSED, STRATEGY, paused_words};

/// Where it is asked.
pub const PATH: &str = "/pause-owners";

/// The largest request that is read: two objects of at most 3 MiB each, and what is around them.
pub const LARGEST_REQUEST: usize = 8 << 20;

/// What machines of a KubeadmControlPlane are made from, in all versions of the kind.
const OF_CONTROL_PLANE: [&str; 4] = [
    "/spec/version",
    "/spec/kubeadmConfigSpec",
    "/spec/machineTemplate/infrastructureRef",
    "/spec/machineTemplate/spec/infrastructureRef",
];

/// What machines of a MachineDeployment are made from: what Cluster API compares itself.
const OF_WORKERS: [&str; 4] = [
    "/spec/template/spec/version",
    "/spec/template/spec/bootstrap",
    "/spec/template/spec/infrastructureRef",
    "/spec/template/spec/failureDomain",
];

#[derive(Deserialize)]
struct Review {
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

/// The answer to an `AdmissionReview`: the change is let through, and an owner of ours is paused with it.
///
/// # Errors
/// When it is not an `AdmissionReview` with a request.
pub fn review(bytes: &[u8], now: Timestamp) -> Result<Value, serde_json::Error> {
    let Review { request } = serde_json::from_slice(bytes)?;
    let mut response = json!({"uid": request.uid, "allowed": true});
    let lease = pause(&request.object, &request.old_object, now);
    if let (Some(patch), Some(response)) = (lease.and_then(|lease| patch(&lease)), response.as_object_mut()) {
        response.insert(String::from("patchType"), json!("JSONPatch"));
        response.insert(String::from("patch"), json!(STANDARD.encode(patch.to_string())));
    }
    Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// The pause that an owner gets with its change, where machines of ours would be replaced without one.
#[must_use]
pub fn pause(object: &Value, old_object: &Value, now: Timestamp) -> Option<Lease> {
    let annotations = object.pointer("/metadata/annotations")?;
    if annotations.get(STRATEGY).and_then(Value::as_str) != Some(CONTROLLER) || annotations.get(PAUSED).is_some() {
        return None;
    }
    let places = match object.get("kind").and_then(Value::as_str)? {
        "KubeadmControlPlane" => OF_CONTROL_PLANE,
        "MachineDeployment" => OF_WORKERS,
        _ => return None,
    };
    // What is made now has no machines yet.
    let is_known = old_object.get("metadata").is_some();
    let moves = is_known && places.iter().any(|place| object.pointer(place) != old_object.pointer(place));
    moves.then(|| Lease::new("its machines are made from something else now", now))
}

fn patch(lease: &Lease) -> Option<Value> {
    let text = serde_json::to_string(lease).ok()?;
    let add = |key: &str, value: String| {
        let path = format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1"));
        json!({"op": "add", "path": path, "value": value})
    };
    Some(json!([add(PAUSED, paused_words(lease)), add(LEASE, text)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(kind: &str, annotations: &Value, old: &Value, new: &Value) -> Option<Value> {
        let object = |spec: &Value| json!({"kind": kind, "metadata": {"name": "edge", "annotations": annotations}, "spec": spec});
        let old = if old.is_null() { Value::Null } else { object(old) };
        let asked =
            json!({"kind": "AdmissionReview", "request": {"uid": "7", "object": object(new), "oldObject": old}});
        let answer = review(asked.to_string().as_bytes(), "2026-11-26T12:00:00Z".parse().unwrap()).unwrap();
        assert_eq!((&answer["response"]["uid"], &answer["response"]["allowed"]), (&json!("7"), &json!(true)));
        let patch = answer["response"].get("patch")?.as_str().unwrap().to_owned();
        Some(serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap())
    }

    #[test]
    fn an_owner_of_ours_is_paused_with_the_change_of_its_machines() {
        let ours = json!({STRATEGY: CONTROLLER});
        let plane = |version: &str| json!({"version": version, "replicas": 1, "kubeadmConfigSpec": {}});
        let patch = answered("KubeadmControlPlane", &ours, &plane("v1.35.0"), &plane("v1.36.0")).unwrap();
        assert_eq!(patch[0]["path"], "/metadata/annotations/cluster.x-k8s.io~1paused");
        assert!(patch[0]["value"].as_str().unwrap().starts_with("stepgate: "));
        let lease: Lease = serde_json::from_str(patch[1]["value"].as_str().unwrap()).unwrap();
        assert_eq!(lease.until, "2026-11-26T12:30:00Z".parse().unwrap());
        let workers = |version: &str| json!({"replicas": 2, "template": {"spec": {"version": version}}});
        assert!(answered("MachineDeployment", &ours, &workers("v1.35.0"), &workers("v1.36.0")).is_some());
    }

    #[test]
    fn nothing_else_is_paused() {
        let ours = json!({STRATEGY: CONTROLLER});
        let plane = |version: &str, replicas: u32| json!({"version": version, "replicas": replicas});
        let (old, new) = (plane("v1.35.0", 1), plane("v1.36.0", 1));
        let paused = json!({STRATEGY: CONTROLLER, PAUSED: "by hand"});
        for (kind, annotations, old, new) in [
            ("KubeadmControlPlane", &ours, &old, &plane("v1.35.0", 3)),
            ("KubeadmControlPlane", &json!({STRATEGY: "hooks"}), &old, &new),
            ("KubeadmControlPlane", &json!({}), &old, &new),
            ("KubeadmControlPlane", &paused, &old, &new),
            ("KubeadmControlPlane", &ours, &Value::Null, &new),
            ("MachineDeployment", &ours, &old, &new),
            ("MachineSet", &ours, &old, &new),
        ] {
            assert_eq!(answered(kind, annotations, old, new), None, "{kind} {annotations} {new}");
        }
        review(b"{}", Timestamp::UNIX_EPOCH).unwrap_err();
    }
}
