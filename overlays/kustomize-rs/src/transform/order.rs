//! The order of the output.

use std::cmp::Ordering;

use crate::id::{Gvk, ResourceId};
use crate::resources::Resources;
use crate::schema::Schema;

/// Which order a build prints its objects in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By kind as kustomize's command line does: namespaces first, webhooks last, the rest by name.
    #[default]
    Legacy,
    /// As they were read. Flux does so.
    None,
}

const FIRST: [&str; 22] = [
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

const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Place of a kind in the default order; 0 for all that have none.
pub(crate) fn rank(kind: &str) -> i32 {
    rank_in(kind, &FIRST, &LAST)
}

fn rank_in<T: AsRef<str>>(kind: &str, first: &[T], last: &[T]) -> i32 {
    let position = |list: &[T]| list.iter().position(|known| known.as_ref() == kind);
    let number = |index: usize| i32::try_from(index).unwrap_or(i32::MAX);
    match (position(last), position(first)) {
        (Some(index), _) => number(index) + 1,
        (None, Some(index)) => number(index) - number(first.len()),
        (None, None) => 0,
    }
}

/// Kinds that go first and last, in place of the default ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LegacyOrder {
    pub(crate) first: Vec<String>,
    pub(crate) last: Vec<String>,
}

/// Sorts by kind, then by name.
pub(crate) fn sort_legacy(resources: &mut Resources, order: Option<&LegacyOrder>, schema: &Schema) {
    let (first, last): (Vec<&str>, Vec<&str>) = match order {
        Some(order) => {
            (order.first.iter().map(String::as_str).collect(), order.last.iter().map(String::as_str).collect())
        }
        None => (FIRST.to_vec(), LAST.to_vec()),
    };
    let mut keyed: Vec<(i32, String, String, ResourceId, crate::resource::Resource)> =
        std::mem::take(&mut resources.items)
            .into_iter()
            .map(|resource| {
                let id = resource.id(schema);
                (rank_in(&id.gvk.kind, &first, &last), gvk_text(&id.gvk), id_text(&id), id, resource)
            })
            .collect();
    keyed.sort_by(|a, b| {
        if a.3.gvk == b.3.gvk {
            return a.2.cmp(&b.2);
        }
        a.0.cmp(&b.0).then_with(|| {
            let namespaces = a.3.gvk.kind == "Namespace" && b.3.gvk.kind == "Namespace";
            let core = a.3.gvk.group.is_empty() || b.3.gvk.group.is_empty();
            let order: Ordering = a.1.cmp(&b.1);
            if namespaces && core { order.reverse() } else { order }
        })
    });
    resources.items = keyed.into_iter().map(|(.., resource)| resource).collect();
}

fn or<'a>(text: &'a str, empty: &'a str) -> &'a str {
    if text.is_empty() { empty } else { text }
}

fn gvk_text(gvk: &Gvk) -> String {
    format!("{}_{}_{}", or(&gvk.group, "~G"), or(&gvk.version, "~V"), or(&gvk.kind, "~K"))
}

fn id_text(id: &ResourceId) -> String {
    format!("{}|{}|{}", id.gvk, or(&id.namespace, "~X"), or(&id.name, "~N"))
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
