//! Waves with budgets on real branches: who begins, who waits, who goes on, whatever process looks at them.

use std::sync::{Arc, Mutex};

use cluster::kubernetes::{ChangeScope, Changes};
use forge::ForgeAccess;
use git::Repository;
use jiff::{SignedDuration, Timestamp};
use rollout::StageName;
use simulator::Fault;
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};

use crate::fleet::{Fleet, assert_stage_once, is_done, outcome, told};
use crate::hooked::{Hook, Hooked};

const TEAMS: [&str; 4] = ["team-a", "team-b", "team-c", "team-d"];

/// The management cluster is a wave, and the teams are the next one, of which this is said.
fn fleet(teams: &str) -> Fleet {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::create(&folder.path().join("fleet.git"), &"main".parse().unwrap()).unwrap();
    let waves =
        format!("waves:\n- {{name: hub, clusters: [mgmt]}}\n- {{name: teams, clusters: ['team-*'], {teams}}}\n");
    let fleet =
        Fleet::of_many(folder, repository, ForgeAccess::default(), &TEAMS.map(str::to_owned), |policy| policy + &waves);
    fleet.bump();
    fleet
}

fn ledger(fleet: &Fleet, cluster: &str) -> String {
    fleet.deployed(&format!("clusters/{cluster}/rollout.yaml")).unwrap()
}

/// The teams whose rollout is on the way.
fn under_way(fleet: &Fleet) -> Vec<&'static str> {
    TEAMS.into_iter().filter(|team| ledger(fleet, team).contains("state: running")).collect()
}

fn has_begun(fleet: &Fleet, team: &str) -> bool {
    !fleet.stages(team).is_empty()
}

fn is_held(pass: &ReconcileReport, cluster: &str) -> bool {
    matches!(outcome(pass, cluster), ClusterOutcome::Held { .. })
}

/// Passes of a controller for so long, whatever becomes of them.
fn run_for(fleet: &Fleet, controller: &Controller, time: SignedDuration) -> Arc<ReconcileReport> {
    let end = fleet.clock_now() + time;
    fleet.run_until(controller, |_| fleet.clock_now() >= end)
}

fn until(outcome: &ClusterOutcome) -> Option<Timestamp> {
    match outcome {
        ClusterOutcome::Waiting { until, .. } => *until,
        _ => None,
    }
}

#[test]
fn a_quarter_of_a_wave_goes_at_once_rounded_down() {
    for (concurrency, places) in [("25%", 1), ("74%", 2), ("1%", 1)] {
        let fleet = fleet(&format!("concurrency: {concurrency}"));
        let controller = fleet.controller();
        let mut most = 0;
        let mut order = Vec::new();
        for _ in 0..5_000 {
            let pass = fleet.pass(&controller);
            let now = under_way(&fleet);
            assert!(now.len() <= places, "{concurrency}: {now:?}");
            most = most.max(now.len());
            order.extend(now.iter().filter(|team| !order.contains(*team)).copied().collect::<Vec<_>>());
            if is_done(&pass) {
                break;
            }
            fleet.wait(Some(&pass));
        }
        assert_eq!(most, places, "{concurrency}");
        assert_eq!(order, TEAMS, "{concurrency}: by name");
        assert_stage_once(&fleet, &TEAMS);
    }
}

#[test]
fn a_canary_is_alone_first_verified_and_soaked() {
    let fleet = fleet("first: [team-c], concurrency: 4, soak: 6h");
    let controller = fleet.controller();
    let pass = fleet.run_until(&controller, |_| has_begun(&fleet, "team-c"));
    let message = outcome(&pass, "team-a").message();
    assert!(message.contains("cluster team-c goes first in wave teams"), "{}", told(&pass));
    let pass = fleet.run_until(&controller, |pass| *outcome(pass, "team-c") == ClusterOutcome::Done);
    let verified = fleet.clock_now();
    assert!(["team-a", "team-b", "team-d"].iter().all(|team| !has_begun(&fleet, team)), "{}", told(&pass));
    let soaks =
        |pass: &ReconcileReport| outcome(pass, "team-a").message().contains("the first of wave teams soak until");
    let pass = fleet.run_until(&controller, soaks);
    let ends = until(outcome(&pass, "team-a")).unwrap();
    assert!(ends >= verified + SignedDuration::from_mins(350), "{}", told(&pass));
    // A process that has just been started knows it from the ledger.
    fleet.run_until(&fleet.controller(), |_| has_begun(&fleet, "team-a"));
    assert!(fleet.clock_now() >= ends, "{} before {ends}", fleet.clock_now());
    fleet.run_to_the_end(&controller);
    assert_stage_once(&fleet, &TEAMS);
}

#[test]
fn a_failed_cluster_stops_its_wave_until_it_is_mended() {
    let fleet = fleet("concurrency: 2");
    fleet.break_at("team-a", StageName::Cilium, Fault::FailingPod);
    let controller = fleet.controller();
    fleet.run_until(&controller, |pass| is_held(pass, "team-a"));
    let begun = || TEAMS.into_iter().filter(|team| has_begun(&fleet, team)).collect::<Vec<_>>();
    let at_first = begun();
    assert!(!at_first.contains(&"team-d"), "{at_first:?}");
    let pass = run_for(&fleet, &controller, SignedDuration::from_hours(3));
    let stopped = |pass: &ReconcileReport| {
        let message = outcome(pass, "team-d").message();
        assert!(message.contains("wave teams is stopped: team-a (held at cilium)"), "{}", told(pass));
    };
    // Who was under way beside it has ended its stage, or its rollout, and nobody else has begun.
    assert_eq!(begun(), at_first, "{}", told(&pass));
    stopped(&pass);
    let stages = TEAMS.map(|team| fleet.stages(team));
    // A process that has just been started begins nothing before it has looked.
    let pass = run_for(&fleet, &fleet.controller(), SignedDuration::from_hours(1));
    assert!(is_held(&pass, "team-a"), "{}", told(&pass));
    assert_eq!(TEAMS.map(|team| fleet.stages(team)), stages, "{}", told(&pass));
    stopped(&pass);
    fleet.heal("team-a");
    fleet.run_to_the_end(&controller);
    assert_stage_once(&fleet, &TEAMS);
}

#[test]
fn what_may_fail_gives_its_place_back_and_the_wave_is_not_done_with_it() {
    let waves = "concurrency: 1, maxFailures: 25%}\n- {name: last, clusters: [team-e]";
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::create(&folder.path().join("fleet.git"), &"main".parse().unwrap()).unwrap();
    let policy = format!(
        "waves:\n- {{name: hub, clusters: [mgmt]}}\n- {{name: teams, clusters: [team-a, team-b, team-c, team-d], {waves}}}\n"
    );
    let names = ["team-a", "team-b", "team-c", "team-d", "team-e"].map(str::to_owned);
    let fleet = Fleet::of_many(folder, repository, ForgeAccess::default(), &names, |text| text + &policy);
    fleet.bump();
    fleet.break_at("team-a", StageName::Cilium, Fault::FailingPod);
    let controller = fleet.controller();
    let all_done = |pass: &ReconcileReport| {
        ["team-b", "team-c", "team-d"].iter().all(|team| *outcome(pass, team) == ClusterOutcome::Done)
    };
    fleet.run_until(&controller, all_done);
    let pass = run_for(&fleet, &controller, SignedDuration::from_hours(3));
    assert!(is_held(&pass, "team-a") && !has_begun(&fleet, "team-e"), "{}", told(&pass));
    let message = outcome(&pass, "team-e").message();
    assert!(message.contains("wave teams is done with exceptions: team-a (held at cilium)"), "{}", told(&pass));
    // Somebody lives with it for a while: the last wave begins.
    let ends = fleet.clock_now() + SignedDuration::from_hours(1000);
    let skip = format!("maxFailures: 25%, skip: [{{cluster: team-a, reason: known, until: '{ends}', by: ops}}]");
    fleet.edit("stepgate.yaml", |text| text.replace("maxFailures: 25%", &skip));
    fleet
        .run_until(&controller, |pass| has_begun(&fleet, "team-e") && *outcome(pass, "team-e") == ClusterOutcome::Done);
    assert!(is_held(&fleet.pass(&controller), "team-a"));
    fleet.heal("team-a");
    fleet.run_to_the_end(&controller);
}

#[test]
fn a_skip_leaves_one_out_until_it_ends_by_itself() {
    let fleet =
        fleet("concurrency: 4, skip: [{cluster: team-b, reason: racks move, until: 2026-01-10T12:00Z, by: storage}]");
    let controller = fleet.controller();
    let ends: Timestamp = "2026-01-10T12:00:00Z".parse().unwrap();
    let pass = fleet.run_until(&controller, |pass| {
        ["team-a", "team-c", "team-d"].iter().all(|team| *outcome(pass, team) == ClusterOutcome::Done)
    });
    assert!(!has_begun(&fleet, "team-b"), "{}", told(&pass));
    let message = outcome(&pass, "team-b").message();
    assert!(
        message.contains("wave teams goes without it until 2026-01-10T12:00:00Z by storage: racks move"),
        "{message}"
    );
    assert_eq!(until(outcome(&pass, "team-b")), Some(ends));
    fleet.clock.advance(ends.duration_since(fleet.clock_now()));
    fleet.run_until(&controller, |_| has_begun(&fleet, "team-b"));
    fleet.run_to_the_end(&controller);
    assert_stage_once(&fleet, &TEAMS);
}

#[test]
fn a_pause_of_a_wave_ends_by_itself() {
    let fleet = fleet("concurrency: 4, paused: {reason: audit, until: 2026-01-05T21:00Z, by: ops}");
    let controller = fleet.controller();
    let ends: Timestamp = "2026-01-05T21:00:00Z".parse().unwrap();
    let pass = fleet.run_until(&controller, |pass| *outcome(pass, "mgmt") == ClusterOutcome::Done);
    assert!(fleet.clock_now() < ends && TEAMS.iter().all(|team| !has_begun(&fleet, team)), "{}", told(&pass));
    let message = outcome(&pass, "team-a").message();
    assert!(message.contains("paused in stepgate.yaml: until 2026-01-05T21:00:00Z by ops: audit"), "{message}");
    fleet.run_until(&controller, |_| has_begun(&fleet, "team-a"));
    assert!(fleet.clock_now() >= ends);
    fleet.run_to_the_end(&controller);
}

#[test]
fn who_waits_for_a_turn_is_not_read_while_others_commit() {
    let fleet = fleet("concurrency: 1");
    let (changes, read) = (Arc::<Changes>::default(), Arc::<Mutex<Vec<String>>>::default());
    let reads = Arc::clone(&read);
    let hook: Hook = Arc::new(move |cluster, _| {
        reads.lock().unwrap().push(cluster.to_owned());
        true
    });
    let clusters = Hooked::new(&fleet.simulated, hook).telling(&changes);
    let controller = fleet.controller_of(Arc::new(clusters));
    let waits_for = |pass: &ReconcileReport, first: &str| {
        let message = outcome(pass, "team-d").message();
        message.contains(&format!("cluster {first} comes first: one at a time goes in wave teams, now {first}"))
    };
    fleet.run_until(&controller, |pass| waits_for(pass, "team-a"));
    read.lock().unwrap().clear();
    // Flux tells of every cluster after each commit, whosever it is.
    let pass = fleet.run_until(&controller, |pass| {
        changes.note("team-d", ChangeScope::Flux);
        waits_for(pass, "team-b") && fleet.stages("team-b").len() > 1
    });
    assert!(fleet.stages("team-a").len() > 2, "{}", told(&pass));
    let read = read.lock().unwrap().clone();
    assert!(read.iter().any(|cluster| cluster == "team-a") && read.iter().any(|cluster| cluster == "team-b"));
    assert!(!read.iter().any(|cluster| cluster == "team-d"), "{read:?}");
    // What it is told itself is looked at.
    fleet.pass(&controller);
    changes.note("team-d", ChangeScope::More);
    fleet.run_to_the_end(&controller);
    assert_stage_once(&fleet, &TEAMS);
}
