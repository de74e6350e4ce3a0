//! Makes a plan from what is deployed, what is wanted and what the ledger says was done.

use std::collections::BTreeMap;

use crate::expectation::Expectation;
use crate::ledger::{Ledger, LedgerState, StageRecordKind};
use crate::stage::StageName;
use domain::{PlanDigest, TreeDigest};

use super::default_stages::add_default_stages;
use super::order::{Order, check_order};
use super::stage_rules::{check_stage, kubernetes_one_way, risk};
use super::{Block, Estimate, Plan, PlanInput, StageInput, StagePlan, StageState, etcd, skew};

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
