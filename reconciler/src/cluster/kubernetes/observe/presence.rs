//! Whether single objects exist, and who owns their fields. What is in them is not asked for: it may be large, or a Secret.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DynamicObject;
use rollout::{ObjectPresence, ObjectReference};

use super::super::connection::Connection;
use super::super::error::RequestError;
use super::super::request::Address;
use super::reads::Reads;
use super::{Reading, several};

/// So many objects of one kind in one namespace are asked for by one list.
const LISTED: usize = 2;

/// What is asked for at once: objects of one kind in one namespace.
type Group<'a> = (&'a str, &'a str, Option<&'a str>);

impl Reading<'_> {
    /// Reads those objects that `wanted` accepts. Kinds are looked up once for each version.
    pub(super) async fn objects(
        &mut self,
        connection: &Connection,
        reads: &Reads<'_>,
        wanted: fn(&ObjectReference) -> bool,
    ) {
        let wanted: Vec<&ObjectReference> = reads.objects.iter().copied().filter(|known| wanted(known)).collect();
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
        let mut groups: BTreeMap<Group<'_>, Vec<&ObjectReference>> = BTreeMap::new();
        for reference in wanted {
            let group = (reference.api_version.as_str(), reference.kind.as_str(), reference.namespace.as_deref());
            groups.entry(group).or_default().push(reference);
        }
        let requests: Vec<_> = groups
            .iter()
            .map(|((api_version, kind, namespace), wanted)| {
                group(connection, addresses.get(api_version), kind, *namespace, wanted)
            })
            .collect();
        for (((_, kind, _), wanted), found) in groups.iter().zip(several(requests).await) {
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
    let namespace = namespace.filter(|_| address.namespaced);
    let (mut listed, mut is_all) = (BTreeMap::new(), false);
    if wanted.len() >= LISTED {
        match connection.list_metadata(&address.resource, namespace).await {
            Ok((objects, all)) => {
                is_all = all;
                let named = |object: DynamicObject| Some((object.metadata.name.clone()?, object));
                listed = objects.into_iter().filter_map(named).collect();
            }
            // Whoever may not list may well get.
            Err(RequestError::Forbidden { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let mut found = Vec::new();
    for reference in wanted {
        let object = match listed.remove(&reference.name) {
            None if !is_all => connection.get_metadata(&address.resource, namespace, &reference.name).await?,
            object => object,
        };
        found.push(object);
    }
    Ok(found)
}

fn presence(reference: &ObjectReference, object: Option<&DynamicObject>) -> ObjectPresence {
    ObjectPresence {
        reference: reference.clone(),
        present: object.is_some(),
        generation: object.and_then(|object| object.metadata.generation),
        deleting: object.is_some_and(|object| object.metadata.deletion_timestamp.is_some()),
    }
}
