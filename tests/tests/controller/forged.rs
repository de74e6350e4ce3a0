//! Which cluster it is follows from no text that others can write: an identity that somebody writes
//! into a proposed ledger.

use stepgate::reconcile::proposal::{self, AnswerError, Consent};
use stepgate::reconcile::{ClusterOutcome, Controller};

use crate::approvals::{Git, Merge, OVERLAY, waits_for_people};
use crate::fleet::{Fleet, assert_no_stage_twice, outcome, told};

const LEDGER: &str = "clusters/mgmt/rollout.yaml";

const FORGED: &str = "https://mallory.example.com:6443";

/// The address of the cluster that a ledger is of.
fn recorded(ledger: &str) -> Option<&str> {
    let (_, identity) = ledger.split_once("\nidentity:\n")?;
    identity.lines().find_map(|line| line.strip_prefix("  endpoint: "))
}

/// Somebody lets the proposed ledger say that it is of another cluster.
fn of_another(ledger: &str) -> String {
    match recorded(ledger) {
        Some(endpoint) => ledger.replace(&format!("  endpoint: {endpoint}"), &format!("  endpoint: {FORGED}")),
        None => format!("{ledger}identity:\n  endpoint: {FORGED}\n"),
    }
}

fn approve(fleet: &Fleet) -> Result<proposal::Approval, AnswerError> {
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    let alice = "Alice <alice@example.com>".parse().unwrap();
    proposal::answer(&planner, &reading, &view, Some(&alice), &Consent::Word, fleet.clock_now())
}

/// A stage is asked for, and somebody forges what is asked: nobody's word merges it, and it is
/// replaced by any process.
fn forge_and_replace(fleet: &Fleet, controller: &Controller) {
    let git = Git::of(fleet);
    let (head, (branch, ours)) = (fleet.head(), git.of_cluster("mgmt").unwrap());
    for controller in [controller, &fleet.controller()] {
        let forged = git.forge(&branch, LEDGER, of_another);
        let answer = approve(fleet);
        assert!(matches!(answer, Err(AnswerError::Void { .. })), "{answer:?}");
        fleet.run_until(controller, |pass| {
            waits_for_people(pass) && git.of_cluster("mgmt").is_some_and(|(_, head)| head != forged)
        });
        assert_eq!(fleet.head(), head, "nothing has landed");
        let (_, replaced) = git.of_cluster("mgmt").unwrap();
        let text = |commit: git2::Oid| {
            let tree = git.0.find_commit(commit).unwrap().tree().unwrap();
            let blob = git.0.find_blob(tree.get_path(LEDGER.as_ref()).unwrap().id()).unwrap();
            String::from_utf8(blob.content().to_vec()).unwrap()
        };
        assert_eq!(recorded(&text(replaced)), recorded(&text(ours)), "as before");
    }
}

#[test]
fn a_forged_identity_is_replaced_and_merged_by_nobodys_word() {
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n");
    let controller = fleet.controller();
    // A cluster of which nothing is recorded: a proposal records nothing either, so that there is
    // nothing to believe.
    assert_eq!(recorded(&fleet.deployed(LEDGER).unwrap()), None);
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    fleet.run_until(&controller, waits_for_people);
    forge_and_replace(&fleet, &controller);
    approve(&fleet).unwrap();
    fleet.run_to_the_end(&controller);
    // What Stepgate pushes itself records what was read.
    assert_eq!(recorded(&fleet.deployed(LEDGER).unwrap()), Some("simulation of mgmt"));

    fleet.edit(OVERLAY, |text| text.replace("system-node-critical", "another-critical"));
    fleet.run_until(&controller, waits_for_people);
    forge_and_replace(&fleet, &controller);
    approve(&fleet).unwrap();
    fleet.run_to_the_end(&controller);
    assert_eq!(recorded(&fleet.deployed(LEDGER).unwrap()), Some("simulation of mgmt"));
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify", "cert-manager", "verify"]);
    assert_no_stage_twice(&fleet);
}

#[test]
fn a_forged_identity_that_somebody_merges_by_hand_passes_no_gate() {
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n");
    let controller = fleet.controller();
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    fleet.run_until(&controller, waits_for_people);
    let git = Git::of(&fleet);
    let (branch, _) = git.of_cluster("mgmt").unwrap();
    git.merge(git.forge(&branch, LEDGER, of_another), Merge::Commit, fleet.clock_now());
    let head = fleet.head();
    let end = fleet.clock_now() + jiff::SignedDuration::from_hours(2);
    for controller in [&controller, &fleet.controller()] {
        let pass = fleet.run_until(controller, |_| fleet.clock_now() > end);
        let outcome = outcome(&pass, "mgmt");
        assert!(!matches!(outcome, ClusterOutcome::Done), "{}", told(&pass));
        assert!(told(&pass).contains("another cluster answers"), "{}", told(&pass));
    }
    assert_eq!(fleet.head(), head);
}
