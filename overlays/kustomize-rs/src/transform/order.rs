//! The order of the output.

use std::cmp::Ordering;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

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
    // There are few kinds, and many objects.
    let mut kinds: Vec<&Arc<Gvk>> = resources.items.iter().map(|resource| &resource.node.name().gvk).collect();
    kinds.dedup();
    let kinds: HashSet<&Arc<Gvk>> = kinds.into_iter().collect();
    let rank = |gvk: &Arc<Gvk>| (rank_in(&gvk.kind, &first, &last), Arc::clone(gvk));
    let mut kinds: Vec<(i32, Arc<Gvk>)> = kinds.into_iter().map(rank).collect();
    kinds.sort_unstable_by(compare_kinds);
    let places: HashMap<Arc<Gvk>, usize> =
        kinds.into_iter().enumerate().map(|(place, (_, gvk))| (gvk, place)).collect();
    resources.items.sort_by_cached_key(|resource| {
        let id = resource.id(schema);
        Place { kind: places.get(&id.gvk).copied().unwrap_or_default(), id }
    });
}

/// The order of two kinds, each with its rank.
fn compare_kinds((a_rank, a): &(i32, Arc<Gvk>), (b_rank, b): &(i32, Arc<Gvk>)) -> Ordering {
    a_rank.cmp(b_rank).then_with(|| {
        let namespaces = a.kind == "Namespace" && b.kind == "Namespace";
        let core = a.group.is_empty() || b.group.is_empty();
        let order = compare_gvks(a, b);
        if namespaces && core { order.reverse() } else { order }
    })
}

/// What decides where an object stands.
struct Place {
    kind: usize,
    id: Arc<ResourceId>,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.kind.cmp(&other.kind).then_with(|| compare_names(&self.id, &other.id))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

/// The order of two texts in parts, as if each were put together.
fn compare(a: &[&str], b: &[&str]) -> Ordering {
    a.iter().flat_map(|part| part.bytes()).cmp(b.iter().flat_map(|part| part.bytes()))
}

fn or<'a>(text: &'a str, empty: &'a str) -> &'a str {
    if text.is_empty() { empty } else { text }
}

/// The order of two kinds, as texts.
pub(crate) fn compare_gvks(a: &Gvk, b: &Gvk) -> Ordering {
    compare(&gvk_parts(a), &gvk_parts(b))
}

fn gvk_parts(gvk: &Gvk) -> [&str; 5] {
    [or(&gvk.group, "~G"), "_", or(&gvk.version, "~V"), "_", or(&gvk.kind, "~K")]
}

/// The order of namespaces and names, for objects of one kind.
fn compare_names(a: &ResourceId, b: &ResourceId) -> Ordering {
    let (a_name, b_name) = (or(&a.name, "~N"), or(&b.name, "~N"));
    if a.namespace == b.namespace {
        return a_name.cmp(b_name);
    }
    compare(&[or(&a.namespace, "~X"), "|", a_name], &[or(&b.namespace, "~X"), "|", b_name])
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
