//! Whole rollouts in the laboratory.

mod asking;
mod checks;
mod etcd;
mod identity;
mod properties;
mod rules;
mod tanzu;

use jiff::SignedDuration;

use crate::approval::{ApprovalScope, ApprovalState};
use crate::observation::Reachability;
use crate::plan::Block;
use crate::step::harness::RolloutHarness;
use crate::step::*;
use crate::wave::{Binds, WaveHold};
use crate::world::{ForeignChange, Pause, Prerequisite};
use policy::{Approval, MaintenanceWindow, OnFailure};
fn is_done(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::Done])
}

fn waits_for(effects: &[Effect]) -> String {
    let reason = effects.iter().find_map(|effect| match effect {
        Effect::Wait { reason, .. } => Some(reason.to_string()),
        _ => None,
    });
    reason.unwrap_or_else(|| panic!("no wait: {effects:?}"))
}

fn held(effects: &[Effect]) -> String {
    let reasons = effects.iter().find_map(|effect| match effect {
        Effect::Hold { stage, reasons, .. } => {
            Some(format!("{stage}: {}", reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))
        }
        _ => None,
    });
    reasons.unwrap_or_else(|| panic!("no hold: {effects:?}"))
}

#[test]
fn a_bump_travels_stage_by_stage_and_is_closed() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 1), ("eks-a", 1, 2)]);
    laboratory.until("close");
    assert_eq!(laboratory.log(), ["commit cert-manager 2", "commit eks-a 2", "close"]);
    assert!(is_done(&laboratory.turn()));
    let ledger = laboratory.ledger.unwrap();
    assert_eq!(ledger.state, LedgerState::Done);
    assert_eq!(ledger.components["cert-manager"], "2");
    // The evidence that opened the second stage is bound to the first one's commit, held for the soak and over two reads.
    let evidence = ledger.stages[1].opened_by.clone().unwrap();
    assert_eq!(evidence.commit.as_ref(), Some(&laboratory.deploy.commits()[0].id));
    assert!(evidence.reads >= 2);
    assert!(evidence.observed_at.duration_since(evidence.held_since) >= SignedDuration::from_secs(10));
    assert!(evidence.held_since > laboratory.deploy.commits()[0].committed_at);
}

#[test]
fn nothing_to_do_is_done_without_reading_the_cluster() {
    let laboratory = RolloutHarness::new(&[("cert-manager", 1, 1)]);
    assert_eq!(step(&laboratory.world(), laboratory.now), [Effect::Done]);
}

#[test]
fn the_backup_is_taken_for_this_rollout_before_the_first_commit() {
    let mut laboratory = RolloutHarness::new(&[("capi", 1, 2)]);
    let rollout = laboratory.plan_at(0).rollout_id;
    laboratory.until("commit capi 2");
    assert_eq!(laboratory.backup.as_ref().unwrap().rollout, rollout);
    let facts = &laboratory.ledger.as_ref().unwrap().stages[0].opened_by.as_ref().unwrap().facts;
    assert!(facts.iter().any(|fact| fact.object.contains("backup")), "{facts:?}");
}

fn backs_up(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Backup { .. }))
}

#[test]
fn a_backup_that_has_grown_too_old_before_the_first_commit_is_taken_again() {
    let mut laboratory = RolloutHarness::new(&[("capi", 1, 2)]);
    let rollout = laboratory.plan_at(0).rollout_id;
    let old = laboratory.now - SignedDuration::from_hours(25);
    laboratory.backup = Some(crate::observation::BackupReport {
        rollout,
        taken_at: old,
        objects: 1,
        read_back: true,
        location: "backups/1".into(),
    });
    laboratory.until("commit capi 2");
    assert!(laboratory.backup.unwrap().taken_at > old);
}

#[test]
fn a_backup_for_which_there_is_no_room_is_named_and_tried_again_after_a_minute() {
    let mut laboratory = RolloutHarness::new(&[("capi", 1, 2)]);
    let rollout = laboratory.plan_at(0).rollout_id;
    while laboratory.backup.is_none() {
        laboratory.turn();
    }
    laboratory.backup = None;
    laboratory.backup_failure = Some(crate::observation::BackupFailure {
        rollout,
        at: laboratory.now,
        volume_full: true,
        message: "the volume of /backups is full".into(),
    });
    let effects = laboratory.turn();
    let reason = waits_for(&effects);
    assert!(reason.contains("volume full at") && reason.contains("/backups") && !backs_up(&effects), "{effects:?}");
    laboratory.now += SignedDuration::from_secs(60);
    assert!(backs_up(&laboratory.turn()));
    laboratory.until("commit capi 2");
}

#[test]
fn a_lost_memory_only_waits_longer() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.until("commit cert-manager 2");
    for _ in 0..20 {
        laboratory.history = GateHistory::default();
        laboratory.observation = None;
        let effects = step(&laboratory.world(), laboratory.now);
        assert!(matches!(effects[0], Effect::Observe { confirm: true, .. }) || !waits_for(&effects).is_empty());
        laboratory.turn();
        assert_eq!(laboratory.log(), ["commit cert-manager 2"]);
    }
    laboratory.until("close");
}

#[test]
fn an_unhealthy_stage_waits_then_holds_and_goes_on_once_it_is_healthy() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.broken = vec![("cert-manager", 2)];
    laboratory.until("commit cert-manager 2");
    let waiting = waits_for(&laboratory.turns(5));
    assert!(waiting.starts_with("Deployment system/cert-manager: status.readyReplicas: 0, 1 expected"), "{waiting}");
    laboratory.now += SignedDuration::from_secs(600);
    let reasons = held(&laboratory.turn());
    assert!(reasons.contains("not finished 600 s after its commit"), "{reasons}");
    laboratory.broken.clear();
    laboratory.until("close");
    assert_eq!(laboratory.log(), ["commit cert-manager 2", "commit capi 2", "close"]);
}

#[test]
fn a_failed_stage_is_reverted_retried_and_then_held() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.policy.on_failure = OnFailure::Revert;
    laboratory.policy.retries = 1;
    laboratory.broken = vec![("cert-manager", 2)];
    laboratory.until("commit cert-manager 2");
    laboratory.turns(300);
    let tries = ["commit cert-manager 2", "revert cert-manager 1", "commit cert-manager 2", "revert cert-manager 1"];
    assert_eq!(laboratory.log(), tries);
    let reasons = held(&laboratory.turn());
    assert!(reasons.contains("was committed 2 times and reverted"), "{reasons}");
    assert!(reasons.contains("Deployment system/cert-manager"), "{reasons}");
    let records: Vec<u32> = laboratory.ledger.as_ref().unwrap().stages.iter().map(|record| record.attempt).collect();
    assert_eq!(records, [1, 1, 2, 2]);
    // A repaired target takes over.
    laboratory.push(&[("cert-manager", 3)]);
    laboratory.until("close");
    assert_eq!(laboratory.log()[4..], ["commit cert-manager 3", "commit capi 2", "close"]);
}

#[test]
fn a_reverted_worker_stage_says_that_its_repair_has_to_keep_kubernetes() {
    let help_of = |stages: &[(&'static str, u8, u8)], broken: &'static str| {
        let mut laboratory = RolloutHarness::new(stages);
        laboratory.policy.on_failure = OnFailure::Revert;
        laboratory.broken = vec![(broken, 2)];
        laboratory.until(&format!("revert {broken} 1"));
        laboratory.turns(300);
        let help = |effect: &Effect| if let Effect::Hold { help, .. } = effect { Some(help.clone()) } else { None };
        laboratory.turn().iter().find_map(help).unwrap()
    };
    let late = help_of(&[("control-plane", 1, 2), ("workers/md-0", 1, 2)], "workers/md-0");
    assert!(late.starts_with("raise retries, or push a target that repairs it and leaves Kubernetes at"), "{late}");
    let early = help_of(&[("capi", 1, 2), ("control-plane", 1, 2)], "capi");
    let again = "after a repair, `stepgate retry mgmt --yes` commits it once more";
    assert_eq!(early, format!("push a target that repairs it, or raise retries; {again}"));
}

#[test]
fn a_one_way_stage_is_held_and_never_reverted() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2)]);
    laboratory.policy.on_failure = OnFailure::Revert;
    laboratory.one_way = true;
    laboratory.broken = vec![("cert-manager", 2)];
    laboratory.until("commit cert-manager 2");
    laboratory.turns(300);
    assert_eq!(laboratory.log(), ["commit cert-manager 2"]);
    held(&laboratory.turn());
}

#[test]
fn an_unreachable_cluster_is_no_failure() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2)]);
    laboratory.policy.on_failure = OnFailure::Revert;
    laboratory.until("commit cert-manager 2");
    laboratory.now += SignedDuration::from_secs(6000);
    let mut observation = laboratory.read();
    observation.reachable = Reachability::Unreachable { reason: "connection refused".into() };
    laboratory.observation = Some(observation);
    let effects = step(&laboratory.world(), laboratory.now);
    assert!(waits_for(&effects).contains("connection refused"), "{effects:?}");
    let again = effects.iter().find_map(|effect| match effect {
        Effect::Observe { at, .. } => Some(*at),
        _ => None,
    });
    let soon = laboratory.now + SignedDuration::from_secs(5);
    assert_eq!(again, Some(soon), "it is asked again soon, and not all the time");
}

#[test]
fn health_of_an_earlier_stage_is_asked_again_before_every_commit() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2), ("eks-a", 1, 2)]);
    laboratory.until("commit capi 2");
    laboratory.broken = vec![("cert-manager", 2)];
    let waiting = waits_for(&laboratory.turns(10));
    assert!(waiting.contains("cert-manager has to hold still"), "{waiting}");
    laboratory.broken.clear();
    laboratory.until("close");
}

#[test]
fn a_new_target_lets_the_running_stage_finish_and_replans_components() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.until("commit cert-manager 2");
    let first = laboratory.ledger.as_ref().unwrap().rollout.clone();
    laboratory.push(&[("capi", 3)]);
    let waiting = waits_for(&laboratory.turn());
    assert!(waiting.contains("then the new target is planned"), "{waiting}");
    laboratory.until("close");
    assert_eq!(laboratory.log(), ["commit cert-manager 2", "commit capi 3", "close"]);
    let ledger = laboratory.ledger.unwrap();
    assert_ne!(ledger.rollout, first);
    // The new rollout's first stage is opened by the evidence of the old one's last.
    assert_eq!(ledger.stages[0].opened_by.as_ref().unwrap().commit.as_ref(), Some(&laboratory.deploy.commits()[0].id));
}

#[test]
fn a_new_target_after_the_control_plane_waits_for_the_end() {
    let mut laboratory =
        RolloutHarness::new(&[("cert-manager", 1, 1), ("control-plane", 1, 2), ("workers/md-0", 1, 2)]);
    laboratory.until("commit control-plane 2");
    laboratory.push(&[("cert-manager", 2)]);
    laboratory.until("close");
    assert_eq!(laboratory.log(), ["commit control-plane 2", "commit workers/md-0 2", "close"]);
    laboratory.until("close");
    laboratory.until("commit cert-manager 2");
    laboratory.until("close");
}

#[test]
fn a_new_target_repairs_a_failed_stage() {
    for stage in ["cert-manager", "control-plane"] {
        let mut laboratory = RolloutHarness::new(&[(stage, 1, 2), ("workers/md-0", 1, 2)]);
        laboratory.broken = vec![(stage, 2)];
        laboratory.until(&format!("commit {stage} 2"));
        laboratory.push(&[(stage, 3)]);
        waits_for(&laboratory.turns(5));
        laboratory.now += SignedDuration::from_secs(600);
        laboratory.until(&format!("commit {stage} 3"));
        let record = laboratory.ledger.as_ref().unwrap().stages[0].clone();
        assert_eq!(record.opened_by, None);
        assert!(!record.reasons.is_empty(), "the failure that it repairs is on record");
        laboratory.until("close");
    }
}

#[test]
fn a_target_that_goes_back_to_what_is_deployed_supersedes_the_rollout() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.until("commit cert-manager 2");
    laboratory.push(&[("capi", 1)]);
    laboratory.until("close");
    assert_eq!(laboratory.ledger.as_ref().unwrap().state, LedgerState::Superseded);
    assert!(is_done(&laboratory.turn()));
}

#[test]
fn a_paused_line_commits_nothing_and_says_where_it_was_paused() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2)]);
    let until = Some(laboratory.now + SignedDuration::from_hours(1));
    let (place, reason) = ("stepgate.yaml".to_owned(), Some("freeze".to_owned()));
    laboratory.paused = Some(Pause { place, reason, help: None, until });
    let effects = laboratory.turns(50);
    assert_eq!(waits_for(&effects), "paused in stepgate.yaml: freeze");
    assert!(matches!(effects.as_slice(), [Effect::Wait { until: ends, .. }] if *ends == until), "{effects:?}");
    laboratory.paused = None;
    laboratory.until("close");
}

#[test]
fn a_change_by_somebody_else_stops_the_rollout() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.until("commit cert-manager 2");
    laboratory.stages[1].1 = 7;
    laboratory.append(None);
    let reasons = held(&laboratory.turns(50));
    assert!(reasons.contains("clusters/mgmt on the deploy branch"), "{reasons}");
    laboratory.foreign_change = Some(ForeignChange {
        commit: Some("ab".repeat(20).parse().unwrap()),
        author: Some("Ada".into()),
        paths: vec!["capi/core.yaml".into()],
    });
    let reasons = held(&laboratory.turn());
    assert!(reasons.contains("author Ada") && reasons.contains("capi/core.yaml"), "{reasons}");
    assert_eq!(laboratory.log(), ["commit cert-manager 2"]);
    laboratory.stages[1].1 = 1;
    laboratory.foreign_change = None;
    laboratory.until("close");
}

#[test]
fn another_cluster_comes_first_and_windows_are_kept() {
    let mut laboratory = RolloutHarness::new(&[("cilium", 1, 2)]);
    laboratory.prerequisites =
        vec![Prerequisite { cluster: "hub".parse().unwrap(), met: false, state: "waiting at capi".into() }];
    let waiting = waits_for(&laboratory.turns(20));
    assert_eq!(waiting, "cluster hub comes first: waiting at capi");
    laboratory.prerequisites[0].met = true;
    let opens = laboratory.now + SignedDuration::from_hours(2);
    let minute = u16::try_from(opens.as_second().rem_euclid(86_400) / 60).unwrap();
    laboratory.policy.windows = vec![MaintenanceWindow::daily(minute, minute + 60, "UTC".parse().unwrap())].into();
    let effects = laboratory.turns(5);
    assert_eq!(waits_for(&effects), "outside of the maintenance windows");
    laboratory.now = opens;
    laboratory.until("close");
}

#[test]
fn a_missing_stage_commit_waits_for_the_whole_history() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.until("commit cert-manager 2");
    let mut commits = laboratory.deploy.commits();
    commits[0].trailer = None;
    laboratory.deploy = commits.into();
    assert!(waits_for(&laboratory.turns(20)).contains("not in the known part of the deploy branch"));
}

#[test]
fn nothing_is_written_while_a_change_of_policy_is_unconfirmed() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    let block =
        Block { code: "policy-unconfirmed".into(), stage: None, message: "author".into(), help: "trust".into() };
    let stands = |laboratory: &mut RolloutHarness| {
        laboratory.unconfirmed = vec![block.clone()];
        let log: Vec<String> = laboratory.log().iter().map(ToString::to_string).collect();
        let effects = laboratory.turns(20);
        assert_eq!(effects, [Effect::Blocked { reasons: vec![block.clone()] }]);
        assert_eq!(laboratory.log(), log);
        laboratory.unconfirmed.clear();
    };
    stands(&mut laboratory);
    laboratory.until("commit cert-manager 2");
    stands(&mut laboratory);
    laboratory.until("commit capi 2");
    // Nor is the rollout closed, or a failed stage taken back.
    stands(&mut laboratory);
    laboratory.until("close");
    laboratory.unconfirmed = vec![block];
    assert_eq!(laboratory.turns(5), [Effect::Done], "where there is nothing to do nobody has to confirm anything");
}

#[test]
fn a_stage_begins_only_where_it_fits_and_the_next_rollout_knows_how_long_it_took() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2)]);
    let midnight = laboratory.now.as_second().rem_euclid(86_400) / 60;
    let minute = u16::try_from(midnight).unwrap();
    let daily = |from: u16, to: u16| MaintenanceWindow {
        must_fit: true,
        ..MaintenanceWindow::daily(from, to, "UTC".parse().unwrap())
    };
    // It is open, for ten minutes more, and has been for an hour.
    laboratory.policy.windows = vec![daily(minute - 60, minute + 10)].into();
    let waiting = waits_for(&laboratory.turns(20));
    assert!(waiting.starts_with("too near the end of the window at ") && waiting.contains("nobody knows"), "{waiting}");
    laboratory.policy.estimate = Some(std::time::Duration::from_secs(30 * 60));
    let waiting = waits_for(&laboratory.turns(20));
    assert!(waiting.contains("it takes 30 min, by the `estimate` of the policy"), "{waiting}");
    laboratory.policy.estimate = Some(std::time::Duration::from_secs(2 * 60 * 60));
    let waiting = waits_for(&laboratory.turns(20));
    assert!(waiting.starts_with("stage cert-manager fits into no window in sight: it takes 120 min"), "{waiting}");
    laboratory.policy.estimate = Some(std::time::Duration::from_secs(60));
    laboratory.until("close");
    let ledger = laboratory.ledger.clone().unwrap();
    let stage =
        laboratory.world().plan.stages.iter().find(|it| it.stage.to_string() == "cert-manager").unwrap().clone();
    // What it took counts more than what was said.
    let time = crate::plan::StageTime::of(&stage, Some(&ledger));
    assert!(matches!(time, crate::plan::StageTime::Past(_, 1)), "{time:?}");
}
