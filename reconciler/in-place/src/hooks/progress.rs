//! How far a machine is, as the objects of its node say.

use bundles::KubernetesVersion;
use serde_json::Value;

use super::{Progress, UpdateMachine};
use crate::objects::{NodeAnswer, NodeUpgrade, NodeUpgradeStatus, answer};

/// How soon Cluster API asks again, in seconds.
const RETRY_AFTER_SECONDS: u32 = 15;

impl Progress {
    /// What `NodeKubeadmUpgrade` objects say of a machine. One that cannot be read counts for nothing.
    ///
    /// # Errors
    /// When the machine has no valid version.
    pub fn of(request: &UpdateMachine, upgrades: &[Value]) -> Result<Self, String> {
        let (name, version) = (request.name(), request.version());
        let version: KubernetesVersion = version.parse().map_err(|error| format!("machine {name}: {error}"))?;
        let upgrades: Vec<NodeUpgrade> = upgrades.iter().filter_map(read).collect();
        Ok(match answer(&upgrades, name, None, &version) {
            NodeAnswer::Done => Self::Done,
            NodeAnswer::InProgress { message } => Self::Working { message, retry_after_seconds: RETRY_AFTER_SECONDS },
        })
    }
}

fn read(object: &Value) -> Option<NodeUpgrade> {
    let text = |place: &str| object.pointer(place).and_then(Value::as_str).map(str::to_owned);
    let status = object.get("status").cloned();
    Some(NodeUpgrade {
        name: text("/metadata/name")?,
        uid: text("/metadata/uid").unwrap_or_default(),
        generation: object.pointer("/metadata/generation").and_then(Value::as_i64),
        deleting: object.pointer("/metadata/deletionTimestamp").is_some(),
        retry: None,
        spec: serde_json::from_value(object.get("spec")?.clone()).ok()?,
        status: status
            .map_or_else(|| Some(NodeUpgradeStatus::default()), |status| serde_json::from_value(status).ok())?,
    })
}
