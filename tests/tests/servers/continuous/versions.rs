//! What kubelets of nodes in memory run, told on the server that stands in for that of a cluster which manages itself: a node upgrade changes the
//! first, and Stepgate reads the second.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::external_etcd::bench::{CLUSTER, NAMESPACE};
use crate::in_place::kubelets::{of, workload};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Ends when dropped.
pub struct Versions(JoinHandle<()>);

impl Versions {
    /// Tells them from now on.
    pub async fn follow(management: &Client) -> anyhow::Result<Self> {
        let (own, management) = (workload(management, NAMESPACE, CLUSTER).await?, management.clone());
        Ok(Self(tokio::spawn(async move {
            loop {
                // What could not be told is told the next time.
                let _again = tell(&own, &management).await;
                tokio::time::sleep(PAUSE).await;
            }
        })))
    }
}

impl Drop for Versions {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn tell(own: &Client, management: &Client) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(management.clone());
    for node in of(own, "Node", None).list(&ListParams::default()).await? {
        let runs = node.data.pointer("/status/nodeInfo/kubeletVersion").and_then(Value::as_str).unwrap_or_default();
        let Some(known) = nodes.get_opt(&node.name_any()).await? else { continue };
        let told = known.status.and_then(|status| status.node_info).unwrap_or_default().kubelet_version;
        if !runs.is_empty() && told != runs {
            let status = json!({"status": {"nodeInfo": {"kubeletVersion": runs}}});
            nodes.patch_status(&node.name_any(), &PatchParams::default(), &Patch::Strategic(status)).await?;
        }
    }
    Ok(())
}
