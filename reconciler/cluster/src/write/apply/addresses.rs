//! How the kinds of manifests are addressed, each version looked up once.

use std::collections::BTreeMap;

use tokio::time::{Instant, sleep};

use super::inventory::Entry;
use super::{ESTABLISHED_POLL, ESTABLISHED_WITHIN};
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::request::Address;

pub(super) struct Addresses<'a> {
    connection: &'a Connection,
    known: BTreeMap<String, Vec<Address>>,
}

impl<'a> Addresses<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, known: BTreeMap::new() }
    }

    /// How a kind is addressed; none where it is not served.
    pub(super) async fn find(&mut self, api_version: &str, kind: &str) -> Result<Option<Address>, RequestError> {
        if let Some(kinds) = self.known.get(api_version) {
            return Ok(kinds.iter().find(|address| address.resource.kind == kind).cloned());
        }
        let kinds = self.connection.kinds(api_version).await?;
        let found = kinds.iter().find(|address| address.resource.kind == kind).cloned();
        self.known.insert(api_version.to_owned(), kinds);
        Ok(found)
    }

    /// The same for a kind whose definition was applied just now: it is established some moments before it is listed.
    pub(super) async fn find_defined(
        &mut self,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Address>, RequestError> {
        let deadline = Instant::now() + ESTABLISHED_WITHIN;
        loop {
            if let Some(found) = self.find(api_version, kind).await? {
                return Ok(Some(found));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            self.known.remove(api_version);
            sleep(ESTABLISHED_POLL).await;
        }
    }

    /// How an object of the inventory is addressed: in the version that it was applied in, else in the one that the server prefers.
    pub(super) async fn of_entry(&mut self, entry: &Entry) -> Result<Option<Address>, RequestError> {
        let api_version =
            if entry.group.is_empty() { entry.version.clone() } else { format!("{}/{}", entry.group, entry.version) };
        if let Some(found) = self.find(&api_version, &entry.kind).await? {
            return Ok(Some(found));
        }
        match self.connection.served_versions().await?.api_version(&entry.group) {
            Some(preferred) => self.find(&preferred, &entry.kind).await,
            None => Ok(None),
        }
    }
}
