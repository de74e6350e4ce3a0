//! Label selectors, as Kubernetes evaluates them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::objects::fields::{list, text, texts};

/// Whether a `LabelSelector` selects an object with these labels. An empty selector selects nothing here: a workload's
/// selector is never empty, and selecting every pod of a namespace by mistake would mix workloads.
pub(in crate::objects) fn selects(selector: &Value, labels: Option<&BTreeMap<String, String>>) -> bool {
    let value = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let equal = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = list(selector, &["matchExpressions"]);
    if is_empty_selector(selector) {
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

/// Whether a selector names nothing.
pub(crate) fn is_empty_selector(selector: &Value) -> bool {
    let equal = selector.get("matchLabels").and_then(Value::as_object);
    equal.is_none_or(serde_json::Map::is_empty) && list(selector, &["matchExpressions"]).is_empty()
}

/// Whether a selector of an admission webhook selects what has these labels: an empty one selects everything.
pub(crate) fn admits(selector: &Value, labels: Option<&BTreeMap<String, String>>) -> bool {
    is_empty_selector(selector) || selects(selector, labels)
}

/// The selector as requests for lists have it; none for an empty one.
pub(crate) fn selector_text(selector: &Value) -> Option<String> {
    let equal = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let equal = equal.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let expressions = list(selector, &["matchExpressions"]).iter().map(|expression| {
        let key = text(expression, &["key"]).unwrap_or_default();
        let values = texts(expression, &["values"]).join(",");
        match text(expression, &["operator"]).as_deref() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key,
        }
    });
    let parts: Vec<String> = equal.chain(expressions).collect();
    (!parts.is_empty()).then(|| parts.join(","))
}

/// Labels that a selector asks for, as far as having some is what it asks for.
pub(crate) fn fitting_labels(selector: &Value) -> BTreeMap<String, String> {
    let equal = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut labels: BTreeMap<String, String> =
        equal.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    for expression in list(selector, &["matchExpressions"]) {
        let Some(key) = text(expression, &["key"]) else { continue };
        match text(expression, &["operator"]).as_deref() {
            Some("In") => {
                let first = texts(expression, &["values"]).into_iter().next().unwrap_or_default();
                labels.entry(key).or_insert(first);
            }
            Some("Exists") => {
                labels.entry(key).or_default();
            }
            _ => {}
        }
    }
    labels
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
        assert!(admits(&json!({}), Some(&labels)) && admits(&Value::Null, None));
    }

    #[test]
    fn a_selector_is_written_for_lists_and_labels_are_made_to_fit_it() {
        let selector = json!({"matchLabels": {"a": "1"}, "matchExpressions": [
            {"key": "b", "operator": "In", "values": ["2", "3"]}, {"key": "c", "operator": "NotIn", "values": ["4"]},
            {"key": "d", "operator": "Exists"}, {"key": "e", "operator": "DoesNotExist"}]});
        assert_eq!(selector_text(&selector).as_deref(), Some("a=1,b in (2,3),c notin (4),d,!e"));
        assert!(selects(&selector, Some(&fitting_labels(&selector))));
        assert_eq!((selector_text(&json!({})), fitting_labels(&Value::Null)), (None, BTreeMap::new()));
    }
}
