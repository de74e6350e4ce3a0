//! Leaders for the etcd in memory. Machines in memory bring a member each, also where the control plane uses an external etcd; Cluster API, which
//! hands the lead over before it deletes a machine, does so for its own etcd only, and without a leader no machine comes up any more.

use std::time::Duration;

use kube::api::{DynamicObject, ListParams, PostParams, TypeMeta};
use kube::{Client, ResourceExt as _};
use tokio::task::JoinHandle;

use crate::external_etcd::bench::{CLUSTER, NAMESPACE};
use crate::in_place::kubelets::{of, workload};

/// Since when a member leads, as the provider of machines in memory notes it on the member's Pod.
const LEADER: &str = "etcd.inmemory.infrastructure.cluster.x-k8s.io/leader-from";

/// Between two looks: less than a machine takes to come up.
const PAUSE: Duration = Duration::from_millis(500);

/// Ends when dropped.
pub struct Elections(JoinHandle<()>);

impl Elections {
    /// Elects whenever nobody leads.
    pub async fn hold(management: &Client) -> anyhow::Result<Self> {
        let own = workload(management, NAMESPACE, CLUSTER).await?;
        Ok(Self(tokio::spawn(async move {
            loop {
                // What is refused now is done the next time.
                let _again = elect(&own).await;
                tokio::time::sleep(PAUSE).await;
            }
        })))
    }
}

impl Drop for Elections {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn elect(own: &Client) -> anyhow::Result<()> {
    let pods = of(own, "Pod", Some("kube-system"));
    let members = pods.list(&ListParams::default().labels("component=etcd,tier=control-plane")).await?.items;
    let leads = |member: &DynamicObject| member.annotations().contains_key(LEADER);
    let next = members.iter().find(|member| member.metadata.deletion_timestamp.is_none());
    let Some(mut next) = next.filter(|_| !members.iter().any(leads)).cloned() else { return Ok(()) };
    // Replaced and not patched: of what is patched, that server keeps a form which its provider cannot read.
    next.types = Some(TypeMeta { api_version: "v1".to_owned(), kind: "Pod".to_owned() });
    next.annotations_mut().insert(LEADER.to_owned(), format!("{:.0}", jiff::Timestamp::now()));
    pods.replace(&next.name_any(), &PostParams::default(), &next).await?;
    Ok(())
}
