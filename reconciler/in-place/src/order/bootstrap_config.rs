//! The KubeadmConfig of a machine, as Cluster API would compute it from its control plane for the version of its node:
//! what it compares with when it looks for outdated machines.

use bundles::KubernetesVersion;
use serde_json::{Value, json};

/// Set by Cluster API for 1.31 up to 1.35, where nothing else is said.
pub(super) const LOCAL_MODE: &str = "ControlPlaneKubeletLocalMode";

/// `spec` of the KubeadmConfig of a machine whose control plane has this `kubeadmConfigSpec`, where it is `current`
/// now.
#[must_use]
pub fn kubeadm_config(control_plane: &Value, current: &Value, version: &KubernetesVersion) -> Value {
    let mut spec = if control_plane.is_object() { control_plane.clone() } else { json!({}) };
    let joins = current.pointer("/joinConfiguration/controlPlane").is_some_and(|value| !value.is_null());
    let part = |path: &str| current.pointer(path).filter(|value| !value.is_null()).cloned();
    if joins {
        remove(&mut spec, "initConfiguration");
        set_if_missing(&mut spec, &["joinConfiguration", "controlPlane"], Some(json!({})));
        // How it joined: written for each machine, and compared by nobody.
        set_if_missing(&mut spec, &["joinConfiguration", "discovery"], part("/joinConfiguration/discovery"));
    } else {
        remove(&mut spec, "joinConfiguration");
        let tokens = part("/initConfiguration/bootstrapTokens");
        set_if_missing(&mut spec, &["initConfiguration", "bootstrapTokens"], tokens);
    }
    let endpoint = part("/clusterConfiguration/controlPlaneEndpoint");
    set_if_missing(&mut spec, &["clusterConfiguration", "controlPlaneEndpoint"], endpoint);
    let gate = has_local_mode(version).then_some(Value::Bool(true));
    set_if_missing(&mut spec, &["clusterConfiguration", "featureGates", LOCAL_MODE], gate);
    spec
}

pub(super) fn has_local_mode(version: &KubernetesVersion) -> bool {
    let above = |text: &str| {
        let other = text.parse::<KubernetesVersion>().ok();
        other.and_then(|other| version.minor().minors_above(other.minor()))
    };
    above("v1.31").is_some_and(|minors| minors >= 0) && above("v1.36").is_some_and(|minors| minors < 0)
}

fn remove(spec: &mut Value, key: &str) {
    if let Some(map) = spec.as_object_mut() {
        map.remove(key);
    }
}

/// Sets a field that is not there.
fn set_if_missing(spec: &mut Value, path: &[&str], value: Option<Value>) {
    let (Some(value), Some((key, path))) = (value, path.split_first()) else { return };
    let Some(map) = spec.as_object_mut() else { return };
    if path.is_empty() {
        map.entry(*key).or_insert(value);
    } else {
        set_if_missing(map.entry(*key).or_insert_with(|| json!({})), path, Some(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_get_what_cluster_api_would_compute_for_them() {
        let of =
            |spec: Value, current: Value, version: &str| kubeadm_config(&spec, &current, &version.parse().unwrap());
        let spec = json!({"clusterConfiguration": {"etcd": {"local": {"imageTag": "2"}}},
            "initConfiguration": {"a": 1}, "joinConfiguration": {"b": 1}, "files": [{"path": "/new"}]});
        let joined = json!({"joinConfiguration": {"controlPlane": {}, "discovery": {"token": "t"}},
            "clusterConfiguration": {"controlPlaneEndpoint": "a:6443", "featureGates": {LOCAL_MODE: true}}});
        let expected = json!({
            "clusterConfiguration": {"etcd": {"local": {"imageTag": "2"}}, "controlPlaneEndpoint": "a:6443"},
            "joinConfiguration": {"b": 1, "controlPlane": {}, "discovery": {"token": "t"}}, "files": [{"path": "/new"}]});
        assert_eq!(of(spec.clone(), joined.clone(), "v1.36.0"), expected);
        assert_eq!(
            of(spec.clone(), joined, "v1.35.9").pointer("/clusterConfiguration/featureGates"),
            Some(&json!({LOCAL_MODE: true}))
        );
        let first = json!({"initConfiguration": {}, "clusterConfiguration": {}});
        let expected = json!({"clusterConfiguration": {"etcd": {"local": {"imageTag": "2"}}},
            "initConfiguration": {"a": 1}, "files": [{"path": "/new"}]});
        assert_eq!(of(spec, first, "v1.36.0"), expected);
    }
}
