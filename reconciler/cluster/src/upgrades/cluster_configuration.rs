//! The ConfigMap that kubeadm reads, in the cluster whose node is upgraded.

use in_place::objects::NodeUpgradeSpec;
use in_place::order::cluster_configuration;
use serde_json::{Value, json};

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::CONFIG_MAP;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kubeadm-config";
const KEY: &str = "ClusterConfiguration";

/// Writes what a control plane wants kubeadm to read. Without the ConfigMap kubeadm says so itself, before anything begins.
pub(super) async fn write(own: &Connection, wanted: &Value, upgrade: &NodeUpgradeSpec) -> Result<(), RequestError> {
    let resource = CONFIG_MAP.resource("v1");
    let Some(object) = own.get(&resource, Some(NAMESPACE), NAME).await? else { return Ok(()) };
    let text = object.data.pointer(&format!("/data/{KEY}")).and_then(Value::as_str).unwrap_or_default();
    let Some(next) = changed(text, wanted, upgrade) else { return Ok(()) };
    let patch = json!({"metadata": {"resourceVersion": object.metadata.resource_version}, "data": {KEY: next}});
    own.merge(&resource, Some(NAMESPACE), NAME, &patch, false).await.map(drop)
}

/// The text with what is wanted; none where it says so already, or cannot be read.
fn changed(text: &str, wanted: &Value, upgrade: &NodeUpgradeSpec) -> Option<String> {
    let document = yaml::parse(text, &yaml::Limits::default()).ok()?.into_iter().next()?;
    let current: Value = serde_json::from_str(&yaml::json::to_json(&document.root)).ok()?;
    if !current.is_object() {
        return None;
    }
    let next = cluster_configuration(wanted, &current, &upgrade.kubernetes_version)?;
    // JSON is YAML too.
    serde_json::to_string_pretty(&next).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_kubeadm_keeps_whatever_else_it_says() {
        let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncertificatesDir: /etc/kubernetes/pki\n\
                    networking: {podSubnet: 10.0.0.0/16}\nfeatureGates: {ControlPlaneKubeletLocalMode: true}\n";
        let wanted = json!({"etcd": {"local": {"imageTag": "3.6.8-0"}}});
        let upgrade = json!({"clusterName": "a", "machine": {"name": "a", "uid": "1"}, "node": "a",
            "role": "first-control-plane", "kubernetesVersion": "v1.36.4", "image": "a"});
        let upgrade: NodeUpgradeSpec = serde_json::from_value(upgrade).unwrap();
        let next: Value = serde_json::from_str(&changed(text, &wanted, &upgrade).unwrap()).unwrap();
        let expected = json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration",
            "certificatesDir": "/etc/kubernetes/pki", "networking": {"podSubnet": "10.0.0.0/16"},
            "etcd": {"local": {"imageTag": "3.6.8-0"}}});
        assert_eq!(next, expected);
        assert_eq!(changed(&next.to_string(), &wanted, &upgrade), None);
        assert_eq!(changed("- no object", &wanted, &upgrade), None);
    }
}
