//! People who change the deploy branch, pause, or delete.

use rollout::StageName;
use simulator::Fault;
use stepgate::reconcile::{ClusterOutcome, ReconcileReport};

use crate::fleet::{CLUSTERS, Fleet, assert_no_stage_twice, is_done, outcome, told};

#[test]
fn a_foreign_change_is_held_while_the_other_clusters_finish_and_the_revert_of_it_lets_the_rollout_go_on() {
    let fleet = Fleet::new();
    let controller = fleet.controller();
    fleet.bump();
    // From here on `team-a` need not wait for the management cluster any more.
    fleet.run_until(&controller, |pass| outcome(pass, "mgmt") == &ClusterOutcome::Done);
    let path = "clusters/team-a/cilium/foreign.yaml";
    let foreign = fleet.meddle(path, Some("kind: ConfigMap\napiVersion: v1\nmetadata: {name: foreign}\n"));
    let stages = fleet.stages("team-a");
    let pass = fleet.run_until(&controller, |pass| {
        outcome(pass, "team-b") == &ClusterOutcome::Done && outcome(pass, "mgmt") == &ClusterOutcome::Done
    });
    let ClusterOutcome::Held { reasons, help, .. } = outcome(&pass, "team-a") else { panic!("{}", told(&pass)) };
    let said = reasons.iter().map(ToString::to_string).collect::<String>();
    for wanted in [foreign.as_str(), path, "A Person <person@example.com>"] {
        assert!(said.contains(wanted), "{wanted} is missing in {said}");
    }
    assert!(help.contains(&format!("git revert {foreign}")), "{help}");
    assert_eq!(fleet.stages("team-a"), stages, "nothing is committed over a foreign change");
    assert!(fleet.deployed(path).is_some());
    // A process that has just been started sees the same.
    let anew = fleet.pass(&fleet.controller());
    assert!(matches!(outcome(&anew, "team-a"), ClusterOutcome::Held { .. }), "{}", told(&anew));

    fleet.meddle(path, None);
    fleet.run_to_the_end(&controller);
    assert_no_stage_twice(&fleet);
    assert_eq!(fleet.stages("team-a").last().map(String::as_str), Some("verify"));
}

#[test]
fn a_ledger_changed_by_a_person_is_held_and_left_alone() {
    let fleet = Fleet::new();
    let controller = fleet.controller();
    fleet.bump();
    for text in ["not: a ledger\n", "stages: ["] {
        let path = "clusters/mgmt/rollout.yaml";
        let before = fleet.deployed(path).unwrap();
        fleet.meddle(path, Some(text));
        let pass = fleet.pass(&controller);
        assert!(matches!(outcome(&pass, "mgmt"), ClusterOutcome::Held { .. }), "{}", told(&pass));
        assert_eq!(fleet.deployed(path).as_deref(), Some(text));
        fleet.meddle(path, Some(&before));
    }
    let pass = fleet.pass(&controller);
    assert!(matches!(outcome(&pass, "mgmt"), ClusterOutcome::Waiting { .. }), "{}", told(&pass));
}

#[test]
fn a_deleted_deploy_branch_blocks_and_nothing_is_written() {
    let fleet = Fleet::new();
    fleet.bump();
    let old = fleet.controller();
    fleet.run_until_committed(&old, "mgmt", "cert-manager");
    let last = fleet.head();
    let deploy = fleet.repository.folder().join("refs/heads").join(fleet.layout.branch.as_str());
    std::fs::remove_file(&deploy).unwrap();
    for controller in [old, fleet.controller()] {
        for _ in 0..3 {
            let pass = fleet.pass(&controller);
            for cluster in CLUSTERS {
                let ClusterOutcome::Blocked { .. } = outcome(&pass, cluster) else { panic!("{}", told(&pass)) };
                let said = outcome(&pass, cluster).help().unwrap();
                // Whoever has seen the branch names where it was.
                assert!(said.contains(&format!("{last}:refs/heads/deploy")) && !said.contains("adopt"), "{said}");
            }
            fleet.wait(Some(&pass));
        }
    }
    assert_eq!(fleet.repository.head(&fleet.layout.branch).unwrap(), None);
}

#[test]
fn a_paused_fleet_stands_still_until_the_pause_is_taken_out() {
    let fleet = Fleet::new();
    let controller = fleet.controller();
    fleet.edit("stepgate.yaml", |policy| format!("{policy}\npaused: true\n"));
    fleet.bump();
    let head = fleet.head();
    for _ in 0..20 {
        let pass = fleet.pass(&controller);
        for cluster in CLUSTERS {
            assert!(outcome(&pass, cluster).message().contains("paused in stepgate.yaml"), "{}", told(&pass));
        }
        fleet.clock.advance(jiff::SignedDuration::from_mins(5));
    }
    assert_eq!(fleet.head(), head);
    fleet.edit("stepgate.yaml", |policy| policy.replace("paused: true", "paused: false"));
    fleet.run_to_the_end(&controller);
    assert_no_stage_twice(&fleet);
}

#[test]
fn a_paused_cluster_stands_still_in_the_middle_while_the_others_finish() {
    let fleet = Fleet::new();
    let controller = fleet.controller();
    fleet.bump();
    fleet.run_until(&controller, |pass| outcome(pass, "mgmt") == &ClusterOutcome::Done);
    fleet.edit("stepgate.yaml", |policy| format!("{policy}\nclusters:\n  team-a:\n    paused: true\n"));
    let stages = fleet.stages("team-a");
    let pass = fleet.run_until(&controller, |pass| outcome(pass, "team-b") == &ClusterOutcome::Done);
    assert!(outcome(&pass, "team-a").message().contains("paused in"), "{}", told(&pass));
    assert_eq!(fleet.stages("team-a"), stages);
    fleet.edit("stepgate.yaml", |policy| policy.replace("paused: true", "paused: false"));
    fleet.run_to_the_end(&controller);
    assert_no_stage_twice(&fleet);
}

#[test]
fn a_failed_stage_is_reverted_and_tried_again_as_often_as_the_policy_says() {
    let fleet = Fleet::with_policy(|policy| {
        policy.replace("stages:\n", "stages:\n  cert-manager:\n    onFailure: revert\n    retries: 1\n")
    });
    let controller = fleet.controller();
    let before = fleet.folder("clusters/mgmt/cert-manager");
    fleet.break_at("mgmt", StageName::CertManager, Fault::FailingPod);
    fleet.bump();
    let given_up = |pass: &ReconcileReport| outcome(pass, "mgmt").message().contains("committed 2 times and reverted");
    fleet.run_until(&controller, given_up);
    let stages = fleet.stages("mgmt");
    let attempts = stages.iter().filter(|stage| *stage == "cert-manager").count();
    assert_eq!(attempts, 4, "two attempts, two reverts: {stages:?}");
    assert_eq!(fleet.folder("clusters/mgmt/cert-manager"), before);
    // It stays so, for a process that has just been started too.
    let head = fleet.head();
    for controller in [controller, fleet.controller()] {
        for _ in 0..20 {
            fleet.pass(&controller);
            fleet.clock.advance(jiff::SignedDuration::from_mins(1));
        }
    }
    assert_eq!(fleet.head(), head);

    fleet.heal("mgmt");
    fleet.edit("stepgate.yaml", |policy| policy.replace("retries: 1", "retries: 2"));
    let pass = fleet.run_to_the_end(&fleet.controller());
    assert!(is_done(&pass));
    assert_ne!(fleet.folder("clusters/mgmt/cert-manager"), before);
}
