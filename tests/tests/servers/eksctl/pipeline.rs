//! Somebody's pipeline: what eksctl and EKS make of one commit of the deploy branch, and nothing where there is nothing to do.

use std::process::Command;

use anyhow::ensure;
use overlays::eksctl::{addons, node_groups};
use serde_json::json;
use yaml::Node;

use super::{DEPLOYED, Scene};

impl Scene {
    /// Carries out a commit: `upgrade cluster`, `update addon`, `create nodegroup`, `delete nodegroup --only-missing`.
    pub async fn pipeline(&self, commit: &str) -> anyhow::Result<()> {
        let file = format!("{commit}:{DEPLOYED}");
        let shown = Command::new("git").arg("-C").arg(self.repository.bare()).args(["show", &file]).output()?;
        ensure!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        let nodes = overlays::objects_of(&shown.stdout);
        let [config] = nodes.as_slice() else { anyhow::bail!("{} objects", nodes.len()) };
        let version = config.at(&["metadata", "version"]).and_then(Node::as_str).unwrap_or_default();
        // EKS goes no minor back where nobody asks for that.
        if version > self.endpoint.minor().as_str() {
            self.endpoint.raise(&format!("v{version}.2-eks-2"));
        }
        for (name, version) in addons(config) {
            ensure!(name == "coredns", "{name}");
            self.coredns(&version.unwrap_or_default()).await?;
        }
        let listed = self.nodes().list(&kube::api::ListParams::default()).await?;
        let group = |node: &k8s_openapi::api::core::v1::Node| {
            node.metadata.labels.as_ref().and_then(|labels| labels.get("alpha.eksctl.io/nodegroup-name").cloned())
        };
        let wanted: Vec<(&str, i64)> = node_groups(config)
            .map(|(_, name, item)| (name, item.get("minSize").and_then(Node::as_i64).unwrap_or(1)))
            .collect();
        for (name, size) in &wanted {
            let there = listed.items.iter().any(|node| group(node).as_deref() == Some(*name));
            for number in (0..*size).filter(|_| !there) {
                // A node gets the version that its cluster has when it is made.
                let kubelet = format!("v{}.1-eks-1", self.endpoint.minor());
                let labels = json!({"alpha.eksctl.io/nodegroup-name": name});
                self.node(&format!("{name}-{number}"), labels, &kubelet).await?;
            }
        }
        for node in &listed.items {
            let (Some(group), Some(name)) = (group(node), node.metadata.name.as_ref()) else { continue };
            let is_ours = group.starts_with("istio-") || group.starts_with("ng-shared-");
            if is_ours && !wanted.iter().any(|(wanted, _)| *wanted == group) {
                self.cordon(name).await?;
                if !self.is_kept(name).await? {
                    self.delete(name).await?;
                }
            }
        }
        Ok(())
    }

    /// The newest commit of the deploy branch.
    pub async fn run_pipeline(&self) -> anyhow::Result<()> {
        self.pipeline(&self.repository.head()?).await
    }

    /// Whether a pod with a budget keeps a node.
    async fn is_kept(&self, node: &str) -> anyhow::Result<bool> {
        let pods = tests::servers::manifests::kind_in(&self.client, ("v1", "Pod"), "default").await?;
        let pods = pods.list(&kube::api::ListParams::default()).await?;
        Ok(pods.items.iter().any(|pod| pod.data.pointer("/spec/nodeName").and_then(|it| it.as_str()) == Some(node)))
    }
}
