//! The commits that a decision leads to, with the ledger they carry.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::approval::{ApprovalScope, Approved, Retry};
use crate::before::Before;
use crate::effect::{Effect, StageCommit};
use crate::eksctl::way_back::WayBack;
use crate::ledger::{Ledger, LedgerFormat, LedgerState, StageRecord, StageRecordKind};
use crate::plan::{PastDurations, Plan, StagePlan};
use crate::verdict::{Evidence, Fact, Reason};
use crate::world::World;
use domain::CommitId;

use super::opening::{Key, Opening, Stop, hold};
use super::{approval, etcd, landed};

/// The commit of a stage. Its ledger records the approval that the policy asks for: what is proposed is what lands.
///
/// # Errors
/// The effects that stand in the way, where the stage has nothing to commit.
pub(super) fn stage(
    world: &World,
    plan: &Plan,
    next: &StagePlan,
    opening: &Opening,
    key: Key,
    now: Timestamp,
) -> Result<StageCommit, Stop> {
    let (Some(before), Some(after)) = (&next.before, &next.after) else {
        return Err(vec![hold(next.stage.clone(), vec![Reason::new("the stage has no part in git to commit")])]);
    };
    let continued = world.ledger.as_deref().filter(|_| matches!(opening, Opening::Continue));
    let attempt = continued.map_or(0, |ledger| ledger.attempts(&next.stage)).saturating_add(1);
    let (mut opened_by, reasons) = match key {
        Key::Evidence(evidence) => (Some(evidence), Vec::new()),
        Key::Repair(reasons) => (None, reasons),
    };
    let mut ledger = match continued {
        Some(ledger) => ledger.clone(),
        None => begin(world, plan, now),
    };
    if continued.is_some() {
        landed::note(&mut ledger, world);
    }
    if ledger.identity.is_some() {
        identify(&mut ledger, opened_by.as_mut(), world);
    }
    let record = StageRecord {
        stage: next.stage.clone(),
        kind: StageRecordKind::Commit,
        attempt,
        committed_at: now,
        before: before.clone(),
        after: after.clone(),
        opened_by,
        reasons,
        carries: next.carries.clone(),
        one_way: next.one_way.clone(),
        etcd: etcd::before(world, next),
    };
    approval::name(&mut ledger, world);
    ledger.source = plan.source.clone();
    ledger.edits.clone_from(&plan.edits);
    ledger.chain.clone_from(&plan.chain);
    ledger.format = LedgerFormat::of(plan.chain.as_ref());
    ledger.stages.push(record);
    let wanted = |retry: &&Retry| is_for(retry, plan, next, attempt) && !ledger.retries.contains(retry);
    let wanted: Option<Retry> = world.people.retries.iter().find(wanted).cloned();
    ledger.retries.extend(wanted);
    // Each attempt at a stage is asked for by itself.
    let is_new = |scope: &ApprovalScope| *scope != ApprovalScope::Rollout || !ledger.is_approved(scope, &plan.digest);
    if let Some(scope) = approval::scope(next).filter(is_new) {
        let by = approval::answer(world, plan, &scope).and_then(|record| record.by.clone());
        let at = by.is_some().then_some(now);
        let with = (scope == ApprovalScope::Rollout && ledger.stages.len() > 1).then(|| next.stage.clone());
        ledger.approvals.push(Approved {
            scope,
            plan: plan.digest.clone(),
            by,
            at,
            with,
            approvers: Vec::new(),
            ticks: Vec::new(),
            overridden: None,
        });
    }
    let carried = plan.stages.iter().filter(|stage| next.carries.contains(&stage.stage));
    for change in carried.flat_map(|stage| &stage.changes).chain(&next.changes) {
        match &change.new_version {
            Some(version) => ledger.components.insert(change.component.clone(), version.clone()),
            None => ledger.components.remove(&change.component),
        };
    }
    Ok(StageCommit {
        cluster: plan.cluster.clone(),
        rollout: plan.rollout_id.clone(),
        plan: plan.digest.clone(),
        stage: next.stage.clone(),
        source: plan.source.clone(),
        parent: parent(world),
        before: before.clone(),
        after: after.clone(),
        undoes: None,
        ledger,
    })
}

/// Records which cluster it is with a stage that Stepgate pushes itself, where nothing does so yet:
/// what is proposed can be written by others.
pub(super) fn identify_first(commit: &mut StageCommit, world: &World) {
    let mut opened_by = commit.ledger.stages.last_mut().and_then(|record| record.opened_by.take());
    identify(&mut commit.ledger, opened_by.as_mut(), world);
    if let Some(record) = commit.ledger.stages.last_mut() {
        record.opened_by = opened_by;
    }
}

/// Records which cluster was read, as the gates have found it to be. Where it was not recorded before, the evidence says so.
pub(super) fn identify(ledger: &mut Ledger, evidence: Option<&mut Evidence>, world: &World) {
    let Some(identity) = world.observation.as_deref().and_then(|observation| observation.identity.proven()) else {
        return;
    };
    if let Some(evidence) = evidence.filter(|_| ledger.identity.is_none()) {
        let seen = format!("recorded from this commit on as {identity}");
        evidence.facts.push(Fact::new(format!("cluster {}", ledger.cluster), seen));
    }
    ledger.identity = Some(identity.clone());
}

/// Whether somebody wants this attempt at this stage.
pub(super) fn is_for(retry: &Retry, plan: &Plan, stage: &StagePlan, attempt: u32) -> bool {
    retry.plan == plan.digest && retry.stage == stage.stage && retry.attempt == attempt
}

/// The ledger of a rollout that begins; what is known of components is carried over.
fn begin(world: &World, plan: &Plan, now: Timestamp) -> Ledger {
    Ledger {
        format: LedgerFormat::of(plan.chain.as_ref()),
        cluster: plan.cluster.clone(),
        rollout: plan.rollout_id.clone(),
        plan: plan.digest.clone(),
        source: plan.source.clone(),
        base: plan.base.clone(),
        target: plan.target.clone(),
        tree: plan.deployed.clone(),
        state: LedgerState::Running,
        started_at: now,
        finished_at: None,
        identity: world.ledger.as_deref().and_then(|ledger| ledger.identity.clone()),
        before: before(world),
        stages: Vec::new(),
        approvals: Vec::new(),
        retries: Vec::new(),
        edits: Vec::new(),
        rollback: plan.rollback.clone(),
        chain: plan.chain.clone(),
        as_declared: Vec::new(),
        way_back: WayBack::carried(plan, world.ledger.as_deref()),
        durations: world.ledger.as_deref().map(PastDurations::after).unwrap_or_default(),
        verified: None,
        components: world.ledger.as_deref().map_or_else(BTreeMap::new, |ledger| ledger.components.clone()),
    }
}

/// A rollout that takes over from another is measured by what was there before both.
fn before(world: &World) -> Option<Before> {
    let running = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running);
    match running {
        Some(ledger) => ledger.before.clone(),
        None => world.observation.as_deref().and_then(Before::of),
    }
}

/// The commit that puts a stage's previous tree back.
#[allow(clippy::too_many_arguments)]
pub(super) fn revert(
    world: &World,
    plan: &Plan,
    ledger: &Ledger,
    stage: &StagePlan,
    failed: &StageRecord,
    undone: &CommitId,
    reasons: Vec<Reason>,
    now: Timestamp,
) -> Effect {
    let mut ledger = ledger.clone();
    ledger.stages.push(StageRecord {
        stage: stage.stage.clone(),
        kind: StageRecordKind::Revert,
        attempt: failed.attempt,
        committed_at: now,
        before: failed.after.clone(),
        after: failed.before.clone(),
        opened_by: None,
        reasons,
        carries: Vec::new(),
        one_way: Vec::new(),
        etcd: etcd::before_revert(world, failed, stage),
    });
    let carried = plan.stages.iter().filter(|known| failed.carries.contains(&known.stage));
    for change in carried.flat_map(|stage| &stage.changes).chain(&stage.changes) {
        match &change.old_version {
            Some(version) => ledger.components.insert(change.component.clone(), version.clone()),
            None => ledger.components.remove(&change.component),
        };
    }
    Effect::Revert(StageCommit {
        cluster: plan.cluster.clone(),
        rollout: plan.rollout_id.clone(),
        plan: plan.digest.clone(),
        stage: stage.stage.clone(),
        source: plan.source.clone(),
        parent: parent(world),
        before: failed.after.clone(),
        after: failed.before.clone(),
        undoes: Some(undone.clone()),
        ledger,
    })
}

fn parent(world: &World) -> Option<CommitId> {
    world.deploy.commit().cloned()
}
