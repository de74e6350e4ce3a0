//! Label selectors, as Kubernetes evaluates them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{list, text, texts};

/// Whether a `LabelSelector` selects an object with these labels. An empty selector selects nothing here: a workload's
/// selector is never empty, and selecting every pod of a namespace by mistake would mix workloads.
pub(super) fn selects(selector: &Value, labels: Option<&BTreeMap<String, String>>) -> bool {
    let value = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let equal = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = list(selector, &["matchExpressions"]);
    if equal.is_none_or(serde_json::Map::is_empty) && expressions.is_empty() {
        return false;
    }
    equal.into_iter().flatten().all(|(key, expected)| value(key) == expected.as_str() && expected.is_string())
        && expressions.iter().all(|expression| {
            let key = text(expression, &["key"]).unwrap_or_default();
            let values = texts(expression, &["values"]);
            let actual = value(&key);
            match text(expression, &["operator"]).as_deref() {
                Some("In") => actual.is_some_and(|actual| values.iter().any(|value| value == actual)),
                Some("NotIn") => actual.is_none_or(|actual| values.iter().all(|value| value != actual)),
                Some("Exists") => actual.is_some(),
                Some("DoesNotExist") => actual.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_select_as_kubernetes_does() {
        let labels = BTreeMap::from([
            (String::from("app"), String::from("cilium")),
            (String::from("tier"), String::from("node")),
        ]);
        for (selector, expected) in [
            (json!({}), false),
            (json!({"matchLabels": {}}), false),
            (json!({"matchLabels": {"app": "cilium"}}), true),
            (json!({"matchLabels": {"app": "cilium", "tier": "control"}}), false),
            (json!({"matchLabels": {"missing": "x"}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "cilium"]}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["cilium"]}]}), false),
            (json!({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["cilium"]}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "Unheard"}]}), false),
            (
                json!({"matchLabels": {"app": "cilium"}, "matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
                false,
            ),
        ] {
            assert_eq!(selects(&selector, Some(&labels)), expected, "{selector}");
        }
        assert!(!selects(&json!({"matchLabels": {"app": "cilium"}}), None));
    }
}
