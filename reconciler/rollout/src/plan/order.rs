//! In which order stages run.

use crate::stage::{StageId, StageName};

use super::version::Numbering;
use super::{Block, PlanInput, VersionStep};

/// In which order stages run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// As the design has them.
    Forwards,
    /// The same, with worker groups before a control plane that goes to an earlier version.
    Downwards,
    /// The other way round: the state of before is put back.
    Backwards,
}

impl Order {
    pub(super) fn of(input: &PlanInput) -> Self {
        let step = input.skew.control_plane.as_ref();
        let is_above = |deployed: &str, target: &str| Numbering::Kubernetes.is_known_above(deployed, target);
        let goes_down = |step: &VersionStep| step.deployed.as_deref().is_some_and(|it| is_above(it, &step.target));
        match () {
            () if input.rollback.is_some() => Self::Backwards,
            () if step.is_some_and(goes_down) => Self::Downwards,
            () => Self::Forwards,
        }
    }
}

/// The place of a stage in an order.
pub(super) fn rank(name: &StageName, order: Order) -> u8 {
    let forwards = forward_rank(name);
    match (order, name) {
        // Whatever the direction, the control plane follows etcd; no add-on of EKS is newer than its API server.
        (Order::Downwards, StageName::Etcd | StageName::Addon(_)) => 12,
        (Order::Downwards, StageName::ControlPlane) => 13,
        (Order::Downwards, StageName::Addons) => 14,
        (Order::Backwards, StageName::Etcd | StageName::Addon(_)) => 3,
        (Order::Backwards, StageName::ControlPlane) => 4,
        (Order::Backwards, StageName::Addons) => 5,
        (Order::Backwards, StageName::Workers(_)) => 2,
        (Order::Backwards, StageName::Templates) => 6,
        (
            Order::Backwards,
            StageName::Preflight | StageName::Backup | StageName::Fargate | StageName::Leftovers | StageName::Verify,
        ) => forwards,
        (Order::Backwards, _) => 13 - forwards,
        (Order::Forwards | Order::Downwards, _) => forwards,
    }
}

fn forward_rank(name: &StageName) -> u8 {
    match name {
        StageName::Preflight => 0,
        StageName::Backup => 1,
        StageName::CertManager => 2,
        StageName::Capi => 3,
        StageName::EksA => 4,
        StageName::Bundle => 5,
        StageName::CiliumPreflight | StageName::Cilium => 6,
        StageName::Flux => 7,
        StageName::Etcd | StageName::Addons => 8,
        StageName::ControlPlane => 9,
        StageName::Addon(_) => 10,
        StageName::Workers(_) => 11,
        StageName::Templates => 14,
        StageName::Fargate => 15,
        StageName::Leftovers => 16,
        StageName::Verify => 17,
    }
}

/// Refuses stages that are planned in another order.
pub(super) fn check_order(input: &PlanInput, order: Order, blocked: &mut Vec<Block>) {
    let mut highest: Option<&StageId> = None;
    for stage in &input.stages {
        if let Some(before) = highest
            && rank(&before.name, order) > rank(&stage.stage.name, order)
        {
            blocked.push(Block {
                code: "stage-order".to_owned(),
                stage: Some(stage.stage.clone()),
                message: format!("{} is planned after {before}", stage.stage),
                help: "plan stages in the default order; on the way down worker groups come before the control plane, and on \
                       the way back all stages come the other way round"
                    .to_owned(),
            });
        }
        highest = Some(&stage.stage);
    }
}
