//! What EKS makes of each command of the recording eksctl while a test lasts: versions, nodes, and drains by what the real API
//! server answers.

use std::convert::Infallible;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, kind_in};
use tests::waiting::{LONG_PATIENCE, until_within};

use super::applied::Applied;
use super::{GROUP, Scene};

/// The group on whose first node the image of kube-proxy cannot be pulled.
pub const BROKEN: &str = "istio-1-32";

/// Where the images of kube-proxy are.
pub const KUBE_PROXY: &str = "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/kube-proxy";

/// The version that nobody has.
pub const GONE: &str = "v1.32.0-gone";

/// The group after whose end another one is found that nobody has recorded.
const LAST: &str = "ng-shared-1-31";

/// That other group.
pub const LEFT: &str = "lost-1-30";

const SYSTEM: &str = "kube-system";

/// Carries out one command after another, and never ends by itself.
pub async fn carry_out_all(applied: &Applied) -> anyhow::Result<Infallible> {
    let mut done = 0;
    loop {
        let begun = async || Ok(applied.ran().into_iter().nth(done));
        let command = until_within("another command of eksctl", LONG_PATIENCE, begun).await?;
        carry_out(applied, &command).await.with_context(|| command.clone())?;
        done += 1;
    }
}

async fn carry_out(applied: &Applied, command: &str) -> anyhow::Result<()> {
    let scene = &applied.scene;
    match command.splitn(3, ' ').collect::<Vec<_>>().as_slice() {
        ["upgrade", "cluster", ""] => scene.endpoint.raise("v1.32.2-eks-2"),
        ["update", "addon", ""] => scene.coredns("v1.11.4-eksbuild.2").await?,
        ["create", "nodegroup", group] => {
            let nodes = if group.starts_with("ng-shared") { 2 } else { 1 };
            for number in 0..nodes {
                scene.node(&format!("{group}-{number}"), json!({GROUP: group}), "v1.32.1-eks-1").await?;
            }
            let broken = (*group == BROKEN).then(|| format!("{group}-0"));
            scene.kube_proxy(broken.as_deref()).await?;
        }
        ["delete", "nodegroup", group] => {
            scene.drain(group).await?;
            if *group == LAST {
                let groups = std::fs::read_to_string(applied.path("groups"))?;
                std::fs::write(applied.path("groups"), format!("{groups}{LEFT} ACTIVE\n"))?;
                scene.node(LEFT, json!({GROUP: LEFT}), "v1.30.4-eks-1").await?;
            }
            scene.kube_proxy(None).await?;
        }
        _ => bail!("EKS does not know it"),
    }
    // It ends when the cluster says what was asked for.
    applied.let_go().await
}

impl Scene {
    /// kube-proxy on every node. On one its image cannot be pulled; where there is none, all of them are ready.
    pub async fn kube_proxy(&self, broken: Option<&str>) -> anyhow::Result<()> {
        let labels = json!({"k8s-app": "kube-proxy"});
        let version = broken.map_or_else(|| format!("v{}.3", self.endpoint.minor()), |_| GONE.to_owned());
        let image = format!("{KUBE_PROXY}:{version}");
        let container = json!({"name": "kube-proxy", "image": image});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": SYSTEM}});
        let daemon_set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "kube-proxy", "namespace": SYSTEM},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [container]}}}});
        apply(&self.client, &[account, daemon_set]).await?;
        let daemon_sets = kind_in(&self.client, ("apps/v1", "DaemonSet"), SYSTEM).await?;
        let known = daemon_sets.get("kube-proxy").await?;
        let nodes = self.nodes().list(&ListParams::default()).await?.items.len();
        let ready = nodes - usize::from(broken.is_some());
        let status = json!({"status": {"observedGeneration": known.metadata.generation, "numberMisscheduled": 0,
            "desiredNumberScheduled": nodes, "currentNumberScheduled": nodes, "updatedNumberScheduled": nodes,
            "numberReady": ready, "numberAvailable": ready}});
        daemon_sets.patch_status("kube-proxy", &PatchParams::default(), &Patch::Merge(status)).await?;
        let pods = kind_in(&self.client, ("v1", "Pod"), SYSTEM).await?;
        let Some(node) = broken else {
            let at_once = DeleteParams::default().grace_period(0);
            for pod in pods.list(&ListParams::default()).await?.items {
                pods.delete(&pod.metadata.name.unwrap_or_default(), &at_once).await?;
            }
            return Ok(());
        };
        let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "kube-proxy",
            "uid": known.metadata.uid, "controller": true});
        let name = format!("kube-proxy-{node}");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SYSTEM,
            "labels": labels, "ownerReferences": [owner]}, "spec": {"nodeName": node, "containers": [container]}});
        apply(&self.client, &[pod]).await?;
        let waiting = json!({"name": "kube-proxy", "image": image, "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}});
        let status = json!({"status": {"phase": "Pending", "containerStatuses": [waiting],
            "conditions": [{"type": "Ready", "status": "False"}]}});
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// Cordons the nodes of a group, evicts what runs there as far as its budgets let it go, and ends them.
    async fn drain(&self, group: &str) -> anyhow::Result<()> {
        let of_group = ListParams::default().labels(&format!("{GROUP}={group}"));
        let nodes = self.nodes().list(&of_group).await?;
        let names: Vec<String> = nodes.items.into_iter().filter_map(|node| node.metadata.name).collect();
        for name in &names {
            self.cordon(name).await?;
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let at_once = DeleteParams::default().grace_period(0);
        for name in &names {
            let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
            let is_empty = async || {
                let left = pods.list(&on_node).await?.items;
                for pod in left.iter().filter_map(|pod| pod.metadata.name.as_deref()) {
                    match pods.evict(pod, &EvictParams::default()).await {
                        // No kubelet runs here to end it.
                        Ok(_) => drop(pods.delete(pod, &at_once).await?),
                        // It is asked again, as eksctl does.
                        Err(kube::Error::Api(refused)) if refused.code == 429 => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(left.is_empty().then_some(()))
            };
            until_within(&format!("nothing runs on {name}"), LONG_PATIENCE, is_empty).await?;
            self.delete(name).await?;
        }
        Ok(())
    }

    /// The budget of a Deployment lets one pod go, as it does once there is one more.
    pub async fn let_one_go(&self, deployment: &str) -> anyhow::Result<()> {
        let budgets = kind_in(&self.client, ("policy/v1", "PodDisruptionBudget"), "default").await?;
        let status: Value = json!({"status": {"disruptionsAllowed": 1, "currentHealthy": 2, "expectedPods": 2}});
        budgets.patch_status(deployment, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }
}
