//! Stopped at every point and started with empty memory; two controllers at once; lost races.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use futures::future::FutureExt as _;
use overlays::RenderedTree;

use crate::fleet::{CLUSTERS, Fleet, assert_no_stage_twice, is_done, outcome, told};
use crate::hooked::{Act, Hook, Hooked};

/// What a bump leads to when nothing disturbs it.
#[derive(Debug, PartialEq)]
struct End {
    tree: RenderedTree,
    stages: Vec<Vec<String>>,
}

impl End {
    fn of(fleet: &Fleet) -> Self {
        Self { tree: fleet.tree(), stages: CLUSTERS.map(|cluster| fleet.stages(cluster)).to_vec() }
    }
}

fn undisturbed() -> &'static End {
    static END: OnceLock<End> = OnceLock::new();
    END.get_or_init(|| {
        let fleet = Fleet::new();
        fleet.bump();
        fleet.run_to_the_end(&fleet.controller());
        assert_no_stage_twice(&fleet);
        End::of(&fleet)
    })
}

/// A bump has led to what it leads to when nothing disturbs it.
#[track_caller]
pub fn assert_same_end(fleet: &Fleet) {
    assert_no_stage_twice(fleet);
    let (end, expected) = (End::of(fleet), undisturbed());
    assert_eq!(end.stages, expected.stages);
    let differing: Vec<_> = expected.tree.diff(&end.tree).files.into_keys().collect();
    assert!(differing.is_empty(), "{differing:?}");
}

/// Runs the bump with a controller that is killed where `survives` says no, and replaced by a new one each time.
/// Returns how often that happened.
#[track_caller]
fn run_with_deaths(fleet: &Fleet, survives: impl Fn(Act) -> bool + Send + Sync + 'static) -> usize {
    let dead = Arc::new(AtomicBool::new(false));
    let deaths = Arc::new(AtomicUsize::new(0));
    let hook: Hook = {
        let (dead, deaths) = (Arc::clone(&dead), Arc::clone(&deaths));
        Arc::new(move |_, act| {
            // Nobody acts after death.
            if dead.load(Ordering::SeqCst) {
                return false;
            }
            let alive = survives(act);
            if !alive {
                deaths.fetch_add(1, Ordering::SeqCst);
                dead.store(true, Ordering::SeqCst);
            }
            alive
        })
    };
    let start = || fleet.controller_of(Arc::new(Hooked::new(&fleet.simulated, hook.clone())));
    let mut controller = start();
    for _ in 0..20_000 {
        let pass = fleet.pass_or_death(&controller, &dead);
        match &pass {
            Some(pass) if is_done(pass) => return deaths.load(Ordering::SeqCst),
            Some(_) => {}
            None => {
                dead.store(false, Ordering::SeqCst);
                controller = start();
            }
        }
        fleet.wait(pass.as_deref());
    }
    panic!("it goes on for ever after {} deaths", deaths.load(Ordering::SeqCst))
}

#[test]
fn a_controller_killed_after_every_push_comes_to_the_same_end() {
    let fleet = Fleet::new();
    fleet.bump();
    // Telling Flux follows the push, so the process never learns that it has pushed. The next one tells Flux again, and survives it.
    let (repository, branch) = (fleet.repository.clone(), fleet.layout.branch.clone());
    let known = Mutex::new(repository.head(&branch).unwrap());
    let deaths = run_with_deaths(&fleet, move |act| {
        let head = repository.head(&branch).unwrap();
        act != Act::Nudge || std::mem::replace(&mut *known.lock().unwrap(), head.clone()) == head
    });
    assert_same_end(&fleet);
    // Of a closed ledger Flux is not told: what it applies has not changed.
    let commits: usize = CLUSTERS.iter().map(|cluster| fleet.stages(cluster).len()).sum();
    assert!((commits - CLUSTERS.len()..=commits).contains(&deaths), "{deaths} deaths, {commits} commits");
}

#[test]
fn a_controller_killed_at_seeded_moments_comes_to_the_same_end() {
    for seed in [1_u64, 7] {
        let fleet = Fleet::new();
        fleet.bump();
        let state = Mutex::new(seed);
        let deaths = run_with_deaths(&fleet, move |_| {
            let mut state = state.lock().unwrap();
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // One act in twelve is not survived.
            !(*state >> 33).is_multiple_of(12)
        });
        assert!(deaths > 3, "seed {seed}: only {deaths} deaths");
        assert_same_end(&fleet);
    }
}

#[test]
fn a_new_controller_after_every_commit_comes_to_the_same_end() {
    let fleet = Fleet::new();
    fleet.bump();
    loop {
        let committed = fleet.run_until(&fleet.controller(), |pass| {
            is_done(pass) || pass.clusters.iter().any(|cluster| !cluster.committed.is_empty())
        });
        if is_done(&committed) {
            break;
        }
        fleet.wait(Some(&committed));
    }
    assert_same_end(&fleet);
}

#[test]
fn two_controllers_in_turn_come_to_the_same_end() {
    let fleet = Fleet::new();
    fleet.bump();
    let (one, other) = (fleet.controller(), fleet.controller());
    let (mut by_one, mut by_other) = (0, 0);
    // In no rhythm: each has turns in which a gate can pass.
    let mut random = fastrand::Rng::with_seed(1);
    for turn in 0.. {
        let (controller, count) = if random.u8(..3) == 0 { (&one, &mut by_one) } else { (&other, &mut by_other) };
        let pass = fleet.pass(controller);
        *count += pass.clusters.iter().map(|cluster| cluster.committed.len()).sum::<usize>();
        if is_done(&pass) {
            break;
        }
        assert!(turn < 20_000, "{}", told(&pass));
        fleet.wait(Some(&pass));
    }
    assert_same_end(&fleet);
    assert!(by_one > 0 && by_other > 0, "{by_one} and {by_other}");
}

/// The other controller makes a whole pass while the first one reads a cluster: whatever the first one had in mind is stale then.
#[test]
fn a_controller_that_is_overtaken_in_the_middle_of_a_pass_plans_again() {
    let fleet = Arc::new(Fleet::new());
    fleet.bump();
    let other = fleet.controller();
    let overtaken = Arc::new(AtomicUsize::new(0));
    let hook: Hook = {
        let (fleet, overtaken) = (Arc::clone(&fleet), Arc::clone(&overtaken));
        Arc::new(move |_, act| {
            if act == Act::Observe {
                let before = fleet.head();
                other.pass().now_or_never().unwrap().unwrap();
                if fleet.head() != before {
                    overtaken.fetch_add(1, Ordering::SeqCst);
                }
            }
            true
        })
    };
    let controller = fleet.controller_of(Arc::new(Hooked::new(&fleet.simulated, hook)));
    fleet.run_to_the_end(&controller);
    assert_same_end(&fleet);
    assert!(overtaken.load(Ordering::SeqCst) > 0);
}

/// A person's commit to the deploy branch outside of the clusters' directories comes between decision and push.
#[test]
fn a_push_that_loses_against_an_unrelated_commit_goes_on() {
    let fleet = Arc::new(Fleet::new());
    fleet.bump();
    let commits = Arc::new(AtomicUsize::new(0));
    let hook: Hook = {
        let (fleet, commits) = (Arc::clone(&fleet), Arc::clone(&commits));
        Arc::new(move |_, act| {
            if act == Act::Observe {
                let number = commits.fetch_add(1, Ordering::SeqCst);
                fleet.meddle("README.md", Some(&format!("note {number}\n")));
            }
            true
        })
    };
    let controller = fleet.controller_of(Arc::new(Hooked::new(&fleet.simulated, hook)));
    let pass = fleet.run_to_the_end(&controller);
    assert_eq!(outcome(&pass, "mgmt").word(), "done");
    assert_no_stage_twice(&fleet);
    let end = End::of(&fleet);
    assert_eq!(end.stages, undisturbed().stages);
    let differing: Vec<String> = undisturbed().tree.diff(&end.tree).files.keys().map(ToString::to_string).collect();
    assert_eq!(differing, ["README.md"]);
    assert!(commits.load(Ordering::SeqCst) > 10);
}
