//! What Cluster API is told that asks for a machine's update again and again.

use bundles::KubernetesVersion;

use super::{NodePhase, NodeUpgrade};

/// Where a machine's update stands. The message is the same as long as it stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeAnswer {
    /// The node is proven at the version.
    Done,
    /// It is not there yet, or not without somebody's help.
    InProgress {
        /// One line.
        message: String,
    },
}

/// What is known of the update of this machine to `version`. An object of another machine or version counts for nothing.
#[must_use]
pub fn answer(upgrades: &[NodeUpgrade], machine: &str, uid: Option<&str>, version: &KubernetesVersion) -> NodeAnswer {
    let is_it = |upgrade: &&NodeUpgrade| {
        let spec = &upgrade.spec;
        spec.machine.name == machine
            && uid.is_none_or(|uid| spec.machine.uid == uid)
            && spec.kubernetes_version == *version
            && !upgrade.deleting
    };
    let Some(upgrade) = upgrades.iter().find(is_it) else {
        return NodeAnswer::InProgress { message: format!("{machine} waits for its turn to go to {version}") };
    };
    let (node, status) = (&upgrade.spec.node, &upgrade.status);
    let step = status.step.as_deref().unwrap_or("nothing");
    let message = match status.phase {
        NodePhase::Completed if status.completed => return NodeAnswer::Done,
        NodePhase::Pending => format!("node {node} waits: {}", status.message),
        NodePhase::Running => format!("node {node} is at step {step}"),
        NodePhase::Proving | NodePhase::Completed => format!("node {node} is at {version} and has to stay healthy"),
        NodePhase::RollingBack => format!("node {node} is taken back: {}", status.message),
        NodePhase::RolledBack | NodePhase::Failed => format!("node {node} has failed: {}", status.message),
    };
    NodeAnswer::InProgress { message }
}
