//! Runtime Extensions, and whether Cluster API's managers ask them.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use rollout::{IN_PLACE_HOOKS, RuntimeExtension, RuntimeExtensions};
use serde_json::Value;

use crate::objects::fields::{list, text, texts};
use crate::objects::workload::selector::admits;

/// Names the provider that a Deployment is of.
pub(crate) const PROVIDER_LABEL: &str = "cluster.x-k8s.io/provider";

/// The managers that upgrade in place.
const MANAGERS: [&str; 2] = ["cluster-api", "control-plane-kubeadm"];

/// What `ExtensionConfig`s say, for namespaces with these labels.
pub(crate) fn runtime_extensions(
    objects: &[DynamicObject],
    namespaces: &BTreeMap<String, BTreeMap<String, String>>,
) -> RuntimeExtensions {
    let extensions = objects.iter().map(|object| extension(object, namespaces));
    let counts = |known: &RuntimeExtension| !known.hooks.is_empty() || known.undiscovered.is_some();
    RuntimeExtensions { extensions: extensions.filter(counts).collect(), managers_without: Vec::new() }
}

fn extension(object: &DynamicObject, namespaces: &BTreeMap<String, BTreeMap<String, String>>) -> RuntimeExtension {
    let hook = |handler: &Value| text(handler, &["requestHook", "hook"]);
    let mut hooks: Vec<String> = list(&object.data, &["status", "handlers"]).iter().filter_map(hook).collect();
    hooks.retain(|hook| IN_PLACE_HOOKS.contains(&hook.as_str()));
    hooks.sort();
    hooks.dedup();
    let selector = object.data.pointer("/spec/namespaceSelector").unwrap_or(&Value::Null);
    let is_asked = |(_, labels): &(&String, &BTreeMap<String, String>)| admits(selector, Some(labels));
    RuntimeExtension {
        name: object.metadata.name.clone().unwrap_or_default(),
        hooks,
        namespaces: namespaces.iter().filter(is_asked).map(|(name, _)| name.clone()).collect(),
        undiscovered: undiscovered(&object.data),
    }
}

fn undiscovered(data: &Value) -> Option<String> {
    let conditions = ["/status/conditions", "/status/v1beta2/conditions"];
    let mut conditions = conditions.iter().filter_map(|place| data.pointer(place)?.as_array()).flatten();
    let Some(found) = conditions.find(|known| known["type"] == "Discovered") else {
        return Some("it has not looked yet".to_owned());
    };
    let message = text(found, &["message"]).or_else(|| text(found, &["reason"])).unwrap_or_default();
    (found["status"] != "True").then_some(message)
}

/// A manager of Cluster API that has its feature gate for upgrades in place off.
pub(crate) fn manager_without_in_place(object: &DynamicObject) -> Option<String> {
    let provider = object.metadata.labels.as_ref()?.get(PROVIDER_LABEL)?;
    if !MANAGERS.contains(&provider.as_str()) {
        return None;
    }
    let containers = list(&object.data, &["spec", "template", "spec", "containers"]);
    let arguments: Vec<String> = containers.iter().flat_map(|container| texts(container, &["args"])).collect();
    let gates = arguments.iter().filter_map(|argument| argument.strip_prefix("--feature-gates="));
    let is_on = gates.flat_map(|gates| gates.split(',')).any(|gate| gate.trim() == "InPlaceUpdates=true");
    let name = |text: &Option<String>| text.clone().unwrap_or_default();
    (!is_on).then(|| format!("{}/{}", name(&object.metadata.namespace), name(&object.metadata.name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn extensions_are_asked_where_their_selector_says_so() {
        let config = |name: &str, selector: Value, hooks: &[&str], discovered: &str| {
            let handlers: Vec<Value> =
                hooks.iter().map(|hook| json!({"name": "a", "requestHook": {"hook": hook}})).collect();
            object(
                json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": name},
                "spec": {"namespaceSelector": selector},
                "status": {"handlers": handlers, "conditions": [{"type": "Discovered", "status": discovered, "message": "refused"}]}}),
            )
        };
        let by_name = json!({"matchLabels": {"kubernetes.io/metadata.name": "factory"}});
        let label = |name: &str| {
            (name.to_owned(), BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.to_owned())]))
        };
        let namespaces = BTreeMap::from([label("factory"), label("office")]);
        let read = runtime_extensions(
            &[
                config("all", json!({}), &["UpdateMachine", "BeforeClusterUpgrade", "UpdateMachine"], "True"),
                config("one", by_name, &["CanUpdateMachine"], "True"),
                config("lifecycle", json!({}), &["BeforeClusterUpgrade"], "True"),
                config("silent", json!({}), &[], "False"),
            ],
            &namespaces,
        );
        let told = |known: &RuntimeExtension| {
            (known.name.clone(), known.hooks.join(","), known.namespaces.join(","), known.undiscovered.clone())
        };
        let expected = [
            ("all", "UpdateMachine", "factory,office", None),
            ("one", "CanUpdateMachine", "factory", None),
            ("silent", "", "factory,office", Some("refused".to_owned())),
        ];
        let expected = expected.map(|(name, hooks, at, why)| (name.to_owned(), hooks.to_owned(), at.to_owned(), why));
        assert_eq!(read.extensions.iter().map(told).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_manager_without_the_feature_is_named() {
        let manager = |provider: &str, arguments: Value| {
            manager_without_in_place(&object(json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "manager", "namespace": "capi", "labels": {PROVIDER_LABEL: provider}},
                "spec": {"template": {"spec": {"containers": [{"name": "manager", "args": arguments}]}}}})))
        };
        let on = json!(["--v=2", "--feature-gates=MachinePool=true,RuntimeSDK=true,InPlaceUpdates=true"]);
        assert_eq!(manager("cluster-api", on), None);
        let off = json!(["--feature-gates=MachinePool=true,InPlaceUpdates=false"]);
        assert_eq!(manager("control-plane-kubeadm", off.clone()).as_deref(), Some("capi/manager"));
        assert_eq!(manager("infrastructure-metal3", off), None);
    }
}
