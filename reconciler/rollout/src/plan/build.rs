//! Makes a plan from what is deployed, what is wanted and what the ledger says was done.

use std::collections::BTreeMap;

use crate::change::{ChangeClass, ComponentChange};
use crate::expectation::{ChecksExpectation, Expectation, KubeletVersions, VerifiedExpectation};
use crate::ledger::{Ledger, LedgerState, StageRecordKind};
use crate::observation::ObjectReference;
use crate::stage::{StageId, StageName};
use domain::{PlanDigest, TreeDigest};
use policy::{OnFailure, StagePolicy};

use super::hops::ONE_MINOR_AT_A_TIME;
use super::machines::{address, cluster_of, rolling};
use super::version::{Numbering, Version, product};
use super::{
    Block, ClusterRole, Estimate, MinorBack, Plan, PlanInput, Risk, RiskKind, StageInput, StagePlan, StageState,
    VersionStep, etcd, skew,
};

/// Stages of a management cluster that have a part in git apart from worker groups, and whether a workload cluster has them too.
const DEFAULT_STAGES: &[(StageName, bool)] = &[
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

/// The plan for one cluster: pure and deterministic, the same for the same input, and with the same digest from the rollout's first commit to
/// its last.
#[must_use]
pub fn plan(input: PlanInput) -> Plan {
    let running = input.ledger.as_ref().filter(|ledger| ledger.state == LedgerState::Running);
    let continued = running.filter(|ledger| digest(&input, Some(ledger)) == ledger.plan);
    let digest = continued.map_or_else(|| digest(&input, None), |ledger| ledger.plan.clone());
    let base = continued.map_or_else(|| input.deployed.clone(), |ledger| ledger.base.clone());
    let order = Order::of(&input);
    let mut blocked = input.blocked.clone();
    blocked.extend(skew::violations(&input.skew, &input.policy, input.rollback.is_some()));
    let mut warnings = input.warnings.clone();
    warnings.extend(skew::warnings(&input.skew));
    check_order(&input, order, &mut blocked);
    let mut stages = Vec::new();
    for stage in &input.stages {
        add_committed_hops(stage, &input.stages, continued, &mut stages);
        check_stage(stage, &input, &mut blocked, &mut warnings);
        stages.push(stage_plan(stage, continued, order, &input));
    }
    add_default_stages(&input, &mut stages);
    etcd::join(&mut stages, order == Order::Backwards);
    let has_differences = stages.iter().any(|stage| is_open(stage.state) && !stage.stage.is_without_commit());
    settle_stages_without_commit(&mut stages, has_differences, continued.is_some());
    let estimate = estimate(&stages);
    blocked.sort();
    blocked.dedup();
    // What is already there needs no permission, but somebody has to vouch for what is kept.
    blocked.retain(|block| has_differences || block.code == Block::ROLLBACK_TARGET);
    Plan {
        rollout_id: digest.rollout_id(),
        cluster: input.cluster,
        role: input.role,
        digest,
        source: input.source,
        base,
        deployed: input.deployed,
        target: input.target,
        kubernetes: input.skew.control_plane,
        running: continued.is_some(),
        stages,
        blocked,
        warnings,
        estimate,
        edits: Vec::new(),
        rollback: input.rollback,
        chain: None,
    }
}

/// The digest is over what the rollout leads to, stage by stage, whether committed already or not. Source commits, policies and texts are not
/// part of it: they change nothing in the cluster.
fn digest(input: &PlanInput, ledger: Option<&Ledger>) -> PlanDigest {
    let mut stages: BTreeMap<String, &TreeDigest> = BTreeMap::new();
    let records = ledger.map(|ledger| ledger.stages.as_slice()).unwrap_or_default();
    for record in records.iter().filter(|record| record.kind == StageRecordKind::Commit) {
        stages.insert(record.stage.to_string(), &record.after);
    }
    let moves = |stage: &&StageInput| stage.deployed != stage.target || etcd::carrier(stage, ledger).is_some();
    for stage in input.stages.iter().filter(moves) {
        stages.insert(stage.stage.to_string(), &stage.target);
    }
    let base = ledger.map_or(&input.deployed, |ledger| &ledger.base);
    let mut parts = vec![input.cluster.as_str(), base.as_str(), input.target.as_str()];
    if input.rollback.is_some() {
        parts.push("rollback");
    }
    for (stage, target) in &stages {
        parts.push(stage);
        parts.push(target.as_str());
    }
    PlanDigest::of(parts.into_iter().map(str::as_bytes))
}

/// In which order stages run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// As the design has them.
    Forwards,
    /// The same, with worker groups before a control plane that goes to an earlier version.
    Downwards,
    /// The other way round: the state of before is put back.
    Backwards,
}

impl Order {
    fn of(input: &PlanInput) -> Self {
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

fn rank(name: &StageName, order: Order) -> u8 {
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

fn check_order(input: &PlanInput, order: Order, blocked: &mut Vec<Block>) {
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

fn check_stage(stage: &StageInput, input: &PlanInput, blocked: &mut Vec<Block>, warnings: &mut Vec<String>) {
    let mut block = |code: &str, message: String, help: &str| {
        blocked.push(Block { code: code.to_owned(), stage: Some(stage.stage.clone()), message, help: help.to_owned() });
    };
    if let Some(error) = &stage.render_error {
        block("render", error.message.clone(), &error.help);
    }
    if stage.deployed == stage.target {
        return;
    }
    let for_workloads =
        matches!(
            stage.stage.name,
            StageName::Workers(_) | StageName::Addon(_) | StageName::Addons | StageName::Templates
        ) || DEFAULT_STAGES.iter().any(|(name, for_workloads)| name == &stage.stage.name && *for_workloads);
    if input.role == ClusterRole::Workload && !for_workloads {
        let message = format!("{} belongs to the management cluster", stage.stage);
        block("stage-of-management", message, "move the component to the management cluster's directory");
    }
    if !stage.stage.is_without_commit() && !is_bound(&stage.expectations) {
        let message = format!("no expectation of {} ties its gate to the commit", stage.stage);
        block("unbound-gate", message, "render a Flux Kustomization for the component");
    }
    if stage.policy.on_failure == OnFailure::Revert && !has_flux(&stage.deployed_expectations) {
        warnings.push(format!("{}: its previous state has no gate, so on_failure: revert holds instead", stage.stage));
    }
    for change in &stage.changes {
        check_change(change, input, &mut block);
    }
}

fn check_change(change: &ComponentChange, input: &PlanInput, block: &mut impl FnMut(&str, String, &str)) {
    let old = change.old_version.as_deref().unwrap_or("nothing");
    let new = change.new_version.as_deref().unwrap_or("nothing");
    match change.class {
        ChangeClass::DigestDrift => {
            let message = format!("{} {new}: other content under the same version", change.component);
            block("digest-drift", message, "find out who changed the published artifact before anything else");
        }
        // Where EKS is asked to take a control plane back, the rule on that says what keeps it, and what helps.
        ChangeClass::Downgrade
            if !input.policy.allow_downgrade
                && input.rollback.is_none()
                && input.skew.minor_back == MinorBack::Never =>
        {
            let message = format!("{} would go from {old} down to {new}", change.component);
            block("downgrade", message, "set allowDowngrade for the cluster if that is meant");
        }
        ChangeClass::SkipMinor if ONE_MINOR_AT_A_TIME.contains(&change.component.as_str()) => {
            let missing = super::hops(old, new, []).err().map(|missing| missing.minors.join(", ")).unwrap_or_default();
            let message =
                format!("{} goes up one minor at a time: {old} to {new} leaves out {missing}", change.component);
            block("skip-minor", message, &format!("add a bundle that has {} {missing} to bundles/", change.component));
        }
        ChangeClass::Unchanged
        | ChangeClass::Retag
        | ChangeClass::Rebuild
        | ChangeClass::Patch
        | ChangeClass::Minor
        | ChangeClass::Major
        | ChangeClass::SkipMinor
        | ChangeClass::Downgrade
        | ChangeClass::Added
        | ChangeClass::Removed
        | ChangeClass::Opaque => {}
    }
}

pub(crate) fn has_flux(expectations: &[Expectation]) -> bool {
    expectations.iter().any(|expectation| matches!(expectation, Expectation::Flux { .. }))
}

/// Whether expectations tie a gate to its commit: Flux names the commit that it has applied, and parts of a cluster of EKS are
/// asked for what the commit alone brings about.
pub(crate) fn is_bound(expectations: &[Expectation]) -> bool {
    has_flux(expectations) || expectations.iter().any(|expectation| matches!(expectation, Expectation::Eks(_)))
}

fn is_open(state: StageState) -> bool {
    matches!(state, StageState::Pending | StageState::Blocked)
}

fn stage_plan(stage: &StageInput, continued: Option<&Ledger>, order: Order, input: &PlanInput) -> StagePlan {
    let without_commit = stage.stage.is_without_commit();
    let record = continued.and_then(|ledger| ledger.last_record(&stage.stage));
    let committed = record.filter(|record| record.kind == StageRecordKind::Commit);
    let carried_by = etcd::carrier(stage, continued);
    let state = if stage.render_error.is_some() {
        StageState::Blocked
    } else if without_commit || stage.deployed != stage.target || carried_by.is_some() {
        StageState::Pending
    } else if committed.is_some() {
        StageState::Committed
    } else {
        StageState::Skipped
    };
    let mut reasons = stage.reasons.clone();
    if state == StageState::Skipped {
        reasons.push("no difference".to_owned());
    }
    let mut risks = stage.risks.clone();
    let mut one_way = stage.one_way.clone();
    if state == StageState::Pending {
        risks.extend(stage.changes.iter().filter_map(risk));
        if stage.stage.name == StageName::ControlPlane && order == Order::Forwards && input.eksctl.is_none() {
            one_way.extend(kubernetes_one_way(input));
        }
    }
    if let Some(record) = committed {
        one_way.extend(record.one_way.iter().filter(|text| !one_way.contains(text)).cloned().collect::<Vec<_>>());
    }
    if let Some(carrier) = &carried_by {
        reasons.push(format!("moves with the commit of {carrier}; its gate begins when that one's holds"));
    }
    StagePlan {
        stage: stage.stage.clone(),
        state,
        changes: stage.changes.clone(),
        reasons,
        risks,
        one_way,
        machines: stage.machines,
        uncounted_machines: stage.uncounted_machines,
        before: (!without_commit).then(|| stage.deployed.clone()),
        after: (!without_commit).then(|| stage.target.clone()),
        expectations: stage.expectations.clone(),
        deployed_expectations: stage.deployed_expectations.clone(),
        policy: stage.policy.clone(),
        carried_by,
        carries: Vec::new(),
    }
}

fn risk(change: &ComponentChange) -> Option<Risk> {
    let old = change.old_version.as_deref().unwrap_or("nothing");
    let new = change.new_version.as_deref().unwrap_or("nothing");
    let text = match change.class {
        ChangeClass::Opaque => Some(format!("{}: {old} and {new} cannot be ordered", change.component)),
        ChangeClass::Major => Some(format!("{}: a new major, {old} to {new}", change.component)),
        ChangeClass::SkipMinor => Some(format!("{}: leaves out a minor, {old} to {new}", change.component)),
        ChangeClass::Downgrade => Some(format!("{}: an earlier version, {old} to {new}", change.component)),
        ChangeClass::Removed => Some(format!("{} {old} is removed", change.component)),
        ChangeClass::Unchanged
        | ChangeClass::Retag
        | ChangeClass::Rebuild
        | ChangeClass::Patch
        | ChangeClass::Minor
        | ChangeClass::Added
        | ChangeClass::DigestDrift => None,
    };
    text.map(|text| Risk::new(RiskKind::UnusualVersion, text))
}

fn kubernetes_one_way(input: &PlanInput) -> Option<String> {
    let step = input.skew.control_plane.as_ref()?;
    let (deployed, target) = (Version::parse(step.deployed.as_deref()?)?, Version::parse(&step.target)?);
    let differs = (deployed.major, deployed.minor) != (target.major, target.minor);
    differs.then(|| {
        format!(
            "{} {}.{} to {}.{}: a control plane does not go back a minor",
            product(&step.target),
            deployed.major,
            deployed.minor,
            target.major,
            target.minor
        )
    })
}

/// Intermediate versions that were committed are no longer in the input: the way from what is deployed is shorter now. They are shown, and the
/// last of them is still watched through what the next hop expects of the deployed tree.
fn add_committed_hops(stage: &StageInput, all: &[StageInput], continued: Option<&Ledger>, stages: &mut Vec<StagePlan>) {
    let is_first =
        all.iter().find(|other| other.stage.name == stage.stage.name).is_some_and(|first| first.stage == stage.stage);
    let Some(ledger) = continued.filter(|_| is_first) else { return };
    for record in &ledger.stages {
        let known = all.iter().any(|other| other.stage == record.stage)
            || stages.iter().any(|other| other.stage == record.stage);
        if record.stage.name != stage.stage.name || record.stage.hop.is_none() || known {
            continue;
        }
        stages.push(StagePlan {
            stage: record.stage.clone(),
            state: StageState::Committed,
            changes: Vec::new(),
            reasons: vec!["an intermediate version".to_owned()],
            risks: Vec::new(),
            one_way: stage.one_way.clone(),
            machines: 0,
            uncounted_machines: false,
            before: Some(record.before.clone()),
            after: Some(record.after.clone()),
            // Once the next hop is committed nothing of this one is left to be looked at.
            expectations: if record.after == stage.deployed { stage.deployed_expectations.clone() } else { Vec::new() },
            deployed_expectations: Vec::new(),
            policy: stage.policy.clone(),
            carried_by: None,
            carries: Vec::new(),
        });
    }
}

/// Every stage of the design is shown: what the cluster has no part in is skipped, with the reason.
fn add_default_stages(input: &PlanInput, stages: &mut Vec<StagePlan>) {
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

fn settle_stages_without_commit(stages: &mut [StagePlan], has_differences: bool, running: bool) {
    for stage in stages.iter_mut().filter(|stage| stage.stage.is_without_commit() && stage.state == StageState::Pending)
    {
        if running && !stage.stage.is_at_the_end() {
            stage.state = StageState::Passed;
        } else if !has_differences && !running {
            stage.state = StageState::Skipped;
            stage.reasons.push("nothing to do".to_owned());
        }
    }
}

fn estimate(stages: &[StagePlan]) -> Estimate {
    let mut estimate = Estimate::default();
    for stage in stages.iter().filter(|stage| is_open(stage.state) && !stage.stage.is_without_commit()) {
        estimate.commits = estimate.commits.saturating_add(u32::from(stage.carried_by.is_none()));
        estimate.machines = estimate.machines.saturating_add(stage.machines);
    }
    estimate
}
