//! What a cluster's own API server says of its nodes.

use in_place::files::{KUBE_VIP, files};
use in_place::order::Holder;
use kube::core::DynamicObject;
use serde_json::Value;

use super::pods;
use super::snapshot::{ClusterKey, Snapshot};
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{LEASE, NODE, POD};
use crate::read::workload::Own;

/// Where static Pods are, and the Lease of the virtual address.
const SYSTEM: &str = "kube-system";

/// kube-vip's own name for its Lease.
const ADDRESS_LEASE: &str = "plndr-cp-lock";

/// The Lease of a cluster's virtual address.
pub(super) struct AddressLease {
    name: String,
    /// Whether there has to be one.
    is_expected: bool,
}

/// As the kube-vip says that machines of the control plane are made with.
pub(super) fn address_lease(snapshot: &Snapshot, cluster: &ClusterKey) -> AddressLease {
    let owners = Snapshot::of(&snapshot.control_planes, cluster);
    let mut pods = owners.filter_map(|owner| kube_vip(owner.data.pointer("/spec/kubeadmConfigSpec")?));
    let usual = || ADDRESS_LEASE.to_owned();
    match pods.next() {
        None => AddressLease { name: usual(), is_expected: false },
        Some(pod) => AddressLease {
            name: setting(&pod, "vip_leasename").map_or_else(usual, str::to_owned),
            is_expected: setting(&pod, "vip_leaderelection") == Some("true"),
        },
    }
}

fn kube_vip(configuration: &Value) -> Option<Value> {
    let file = files(configuration).into_iter().find(|file| file.file.path == KUBE_VIP)?;
    let text = String::from_utf8(file.content).ok()?;
    let document = yaml::parse(&text, &yaml::Limits::default()).ok()?.into_iter().next()?;
    serde_json::from_str(&yaml::json::to_json(&document.root)).ok()
}

fn setting<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    let variables = pod.pointer("/spec/containers/0/env").and_then(Value::as_array)?;
    variables.iter().find(|variable| variable["name"] == name)?.get("value")?.as_str()
}

/// The label of a control plane's static Pods.
const CONTROL_PLANE: &str = "tier=control-plane";

/// What was read, or why it was not.
pub(super) struct Reading {
    pub(super) connection: Option<Connection>,
    pub(super) read: Result<Read, String>,
}

/// What was read.
#[derive(Default)]
pub(super) struct Read {
    pub(super) nodes: Vec<DynamicObject>,
    pub(super) components: Vec<DynamicObject>,
    pub(super) upgraders: Vec<DynamicObject>,
    pub(super) address_holder: Holder,
}

impl Reading {
    pub(super) async fn of(management: &Connection, own: &Own, lease: &AddressLease) -> Self {
        let connection = match own.connect(management).await {
            Ok(opened) => opened.connection,
            Err(error) => return Self { connection: None, read: Err(error.to_string()) },
        };
        let read = read(&connection, lease).await.map_err(|error| error.to_string());
        Self { connection: Some(connection), read }
    }
}

async fn read(connection: &Connection, lease: &AddressLease) -> Result<Read, RequestError> {
    Ok(Read {
        nodes: connection.list(&NODE, Some("v1"), None, None).await?,
        components: connection.list(&POD, Some("v1"), Some(SYSTEM), Some(CONTROL_PLANE)).await?,
        upgraders: pods::list(connection).await?,
        address_holder: holder(connection, lease).await?,
    })
}

async fn holder(connection: &Connection, lease: &AddressLease) -> Result<Holder, RequestError> {
    let AddressLease { name, is_expected } = lease;
    let found = connection.get(&LEASE.resource("v1"), Some(SYSTEM), name).await?;
    let holder = found.and_then(|found| found.data.pointer("/spec/holderIdentity")?.as_str().map(str::to_owned));
    Ok(match holder.filter(|holder| !holder.is_empty()) {
        Some(holder) => Holder::Known(holder),
        None if *is_expected => Holder::Unknown(format!("Lease {SYSTEM}/{name} names no holder")),
        None => Holder::Nobody,
    })
}
