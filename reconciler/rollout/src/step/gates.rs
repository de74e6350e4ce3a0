//! Which gates there are in a world, each with the commit it is bound to.

use std::time::Duration;

use jiff::Timestamp;

use crate::deploy::{DeployHead, Landed, StageTrailer};
use crate::expectation::{ControlPlaneExpectation, EksaClusterExpectation, Expectation, Extent};
use crate::gate::{Gate, secrets};
use crate::history::GateHistory;
use crate::identity::ClusterIdentity;
use crate::ledger::{Ledger, LedgerState, StageRecord, StageRecordKind};
use crate::observation::Observation;
use crate::plan::{Plan, StagePlan, StageState};
use crate::stage::{StageId, StageName};
use crate::verdict::{Binding, GateVerdict, Reason};
use crate::world::World;
use domain::{ClusterName, RolloutId};
use policy::{ControlPlaneGate, StagePolicy};

/// A gate with the values it needs.
#[derive(Debug, Clone)]
pub(crate) struct OwnedGate {
    pub(crate) cluster: ClusterName,
    pub(crate) identity: Option<ClusterIdentity>,
    pub(crate) stage: StageId,
    pub(crate) rollout: RolloutId,
    pub(crate) expectations: Vec<Expectation>,
    pub(crate) binding: Option<Binding>,
    pub(crate) policy: StagePolicy,
}

impl OwnedGate {
    pub(crate) fn as_gate(&self) -> Gate<'_> {
        Gate {
            cluster: self.cluster.as_str(),
            identity: self.identity.as_ref(),
            stage: &self.stage,
            rollout: &self.rollout,
            expectations: &self.expectations,
            binding: self.binding.as_ref(),
            policy: &self.policy,
        }
    }

    /// Why the gate of a stage before the running one waits.
    pub(crate) fn still(&self, reason: Reason) -> Reason {
        Reason { message: format!("{} ({} has to hold still)", reason.message, self.stage), ..reason }
    }

    /// What it waits for in this reading; none where it holds or has failed.
    pub(crate) fn waits(self, read: &Observation, now: Timestamp) -> Option<(StageId, Reason, Option<Timestamp>)> {
        if self.as_gate().held(read, now).is_some() {
            return None;
        }
        match self.as_gate().evaluate(Some(read), &GateHistory::default(), now) {
            GateVerdict::Wait { reason, until } => Some((self.stage, reason, until)),
            GateVerdict::Pass { .. } | GateVerdict::Fail { .. } => None,
        }
    }

    fn of(world: &World, plan: &Plan, stage: &StagePlan, binding: Option<Binding>) -> Self {
        Self {
            cluster: plan.cluster.clone(),
            identity: identity(world),
            stage: stage.stage.clone(),
            rollout: plan.rollout_id.clone(),
            expectations: stage.expectations.clone(),
            binding,
            policy: stage.policy.clone(),
        }
    }
}

/// Which cluster the ledger records, whether its rollout runs or has ended.
fn identity(world: &World) -> Option<ClusterIdentity> {
    world.ledger.as_deref()?.identity.clone()
}

/// A stage whose commit is not on the known part of the deploy branch, and why that makes the gate wait.
pub(crate) type Unknown = (StageId, Reason);

/// The gate of the last committed (or reverted) stage of the running rollout; none where it has no record yet.
pub(crate) fn running(world: &World, ledger: &Ledger, plan: &Plan) -> Option<Result<OwnedGate, Unknown>> {
    let record = ledger.stages.last()?;
    let stage = &record.stage;
    let Some(binding) = binding(&world.deploy, &ledger.cluster, &ledger.rollout, stage) else {
        let message = format!("the commit of {stage} is not in the known part of the deploy branch");
        return Some(Err((stage.clone(), Reason::new(message).help("fetch the deploy branch with its whole history"))));
    };
    let (mut expectations, mut policy) = expectations(plan, record);
    above(record, &mut expectations);
    as_before(ledger, &mut expectations);
    as_retried(world, plan, stage, &mut expectations);
    // A timeout that was lowered meanwhile counts: whoever pushes a repair need not wait for the longer one.
    if let Some(newest) = world.plan.stages.iter().find(|known| known.stage.name == record.stage.name) {
        policy.timeout = policy.timeout.min(newest.policy.timeout);
    }
    Some(Ok(OwnedGate {
        cluster: ledger.cluster.clone(),
        identity: identity(world),
        stage: stage.clone(),
        rollout: ledger.rollout.clone(),
        expectations,
        binding: Some(binding),
        policy,
    }))
}

/// What the record's tree has to bring about: what the plan expects of the stage where the stage has no difference, else what it expects of the
/// deployed tree. A gate that is left without expectations waits.
fn expectations(plan: &Plan, record: &StageRecord) -> (Vec<Expectation>, StagePolicy) {
    let same_name = || plan.stages.iter().find(|stage| stage.stage.name == record.stage.name && stage.before.is_some());
    let Some(stage) = plan.stage(&record.stage).or_else(same_name) else { return (Vec::new(), StagePolicy::default()) };
    let settled = stage.before == stage.after || stage.state == StageState::Committed;
    let expectations = if settled {
        stage.expectations.clone()
    } else if stage.before.as_ref() == Some(&record.after) {
        stage.deployed_expectations.clone()
    } else {
        Vec::new()
    };
    (expectations, stage.policy.clone())
}

/// Lets a gate of external etcd know what it was at when its stage was committed.
fn above(record: &StageRecord, expectations: &mut [Expectation]) {
    for expectation in expectations {
        if let Expectation::Etcd(etcd) = expectation {
            let is_commit = record.kind == StageRecordKind::Commit;
            etcd.above_generation = record.etcd.as_ref().filter(|_| is_commit).and_then(|before| before.generation);
        }
    }
}

/// Lets parts of a cluster of EKS know what was broken when the rollout began.
fn as_before(ledger: &Ledger, expectations: &mut [Expectation]) {
    for expectation in expectations {
        match expectation {
            Expectation::Verified(verified) => verified.before.clone_from(&ledger.before),
            Expectation::Eks(part) => part.before.clone_from(&ledger.before),
            Expectation::Secrets(secrets) => secrets::as_recorded(ledger, secrets),
            _ => {}
        }
    }
}

/// Lets machines of a stage know how often people want them tried.
fn as_retried(world: &World, plan: &Plan, stage: &StageId, expectations: &mut [Expectation]) {
    for expectation in expectations {
        if let Expectation::Attempts(attempts) = expectation {
            let retries =
                world.people.retries.iter().filter(|retry| retry.plan == plan.digest && retry.stage == *stage);
            attempts.retried_after = retries.map(|retry| retry.attempt.saturating_sub(1)).collect();
        }
    }
}

fn binding(deploy: &DeployHead, cluster: &ClusterName, rollout: &RolloutId, stage: &StageId) -> Option<Binding> {
    let of_stage =
        |trailer: &StageTrailer| &trailer.cluster == cluster && &trailer.rollout == rollout && &trailer.stage == stage;
    deploy.newest(of_stage).map(|landed| bound(deploy, landed))
}

/// Any commit that is known: for stages that this rollout did not have to commit.
fn any_commit(deploy: &DeployHead) -> Option<Binding> {
    deploy.oldest().map(|landed| bound(deploy, landed))
}

fn bound(deploy: &DeployHead, landed: Landed<'_>) -> Binding {
    Binding {
        commit: landed.id.clone(),
        lineage: deploy.lineage().since(landed.place),
        committed_at: landed.committed_at,
        landing: landed.landing.clone(),
    }
}

/// The gates of the stages before `next` (of all where there is none) that passed before or have no difference, and have to hold now; without the
/// one that is judged by itself.
pub(crate) fn earlier(world: &World, plan: &Plan, next: Option<&StageId>, judged: Option<&StageId>) -> Vec<OwnedGate> {
    let settled = |stage: &&StagePlan| {
        matches!(stage.state, StageState::Committed | StageState::Skipped)
            && Some(&stage.stage) != judged
            && !stage.stage.is_without_commit()
            && !stage.expectations.is_empty()
    };
    let before = plan.stages.iter().take_while(|stage| next != Some(&stage.stage));
    before.filter(settled).map(|stage| of_another(world, plan, stage)).collect()
}

/// The gate of a stage that is not the running one: bound to its own commit, or to any where this rollout did not commit it.
fn of_another(world: &World, plan: &Plan, stage: &StagePlan) -> OwnedGate {
    let own = world.ledger.as_deref().filter(|_| stage.state == StageState::Committed);
    let own = own.and_then(|ledger| binding(&world.deploy, &ledger.cluster, &ledger.rollout, &stage.stage));
    let mut gate = OwnedGate::of(world, plan, stage, own.or_else(|| any_commit(&world.deploy)));
    if let Some(ledger) = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running) {
        as_before(ledger, &mut gate.expectations);
    }
    gate
}

/// What is deployed of a stage now, whichever rollout brought it: bound to the newest commit of the cluster.
pub(crate) fn newest(world: &World, stage: &StagePlan) -> Option<OwnedGate> {
    let landed = world.deploy.newest(|trailer| trailer.cluster == world.plan.cluster)?;
    let gate = OwnedGate::of(world, &world.plan, stage, Some(bound(&world.deploy, landed)));
    Some(OwnedGate { expectations: stage.deployed_expectations.clone(), ..gate })
}

/// The gate before the first commit: bound to no commit, since none is its own.
pub(crate) fn before_start(world: &World, plan: &Plan, name: &StageName) -> Option<OwnedGate> {
    let stage = plan.stages.iter().find(|stage| &stage.stage.name == name)?;
    Some(OwnedGate::of(world, plan, stage, None))
}

/// The gate after the last commit: what the end state has to be, and what the last stage has to be, so that its soak begins when both hold. It
/// has no timeout: what it compares has nothing left to arrive.
pub(crate) fn verify(world: &World, ledger: &Ledger, plan: &Plan) -> Option<OwnedGate> {
    let stage = plan.stages.iter().find(|stage| stage.stage.name == StageName::Verify)?;
    let last = running(world, ledger, plan)?.ok()?;
    let mut gate = OwnedGate::of(world, plan, stage, last.binding);
    let ends = at_the_end(plan).flat_map(|stage| stage.expectations.iter().cloned());
    gate.expectations.extend(ends);
    as_before(ledger, &mut gate.expectations);
    gate.expectations.extend(last.expectations.into_iter().map(whole));
    gate.policy.timeout = Duration::MAX;
    Some(gate)
}

/// The stages before `verify` that have no commit, and are asked about when everything is committed.
fn at_the_end(plan: &Plan) -> impl Iterator<Item = &StagePlan> {
    plan.stages.iter().filter(|stage| stage.stage.is_at_the_end() && stage.stage.name != StageName::Verify)
}

/// The gates of those stages, in their order: each is named while it waits. `verify` asks for all of them, with its soak.
pub(crate) fn ending(world: &World, ledger: &Ledger, plan: &Plan) -> Vec<OwnedGate> {
    let Some(Ok(last)) = running(world, ledger, plan) else { return Vec::new() };
    let gates = at_the_end(plan).map(|stage| {
        let mut gate = OwnedGate::of(world, plan, stage, last.binding.clone());
        as_before(ledger, &mut gate.expectations);
        gate.policy.timeout = Duration::MAX;
        gate
    });
    gates.collect()
}

/// What is expected at the end: all of a control plane, whatever let the next stages begin.
fn whole(expectation: Expectation) -> Expectation {
    match expectation {
        Expectation::ControlPlane(expectation) => {
            Expectation::ControlPlane(ControlPlaneExpectation { gate: ControlPlaneGate::Whole, ..expectation })
        }
        Expectation::EksaCluster(expectation) => {
            Expectation::EksaCluster(EksaClusterExpectation { extent: Extent::Whole, ..expectation })
        }
        expectation => expectation,
    }
}

/// The gate of the control plane whose machines may be rolling: the last committed one, or one before it that let the next stages
/// begin at its first node.
pub(crate) fn of_control_plane(world: &World) -> Option<OwnedGate> {
    let (ledger, plan) = of_running(world)?;
    let last = running(world, ledger, plan)?.ok()?;
    if last.stage.name == StageName::ControlPlane {
        return Some(last);
    }
    let is_of_first_node = |expectation: &Expectation| match expectation {
        Expectation::ControlPlane(expectation) => expectation.gate == ControlPlaneGate::FirstNode,
        _ => false,
    };
    let rolls_on = |stage: &&StagePlan| {
        stage.stage.name == StageName::ControlPlane
            && stage.state == StageState::Committed
            && stage.expectations.iter().any(is_of_first_node)
    };
    plan.stages.iter().find(rolls_on).map(|stage| of_another(world, plan, stage))
}

/// The gate of the last commit of the rollout that runs.
pub(crate) fn last(world: &World) -> Option<OwnedGate> {
    let (ledger, plan) = of_running(world)?;
    running(world, ledger, plan)?.ok()
}

/// The ledger of the rollout that runs, and its own plan; the newest where that is not known.
fn of_running(world: &World) -> Option<(&Ledger, &Plan)> {
    let ledger = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running)?;
    let own_plan = if world.plan.running {
        Some(world.plan.as_ref())
    } else {
        world.running.as_deref().filter(|plan| plan.digest == ledger.plan)
    };
    Some((ledger, own_plan.unwrap_or(&world.plan)))
}

/// Every gate that has a soak: those that the history has to remember.
pub(crate) fn soaking(world: &World) -> Vec<OwnedGate> {
    let mut gates: Vec<OwnedGate> = before_start(world, &world.plan, &StageName::Preflight).into_iter().collect();
    let Some((ledger, plan)) = of_running(world) else { return gates };
    gates.extend(running(world, ledger, plan).and_then(Result::ok));
    gates.extend(verify(world, ledger, plan));
    gates
}
