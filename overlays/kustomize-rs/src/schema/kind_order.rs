//! The default order of kinds: namespaces first, webhooks last.

use std::cmp::Ordering;

use crate::id::Gvk;

pub(crate) const FIRST: [&str; 22] = [
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];

pub(crate) const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Place of a kind in the default order; 0 for all that have none.
pub(crate) fn rank(kind: &str) -> i32 {
    rank_in(kind, &FIRST, &LAST)
}

pub(crate) fn rank_in<T: AsRef<str>>(kind: &str, first: &[T], last: &[T]) -> i32 {
    let position = |list: &[T]| list.iter().position(|known| known.as_ref() == kind);
    let number = |index: usize| i32::try_from(index).unwrap_or(i32::MAX);
    match (position(last), position(first)) {
        (Some(index), _) => number(index) + 1,
        (None, Some(index)) => number(index) - number(first.len()),
        (None, None) => 0,
    }
}

/// The order of two texts in parts, as if each were put together.
pub(crate) fn compare(a: &[&str], b: &[&str]) -> Ordering {
    a.iter().flat_map(|part| part.bytes()).cmp(b.iter().flat_map(|part| part.bytes()))
}

pub(crate) fn or<'a>(text: &'a str, empty: &'a str) -> &'a str {
    if text.is_empty() { empty } else { text }
}

/// The order of two kinds, as texts.
pub(crate) fn compare_gvks(a: &Gvk, b: &Gvk) -> Ordering {
    compare(&gvk_parts(a), &gvk_parts(b))
}

fn gvk_parts(gvk: &Gvk) -> [&str; 5] {
    [or(&gvk.group, "~G"), "_", or(&gvk.version, "~V"), "_", or(&gvk.kind, "~K")]
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn namespaces_come_first_and_webhooks_last() {
        assert!(rank("Namespace") < rank("ConfigMap"));
        assert!(rank("ConfigMap") < rank("Ingress"));
        assert!(rank("Ingress") < rank("MutatingWebhookConfiguration"));
        assert!(rank("MutatingWebhookConfiguration") < rank("ValidatingWebhookConfiguration"));
        assert_eq!(rank("Ingress"), rank("Job"));
    }
}
