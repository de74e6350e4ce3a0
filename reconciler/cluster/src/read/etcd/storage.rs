//! How full the members of an external etcd are, and which alarms they have raised.

use std::collections::BTreeSet;

use axum::http::Request;
use serde_json::Value;

use super::{Asked, Credentials, Listed, Unknown, host, url};
use crate::client::connection::Connection;
use crate::read::metrics;

/// What the members of an etcd say of their databases.
pub(crate) struct Storage {
    pub(crate) alarms: Vec<Alarm>,
    pub(crate) databases: Vec<Database>,
    /// What could not be read, in one line each.
    pub(crate) unread: Vec<Unknown>,
}

/// An alarm that a member has raised.
pub(crate) struct Alarm {
    pub(crate) member: Member,
    pub(crate) name: String,
}

/// The database of a member, in bytes.
pub(crate) struct Database {
    pub(crate) member: Member,
    pub(crate) size: u64,
    pub(crate) in_use: Option<u64>,
    pub(crate) quota: Option<u64>,
}

/// Whose it is.
#[derive(Clone)]
pub(crate) struct Member {
    /// Its name, or its identifier where it has none.
    pub(crate) name: String,
    /// Hosts of its addresses.
    pub(crate) hosts: Vec<String>,
}

/// Asks one member for the alarms of all, and each for its database.
pub(crate) async fn storage(connection: &Connection, asked: &Asked<'_>) -> Result<Storage, Unknown> {
    let credentials = Credentials::read(connection, asked).await?;
    let known: BTreeSet<String> = asked.addresses.iter().filter_map(|address| host(address)).collect();
    let mut last = String::from("no machine of it has an address yet");
    for address in &asked.addresses {
        let listed = match credentials.list(address).await {
            Ok(listed) => listed,
            Err(problem) => {
                last = format!("{address}: {}", problem.words());
                continue;
            }
        };
        let mut storage = Storage { alarms: Vec::new(), databases: Vec::new(), unread: Vec::new() };
        match credentials.alarms(address, &listed).await {
            Ok(alarms) => storage.alarms = alarms,
            Err(reason) => storage.unread.push(format!("etcd's alarms could not be read: {address}: {reason}")),
        }
        let databases = listed.iter().map(|member| credentials.database(member, &known));
        for (database, member) in futures::future::join_all(databases).await.into_iter().zip(&listed) {
            match database {
                Ok(database) => storage.databases.push(database),
                Err(reason) => {
                    let name = member.member().name;
                    storage.unread.push(format!("the size of etcd's member {name} could not be read: {reason}"));
                }
            }
        }
        return Ok(storage);
    }
    Err(last)
}

impl Listed {
    fn member(&self) -> Member {
        let name = if self.name.is_empty() { &self.id } else { &self.name };
        Member { name: name.clone(), hosts: self.hosts() }
    }
}

impl Credentials {
    /// Alarms are the cluster's: each member knows those of all.
    async fn alarms(&self, address: &str, listed: &[Listed]) -> Result<Vec<Alarm>, Unknown> {
        let request = Request::post(url(address, "/v3/maintenance/alarm")).body(br#"{"action":"GET"}"#.to_vec());
        let answer = self.send(request).await.map_err(|problem| problem.words().to_owned())?;
        refusal(&answer)?;
        let alarms = answer.get("alarms").and_then(Value::as_array).into_iter().flatten();
        let alarm = |alarm: &Value| {
            let id = alarm.get("memberID").and_then(Value::as_str).unwrap_or_default();
            let name = alarm.get("alarm").and_then(Value::as_str).filter(|name| *name != "NONE")?;
            let unlisted = || Member { name: id.to_owned(), hosts: Vec::new() };
            let member = listed.iter().find(|member| member.id == id).map_or_else(unlisted, Listed::member);
            Some(Alarm { member, name: name.to_owned() })
        };
        Ok(alarms.filter_map(alarm).collect())
    }

    async fn database(&self, listed: &Listed, known: &BTreeSet<String>) -> Result<Database, Unknown> {
        let is_known = |address: &String| host(address).is_some_and(|host| known.contains(&host));
        let address = listed.address().filter(is_known).ok_or("no machine has its address, so it is not asked")?;
        let request = Request::post(url(&address, "/v3/maintenance/status")).body(b"{}".to_vec());
        let answer = self.send(request).await.map_err(|problem| problem.words().to_owned())?;
        refusal(&answer)?;
        let number = |key: &str| answer.get(key)?.as_str()?.parse::<u64>().ok();
        let size = number("dbSize").ok_or("its status has no size")?;
        let quota = match number("dbSizeQuota") {
            Some(quota) => Some(quota),
            None => self.quota(&address).await,
        };
        Ok(Database { member: listed.member(), size, in_use: number("dbSizeInUse"), quota })
    }

    /// The quota of a member before etcd 3.6, which tells it among its metrics alone.
    async fn quota(&self, address: &str) -> Option<u64> {
        let request = Request::get(url(address, "/metrics")).body(Vec::new());
        let bytes = self.bytes(request).await.ok()?;
        metrics::values(&String::from_utf8_lossy(&bytes), "etcd_server_quota_backend_bytes").max()
    }
}

/// Why a member does not answer what it is asked.
fn refusal(answer: &Value) -> Result<(), Unknown> {
    match ["message", "error"].iter().find_map(|key| answer.get(*key)?.as_str()) {
        Some(told) => Err(told.to_owned()),
        None => Ok(()),
    }
}
