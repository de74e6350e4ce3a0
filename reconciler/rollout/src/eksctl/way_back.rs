//! How a control plane of EKS goes back: what is recorded of its last upgrade, over the rollouts after it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ledger::{Ledger, StageRecord, StageRecordKind};
use crate::plan::Plan;
use crate::stage::StageName;

/// A way back that the last upgrade of a control plane has opened, and no worker group has closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WayBack {
    /// What the plan said of it.
    pub told: String,
    /// When the upgrade had ended; none where that is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl WayBack {
    /// That of a cluster of EKS, by the record of its last rollout; none where none was opened, or it is closed.
    #[must_use]
    pub fn of(ledger: &Ledger) -> Option<Self> {
        let is_of_group = |record: &StageRecord| matches!(record.stage.name, StageName::Workers(_));
        let is_of_control_plane = |record: &StageRecord| record.stage.name == StageName::ControlPlane;
        let Some(position) = ledger.stages.iter().rposition(is_of_control_plane) else {
            return ledger.way_back.clone().filter(|_| !ledger.stages.iter().any(is_of_group));
        };
        let (record, later) = (ledger.stages.get(position)?, ledger.stages.get(position + 1..)?);
        let told = record.one_way.first().filter(|_| record.kind == StageRecordKind::Commit)?.clone();
        if later.iter().any(is_of_group) {
            return None;
        }
        // The gate of the stage has opened the next one, or closed the rollout.
        let proof = later.iter().find_map(|record| record.opened_by.as_ref()).or(ledger.verified.as_ref());
        Some(Self { told, since: proof.map(|proof| proof.held_since) })
    }

    /// What the ledger of a rollout that begins carries on.
    pub(crate) fn carried(plan: &Plan, before: Option<&Ledger>) -> Option<Self> {
        // No other control plane is taken back.
        let is_of_eks = plan.stages.iter().any(|stage| stage.stage.name == StageName::Fargate);
        before.filter(|_| is_of_eks).and_then(Self::of)
    }
}
