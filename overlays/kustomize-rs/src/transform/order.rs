//! The order of the output.

use std::cmp::Ordering;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use crate::id::{Gvk, ResourceId};
use crate::kustomization::spec::LegacyOrder;
use crate::resource::Resources;
use crate::schema::Schema;
use crate::schema::kind_order::{FIRST, LAST, compare, compare_gvks, or, rank_in};

/// Order of the objects in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// kustomize's legacy order: namespaces first, webhooks last, each kind by name.
    #[default]
    Legacy,
    /// Input order, as in Flux.
    None,
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

/// The order of namespaces and names, for objects of one kind.
fn compare_names(a: &ResourceId, b: &ResourceId) -> Ordering {
    let (a_name, b_name) = (or(&a.name, "~N"), or(&b.name, "~N"));
    if a.namespace == b.namespace {
        return a_name.cmp(b_name);
    }
    compare(&[or(&a.namespace, "~X"), "|", a_name], &[or(&b.namespace, "~X"), "|", b_name])
}
