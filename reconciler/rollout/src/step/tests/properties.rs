//! `step` is total: whatever the world looks like, also one that cannot be, it says what to do and why.

use jiff::SignedDuration;
use proptest::prelude::*;

use crate::ledger::StageRecord;
use crate::observation::Reachability;
use crate::step::harness::RolloutHarness;
use crate::step::*;
use policy::{Approval, OnFailure};

/// Something done to a world, possible or not.
#[derive(Debug, Clone)]
enum Disturbance {
    Turn,
    Push(usize, u8),
    Deploy(usize, u8),
    Break(usize, u8),
    Heal,
    Jump(i64),
    ForgetHistory,
    ForgetObservation,
    ForgetLedger,
    ForgetCommits(usize),
    ForgetStages,
    RepeatRecord,
    CloseLedger,
    Unreachable,
    Unread,
    Approve(bool),
    Ask(Approval),
    Revert(u32),
    SwapPlans,
}

const NAMES: [&str; 4] = ["cert-manager", "capi", "control-plane", "workers/md-0"];

fn disturbance() -> impl Strategy<Value = Disturbance> {
    prop_oneof![
        8 => Just(Disturbance::Turn),
        1 => (0..NAMES.len(), 1..4u8).prop_map(|(stage, version)| Disturbance::Push(stage, version)),
        1 => (0..NAMES.len(), 1..4u8).prop_map(|(stage, version)| Disturbance::Deploy(stage, version)),
        1 => (0..NAMES.len(), 1..4u8).prop_map(|(stage, version)| Disturbance::Break(stage, version)),
        1 => Just(Disturbance::Heal),
        1 => (-100_000..100_000i64).prop_map(Disturbance::Jump),
        1 => Just(Disturbance::ForgetHistory),
        1 => Just(Disturbance::ForgetObservation),
        1 => Just(Disturbance::ForgetLedger),
        1 => (0..5usize).prop_map(Disturbance::ForgetCommits),
        1 => Just(Disturbance::ForgetStages),
        1 => Just(Disturbance::RepeatRecord),
        1 => Just(Disturbance::CloseLedger),
        1 => Just(Disturbance::Unreachable),
        1 => Just(Disturbance::Unread),
        1 => any::<bool>().prop_map(Disturbance::Approve),
        1 => prop_oneof![Just(Approval::None), Just(Approval::Rollout), Just(Approval::Stage)].prop_map(Disturbance::Ask),
        1 => (0..3u32).prop_map(Disturbance::Revert),
        1 => Just(Disturbance::SwapPlans),
    ]
}

fn check(effects: &[Effect]) {
    assert!(!effects.is_empty());
    let commits =
        effects.iter().filter(|effect| matches!(effect, Effect::Commit(_) | Effect::Revert(_) | Effect::Close(_)));
    assert!(commits.count() <= 1, "{effects:?}");
    for effect in effects {
        match effect {
            Effect::Wait { reason, .. } => assert!(!reason.message.is_empty()),
            Effect::Hold { reasons, help, .. } => assert!(!reasons.is_empty() && !help.is_empty()),
            Effect::Blocked { reasons } => assert!(!reasons.is_empty()),
            Effect::Commit(commit) => {
                let record = commit.ledger.stages.last().unwrap();
                assert!(record.opened_by.is_some() || !record.reasons.is_empty(), "{record:?}");
            }
            _ => {}
        }
    }
}

fn decide(laboratory: &RolloutHarness) -> Vec<Effect> {
    let mut world = laboratory.world();
    world.history = record(&world, laboratory.now);
    let effects = step(&world, laboratory.now);
    check(&effects);
    assert_eq!(effects, step(&world, laboratory.now), "the same world, the same decision");
    effects
}

/// Disturbs the laboratory; what stays in it has to be such that the laboratory itself can go on.
fn disturb(laboratory: &mut RolloutHarness, disturbance: &Disturbance) {
    match disturbance {
        Disturbance::Turn => check(&laboratory.turn()),
        Disturbance::Push(stage, version) => laboratory.push(&[(NAMES[*stage], *version)]),
        Disturbance::Deploy(stage, version) => laboratory.stages[*stage].1 = *version,
        Disturbance::Break(stage, version) => laboratory.broken.push((NAMES[*stage], *version)),
        Disturbance::Heal => laboratory.broken.clear(),
        Disturbance::Jump(seconds) => laboratory.now += SignedDuration::from_secs(*seconds),
        Disturbance::ForgetHistory => laboratory.history = GateHistory::default(),
        Disturbance::ForgetObservation => laboratory.observation = None,
        Disturbance::ForgetLedger => laboratory.ledger = None,
        Disturbance::ForgetCommits(count) => {
            let commits = laboratory.deploy.commits();
            laboratory.deploy = commits.into_iter().skip(*count).collect();
        }
        Disturbance::ForgetStages => laboratory.ledger.iter_mut().for_each(|ledger| ledger.stages.clear()),
        Disturbance::RepeatRecord => laboratory.ledger.iter_mut().for_each(|ledger| {
            let repeated: Option<StageRecord> = ledger.stages.first().cloned();
            ledger.stages.extend(repeated);
        }),
        Disturbance::CloseLedger => laboratory.ledger.iter_mut().for_each(|ledger| ledger.state = LedgerState::Done),
        Disturbance::Unreachable => laboratory
            .observation
            .iter_mut()
            .for_each(|seen| seen.reachable = Reachability::Unreachable { reason: "refused".into() }),
        Disturbance::Unread => laboratory
            .observation
            .iter_mut()
            .for_each(|seen| drop(seen.unread.insert("Deployment".into(), "forbidden".into()))),
        Disturbance::Approve(yes) => {
            let state = if *yes { crate::ApprovalState::Approved } else { crate::ApprovalState::Rejected };
            laboratory.approvals.iter_mut().for_each(|record| record.state = state);
        }
        Disturbance::Ask(approval) => laboratory.policy.approval = *approval,
        Disturbance::Revert(retries) => {
            laboratory.policy.on_failure = OnFailure::Revert;
            laboratory.policy.retries = *retries;
        }
        Disturbance::SwapPlans => {
            let mut world = laboratory.world();
            if let Some(running) = world.running.take() {
                world.running = Some(std::mem::replace(&mut world.plan, running));
            }
            check(&step(&world, laboratory.now));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_world_gets_an_answer(disturbances in proptest::collection::vec(disturbance(), 1..60)) {
        let stages: Vec<_> = NAMES.iter().map(|name| (*name, 1, 2)).collect();
        let mut laboratory = RolloutHarness::new(&stages);
        for disturbance in &disturbances {
            disturb(&mut laboratory, disturbance);
            decide(&laboratory);
        }
    }

    /// Once nothing disturbs any more, the newest target is reached, whatever happened before.
    #[test]
    fn every_disturbed_rollout_ends_at_the_newest_target(disturbances in proptest::collection::vec(disturbance(), 1..40)) {
        let stages: Vec<_> = NAMES.iter().map(|name| (*name, 1, 2)).collect();
        let mut laboratory = RolloutHarness::new(&stages);
        let harmless = |disturbance: &&Disturbance| !matches!(
            disturbance,
            // What breaks the branch itself is for people to put right.
            Disturbance::Deploy(..) | Disturbance::ForgetLedger | Disturbance::ForgetCommits(_) | Disturbance::ForgetStages
                | Disturbance::RepeatRecord | Disturbance::CloseLedger | Disturbance::Revert(_) | Disturbance::Jump(_)
        );
        for disturbance in disturbances.iter().filter(harmless) {
            disturb(&mut laboratory, disturbance);
        }
        laboratory.broken.clear();
        laboratory.policy.approval = Approval::None;
        for _ in 0..200 {
            if laboratory.turn() == [Effect::Done] {
                break;
            }
        }
        prop_assert!(laboratory.stages.iter().all(|(_, deployed, target)| deployed == target), "{:?}", laboratory.log);
        prop_assert_eq!(laboratory.turn(), vec![Effect::Done]);
    }
}
