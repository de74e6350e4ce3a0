//! In which order objects are made: owners before what they own, what pauses others first.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::object::{key, owners, text};
use super::pausing::pause_of;
use crate::client::kind::SECRET;

/// The objects in the order in which they are made. Those that own each other keep the order of the backup, at the end.
pub(super) fn ordered<'b>(objects: &[&'b Value]) -> Vec<&'b Value> {
    let mut left: Vec<&Value> = objects.to_vec();
    // Nothing that a Cluster pauses is made before it.
    left.sort_by_key(|object| {
        let key = key(object);
        (pause_of(&key).is_none(), key.kind == SECRET.kind, key.kind)
    });
    let known: BTreeMap<&str, ()> =
        objects.iter().map(|object| (text(object, "/metadata/uid"), ())).filter(|(uid, ())| !uid.is_empty()).collect();
    let mut made: BTreeSet<&str> = BTreeSet::new();
    let mut order = Vec::new();
    while !left.is_empty() {
        let is_next = |object: &&Value| {
            let uids = owners(object).iter().map(|owner| text(owner, "/uid"));
            uids.into_iter().all(|uid| !known.contains_key(uid) || made.contains(uid))
        };
        let (next, later): (Vec<&Value>, Vec<&Value>) = left.into_iter().partition(is_next);
        if next.is_empty() {
            order.extend(later);
            break;
        }
        made.extend(next.iter().map(|object| text(object, "/metadata/uid")));
        order.extend(next);
        left = later;
    }
    order
}
