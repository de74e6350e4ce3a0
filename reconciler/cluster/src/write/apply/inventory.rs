//! What was applied, kept in the cluster: an object that is in it and in git no longer is ours to delete.
//!
//! It is written before the first object is, with what is about to be applied added, and once more after the last one was deleted.
//! So whenever this program dies, nothing that it applied is missing from the inventory. Losing it deletes nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ApplyError;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{CONFIG_MAP, NAMESPACE};
use crate::kubernetes::SYSTEM_NAMESPACE;

/// The key of the inventory's `ConfigMap`.
const OBJECTS: &str = "objects";

/// An object that was applied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) group: String,
    pub(super) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// The version that it was applied in; no part of its identity.
    pub(super) version: String,
    /// The uid that it had when it was applied; none where this program died before it knew. No part of its identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) uid: Option<String>,
}

impl Entry {
    /// Whether both are one object.
    pub(super) fn is(&self, other: &Self) -> bool {
        (&self.group, &self.kind, &self.namespace, &self.name)
            == (&other.group, &other.kind, &other.namespace, &other.name)
    }
}

/// The inventory of one cluster's directory.
pub(super) struct Inventory<'a> {
    connection: &'a Connection,
    name: String,
    /// `resourceVersion` of what was read; none where there is no inventory yet.
    version: Option<String>,
    pub(super) entries: BTreeSet<Entry>,
}

impl<'a> Inventory<'a> {
    /// Reads the inventory; an empty one where there is none.
    pub(super) async fn read(connection: &'a Connection, cluster: &str) -> Result<Self, ApplyError> {
        let name = format!("inventory-{cluster}");
        let failed = ApplyError::Inventory;
        let found = connection.get(&CONFIG_MAP.resource("v1"), Some(SYSTEM_NAMESPACE), &name).await.map_err(failed)?;
        let mut inventory = Self { connection, name, version: None, entries: BTreeSet::new() };
        if let Some(found) = found {
            let text = found.data.get("data").and_then(|data| data.get(OBJECTS)).and_then(Value::as_str);
            inventory.version.clone_from(&found.metadata.resource_version);
            inventory.entries = serde_json::from_str(text.unwrap_or_default()).map_err(|error| {
                // To take it for empty would forget what was applied.
                ApplyError::InventoryUnreadable { name: inventory.name.clone(), reason: error.to_string() }
            })?;
        }
        Ok(inventory)
    }

    /// Writes the inventory, unless it says this already. Another writer's change in between is a conflict.
    pub(super) async fn write(&mut self, entries: BTreeSet<Entry>) -> Result<(), ApplyError> {
        if self.entries == entries && (self.version.is_some() || entries.is_empty()) {
            return Ok(());
        }
        let resource = CONFIG_MAP.resource("v1");
        let text = serde_json::to_string(&entries)
            .map_err(|error| ApplyError::InventoryUnreadable { name: self.name.clone(), reason: error.to_string() })?;
        let data = json!({OBJECTS: text});
        let written = match &self.version {
            // Not applied: what was created and then applied would be in conflict with itself.
            Some(version) => {
                let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
                self.connection.merge(&resource, Some(SYSTEM_NAMESPACE), &self.name, &patch, false).await
            }
            None => {
                self.ensure_namespace().await.map_err(ApplyError::Inventory)?;
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
                    "metadata": {"name": self.name, "labels": {"app.kubernetes.io/managed-by": "stepgate"}}});
                self.connection.create(&resource, Some(SYSTEM_NAMESPACE), &object).await
            }
        };
        self.version = written.map_err(ApplyError::Inventory)?.metadata.resource_version;
        self.entries = entries;
        Ok(())
    }

    async fn ensure_namespace(&self) -> Result<(), RequestError> {
        let resource = NAMESPACE.resource("v1");
        if self.connection.get(&resource, None, SYSTEM_NAMESPACE).await?.is_none() {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}});
            self.connection.apply(&resource, None, SYSTEM_NAMESPACE, &object, false).await?;
        }
        Ok(())
    }
}
