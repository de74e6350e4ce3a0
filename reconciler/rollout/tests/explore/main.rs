//! Every state that two clusters with three stages each can get into, with faults, and what has to hold in all of them.
//!
//! `STEPGATE_EXPLORE_FAULTS=2` allows more faults on one path (more than fourteen million states, two hours instead of a minute).
//! `STEPGATE_EXPLORE_STATE=N` prints the state of this number, which a failure names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod action;
mod key;
mod model;
mod pictures;

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::str::FromStr;

use action::Action;
use model::{Model, NAMES, Rules, SettledAt};
use policy::OnFailure;
use rollout::{Effect, LedgerState, StageCommit, StageRecordKind};

/// Decisions always have a reason, and there is at most one commit among them.
fn check_decision(effects: &[Effect]) {
    assert!(!effects.is_empty());
    let mut commits = 0;
    for effect in effects {
        match effect {
            Effect::Wait { reason, .. } => assert!(!reason.message.is_empty()),
            Effect::Hold { reasons, help, .. } => {
                assert!(
                    !help.is_empty() && !reasons.is_empty() && reasons.iter().all(|reason| !reason.message.is_empty())
                );
            }
            Effect::Blocked { reasons } => panic!("nothing forbids this plan: {reasons:?}"),
            Effect::Commit(_) | Effect::Revert(_) | Effect::Close(_) => commits += 1,
            Effect::Observe { .. }
            | Effect::Backup { .. }
            | Effect::Etcd(_)
            | Effect::Cluster(_)
            | Effect::OrderMachines { .. }
            | Effect::RequestApproval(_)
            | Effect::Done => {}
        }
    }
    assert!(commits <= 1);
    let explains = |effect: &Effect| {
        !matches!(effect, Effect::Observe { .. } | Effect::Backup { .. } | Effect::RequestApproval(_))
    };
    assert!(effects.iter().any(explains), "{effects:?}");
}

/// What must hold when a commit is about to reach the branch.
fn check_commit(model: &Model, cluster: usize) {
    match model.about_to_commit(cluster) {
        Some((Effect::Commit(commit), settled_at)) => check_stage(model, cluster, commit, settled_at),
        Some((Effect::Revert(commit), _)) => {
            let last = model.last_stage_commit(cluster).expect("only what was committed is reverted");
            assert_eq!(commit.undoes.as_ref(), Some(last.id));
            assert!(!commit.ledger.stages.last().unwrap().reasons.is_empty());
        }
        Some((Effect::Close(close), settled_at)) => {
            let evidence = close.ledger.verified.as_ref().expect("a rollout is closed with evidence");
            check_evidence(model, cluster, evidence, settled_at[2]);
            assert_ne!(close.ledger.state, LedgerState::Running);
        }
        _ => {}
    }
}

fn check_stage(model: &Model, cluster: usize, commit: &StageCommit, settled_at: &SettledAt) {
    let stage = Model::stage_position(cluster, &commit.stage);
    let own = &model.clusters[cluster];
    // Stages before it are at the same version or later already: none is left out.
    let record = commit.ledger.stages.last().unwrap();
    let plan = [2, 3].map(|target| model.plan(cluster, target));
    let plan = plan.iter().find(|plan| plan.digest == commit.plan).expect("the plan is one that was asked for");
    for earlier in &own.deployed[..stage] {
        let target = if plan.source.as_str().ends_with('2') { 2 } else { 3 };
        assert_eq!(*earlier, target, "{} is committed before the stages in front of it", commit.stage);
    }
    match &record.opened_by {
        Some(evidence) => check_evidence(model, cluster, evidence, settled_at[proven_stages(cluster, commit) - 1]),
        None => assert!(!record.reasons.is_empty(), "a repair names what it repairs"),
    }
    // One commit for a stage and a plan, unless it was reverted in between.
    let trailers = model.deploy.trailers();
    let same = trailers.filter(|trailer| trailer.rollout == commit.rollout && trailer.stage == commit.stage).count();
    let reverts = commit
        .ledger
        .stages
        .iter()
        .filter(|known| known.stage == commit.stage && known.kind == StageRecordKind::Revert);
    let reverts = reverts.count();
    assert_eq!(same, 2 * reverts, "{} {} was committed already", NAMES[cluster], commit.stage);
    assert!(record.attempt <= 1 + model.rules.retries);
    if cluster == 1 && commit.ledger.stages.len() == 1 {
        assert!(
            model.clusters[0].ledger.as_ref().is_some_and(|ledger| ledger.state != LedgerState::Running)
                || model.faults_left == 0
        );
    }
}

/// How many stages have to run for this commit: all, unless its rollout repairs what did not come up. Of what it has not
/// come to, nothing is expected then but that it is repaired.
fn proven_stages(cluster: usize, commit: &StageCommit) -> usize {
    let (_, before) = commit.ledger.stages.split_last().unwrap();
    let Some(last) = before.last() else { return 3 };
    let repairs = before.iter().any(|record| record.opened_by.is_none());
    if repairs { Model::stage_position(cluster, &last.stage) + 1 } else { 3 }
}

/// Evidence is for the cluster's own last commit, and the oracle agrees that everything really ran from then on.
fn check_evidence(model: &Model, cluster: usize, evidence: &rollout::Evidence, settled_at: Option<i64>) {
    let running = model.clusters[cluster].ledger.as_ref().filter(|ledger| ledger.state == LedgerState::Running);
    if running.is_some() {
        let last = model.last_stage_commit(cluster).expect("a running rollout has a commit");
        assert_eq!(evidence.commit.as_ref(), Some(last.id), "evidence is bound to another commit");
        assert!(evidence.observed_at > last.committed_at);
    }
    assert!(evidence.reads >= 2);
    let settled_at = settled_at.expect("the gate passed before everything ran");
    if evidence.commit.is_some() {
        let held_since = Model::seconds(evidence.held_since);
        assert!(
            held_since >= settled_at,
            "the gate held at {held_since}, everything ran at {settled_at}: {}",
            model.key()
        );
    }
}

/// A stage was reverted as often as the policy allows, and says so; the other cluster waits for it.
fn is_held(decisions: &[Vec<Effect>; 2]) -> bool {
    let reverted = |effect: &Effect| match effect {
        Effect::Hold { reasons, .. } => reasons.iter().any(|reason| reason.message.contains("and reverted")),
        _ => false,
    };
    decisions.iter().flatten().any(reverted)
}

/// A state's number: they are counted in the order in which they are found.
type Number = u32;

/// What stands for a state: at 128 bits, that two of a hundred million states have one is less likely than 10⁻²².
type Fingerprint = u128;

fn fingerprint(key: &str) -> Fingerprint {
    let half = |which: u8| {
        let mut hasher = DefaultHasher::new();
        (which, key).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (half(0) << 64) | half(1)
}

/// The states found so far, with the ways between them on which nothing goes wrong.
#[derive(Default)]
struct Graph {
    numbers: HashMap<Fingerprint, Number>,
    /// For each state, the states from which an ordinary action leads to it.
    from: Vec<Vec<Number>>,
    /// States in which everything is done, or explained as held.
    ends: Vec<Number>,
    /// The state that is to be printed.
    shown: Option<Number>,
}

impl Graph {
    /// The number of a state, and whether it is new.
    fn number(&mut self, key: &str) -> (Number, bool) {
        let next = Number::try_from(self.from.len()).expect("fewer states than numbers");
        let number = *self.numbers.entry(fingerprint(key)).or_insert(next);
        if number == next {
            self.from.push(Vec::new());
            if self.shown == Some(number) {
                println!("state {number}: {key}");
            }
        }
        (number, number == next)
    }

    /// Once faults stop, it finishes: an end can be reached from every state by ordinary actions alone. Whatever ordinary actions do, they lead
    /// to a state of which the same is true, so no order of them can trap it.
    fn check_that_everything_finishes(&self) {
        let mut finishes = vec![false; self.from.len()];
        let mut ahead = self.ends.clone();
        while let Some(state) = ahead.pop() {
            if !std::mem::replace(&mut finishes[state as usize], true) {
                ahead.extend(&self.from[state as usize]);
            }
        }
        let stuck = finishes.iter().position(|finishes| !finishes);
        assert!(
            stuck.is_none(),
            "no way leads to the end from a state, which STEPGATE_EXPLORE_STATE prints: {stuck:?}"
        );
    }
}

fn explore(rules: Rules, faults: u8) -> usize {
    let start = Model::new(rules, faults);
    let mut graph = Graph { shown: setting("STEPGATE_EXPLORE_STATE"), ..Graph::default() };
    let (number, _) = graph.number(&start.key());
    // Depth first: of ten million states, a few thousand are in memory at once.
    let mut ahead = vec![(number, start)];
    let (mut commits, mut confirmed) = (0_usize, 0_usize);
    while let Some((number, model)) = ahead.pop() {
        let decisions = [model.step(0), model.step(1)];
        if model.is_finished(&decisions) || is_held(&decisions) {
            graph.ends.push(number);
        }
        for (cluster, effects) in decisions.iter().enumerate() {
            check_decision(effects);
            commits += usize::from(model.about_to_commit(cluster).is_some());
            let of_one_gate = model.clusters[cluster].rest.is_some();
            confirmed += usize::from(of_one_gate && effects.iter().any(|effect| matches!(effect, Effect::Commit(_))));
            check_commit(&model, cluster);
            for action in Action::ALL {
                let Some(next) = model.after(cluster, action, effects) else { continue };
                let (reached, is_new) = graph.number(&next.key());
                if !action.is_fault() {
                    graph.from[reached as usize].push(number);
                }
                if is_new {
                    ahead.push((reached, next));
                }
            }
        }
    }
    assert!(commits > 0 && confirmed > 0, "the exploration commits nothing, or nothing on a reading of one gate");
    graph.check_that_everything_finishes();
    graph.from.len()
}

/// A number that whoever runs the tests sets.
fn setting<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number that can be")))
}

/// Explores under these rules, and asserts that at least so many states were found: with one fault on a path, and with two.
fn explore_at_least(rules: Rules, states: [usize; 2]) {
    let faults = setting("STEPGATE_EXPLORE_FAULTS").unwrap_or(1);
    let found = explore(rules, faults);
    println!("{rules:?}, {faults} faults on a path: {found} states");
    let expected = faults.checked_sub(1).map_or(0, |more| states[usize::from(more.min(1))]);
    assert!(found >= expected, "{found} states, {expected} expected: something is not explored any more");
}

#[test]
fn holding_keeps_every_promise_in_every_state() {
    explore_at_least(Rules { on_failure: OnFailure::Hold, retries: 0 }, [90_000, 2_400_000]);
}

#[test]
fn reverting_keeps_every_promise_in_every_state() {
    explore_at_least(Rules { on_failure: OnFailure::Revert, retries: 1 }, [120_000, 6_900_000]);
}

#[test]
fn reverting_without_another_try_keeps_every_promise_in_every_state() {
    explore_at_least(Rules { on_failure: OnFailure::Revert, retries: 0 }, [110_000, 5_300_000]);
}
