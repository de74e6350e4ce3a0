//! What is there of the objects of a backup.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compare::{ComparedObject, Judged, SavedState, differing_fields, judge};
use super::object::{Key, anew, key, linked, owner_keys, owners, text};
use super::pausing::mark_of;
use super::{Comparison, Restore};
use crate::client::concurrent::concurrently;
use crate::client::error::RequestError;
use crate::client::request::Address;

/// A saved object beside the one that is there.
#[derive(Debug)]
pub(super) struct Beside<'b> {
    pub(super) saved: &'b Value,
    pub(super) key: Key,
    /// None where its kind is not served.
    pub(super) address: Option<Address>,
    pub(super) live: Option<Value>,
    pub(super) state: SavedState,
    pub(super) detail: String,
}

/// What was read.
#[derive(Debug)]
pub(super) struct Read<'b> {
    pub(super) objects: Vec<Beside<'b>>,
    /// UIDs of owners that the backup does not hold, and that are there.
    pub(super) outside: BTreeMap<Key, String>,
    pub(super) remarks: Vec<String>,
}

impl Read<'_> {
    /// The uids of what is there.
    pub(super) fn uids(&self) -> BTreeMap<Key, String> {
        let known = self.objects.iter().filter_map(|beside| {
            let uid = beside.live.as_ref().map(|live| text(live, "/metadata/uid").to_owned())?;
            Some((beside.key.clone(), uid))
        });
        self.outside.iter().map(|(key, uid)| (key.clone(), uid.clone())).chain(known).collect()
    }

    pub(super) fn comparison(&self) -> Comparison {
        let mut objects: Vec<ComparedObject> = self.objects.iter().map(Beside::compared).collect();
        objects.sort_by(|one, other| (one.state, &one.object).cmp(&(other.state, &other.object)));
        let kept = |beside: &Beside<'_>| {
            let mark = beside.live.as_ref().and_then(mark_of)?;
            Some(format!("{} since {} by {}: {}", beside.key, mark.since, mark.owner, mark.reason))
        };
        let kept_still = self.objects.iter().filter_map(kept).collect();
        let moved = self.objects.iter().filter_map(|beside| {
            let mark = beside.live.as_ref().and_then(mark_of)?;
            Some(format!("{} was moved to {} by {}", beside.key, mark.moved_to?, mark.owner))
        });
        let moved = moved.collect();
        Comparison { objects, kept_still, moved, remarks: self.remarks.clone() }
    }
}

impl Beside<'_> {
    fn compared(&self) -> ComparedObject {
        ComparedObject { object: self.key.to_string(), state: self.state, detail: self.detail.clone() }
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        Some(self.key.namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }
}

/// The owners of a saved object as they are there, and those that are not.
pub(super) fn owners_now(saved: &Value, uids: &BTreeMap<Key, String>) -> (Vec<Value>, Vec<Value>) {
    let namespace = text(saved, "/metadata/namespace");
    let (mut there, mut absent) = (Vec::new(), Vec::new());
    for owner in owners(saved) {
        match owner_keys(owner, namespace).iter().find_map(|key| uids.get(key)) {
            Some(uid) => there.push(linked(owner, uid)),
            None => absent.push(owner.clone()),
        }
    }
    (there, absent)
}

impl Restore {
    /// How the backup stands to what is there. Nothing is written.
    ///
    /// # Errors
    /// When the API server does not answer, or not to us.
    pub async fn compare(&self) -> Result<Comparison, RequestError> {
        Ok(self.read().await?.comparison())
    }

    pub(super) async fn read(&self) -> Result<Read<'_>, RequestError> {
        let mut addresses: BTreeMap<&str, Vec<Address>> = BTreeMap::new();
        for object in &self.objects {
            let api_version = text(object, "/apiVersion");
            if !addresses.contains_key(api_version) {
                addresses.insert(api_version, self.connection.kinds(api_version).await?);
            }
        }
        let beside = |saved| {
            let key = key(saved);
            let known = addresses.get(text(saved, "/apiVersion")).into_iter().flatten();
            let address = known.into_iter().find(|address| address.resource.kind == key.kind).cloned();
            let (state, detail) = match address {
                Some(_) => (SavedState::Missing, String::new()),
                None => (SavedState::NotServed, format!("{} is not served", text(saved, "/apiVersion"))),
            };
            Beside { saved, key, address, live: None, state, detail }
        };
        let mut objects: Vec<Beside<'_>> = self.objects.iter().map(beside).collect();
        let served: Vec<usize> =
            objects.iter().enumerate().filter(|(_, beside)| beside.address.is_some()).map(|(at, _)| at).collect();
        let get = |at: &usize| {
            let beside = objects.get(*at);
            async move {
                let Some(Beside { address: Some(address), key, .. }) = beside else { return Ok(None) };
                let namespace = Some(key.namespace.as_str()).filter(|_| address.namespaced);
                self.connection.get(&address.resource, namespace, &key.name).await
            }
        };
        let answers = concurrently(served.iter().map(get).collect()).await;
        for (at, answer) in served.into_iter().zip(answers) {
            let live = answer?.and_then(|live| serde_json::to_value(live).ok());
            if let Some(beside) = objects.get_mut(at) {
                beside.live = live;
            }
        }
        let mut read = Read { objects, outside: BTreeMap::new(), remarks: Vec::new() };
        self.read_outside(&mut read).await?;
        self.judge(&mut read).await?;
        Ok(read)
    }

    /// Looks for owners that the backup does not hold. A link to one that is not there would have the object deleted.
    async fn read_outside(&self, read: &mut Read<'_>) -> Result<(), RequestError> {
        let saved: BTreeMap<&Key, ()> = read.objects.iter().map(|beside| (&beside.key, ())).collect();
        let mut outside = BTreeMap::new();
        let mut absent = BTreeMap::new();
        for beside in &read.objects {
            for owner in owners(beside.saved) {
                let keys = owner_keys(owner, &beside.key.namespace);
                if keys.iter().any(|key| saved.contains_key(key) || outside.contains_key(key)) {
                    continue;
                }
                let found = self.live_uid(owner, &beside.key.namespace).await?;
                match found {
                    Some((key, uid)) => {
                        outside.insert(key, uid);
                    }
                    None => {
                        let owner = format!("{} {}", text(owner, "/kind"), text(owner, "/name"));
                        absent.insert(beside.key.clone(), owner);
                    }
                }
            }
        }
        let lost = |(object, owner)| format!("{object} loses its owner {owner}, which is neither saved nor there");
        read.remarks.extend(absent.into_iter().map(lost));
        read.outside = outside;
        for beside in &read.objects {
            if beside.live.is_none() && beside.saved.pointer("/metadata/deletionTimestamp").is_some() {
                let object = &beside.key;
                read.remarks.push(format!("{object} was being deleted when it was saved: delete it again afterwards"));
            }
        }
        Ok(())
    }

    async fn live_uid(&self, owner: &Value, namespace: &str) -> Result<Option<(Key, String)>, RequestError> {
        let address = self.connection.address(text(owner, "/apiVersion"), text(owner, "/kind")).await?;
        let Some(address) = address else { return Ok(None) };
        let place = Some(namespace).filter(|_| address.namespaced);
        let found = self.connection.get(&address.resource, place, text(owner, "/name")).await?;
        let [inside, bare] = owner_keys(owner, namespace);
        let key = if address.namespaced { inside } else { bare };
        Ok(found.and_then(|found| found.metadata.uid).map(|uid| (key, uid)))
    }

    async fn judge(&self, read: &mut Read<'_>) -> Result<(), RequestError> {
        let (uids, outside) = (read.uids(), read.outside.clone());
        let saved: Vec<Key> = read.objects.iter().map(|beside| beside.key.clone()).collect();
        for beside in &mut read.objects {
            let (Some(live), Some(address)) = (&beside.live, &beside.address) else { continue };
            let (there, absent) = owners_now(beside.saved, &uids);
            // An owner that is made anew is linked then; one that is neither saved nor there cannot be.
            let will_be = |owner: &&Value| {
                owner_keys(owner, &beside.key.namespace)
                    .iter()
                    .any(|key| saved.contains(key) && !outside.contains_key(key))
            };
            let has = |owner: &&Value| owners(live).iter().any(|known| text(known, "/uid") == text(owner, "/uid"));
            let lost = there.iter().filter(|owner| !has(owner)).chain(absent.iter().filter(will_be));
            let links: Vec<String> =
                lost.map(|owner| format!("owner {} {}", text(owner, "/kind"), text(owner, "/name"))).collect();
            let judged = match judge(beside.saved, live, self.taken_at, &links) {
                Judged::Unclear(detail) => match self.as_the_server_keeps_it(beside.saved, live, address).await? {
                    Some(kept) if differing_fields(&kept, live).is_empty() => {
                        Judged::metadata(beside.saved, live, &links)
                    }
                    Some(_) | None => Judged::So(SavedState::Newer, detail),
                },
                judged @ Judged::So(..) => judged,
            };
            (beside.state, beside.detail) = match judged {
                Judged::So(state, detail) => (state, detail),
                Judged::Unclear(detail) => (SavedState::Newer, detail),
            };
        }
        Ok(())
    }

    /// What the server would make of the saved content in the place of what is there; none where it refuses that.
    async fn as_the_server_keeps_it(
        &self,
        saved: &Value,
        live: &Value,
        address: &Address,
    ) -> Result<Option<Value>, RequestError> {
        let mut object = anew(saved, owners(live).to_vec());
        if let (Some(object), Some(metadata)) = (object.as_object_mut(), live.get("metadata")) {
            object.insert("metadata".to_owned(), metadata.clone());
        }
        let key = key(saved);
        let namespace = Some(key.namespace.as_str()).filter(|_| address.namespaced);
        match self.connection.replace(&address.resource, namespace, &key.name, &object, true).await {
            Ok(kept) => Ok(serde_json::to_value(kept).ok()),
            Err(RequestError::Refused { .. } | RequestError::Conflict { .. } | RequestError::Forbidden { .. }) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
