//! `CustomResourceDefinitions`.

use kube::core::DynamicObject;
use rollout::{ConditionStatus, CustomResourceDefinition};

use crate::objects::fields::{at, conditions, deleting, flag, list, name, text, texts};

/// A `CustomResourceDefinition`.
pub(crate) fn custom_resource_definition(object: &DynamicObject) -> CustomResourceDefinition {
    let data = &object.data;
    let conditions = conditions(data, &["status", "conditions"]);
    let holds = |name: &str| conditions.get(name).is_some_and(|condition| condition.status == ConditionStatus::True);
    let versions = list(data, &["spec", "versions"]);
    let named = |switch: &str| {
        let with = versions.iter().filter(|version| flag(version, &[switch]) == Some(true));
        with.filter_map(|version| text(version, &["name"])).collect::<Vec<_>>()
    };
    let webhook = text(data, &["spec", "conversion", "strategy"]).as_deref() == Some("Webhook");
    CustomResourceDefinition {
        name: name(object),
        established: holds("Established"),
        names_accepted: holds("NamesAccepted"),
        deleting: deleting(object),
        versions: versions.iter().filter_map(|version| text(version, &["name"])).collect(),
        served_versions: named("served"),
        storage_version: named("storage").into_iter().next(),
        stored_versions: texts(data, &["status", "storedVersions"]),
        conversion_authority_injected: webhook.then(|| {
            at(data, &["spec", "conversion", "webhook", "clientConfig", "caBundle"])
                .and_then(|bundle| bundle.as_str())
                // cert-manager's injector fills what manifests leave as a placeholder of one line end.
                .is_some_and(|bundle| !matches!(bundle, "" | "Cg=="))
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(data: serde_json::Value) -> CustomResourceDefinition {
        custom_resource_definition(&serde_json::from_value(data).unwrap())
    }

    #[test]
    fn versions_are_told_apart_by_served_and_storage() {
        let definition = read(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "clusters.cluster.x-k8s.io"},
            "spec": {"versions": [
                {"name": "v1alpha4", "served": false, "storage": false},
                {"name": "v1beta1", "served": true, "storage": false},
                {"name": "v1beta2", "served": true, "storage": true}]},
            "status": {"storedVersions": ["v1beta1", "v1beta2"],
                "conditions": [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]}
        }));
        assert!(definition.established && definition.names_accepted);
        assert_eq!(definition.versions, ["v1alpha4", "v1beta1", "v1beta2"]);
        assert_eq!(definition.served_versions, ["v1beta1", "v1beta2"]);
        assert_eq!(definition.storage_version.as_deref(), Some("v1beta2"));
        assert_eq!(definition.stored_versions, ["v1beta1", "v1beta2"]);
        assert_eq!(definition.conversion_authority_injected, None);
    }

    #[test]
    fn a_conversion_webhook_needs_a_certificate_authority_that_is_no_placeholder() {
        for (bundle, injected) in [(None, false), (Some("Cg=="), false), (Some("LS0t"), true)] {
            let definition = read(json!({
                "metadata": {"name": "a.b"},
                "spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": bundle}}}}
            }));
            assert_eq!(definition.conversion_authority_injected, Some(injected), "{bundle:?}");
            assert!(!definition.established);
        }
    }
}
