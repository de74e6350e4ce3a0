//! 50,000 orders in which people, processes and the forge can do what they do: nothing lands that was not approved as it is, no edit of people
//! either, nothing that was approved is lost, and there is at most one open pull request for a stage.
//!
//! What decides is the real thing: `step` on a simulated cluster, what the comments and reviews below a pull request come to, the marks in
//! its text, which edits are taken up and hold, and what makes a commit ours. Git and the forge are values here, and what carries a decision
//! out is told again in the few lines of `carry.rs`, call by call, so that a process can die and another one act between any two of them. The
//! whole controller is run by `tests/tests/controller/forge/interleavings.rs`.
//!
//! `STEPGATE_INTERLEAVINGS` says how many are tried, and `STEPGATE_SEED` the first of them, alone if nothing else is said.

mod carry;
mod edits;
mod look;
mod people;
mod scene;

use std::time::Instant;

use scene::Scene;
use simulator::Random;

/// How many are tried unless somebody says otherwise.
const FEW: u64 = 1_000;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn nothing_lands_that_was_not_approved_and_nothing_approved_is_lost() {
    let first = setting("STEPGATE_SEED");
    let count = setting("STEPGATE_INTERLEAVINGS").unwrap_or(if first.is_some() { 1 } else { FEW });
    let first = first.unwrap_or_default();
    let started = Instant::now();
    let mut totals = Totals::default();
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let mut scene = Scene::new(seed);
        for _ in 0..40 + random.below(300) {
            scene.happen(&mut random);
            scene.check(seed);
        }
        scene.settle(seed);
        totals.add(&scene);
    }
    println!("{count} interleavings in {:.0?}: {totals:?}", started.elapsed());
    // Everything that is said to be tried was.
    let Totals { pushes, edits, taken_up, landed, left_out, forged, approvals, .. } = totals;
    let Totals { merges, stale, closed, reopened, kills, errors, rewritten, lost, .. } = totals;
    if count >= FEW {
        let of_edits = [pushes, edits, taken_up, landed, left_out, forged];
        let of_people = [approvals, merges, stale, closed, reopened, rewritten];
        for tried in [kills, errors, lost].into_iter().chain(of_people).chain(of_edits) {
            assert!(tried > 0, "{totals:?}");
        }
    }
}

/// What was tried, all in all.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    pushes: usize,
    edits: usize,
    /// Edits that became what is proposed.
    taken_up: usize,
    /// Those that landed, or were merged before they were looked at.
    landed: usize,
    /// Edits that another proposal does not have.
    left_out: usize,
    forged: usize,
    approvals: usize,
    merges: usize,
    stale: usize,
    closed: usize,
    reopened: usize,
    kills: usize,
    errors: usize,
    /// Texts of pull requests that somebody changed.
    rewritten: usize,
    /// Pushes that came too late.
    lost: usize,
}

impl Totals {
    fn add(&mut self, scene: &Scene) {
        let count = |word: &str| scene.told.iter().filter(|line| line.contains(word)).count();
        self.pushes += count("push ");
        self.edits += count("edits");
        self.taken_up += count("takes up");
        self.landed += scene.landed_by.keys().filter(|(_, version)| *version >= edits::EDITED).count();
        self.left_out += count("is left out");
        self.forged += count("forges");
        self.approvals += count("approves") + count("reviews");
        self.merges += count("merges");
        self.stale += count("a stale one");
        self.closed += count("closes");
        self.reopened += count("opens again");
        self.kills += count("dies");
        self.errors += count("the forge fails");
        self.rewritten += count("what is noted");
        self.lost += count("somebody was faster");
    }
}
