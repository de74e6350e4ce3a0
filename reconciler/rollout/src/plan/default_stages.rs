//! The stages that every cluster has.

use crate::expectation::{ChecksExpectation, Expectation, KubeletVersions, VerifiedExpectation};
use crate::observation::ObjectReference;
use crate::stage::StageName;
use policy::StagePolicy;

use super::machines::{address, cluster_of, rolling};
use super::order::{Order, rank};
use super::{ClusterRole, PlanInput, StagePlan, StageState};

/// Stages of a management cluster that have a part in git apart from worker groups, and whether a workload cluster has them too.
pub(super) const DEFAULT_STAGES: &[(StageName, bool)] = &[
    (StageName::CertManager, false),
    (StageName::Capi, false),
    (StageName::EksA, false),
    (StageName::Bundle, false),
    (StageName::CiliumPreflight, true),
    (StageName::Cilium, true),
    (StageName::Flux, false),
    (StageName::Etcd, true),
    (StageName::ControlPlane, true),
];

/// Every stage of the design is shown: what the cluster has no part in is skipped, with the reason.
pub(super) fn add_default_stages(input: &PlanInput, stages: &mut Vec<StagePlan>) {
    let absent = |name: &StageName, reason: &str| StagePlan {
        stage: name.clone().into(),
        state: StageState::Skipped,
        changes: Vec::new(),
        reasons: vec![reason.to_owned()],
        risks: Vec::new(),
        one_way: Vec::new(),
        machines: 0,
        uncounted_machines: false,
        before: None,
        after: None,
        expectations: Vec::new(),
        deployed_expectations: Vec::new(),
        policy: StagePolicy::default(),
        carried_by: None,
        carries: Vec::new(),
    };
    let mut add = |plan: StagePlan| {
        if !stages.iter().any(|known| known.stage.name == plan.stage.name) {
            let order = Order::of(input);
            // The two Cilium stages have one rank, since intermediate versions alternate between them.
            let comes_later = |known: &StagePlan| {
                rank(&known.stage.name, order) > rank(&plan.stage.name, order)
                    || (&plan.stage.name, &known.stage.name) == (&StageName::CiliumPreflight, &StageName::Cilium)
            };
            let place = stages.iter().position(comes_later);
            stages.insert(place.unwrap_or(stages.len()), plan);
        }
    };
    let has_own_order = input.eksctl.is_some() || input.tanzu.as_ref().is_some_and(|tanzu| tanzu.is_front);
    for (name, for_workloads) in DEFAULT_STAGES {
        if has_own_order && *name != StageName::ControlPlane {
            continue;
        }
        if input.role == ClusterRole::Management || *for_workloads {
            add(absent(name, "the cluster has no such part"));
        }
    }
    let of_eksctl = input.eksctl.iter();
    let preflight = StagePlan {
        state: StageState::Pending,
        expectations: [
            Expectation::ClusterHealthy { cluster: cluster_of(input).map(|(_, name)| name) },
            Expectation::Surveyed,
            sidecars(input),
            // What is on its way has to be known when checks are judged.
            Expectation::Checks(ChecksExpectation {
                cluster: cluster_of(input),
                waivers: input.policy.waivers.clone(),
                waivers_to_come: input.policy.waivers_to_come.clone(),
                drift_ignores: input.policy.drift_ignores.clone(),
                rolling: rolling(input),
                address: address(input).map(Box::new),
                ..input.checks.clone()
            }),
        ]
        .into_iter()
        .chain(of_eksctl.flat_map(|eksctl| eksctl.preflight.iter().cloned()))
        .chain(input.tanzu.iter().flat_map(|tanzu| tanzu.preflight.iter().cloned()))
        .collect(),
        reasons: Vec::new(),
        policy: input.policy.preflight.clone(),
        ..absent(&StageName::Preflight, "")
    };
    let backup = StagePlan {
        state: StageState::Pending,
        expectations: vec![Expectation::BackupTaken { maximum_age: input.policy.backup_maximum_age }],
        reasons: Vec::new(),
        policy: input.policy.backup.clone(),
        ..absent(&StageName::Backup, "")
    };
    let verified = VerifiedExpectation {
        cluster: cluster_of(input).map(|(_, name)| name),
        version: None,
        kubelet_versions: KubeletVersions::WhenReported,
        leftovers: taken_away(input),
        before: None,
    };
    let verify = StagePlan {
        state: StageState::Pending,
        expectations: [Expectation::Verified(verified), Expectation::Surveyed, sidecars(input)]
            .into_iter()
            .chain(input.tanzu.iter().flat_map(|tanzu| tanzu.verify.iter().cloned()))
            .collect(),
        reasons: Vec::new(),
        policy: input.policy.verify.clone(),
        ..absent(&StageName::Verify, "")
    };
    add(preflight);
    match &input.eksctl {
        None => add(backup),
        Some(eksctl) => {
            for (name, end) in [(StageName::Fargate, &eksctl.fargate), (StageName::Leftovers, &eksctl.leftovers)] {
                add(StagePlan {
                    state: StageState::Pending,
                    expectations: vec![end.expectation.clone()],
                    reasons: Vec::new(),
                    policy: end.policy.clone(),
                    ..absent(&name, "")
                });
            }
        }
    }
    add(verify);
}

/// What is asked of sidecars before the first stage and after the last.
fn sidecars(input: &PlanInput) -> Expectation {
    Expectation::SidecarsRead { rules: input.policy.injection.clone() }
}

/// What stages take away again.
fn taken_away(input: &PlanInput) -> Vec<ObjectReference> {
    let expectations = input.stages.iter().flat_map(|stage| &stage.expectations);
    expectations.filter_map(Expectation::absent).cloned().collect()
}
