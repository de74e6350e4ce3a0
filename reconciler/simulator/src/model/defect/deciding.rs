//! Wrong plans, and wrong effects of right ones.

use std::sync::Arc;
use std::time::Duration;

use domain::CommitId;
use jiff::SignedDuration;
use rollout::{Effect, Plan, StageCommit, StageId, World};

use super::Defect;

pub(super) fn order_stages_backwards(world: &mut World) {
    with_plans(world, |plan| plan.stages.sort_by(|one, other| other.stage.cmp(&one.stage)));
}

pub(super) fn leave_out_the_last_stage(world: &mut World) {
    with_plans(world, |plan| {
        if let Some(last) = plan.stages.iter().rposition(|stage| stage.before != stage.after) {
            plan.stages.remove(last);
        }
    });
}

pub(super) fn need_no_soak(world: &mut World) {
    with_plans(world, |plan| plan.stages.iter_mut().for_each(|stage| stage.policy.soak = Duration::ZERO));
}

fn with_plans(world: &mut World, change: impl Fn(&mut Plan)) {
    for plan in [Some(&mut world.plan), world.running.as_mut()].into_iter().flatten() {
        change(Arc::make_mut(plan));
    }
}

pub(super) fn distort_effects(defect: Defect, effects: &mut Vec<Effect>, earlier: Option<&CommitId>) {
    match defect {
        Defect::SaysNothing if is_a_wait(effects) => effects.clear(),
        Defect::CommitsTwiceInATurn => {
            let commits = effects.iter().filter(|effect| matches!(effect, Effect::Commit(_)));
            let again: Vec<Effect> = commits.cloned().collect();
            effects.extend(again);
        }
        _ => {
            for effect in effects {
                distort_effect(defect, effect, earlier);
            }
        }
    }
}

fn is_a_wait(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Wait { .. }))
}

fn distort_effect(defect: Defect, effect: &mut Effect, earlier: Option<&CommitId>) {
    match (defect, effect) {
        (Defect::WaitsInSilence, Effect::Wait { reason, .. }) => reason.message.clear(),
        (Defect::HoldsWithoutHelp, Effect::Hold { help, .. }) => help.clear(),
        (Defect::RevertsWithoutReasons, Effect::Revert(commit)) => {
            commit.ledger.stages.iter_mut().for_each(|record| record.reasons.clear());
        }
        (Defect::RendersFromAnotherSource, Effect::Commit(commit)) => {
            earlier.into_iter().for_each(|earlier| commit.source.clone_from(earlier));
        }
        (_, Effect::Commit(commit)) => distort_commit(defect, commit),
        _ => {}
    }
}

fn distort_commit(defect: Defect, commit: &mut StageCommit) {
    if defect == Defect::RecordsNoStage {
        commit.ledger.stages.pop();
        return;
    }
    let Some(record) = commit.ledger.stages.last_mut() else { return };
    match (defect, &mut record.opened_by) {
        (Defect::RecordsAnotherStage, _) => record.stage = StageId::from(rollout::StageName::Verify),
        (Defect::RecordsNoEvidence, evidence) => *evidence = None,
        (Defect::RecordsEvidenceOfNoCommit, Some(evidence)) => evidence.commit = None,
        (Defect::RecordsEvidenceOfTheFuture, Some(evidence)) => {
            evidence.observed_at += SignedDuration::from_mins(5);
        }
        _ => {}
    }
}
