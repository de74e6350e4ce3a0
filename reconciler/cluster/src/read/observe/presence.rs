//! Whether single objects exist, and who owns their fields. What is in them is not asked for: it may be large, or a Secret. Only
//! what brings something about that takes its time is read whole.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DynamicObject;
use rollout::{ObjectPresence, ObjectReference};

use super::Reading;
use crate::client::concurrent::concurrently;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::SECRET;
use crate::client::request::Address;
use crate::objects;

/// So many objects of one kind in one namespace are asked for by one list.
const LISTED: usize = 2;

/// Kinds of which it matters what they have brought about.
const WHOLE: [&str; 2] = ["StatefulSet", "Job"];

/// Objects of one kind in so many namespaces are asked for by one list of all namespaces, where that is one page.
const SPREAD: usize = 4;

/// What is asked for at once: objects of one kind in one namespace, or in all of them.
type Group<'a> = (&'a str, &'a str, Option<&'a str>);

impl Reading<'_> {
    /// Reads these objects. Kinds are looked up once for each version.
    pub(super) async fn objects(&mut self, connection: &Connection, wanted: Vec<&ObjectReference>) {
        let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for reference in &wanted {
            kinds.entry(&reference.api_version).or_default().insert(&reference.kind);
        }
        let mut addresses = BTreeMap::new();
        for (api_version, kinds) in kinds {
            if self.unreachable.is_some() {
                return;
            }
            addresses.insert(api_version, connection.addresses(api_version, &kinds).await);
        }
        let mut namespaces: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for reference in &wanted {
            let kind = (reference.api_version.as_str(), reference.kind.as_str());
            namespaces.entry(kind).or_default().extend(reference.namespace.as_deref());
        }
        let mut groups: BTreeMap<Group<'_>, Vec<&ObjectReference>> = BTreeMap::new();
        for reference in wanted {
            let (api_version, kind) = (reference.api_version.as_str(), reference.kind.as_str());
            let is_spread = namespaces.get(&(api_version, kind)).is_some_and(|spread| spread.len() >= SPREAD)
                && !connection.known.is_long(api_version, kind);
            let namespace = reference.namespace.as_deref().filter(|_| !is_spread);
            groups.entry((api_version, kind, namespace)).or_default().push(reference);
        }
        let requests: Vec<_> = groups
            .iter()
            .map(|((api_version, kind, namespace), wanted)| {
                group(connection, addresses.get(api_version), kind, *namespace, wanted)
            })
            .collect();
        for (((_, kind, _), wanted), found) in groups.iter().zip(concurrently(requests).await) {
            let Some(found) = self.took(kind, found.map(Some)) else { continue };
            for (reference, object) in wanted.iter().zip(&found) {
                if let Some(object) = object {
                    self.compare(&reference.api_version, kind, object);
                }
                self.observation.objects.push(presence(reference, object.as_ref()));
            }
        }
    }
}

/// The objects of one group, in their order; none for each that is not there. An object of a kind that is not served is not there.
async fn group(
    connection: &Connection,
    addresses: Option<&Result<Vec<Address>, RequestError>>,
    kind: &str,
    namespace: Option<&str>,
    wanted: &[&ObjectReference],
) -> Result<Vec<Option<DynamicObject>>, RequestError> {
    let address = match addresses {
        Some(Ok(addresses)) => addresses.iter().find(|known| known.resource.kind == kind),
        Some(Err(error)) => return Err(error.clone()),
        None => None,
    };
    let Some(address) = address else { return Ok(vec![None; wanted.len()]) };
    if WHOLE.contains(&kind) {
        let place = |reference: &&ObjectReference| reference.namespace.clone().filter(|_| address.namespaced);
        let wanted: Vec<_> = wanted.iter().map(|reference| (place(reference), reference.name.as_str())).collect();
        let requests =
            wanted.iter().map(|(namespace, name)| connection.get(&address.resource, namespace.as_deref(), name));
        return concurrently(requests.collect()).await.into_iter().collect();
    }
    let (mut listed, mut is_all) = (BTreeMap::new(), false);
    // Nobody has to be allowed to list Secrets.
    if wanted.len() >= LISTED && kind != SECRET.kind {
        match connection.list_metadata(&address.resource, namespace.filter(|_| address.namespaced)).await {
            Ok((objects, all)) => {
                is_all = all;
                if namespace.is_none() && !all {
                    connection.known.remember_long(&address.resource.api_version, kind);
                }
                let named = |object: DynamicObject| {
                    let place = namespace.or(object.metadata.namespace.as_deref()).filter(|_| address.namespaced);
                    Some(((place.map(str::to_owned), object.metadata.name.clone()?), object))
                };
                listed = objects.into_iter().filter_map(named).collect();
            }
            // Whoever may not list may well get.
            Err(RequestError::Forbidden { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let mut missing = Vec::new();
    let mut found = Vec::new();
    for (place, reference) in wanted.iter().enumerate() {
        let namespace = reference.namespace.as_deref().filter(|_| address.namespaced);
        let object = listed.remove(&(namespace.map(str::to_owned), reference.name.clone()));
        if object.is_none() && !is_all {
            missing.push((place, connection.get_metadata(&address.resource, namespace, &reference.name)));
        }
        found.push(object);
    }
    let (places, requests): (Vec<usize>, Vec<_>) = missing.into_iter().unzip();
    for (place, object) in places.into_iter().zip(concurrently(requests).await) {
        if let Some(found) = found.get_mut(place) {
            *found = object?;
        }
    }
    Ok(found)
}

fn presence(reference: &ObjectReference, object: Option<&DynamicObject>) -> ObjectPresence {
    ObjectPresence {
        reference: reference.clone(),
        present: object.is_some(),
        generation: object.and_then(|object| object.metadata.generation),
        deleting: object.is_some_and(|object| object.metadata.deletion_timestamp.is_some()),
        unfinished: object.and_then(|object| objects::unfinished(&reference.kind, object)),
        origin: object.filter(|_| reference.kind == SECRET.kind).and_then(objects::origin),
    }
}
