//! Carrying out a restore.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::compare::SavedState;
use super::object::{Key, anew, key, owners, text};
use super::order::ordered;
use super::pausing::{Pause, RestoreMark, going_on, mark_of, pause_of, pausing, was_paused};
use super::read::{Beside, Read, owners_now};
use super::{Restore, RestoreError};
use crate::client::error::RequestError;
use crate::client::kind::NAMESPACE;
use crate::client::request::Address;

/// How often everything is compared and what differs restored, where others write at the same time.
const PASSES: usize = 4;

/// How a restore is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Who restores.
    pub owner: String,
    /// Why, for those who find a paused Cluster.
    pub reason: String,
    /// The time, by the caller's clock.
    pub at: Timestamp,
    /// Whether objects that are newer than the backup are put back to it.
    pub overwrite_newer: bool,
}

/// What was done, each as `Kind namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Made anew.
    pub created: Vec<String>,
    /// Put back to what was saved.
    pub changed: Vec<String>,
    /// Let go on at the end.
    pub resumed: Vec<String>,
}

impl Restore {
    /// Restores what is missing or changed, and lets the clusters go on once everything is there.
    ///
    /// # Errors
    /// When something is in the way (nothing is written then), or a request fails: what was paused
    /// stays so, and restoring again goes on.
    pub async fn carry_out(&self, options: &RestoreOptions) -> Result<Restored, RestoreError> {
        let mut restored = Restored::default();
        for pass in 1..=PASSES {
            let read = self.read().await?;
            let comparison = read.comparison();
            let obstacles = comparison.obstacles(options.overwrite_newer);
            if !obstacles.is_empty() && pass == 1 {
                return Err(RestoreError::InTheWay { obstacles });
            }
            if read.objects.iter().all(|beside| beside.state == SavedState::Same) {
                self.let_go(&read, &mut restored).await?;
                return Ok(restored);
            }
            if pass == PASSES {
                let differing = comparison.objects.into_iter().filter(|object| object.state != SavedState::Same);
                let differing = differing.map(|object| format!("{} is {}", object.object, object.state.word()));
                return Err(RestoreError::Unsettled { passes: PASSES, differing: differing.collect() });
            }
            self.keep_still(&read, options, None).await?;
            self.put(&read, options, &mut restored).await?;
        }
        Ok(restored)
    }

    /// Keeps still what is there, since another management cluster, at this address, gets it. Here it never goes on.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn leave(&self, options: &RestoreOptions, to: &str) -> Result<(), RequestError> {
        self.keep_still(&self.read().await?, options, Some(to)).await
    }

    /// Pauses what is there and pauses others.
    async fn keep_still(
        &self,
        read: &Read<'_>,
        options: &RestoreOptions,
        moved_to: Option<&str>,
    ) -> Result<(), RequestError> {
        for beside in &read.objects {
            let (Some(live), Some(address), Some(pause)) = (&beside.live, &beside.address, pause_of(&beside.key))
            else {
                continue;
            };
            if mark_of(live).is_none() {
                let mark = RestoreMark { moved_to: moved_to.map(str::to_owned), ..options.mark(was_paused(live)) };
                self.patch(beside, address, pausing(pause, &mark)).await?;
            }
        }
        Ok(())
    }

    async fn patch(&self, beside: &Beside<'_>, address: &Address, patch: Value) -> Result<(), RequestError> {
        let place = beside.namespace();
        self.connection.merge(&address.resource, place, &beside.key.name, &patch, false).await.map(drop)
    }

    /// Makes what is missing, and puts back what differs.
    async fn put(
        &self,
        read: &Read<'_>,
        options: &RestoreOptions,
        restored: &mut Restored,
    ) -> Result<(), RequestError> {
        let is_missing = |beside: &&Beside<'_>| beside.state == SavedState::Missing;
        let places: BTreeSet<&str> = read.objects.iter().filter(is_missing).filter_map(Beside::namespace).collect();
        for place in places {
            self.ensure_namespace(place).await?;
        }
        let mut uids = read.uids();
        let by_key: BTreeMap<&Key, &Beside<'_>> = read.objects.iter().map(|beside| (&beside.key, beside)).collect();
        let saved: Vec<&Value> = read.objects.iter().map(|beside| beside.saved).collect();
        for object in ordered(&saved) {
            let Some(beside) = by_key.get(&key(object)) else { continue };
            let Some(address) = &beside.address else { continue };
            match beside.state {
                SavedState::Missing => {
                    if let Some(uid) = self.create(beside, address, &uids, options).await? {
                        uids.insert(beside.key.clone(), uid);
                        restored.created.push(beside.key.to_string());
                    }
                }
                SavedState::Changed => {
                    if self.relink(beside, address, &uids).await? {
                        restored.changed.push(beside.key.to_string());
                    }
                }
                SavedState::Newer if options.overwrite_newer => {
                    if self.overwrite(beside, address, &uids).await? {
                        restored.changed.push(beside.key.to_string());
                    }
                }
                SavedState::Newer | SavedState::Leaving | SavedState::NotServed | SavedState::Same => {}
            }
        }
        Ok(())
    }

    async fn ensure_namespace(&self, name: &str) -> Result<(), RequestError> {
        let resource = NAMESPACE.resource("v1");
        if self.connection.get(&resource, None, name).await?.is_some() {
            return Ok(());
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match self.connection.create(&resource, None, &namespace).await {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// The uid of what was made; none where somebody else was faster, which the next pass looks at.
    async fn create(
        &self,
        beside: &Beside<'_>,
        address: &Address,
        uids: &BTreeMap<Key, String>,
        options: &RestoreOptions,
    ) -> Result<Option<String>, RequestError> {
        let (owners, _) = owners_now(beside.saved, uids);
        let mut object = anew(beside.saved, owners);
        if let Some(pause) = pause_of(&beside.key) {
            merge(&mut object, &pausing(pause, &options.mark(was_paused(beside.saved))));
        }
        match self.connection.create(&address.resource, beside.namespace(), &object).await {
            Ok(created) => Ok(created.metadata.uid),
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives labels and owners back. False where somebody else was faster.
    async fn relink(
        &self,
        beside: &Beside<'_>,
        address: &Address,
        uids: &BTreeMap<Key, String>,
    ) -> Result<bool, RequestError> {
        let Some(live) = self.live_now(beside, address).await? else { return Ok(false) };
        let mut patch = json!({"metadata": restored_metadata(beside.saved, &live, uids)});
        merge(&mut patch, &json!({"metadata": {"resourceVersion": live.pointer("/metadata/resourceVersion")}}));
        settled(self.patch(beside, address, patch).await)
    }

    /// Puts an object back to what was saved. False where somebody else was faster.
    async fn overwrite(
        &self,
        beside: &Beside<'_>,
        address: &Address,
        uids: &BTreeMap<Key, String>,
    ) -> Result<bool, RequestError> {
        let Some(live) = self.live_now(beside, address).await? else { return Ok(false) };
        let mut object = anew(beside.saved, Vec::new());
        let metadata = live.get("metadata").cloned().unwrap_or_default();
        merge(&mut object, &json!({"metadata": null}));
        merge(&mut object, &json!({"metadata": metadata}));
        merge(&mut object, &json!({"metadata": restored_metadata(beside.saved, &live, uids)}));
        if pause_of(&beside.key) == Some(Pause::Field) {
            merge(&mut object, &json!({"spec": {"paused": true}}));
        }
        let place = beside.namespace();
        settled(self.connection.replace(&address.resource, place, &beside.key.name, &object, false).await.map(drop))
    }

    /// What is there now: it may have been paused since it was compared.
    async fn live_now(&self, beside: &Beside<'_>, address: &Address) -> Result<Option<Value>, RequestError> {
        let live = self.connection.get(&address.resource, beside.namespace(), &beside.key.name).await?;
        Ok(live.and_then(|live| serde_json::to_value(live).ok()))
    }

    /// Lets everything go on that a restore keeps still, Clusters of Cluster API first.
    async fn let_go(&self, read: &Read<'_>, restored: &mut Restored) -> Result<(), RequestError> {
        let mut kept: Vec<(&Beside<'_>, &Address, Pause, RestoreMark)> = Vec::new();
        for beside in &read.objects {
            let mark = beside.live.as_ref().and_then(mark_of).filter(|mark| mark.moved_to.is_none());
            if let (Some(address), Some(pause), Some(mark)) = (&beside.address, pause_of(&beside.key), mark) {
                kept.push((beside, address, pause, mark));
            }
        }
        kept.sort_by_key(|(_, _, pause, _)| *pause != Pause::Field);
        for (beside, address, pause, mark) in kept {
            self.patch(beside, address, going_on(pause, &mark)).await?;
            restored.resumed.push(beside.key.to_string());
        }
        Ok(())
    }
}

impl RestoreOptions {
    fn mark(&self, paused_before: bool) -> RestoreMark {
        RestoreMark {
            owner: self.owner.clone(),
            reason: self.reason.clone(),
            since: self.at,
            paused_before,
            moved_to: None,
        }
    }
}

/// Labels and owners, as they are to be.
fn restored_metadata(saved: &Value, live: &Value, uids: &BTreeMap<Key, String>) -> Value {
    let mut metadata = json!({"ownerReferences": all_owners(saved, live, uids)});
    if let Some(labels) = saved.pointer("/metadata/labels") {
        merge(&mut metadata, &json!({"labels": labels}));
    }
    metadata
}

/// The owners of what is there, with those that were saved linked to what is there now.
fn all_owners(saved: &Value, live: &Value, uids: &BTreeMap<Key, String>) -> Vec<Value> {
    let (there, _) = owners_now(saved, uids);
    let names = |owner: &Value| (text(owner, "/kind").to_owned(), text(owner, "/name").to_owned());
    let known: BTreeSet<_> = there.iter().map(names).collect();
    owners(live).iter().filter(|owner| !known.contains(&names(owner))).cloned().chain(there).collect()
}

/// Whether it was done; a conflict is left to the next pass.
fn settled(outcome: Result<(), RequestError>) -> Result<bool, RequestError> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.is_conflict() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Merges a patch into an object, as the server does (RFC 7386).
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    let Some(target) = object.as_object_mut() else { return };
    for (name, value) in fields {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
