//! What must never be seen, written once.
//!
//! - I1: one commit for each stage and attempt of a plan.
//! - I2: the commit of a stage comes after the one that holds the evidence of the stage before.
//! - I3: evidence is for exactly the commit and the generation of its stage.
//! - I4: the branch only moves forward. It holds by [`super::DeployBranch`], which has no other way to move.
//! - I5: an approval is used for its own plan alone.
//! - I6: equal inputs give equal trees.
//! - I7: nothing is written while the line is stopped.
//! - I8: once faults stop, it ends, and then nothing is written any more.
//! - I9: who waits says what for.
//! - in-place: what `cluster/upgrades` holds after every event: no node twice, none beside another, no machine replaced.
//! - I11: each target makes a machine of external etcd, and of the control plane behind it, anew once.
//! - I12: no stage is committed beside more of its wave than may be under way, after more have failed than may, or before an earlier wave is done.
//! - I13: a cluster begins when those that come first are done.
//! - I10: no secret bytes leave. It has no place here: the model holds no secret.

use std::time::Duration;

use domain::ClusterName;
use policy::Approval;
use rollout::{
    ApprovalScope, ApprovalState, Effect, LedgerState, StageCommit, StageName, StageRecord, StageRecordKind,
};

use super::fleet::ModelCluster;
use super::simulation::Simulation;
use super::violation::Violation;

/// I9: whatever does not go on says why.
pub(super) fn check_reasons(cluster: &ClusterName, effects: &[Effect]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut check = |holds: bool, what: &str| {
        if !holds {
            violations.push(Violation::new("I9", format!("{cluster}: {what}")));
        }
    };
    check(!effects.is_empty(), "nothing is said at all");
    for effect in effects {
        match effect {
            Effect::Wait { reason, .. } => check(!reason.message.trim().is_empty(), "a wait without a reason"),
            Effect::Hold { reasons, help, stage } => {
                let said = !reasons.is_empty() && reasons.iter().all(|reason| !reason.message.trim().is_empty());
                check(said && !help.trim().is_empty(), &format!("a hold of {stage} without a reason or a help"));
            }
            Effect::Blocked { reasons } => check(!reasons.is_empty(), "a block without a reason"),
            Effect::Observe { .. }
            | Effect::OrderMachines { .. }
            | Effect::Backup { .. }
            | Effect::Etcd(_)
            | Effect::Cluster(_)
            | Effect::RequestApproval(_)
            | Effect::Commit(_)
            | Effect::Revert(_)
            | Effect::Close(_)
            | Effect::Done => {}
        }
    }
    let writes = effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Commit(_) | Effect::Revert(_) | Effect::Close(_)))
        .count();
    check(writes <= 1, "more than one commit at a time");
    violations
}

/// What a stage's commit must satisfy at the moment it is decided, before it is pushed. `unfinished` is the truth about the
/// cluster; `committed` are the stages on the branch so far, oldest first.
pub(super) fn check_commit(simulation: &Simulation, commit: &StageCommit, unfinished: &[String]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let subject = format!("{} {}", commit.cluster, commit.stage);
    let mut violated = |invariant: &'static str, message: String| {
        violations.push(Violation::new(invariant, format!("{subject}: {message}")));
    };
    let records = commit.ledger.stages.as_slice();
    let Some((record, before)) = records.split_last() else {
        violated("I2", "the ledger does not record the commit it lies in".to_owned());
        return violations;
    };
    if simulation.source().is_some_and(|source| source.paused.is_some()) {
        violated("I7", "committed while the line is stopped".to_owned());
    }
    if record.stage != commit.stage {
        violated("I2", format!("the ledger's last record is of {}", record.stage));
    }
    let carrier = before.last().filter(|last| last.carries.contains(&record.stage));
    check_once(before, record, carrier.is_some(), &mut violated);
    let repairs = !record.reasons.is_empty();
    match (&record.opened_by, record.kind) {
        (Some(evidence), StageRecordKind::Commit) => {
            let expected = previous_commit(simulation, commit, before);
            if evidence.commit != expected {
                violated(
                    "I3",
                    format!(
                        "the evidence is for commit {:?}, the stage before is commit {expected:?}",
                        evidence.commit
                    ),
                );
            }
            if evidence.observed_at > simulation.now() {
                violated("I3", format!("the evidence is of {}, which is to come", evidence.observed_at));
            }
            let soak = simulation.cluster(&commit.cluster).map_or(Duration::ZERO, ModelCluster::shortest_soak);
            let held = Duration::try_from(evidence.observed_at.duration_since(evidence.held_since)).unwrap_or_default();
            if held < soak || evidence.reads < 2 {
                violated(
                    "I3",
                    format!("the gate held for {held:?} in {} readings; {soak:?} are asked for", evidence.reads),
                );
            }
            // A rollout that repairs another finds its own stage and later ones half-way, and gets to them last.
            let repair = records.first().is_some_and(|first| !first.reasons.is_empty());
            let later = simulation
                .cluster(&commit.cluster)
                .filter(|_| repair)
                .map(|cluster| cluster.names_from(&commit.stage.name));
            // What a commit has moved too is on its way when the gate before it holds, and machines with it: that gate is of its own stage alone.
            let own = simulation
                .cluster(&commit.cluster)
                .zip(carrier)
                .map(|(cluster, carrier)| cluster.objects_of(&carrier.stage.name));
            let excused = |object: &&String| {
                // The bundle's own object has its version in its name.
                let is_bundle = object.starts_with("Bundles ") && commit.stage.name <= StageName::Bundle;
                let is_later = later.as_ref().is_some_and(|later| is_bundle || later.contains(object.as_str()));
                is_later || own.as_ref().is_some_and(|own| !own.contains(object.as_str()))
            };
            let unfinished: Vec<&str> =
                unfinished.iter().filter(|object| !excused(object)).map(String::as_str).collect();
            if !unfinished.is_empty() {
                violated("gate", format!("opened while this was not rolled out: {}", unfinished.join(", ")));
            }
        }
        (None, StageRecordKind::Commit) if !repairs => violated("I2", "opened by nothing".to_owned()),
        (None, StageRecordKind::Revert) if !repairs => violated("I9", "reverted without a reason".to_owned()),
        _ => {}
    }
    if carrier.is_none() {
        check_approval(simulation, commit, record, &mut violated);
    }
    violations
}

/// A rollout is closed when everything that it committed is rolled out.
pub(super) fn check_closing(cluster: &ClusterName, unfinished: &[String]) -> Option<Violation> {
    let message = format!("{cluster}: closed while this was not rolled out: {}", unfinished.join(", "));
    (!unfinished.is_empty()).then(|| Violation::new("gate", message))
}

/// I1: one commit for each stage and attempt, in the order of the stages.
fn check_once(
    before: &[StageRecord],
    record: &StageRecord,
    is_carried: bool,
    violated: &mut impl FnMut(&'static str, String),
) {
    let last = before.iter().rev().find(|known| known.stage == record.stage);
    match (last.map(|last| last.kind), record.kind) {
        (Some(StageRecordKind::Commit), StageRecordKind::Commit) => violated("I1", "committed twice".to_owned()),
        (Some(StageRecordKind::Revert) | None, StageRecordKind::Revert) => {
            violated("I1", "reverted without having been committed".to_owned());
        }
        _ => {}
    }
    if record.before == record.after && !is_carried {
        violated("I1", "committed without a difference".to_owned());
    }
    let later = before
        .iter()
        .filter(|known| known.kind == StageRecordKind::Commit && known.stage.name > record.stage.name)
        .find(|known| {
            before
                .iter()
                .rev()
                .find(|last| last.stage == known.stage)
                .is_some_and(|last| last.kind == StageRecordKind::Commit)
        });
    if let (Some(later), StageRecordKind::Commit) = (later, record.kind) {
        violated("I1", format!("committed after {}", later.stage));
    }
}

/// The commit that the evidence has to be for: the rollout's last one, or, where a rollout takes over from another that has
/// not ended, that one's last; none where nothing is running.
fn previous_commit(simulation: &Simulation, commit: &StageCommit, before: &[StageRecord]) -> Option<domain::CommitId> {
    let deployed = simulation.deployed(&commit.cluster).and_then(|tree| tree.ledger.as_ref());
    let running = deployed.filter(|ledger| ledger.state == LedgerState::Running && !ledger.stages.is_empty());
    if before.is_empty() && running.is_none() {
        return None;
    }
    let own = simulation
        .branch()
        .commits()
        .iter()
        .rev()
        .find(|known| known.trailer.as_ref().is_some_and(|trailer| trailer.cluster == commit.cluster));
    own.map(|known| known.id.clone())
}

/// I5: an approval is of this very plan.
fn check_approval(
    simulation: &Simulation,
    commit: &StageCommit,
    record: &StageRecord,
    violated: &mut impl FnMut(&'static str, String),
) {
    let Some(cluster) = simulation.cluster(&commit.cluster) else { return };
    let scope = match cluster.policy.approval {
        Approval::None => return,
        Approval::Rollout => ApprovalScope::Rollout,
        Approval::Stage => ApprovalScope::Stage(commit.stage.clone()),
    };
    let approved = simulation
        .approvals(&commit.cluster)
        .iter()
        .any(|known| known.plan == commit.plan && known.scope == scope && known.state == ApprovalState::Approved);
    if !approved && record.kind == StageRecordKind::Commit {
        violated("I5", format!("nobody approved {scope:?} of plan {}", commit.plan));
    }
}

/// How a simulation has to end once everything is healed and everybody has had their say.
#[must_use]
pub(super) fn check_end(simulation: &mut Simulation) -> Vec<Violation> {
    let mut violations = Vec::new();
    let Some(source) = simulation.source().cloned() else { return violations };
    for cluster in simulation.fleet().to_vec() {
        let name = cluster.name();
        let Some(deployed) = simulation.deployed(name).cloned() else { continue };
        if Some(&deployed.parts) != source.wanted.get(name) {
            violations.push(Violation::new(
                "end",
                format!("{name}: {:?} is deployed, {:?} is wanted", deployed.parts, source.wanted.get(name)),
            ));
        }
        if deployed.ledger.is_some_and(|ledger| ledger.state == LedgerState::Running) {
            violations.push(Violation::new("end", format!("{name}: the ledger is not closed")));
        }
        let reverted = simulation.history().iter().any(|line| line.starts_with(&format!("{name} etcd Revert")));
        let now = simulation.now();
        if let Some(simulated) = simulation.simulated(name).filter(|_| !reverted) {
            for (object, made, wanted) in simulated.made_anew() {
                if made > wanted {
                    let message = format!("{name}: {object}: {made} machines were made for one target of {wanted}");
                    violations.push(Violation::new("I11", message));
                }
            }
        }
        if let Some(simulated) = simulation.simulated(name) {
            simulated.advance(now);
            let mut unfinished = simulated.unfinished();
            unfinished.extend(simulated.unfinished_upgrades());
            if !unfinished.is_empty() {
                violations.push(Violation::new("end", format!("{name}: not rolled out: {}", unfinished.join(", "))));
            }
        }
    }
    violations
}
