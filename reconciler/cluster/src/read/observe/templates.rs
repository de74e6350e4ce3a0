//! Which templates the objects of a cluster name, and which of those that they named before a rollout are there all the same.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DynamicObject;
use rollout::{ObjectReference, Templates};
use serde_json::Value;

use super::Reading;
use crate::client::concurrent::concurrently;
use crate::client::connection::Connection;
use crate::client::kind::{ETCDADM_CLUSTER, KUBEADM_CONTROL_PLANE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET};
use crate::client::request::{Address, ServedVersions};

/// How every kind of template ends.
const TEMPLATE: &str = "Template";

/// Group, kind, namespace and name.
type Named = (String, String, String, String);

impl Reading<'_> {
    /// Reads them, unless something that could name one was not read.
    pub(super) async fn templates(
        &mut self,
        connection: &Connection,
        served: &ServedVersions,
        owners: impl Iterator<Item = &DynamicObject>,
        before: &BTreeSet<&ObjectReference>,
    ) {
        let kinds = [&KUBEADM_CONTROL_PLANE, &MACHINE_DEPLOYMENT, &MACHINE_POOL, &MACHINE_SET, &ETCDADM_CLUSTER];
        if self.unreachable.is_some() || kinds.iter().any(|kind| self.observation.unread.contains_key(kind.kind)) {
            return;
        }
        let mut named = BTreeSet::new();
        for owner in owners {
            let namespace = owner.metadata.namespace.as_deref().unwrap_or_default();
            named_in(owner.data.get("spec").unwrap_or(&Value::Null), namespace, &mut named);
        }
        let gone = before.iter().map(|known| key(known)).filter(|known| !named.contains(known));
        let gone: Vec<Named> = gone.collect();
        let kinds: BTreeSet<(&str, &str)> =
            named.iter().chain(&gone).map(|(group, kind, ..)| (group.as_str(), kind.as_str())).collect();
        let mut addresses: BTreeMap<(String, String), Option<Address>> = BTreeMap::new();
        for (group, kind) in kinds {
            let address = connection.served_address(served, group, kind).await;
            addresses.insert((group.to_owned(), kind.to_owned()), self.took(kind, address));
        }
        let address = |(group, kind, ..): &Named| addresses.get(&(group.clone(), kind.clone()))?.as_ref();
        let reference = |known: &Named| {
            let (_, kind, namespace, name) = known;
            Some(ObjectReference {
                api_version: address(known)?.resource.api_version.clone(),
                kind: kind.clone(),
                namespace: Some(namespace.clone()),
                name: name.clone(),
            })
        };
        let asked: Vec<(&Named, &Address)> = gone.iter().filter_map(|known| Some((known, address(known)?))).collect();
        let requests = asked.iter().map(|((_, _, namespace, name), address)| {
            connection.get_metadata(&address.resource, Some(namespace), name)
        });
        let mut orphaned = Vec::new();
        for ((known, _), found) in asked.iter().zip(concurrently(requests.collect()).await) {
            let found = self.took(&known.1, found);
            let stays = found.is_some_and(|object| object.metadata.deletion_timestamp.is_none());
            orphaned.extend(reference(known).filter(|_| stays));
        }
        let named = named.iter().filter_map(reference).collect();
        self.observation.templates = Some(Templates { named, orphaned });
    }
}

fn key(reference: &ObjectReference) -> Named {
    let ObjectReference { api_version, kind, namespace, name } = reference;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    (group.to_owned(), kind.clone(), namespace.clone().unwrap_or_default(), name.clone())
}

/// Everything that a specification names of a kind of template, by `apiVersion` or, since v1beta2, by `apiGroup`.
fn named_in(value: &Value, namespace: &str, named: &mut BTreeSet<Named>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| named_in(item, namespace, named)),
        Value::Object(fields) => {
            let text = |key: &str| fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            let group = text("apiGroup").or_else(|| text("apiVersion")?.split_once('/').map(|(group, _)| group));
            if let (Some(group), Some(kind), Some(name)) = (group, text("kind"), text("name"))
                && kind.ends_with(TEMPLATE)
            {
                let place = text("namespace").unwrap_or(namespace);
                named.insert((group.to_owned(), kind.to_owned(), place.to_owned(), name.to_owned()));
            }
            fields.values().for_each(|field| named_in(field, namespace, named));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
