//! The nodes of machines in memory, on the server that stands in for their cluster's own: registered as kubelets
//! register them, and gone with their machines.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::Value;
use tests::servers::FakeKubelet;
use tests::servers::manifests::list;
use tokio::task::JoinHandle;

use crate::machines::MACHINE;

/// Ends when dropped.
pub struct Nodes(JoinHandle<()>);

impl Nodes {
    /// Follows the machines of a namespace.
    pub fn follow(client: &Client, namespace: &'static str) -> Self {
        let client = client.clone();
        Self(tokio::spawn(async move {
            let mut running = BTreeMap::new();
            loop {
                // What could not be read or written is looked at the next time.
                let _ = follow(&client, namespace, &mut running).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }))
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn follow(client: &Client, namespace: &str, running: &mut BTreeMap<String, FakeKubelet>) -> anyhow::Result<()> {
    let machines = list(client, MACHINE, namespace).await?;
    let node = |machine: &Value| Some(machine.pointer("/status/nodeRef/name")?.as_str()?.to_owned());
    let version = |machine: &Value| Some(machine.pointer("/spec/version")?.as_str()?.to_owned());
    let wanted: BTreeMap<String, String> =
        machines.iter().filter_map(|machine| Some((node(&machine.data)?, version(&machine.data)?))).collect();
    let gone: Vec<String> = running.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
    for name in gone {
        running.remove(&name);
        Api::<Node>::all(client.clone()).delete(&name, &DeleteParams::default()).await?;
    }
    for (name, version) in wanted {
        if let Entry::Vacant(new) = running.entry(name) {
            let kubelet = FakeKubelet::start(client, &[new.key()], &version).await?;
            new.insert(kubelet);
        }
    }
    Ok(())
}
