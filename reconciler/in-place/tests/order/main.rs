//! Upgrades of whole clusters under a virtual clock: a process that is killed after any action, nodes that fail, people
//! who repair them, and new targets in the middle.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};

mod model;
mod single;

use model::{Faults, Model, Shape};

#[test]
fn every_seed_ends_upgraded_whatever_fails_on_the_way() {
    for seed in 0..10_000 {
        let mut model = Model::new(seed, Shape::of_seed(seed), Faults::All);
        let ended = catch_unwind(AssertUnwindSafe(|| model.run()));
        assert!(ended.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_crash_after_every_action_changes_nothing() {
    for shape in
        [Shape { control_plane: 1, workers: 0, hooks: false }, Shape { control_plane: 3, workers: 2, hooks: false }]
    {
        let mut whole = Model::new(1, shape, Faults::None);
        whole.run();
        for actions in 1..4 {
            let mut model = Model::new(1, shape, Faults::None);
            model.most_actions = Some(actions);
            model.run();
            assert_eq!(model.order, whole.order, "{actions} actions at once");
        }
    }
}
