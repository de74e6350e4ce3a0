//! What a server was found to serve, for a while, so that it is not asked for it with each reading.
//!
//! Architecture Invariant: nothing passes because of it. It tells where an object is asked for: of a kind that is served no more the answer is
//! that there is no such object, and a kind that is not known is looked up again. What was read of a definition is used for the very version of
//! it that the server has just named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::core::DynamicObject;
use rollout::CustomResourceDefinition;

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::request::{Address, ServedVersions};
use host::memory::{Account, Charge, SERVERS, bytes_of};

/// After this time it is looked up again: a definition may have been deleted and made anew with another scope.
const KEPT: Duration = Duration::from_secs(600);

/// Of which groups there are it is known for a shorter time: a group that appears is to be watched soon. For as long again it is used while it is
/// looked up, so that no reading waits for that.
const GROUPS_KEPT: Duration = Duration::from_secs(30);

/// What something that is known takes besides its content, and what a kind's address takes, in bytes.
const ENTRY: usize = 512;
const ADDRESS: usize = 512;

/// When a kind was looked up, how it is addressed in each version, and what that takes.
type KnownKind = (Instant, Vec<Address>, Charge);

/// What is known of one server.
#[derive(Debug)]
pub(crate) struct Known {
    kinds: Mutex<BTreeMap<String, KnownKind>>,
    served: Mutex<Option<(Instant, ServedVersions)>>,
    /// Whether somebody is looking up what is served.
    renewing: AtomicBool,
    definitions: Mutex<BTreeMap<String, (Version, CustomResourceDefinition, Charge)>>,
    long: Mutex<BTreeMap<(String, String), Instant>>,
    memory: Arc<Account>,
}

impl Default for Known {
    fn default() -> Self {
        Self::within(Arc::clone(&SERVERS))
    }
}

/// The uid and the `resourceVersion` of an object: together they name its content.
type Version = (String, String);

fn version(object: &DynamicObject) -> Option<Version> {
    Some((object.metadata.uid.clone()?, object.metadata.resource_version.clone()?))
}

impl Known {
    /// Nothing is known yet, and what will be is charged there.
    fn within(memory: Arc<Account>) -> Self {
        let (kinds, served, definitions, long) = Default::default();
        Self { kinds, served, renewing: AtomicBool::new(false), definitions, long, memory }
    }

    /// What was read of this version of a definition, if it was.
    pub(crate) fn definition(&self, object: &DynamicObject) -> Option<CustomResourceDefinition> {
        let (name, version) = (object.metadata.name.as_deref()?, version(object)?);
        let known = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).filter(|(known, ..)| *known == version).map(|(_, definition, _)| definition.clone())
    }

    /// Remembers what was read of a definition, if there is room for it.
    pub(crate) fn remember_definition(&self, object: &DynamicObject, definition: &CustomResourceDefinition) {
        if let (Some(name), Some(version)) = (object.metadata.name.clone(), version(object)) {
            let mut known = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
            // First what was there is let go.
            known.remove(&name);
            if let Some(charge) = self.memory.take(ENTRY + name.len() + bytes_of(definition)) {
                known.insert(name, (version, definition.clone(), charge));
            }
        }
    }

    /// Whether there are so many objects of this kind that listing all of them, to find a few, is not worth it.
    pub(crate) fn is_long(&self, api_version: &str, kind: &str) -> bool {
        let known = self.long.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(api_version.to_owned(), kind.to_owned())).is_some_and(|at| at.elapsed() < KEPT)
    }

    /// Remembers that there are so many.
    pub(crate) fn remember_long(&self, api_version: &str, kind: &str) {
        let mut known = self.long.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert((api_version.to_owned(), kind.to_owned()), Instant::now());
    }

    /// Forgets those definitions that are not there any more.
    pub(crate) fn forget_definitions(&self, is_there: impl Fn(&str) -> bool) {
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| is_there(name));
    }
}

impl Connection {
    /// How these kinds of a group and version are addressed, as far as they are served.
    pub(crate) async fn addresses(
        &self,
        api_version: &str,
        wanted: &BTreeSet<&str>,
    ) -> Result<Vec<Address>, RequestError> {
        let has = |kinds: &[Address], kind: &str| kinds.iter().any(|known| known.resource.kind == kind);
        self.kinds_with(api_version, |kinds| wanted.iter().all(|kind| has(kinds, kind))).await
    }

    /// How a kind is addressed in the first version of its group that has it; none where it is not served.
    /// Providers share groups, and each has its own versions there.
    pub(crate) async fn served_address(
        &self,
        served: &ServedVersions,
        group: &str,
        kind: &str,
    ) -> Result<Option<Address>, RequestError> {
        let is_it = |known: &Address| known.resource.kind == kind;
        for api_version in served.api_versions(group) {
            let kinds = self.kinds_with(&api_version, |kinds| kinds.iter().any(is_it)).await?;
            if let Some(found) = kinds.into_iter().find(is_it) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The kinds of a group and version: those that are known, where these are enough, else as they are served now.
    pub(crate) async fn kinds_with(
        &self,
        api_version: &str,
        are_enough: impl Fn(&[Address]) -> bool,
    ) -> Result<Vec<Address>, RequestError> {
        let known = || self.known.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = known().get(api_version).filter(|(at, ..)| at.elapsed() < KEPT).map(|(_, kinds, _)| kinds.clone());
        if let Some(kinds) = fresh.filter(|kinds| are_enough(kinds)) {
            return Ok(kinds);
        }
        let kinds = self.kinds(api_version).await?;
        let mut known = known();
        known.remove(api_version);
        if let Some(charge) = self.known.memory.take(ENTRY + kinds.len() * ADDRESS) {
            known.insert(api_version.to_owned(), (Instant::now(), kinds.clone(), charge));
        }
        Ok(kinds)
    }

    /// Which versions are served, as known a short while ago: for what need not be right, such as a watch.
    pub(crate) async fn lately_served_versions(&self) -> Result<ServedVersions, RequestError> {
        let known = self.known.served.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((at, served)) = known.filter(|(at, _)| at.elapsed() < 2 * GROUPS_KEPT) else {
            return self.renew_served_versions().await;
        };
        if at.elapsed() >= GROUPS_KEPT && !self.known.renewing.swap(true, Ordering::Relaxed) {
            let connection = self.clone();
            tokio::spawn(async move {
                // Where it fails, whoever needs it next asks and is told why.
                let _ = connection.renew_served_versions().await;
                connection.known.renewing.store(false, Ordering::Relaxed);
            });
        }
        Ok(served)
    }

    async fn renew_served_versions(&self) -> Result<ServedVersions, RequestError> {
        let served = self.served_versions().await?;
        let renewed = Some((Instant::now(), served.clone()));
        *self.known.served.lock().unwrap_or_else(PoisonError::into_inner) = renewed;
        Ok(served)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::kind::KUSTOMIZATION;
    use crate::client::server::{ApiServer, Script};
    use host::waiting::end_of;

    #[test]
    fn a_definition_is_known_where_there_is_room_for_it() {
        let (name, uid) = ("clusters.cluster.x-k8s.io", "3f0c");
        let resource = crate::client::kind::CUSTOM_RESOURCE_DEFINITION.resource("v1");
        let object = |version: &str| {
            let mut object = DynamicObject::new(name, &resource);
            (object.metadata.uid, object.metadata.resource_version) = (Some(uid.to_owned()), Some(version.to_owned()));
            object
        };
        let definition = CustomResourceDefinition {
            name: name.to_owned(),
            established: true,
            names_accepted: true,
            deleting: false,
            versions: vec!["v1beta1".to_owned(), "v1beta2".to_owned()],
            served_versions: vec!["v1beta2".to_owned()],
            storage_version: Some("v1beta2".to_owned()),
            stored_versions: vec!["v1beta2".to_owned()],
            conversion_authority_injected: Some(true),
        };
        let known = Known::within(Account::of(4096));
        known.remember_definition(&object("1"), &definition);
        assert_eq!(known.definition(&object("1")).as_ref(), Some(&definition));
        let taken = known.memory.taken();
        assert!(taken > ENTRY, "{taken}");
        // A newer version of it takes its place.
        known.remember_definition(&object("2"), &definition);
        assert_eq!((known.definition(&object("1")), known.memory.taken()), (None, taken));
        known.forget_definitions(|_| false);
        assert_eq!(known.memory.taken(), 0);
        let known = Known::within(Account::of(taken - 1));
        known.remember_definition(&object("1"), &definition);
        assert_eq!((known.definition(&object("1")), known.memory.taken()), (None, 0));
    }

    #[tokio::test]
    async fn what_is_served_is_looked_up_again_beside_who_wants_to_know_it() {
        let serves = |version| Script::default().serves(&[(version, &[])]);
        let (before, after) = ("kustomize.toolkit.fluxcd.io/v1beta2", "kustomize.toolkit.fluxcd.io/v1");
        let server = ApiServer::start(serves(before)).await;
        let connection = server.connection();
        let version = async || connection.lately_served_versions().await.unwrap().version_of(&KUSTOMIZATION);
        let grow_old = |age: Duration| {
            let mut served = connection.known.served.lock().unwrap();
            served.as_mut().unwrap().0 = Instant::now().checked_sub(age).unwrap();
        };
        assert_eq!(version().await, Some("v1beta2"));
        server.answer(serves(after));
        assert_eq!(version().await, Some("v1beta2"));
        assert_eq!(server.asked().len(), 1);

        // Somewhat old, it is good enough for whoever asks, and then it is not old any more.
        grow_old(GROUPS_KEPT);
        let renewed = async {
            while version().await != Some("v1") {
                tokio::task::yield_now().await;
            }
        };
        end_of("it is looked up again", renewed).await;
        assert_eq!(server.asked().len(), 2);

        // Old, it is waited for.
        server.answer(serves(before));
        grow_old(2 * GROUPS_KEPT);
        assert_eq!(version().await, Some("v1beta2"));
    }
}
