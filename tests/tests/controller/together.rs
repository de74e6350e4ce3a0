//! Stages of several clusters that are asked for together, without any forge.

use stepgate::reconcile::proposal::{self, AnswerError, Approval, Consent};
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};

use crate::approvals::{Git, Merge, waits_for_people};
use crate::fleet::{Fleet, assert_no_stage_twice, outcome, told};

/// Nobody is asked about the management cluster, and both teams are bumped as soon as that is done.
fn asking(policy: &str) -> (Fleet, Controller) {
    let fleet = Fleet::with_policy(|text| text + "approval: stage\nclusters: {mgmt: {approval: none}}\n" + policy);
    let controller = fleet.controller();
    fleet.bump();
    (fleet, controller)
}

fn asks(pass: &ReconcileReport, cluster: &str) -> bool {
    outcome(pass, cluster).message().contains("waits for approval: branch")
}

fn both_ask(pass: &ReconcileReport) -> bool {
    asks(pass, "team-a") && asks(pass, "team-b")
}

fn says(fleet: &Fleet, cluster: &str, who: &str, consent: &Consent<'_>) -> Result<Approval, AnswerError> {
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, cluster).unwrap();
    let by = format!("{who} <{}@example.com>", who.to_lowercase()).parse().unwrap();
    proposal::answer(&planner, &reading, &view, Some(&by), consent, fleet.clock_now())
}

fn rejects(fleet: &Fleet, cluster: &str) {
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, cluster).unwrap();
    let by = "Alice <alice@example.com>".parse().unwrap();
    proposal::reject(&planner, &reading, &view, Some(&by), "not this week", fleet.clock_now()).unwrap();
}

/// The clusters that are asked for on each branch.
fn asked(git: &Git) -> Vec<(String, Vec<String>)> {
    let clusters = |id| git.parts(id).into_iter().map(|(cluster, _)| cluster).collect();
    git.proposed().into_iter().map(|(name, id)| (name, clusters(id))).collect()
}

fn one_branch(git: &Git, clusters: &[&str]) -> (String, git2::Oid) {
    let asked = asked(git);
    let [(_, found)] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(found, clusters);
    git.proposed().remove(0)
}

#[test]
fn what_one_person_approves_of_one_cluster_lands_alone() {
    let (fleet, controller) = asking("");
    fleet.run_until(&controller, both_ask);
    let git = Git::of(&fleet);
    let (name, _) = one_branch(&git, &["team-a", "team-b"]);
    assert_eq!(name, "stepgate/fleet/cilium");
    let before = fleet.folder("clusters/team-a");
    let approval = says(&fleet, "team-b", "Alice", &Consent::Word).unwrap();
    assert_eq!((approval.branch.as_str(), approval.missing.len()), (name.as_str(), 0));
    let message = git.deploy().message().unwrap().to_owned();
    assert!(message.contains("Stepgate-Answer: team-b cilium sha256:"), "{message}");
    assert_eq!(fleet.folder("clusters/team-a"), before, "nobody approved that");
    fleet.pass(&controller);
    one_branch(&git, &["team-a"]);
    assert_eq!(fleet.stages("team-b").last().map(String::as_str), Some("cilium"));
    let ledger = fleet.deployed("clusters/team-b/rollout.yaml").unwrap();
    assert!(ledger.contains("plan: sha256:"), "{ledger}");
    assert_no_stage_twice(&fleet);
}

#[test]
fn one_that_is_rejected_leaves_and_the_others_go_on() {
    let (fleet, controller) = asking("");
    fleet.run_until(&controller, both_ask);
    let git = Git::of(&fleet);
    one_branch(&git, &["team-a", "team-b"]);
    rejects(&fleet, "team-b");
    let held =
        |pass: &ReconcileReport| matches!(outcome(pass, "team-b"), ClusterOutcome::Held { .. }) && asks(pass, "team-a");
    for controller in [&controller, &fleet.controller()] {
        let pass = fleet.run_until(controller, held);
        assert!(outcome(&pass, "team-b").message().contains("rejected by Alice"), "{}", told(&pass));
    }
    let (_, id) = one_branch(&git, &["team-a"]);
    let last = git.0.find_commit(id).unwrap();
    assert!(last.message().unwrap().contains("not this week"), "what was said stays on the branch");
    git.merge(id, Merge::Commit, fleet.clock_now());
    fleet.run_until(&controller, |pass| {
        asks(pass, "team-a") && outcome(pass, "team-a").message().contains("stage control-plane of")
    });
    // A process that has just been started, and reads nothing but the branch, knows it too.
    fleet.run_until(&fleet.controller(), |pass| matches!(outcome(pass, "team-b"), ClusterOutcome::Held { .. }));
    // After all: it is asked for again, and lands as it was looked at then.
    let taken_back = says(&fleet, "team-b", "Bob", &Consent::Word).unwrap();
    assert!(taken_back.missing.concat().contains("it was rejected"), "{taken_back:?}");
    fleet.run_until(&controller, |pass| asks(pass, "team-b"));
    assert_eq!(says(&fleet, "team-b", "Bob", &Consent::Word).unwrap().missing, [""; 0]);
    assert_eq!(fleet.stages("team-b"), ["cilium"]);
    assert_no_stage_twice(&fleet);
}

#[test]
fn words_are_kept_when_a_branch_is_written_anew() {
    let (fleet, controller) = asking("approvers: {minimum: 2, author: true}\n");
    fleet.run_until(&controller, both_ask);
    let git = Git::of(&fleet);
    let (_, before) = one_branch(&git, &["team-a", "team-b"]);
    assert_eq!(says(&fleet, "team-b", "Alice", &Consent::Word).unwrap().missing, ["1 of 2 approvals"]);
    // `team-a` asks for something else now: its commit is another one, and the one above it with it.
    fleet.edit("clusters/team-a/cluster.yaml", |text| {
        text.replace("count: 3", "count: 5").replace("count: 2", "count: 4")
    });
    fleet.run_until(&controller, |pass| {
        both_ask(pass)
            && git.proposed().first().is_some_and(|(_, id)| git.commits(*id)[0].id() != git.commits(before)[0].id())
    });
    let pass = fleet.run_until(&fleet.controller(), both_ask);
    one_branch(&git, &["team-a", "team-b"]);
    assert!(outcome(&pass, "team-b").message().contains("; 1 of 2 approvals"), "{}", told(&pass));
    assert!(outcome(&pass, "team-a").message().contains("; 0 of 2 approvals"), "{}", told(&pass));
    assert_eq!(says(&fleet, "team-b", "Bob", &Consent::Word).unwrap().missing, [""; 0]);
    fleet.pass(&controller);
    one_branch(&git, &["team-a"]);
    let message = git.deploy().message().unwrap().to_owned();
    assert!(message.contains("Stepgate-Answer: team-b"), "{message}");
    fleet.run_until(&controller, |pass| outcome(pass, "team-b").message().contains("stage control-plane of"));
    let ledger = fleet.deployed("clusters/team-b/rollout.yaml").unwrap();
    assert!(fleet.stages("team-b").contains(&"cilium".to_owned()), "{ledger}");
}

#[test]
fn one_that_is_held_leaves_and_comes_back() {
    let (fleet, controller) = asking("");
    fleet.run_until(&controller, both_ask);
    let git = Git::of(&fleet);
    one_branch(&git, &["team-a", "team-b"]);
    let foreign = "clusters/team-b/cilium/foreign.yaml";
    fleet.meddle(foreign, Some("kind: ConfigMap\napiVersion: v1\nmetadata: {name: foreign}\n"));
    fleet.run_until(&controller, |pass| matches!(outcome(pass, "team-b"), ClusterOutcome::Held { .. }));
    let (_, alone) = one_branch(&git, &["team-a"]);
    let before = git.commits(alone)[0].id();
    fleet.meddle(foreign, None);
    fleet.run_until(&controller, both_ask);
    let (_, id) = one_branch(&git, &["team-a", "team-b"]);
    assert_eq!(git.commits(id)[0].message(), git.0.find_commit(before).unwrap().message(), "it is asked as before");
    git.merge(id, Merge::Rebase, fleet.clock_now());
    fleet.run_until(&controller, |pass| !asks(pass, "team-a") && !asks(pass, "team-b"));
    for cluster in ["team-a", "team-b"] {
        assert!(fleet.stages(cluster).contains(&"cilium".to_owned()), "{cluster}");
    }
    assert_no_stage_twice(&fleet);
}

#[test]
fn other_rules_and_other_waves_are_asked_apart() {
    for (policy, wanted) in [
        ("environments: {a: {clusters: [team-a]}, b: {clusters: [team-b]}}\n", ["stepgate/a/", "stepgate/b/"]),
        ("environments: {b: {clusters: [team-b], approvers: {minimum: 2}}}\n", ["stepgate/b/", "stepgate/fleet/"]),
        (
            "waves: [{name: teams, clusters: ['*'], concurrency: 3}]\nenvironments: {b: {clusters: [team-b], approvers: {minimum: 2}}}\n",
            ["stepgate/teams/", "stepgate/teams/"],
        ),
    ] {
        let (fleet, controller) = asking(policy);
        fleet.run_until(&controller, both_ask);
        let asked = asked(&Git::of(&fleet));
        assert_eq!(asked.len(), 2, "{asked:?}");
        for ((name, clusters), wanted) in asked.iter().zip(wanted) {
            assert!(name.starts_with(wanted) && clusters.len() == 1, "{asked:?}");
        }
    }
}

#[test]
fn a_wave_asks_for_no_more_than_it_has_places_for() {
    let (fleet, controller) = asking("waves: [{name: teams, clusters: ['*'], concurrency: 1}]\n");
    let pass = fleet.run_until(&controller, |pass| asks(pass, "team-a"));
    let message = outcome(&pass, "team-b").message();
    assert!(message.contains("when its wave has a place for it"), "{message}");
    let git = Git::of(&fleet);
    let (name, id) = one_branch(&git, &["team-a"]);
    assert!(name.starts_with("stepgate/teams/"), "{name}");
    git.merge(id, Merge::Commit, fleet.clock_now());
    fleet.run_until(&controller, |pass| {
        waits_for_people(pass) && outcome(pass, "team-b").message().contains("comes first")
    });
    fleet.pass(&controller);
    one_branch(&git, &["team-a"]);
}
