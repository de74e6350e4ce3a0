//! Every state that four clusters in three waves can get into, with clusters that break, a controller that forgets and a source branch that moves,
//! and what has to hold in all of them: never more under way than allowed, no stage after the budget is exceeded, never done with failures, and an
//! end once nothing breaks any more. Where people approve waves: nothing without their approval, and never stuck once they have approved.
//!
//! `STEPGATE_EXPLORE_FAULTS=3` allows more faults on one path.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod model;

use std::collections::{HashMap, VecDeque};

use model::{Action, Model, Rules, skip};
use policy::{First, Share, Wave, WaveApproval};

/// Waves of these clusters, each with what it says.
fn rules<const N: usize>(waves: [(&[usize], Wave); N]) -> Rules {
    Rules { waves: waves.into_iter().map(|(clusters, wave)| (wave, clusters.to_vec())).collect() }
}

fn wave(name: &str, concurrency: u32, tolerated: u32) -> Wave {
    Wave { concurrency: Share::Count(concurrency), max_failures: Share::Count(tolerated), ..Wave::named(name) }
}

fn explore(what: &str, rules: &Rules) {
    explore_with(2, what, rules);
}

fn explore_with(faults: u8, what: &str, rules: &Rules) {
    let faults = std::env::var("STEPGATE_EXPLORE_FAULTS").ok().and_then(|text| text.parse().ok()).unwrap_or(faults);
    let start = Model::new(faults);
    let mut numbers = HashMap::from([(start.clone(), 0_usize)]);
    let mut from: Vec<Vec<usize>> = vec![Vec::new()];
    let mut ends = VecDeque::new();
    let mut queue = VecDeque::from([(0, start)]);
    let actions = Action::all();
    while let Some((number, model)) = queue.pop_front() {
        model.check(rules);
        if model.is_finished() {
            ends.push_back(number);
        }
        for action in &actions {
            let Some(next) = model.after(rules, *action) else { continue };
            let reached = *numbers.entry(next.clone()).or_insert(from.len());
            if reached == from.len() {
                from.push(Vec::new());
                queue.push_back((reached, next));
            }
            if !action.is_fault() {
                from[reached].push(number);
            }
        }
    }
    // An end can be reached from every state once nothing breaks any more.
    let mut finishes = vec![false; from.len()];
    while let Some(state) = ends.pop_front() {
        if !std::mem::replace(&mut finishes[state], true) {
            ends.extend(&from[state]);
        }
    }
    let stuck = finishes.iter().position(|finishes| !finishes);
    let stuck = stuck.and_then(|stuck| numbers.iter().find(|(_, number)| **number == stuck));
    assert!(stuck.is_none(), "{what}: no way leads to the end from {stuck:?}");
    println!("{what}, {faults} faults: {} states", from.len());
}

#[test]
fn one_after_another_keeps_every_promise_in_every_state() {
    explore(
        "1, 2 and 1",
        &rules([(&[0], wave("one", 1, 0)), (&[1, 2], wave("two", 2, 0)), (&[3], wave("three", 1, 0))]),
    );
}

#[test]
fn failures_that_may_be_keep_every_promise_in_every_state() {
    explore(
        "2 with a failure",
        &rules([(&[0, 1, 2], wave("one", 2, 1)), (&[3], wave("two", 1, 1)), (&[], wave("three", 1, 0))]),
    );
}

#[test]
fn canaries_keep_every_promise_in_every_state() {
    let first = Wave { first: First::Count(1), ..wave("one", 3, 0) };
    explore("a canary", &rules([(&[0, 1], first.clone()), (&[2], wave("two", 1, 0)), (&[3], first)]));
}

#[test]
fn skips_that_end_keep_every_promise_in_every_state() {
    let without = Wave { skip: vec![skip(1)], ..wave("one", 1, 0) };
    explore("a skip", &rules([(&[0, 1, 2], without), (&[3], wave("two", 1, 0)), (&[], wave("three", 1, 0))]));
}

#[test]
fn approvals_before_and_after_keep_every_promise_in_every_state() {
    let asked = |approval: WaveApproval, wave: Wave| Wave { approval, ..wave };
    let before = asked(WaveApproval::Before, wave("one", 2, 0));
    let after = asked(WaveApproval::After, wave("two", 1, 0));
    explore_with(1, "approvals", &rules([(&[0, 1], before), (&[2], after), (&[3], wave("three", 1, 0))]));
    let without = asked(WaveApproval::Before, Wave { skip: vec![skip(2)], ..wave("two", 1, 1) });
    let result = asked(WaveApproval::After, wave("one", 1, 0));
    explore_with(1, "a result, then a skip", &rules([(&[0], result), (&[1, 2], without), (&[3], wave("three", 1, 0))]));
}
