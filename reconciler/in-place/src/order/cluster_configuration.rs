//! What kubeadm reads of its ConfigMap when it upgrades a control plane. Cluster API writes it before the first machine; while
//! it is paused, nobody else does.

use bundles::KubernetesVersion;
use serde_json::{Map, Value};

use super::bootstrap_config::{LOCAL_MODE, has_local_mode};

/// The fields that kubeadm takes up in an upgrade, and that the upgrader claims.
const TAKEN_UP: [&[&str]; 5] = [
    &["imageRepository"],
    &["etcd", "local", "imageRepository"],
    &["etcd", "local", "imageTag"],
    &["dns", "imageRepository"],
    &["dns", "imageTag"],
];

/// The `ClusterConfiguration` that a control plane with this `clusterConfiguration` wants kubeadm to read for a version; none
/// where the `current` one says so already.
#[must_use]
pub fn cluster_configuration(wanted: &Value, current: &Value, version: &KubernetesVersion) -> Option<Value> {
    let mut next = current.clone();
    for path in TAKEN_UP {
        let value = path.iter().try_fold(wanted, |value, key| value.get(key)).filter(|value| is_said(value));
        set(&mut next, path, value.cloned());
    }
    let gate = ["featureGates", LOCAL_MODE];
    let by_hand = wanted.pointer("/featureGates").and_then(|gates| gates.get(LOCAL_MODE)).cloned();
    set(&mut next, &gate, by_hand.or_else(|| has_local_mode(version).then_some(Value::Bool(true))));
    (next != *current).then_some(next)
}

fn is_said(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// Sets a field, or takes it out; what is empty without it goes with it.
fn set(target: &mut Value, path: &[&str], value: Option<Value>) {
    let (Some((key, rest)), Some(fields)) = (path.split_first(), target.as_object_mut()) else { return };
    match (rest.is_empty(), value) {
        (true, Some(value)) => {
            fields.insert((*key).to_owned(), value);
        }
        (true, None) => {
            fields.remove(*key);
        }
        (false, value) => {
            if value.is_none() && !fields.contains_key(*key) {
                return;
            }
            let below = fields.entry(*key).or_insert_with(|| Value::Object(Map::new()));
            set(below, rest, value);
            if below.as_object().is_some_and(Map::is_empty) {
                fields.remove(*key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kubeadm_reads_what_the_control_plane_says_of_images_and_gates() {
        let of = |wanted: Value, current: Value, version: &str| {
            cluster_configuration(&wanted, &current, &version.parse().unwrap())
        };
        let wanted = json!({"imageRepository": "registry.test", "etcd": {"local": {"imageTag": "3.6.8-0"}}});
        let current = json!({"kubernetesVersion": "v1.35.4", "imageRepository": "registry.old",
            "etcd": {"local": {"dataDir": "/var/lib/etcd", "imageTag": "3.6.6-0"}},
            "dns": {"imageTag": "v1.13.1"}, "featureGates": {LOCAL_MODE: true}});
        // kubeadm of 1.36 does not know the gate, and refuses what it does not know.
        let expected = json!({"kubernetesVersion": "v1.35.4", "imageRepository": "registry.test",
            "etcd": {"local": {"dataDir": "/var/lib/etcd", "imageTag": "3.6.8-0"}}});
        assert_eq!(of(wanted.clone(), current, "v1.36.0"), Some(expected.clone()));
        assert_eq!(of(wanted.clone(), expected.clone(), "v1.36.1"), None, "it says so already");
        let gate = json!({LOCAL_MODE: true});
        assert_eq!(of(wanted, expected, "v1.35.9").unwrap()["featureGates"], gate);
    }
}
