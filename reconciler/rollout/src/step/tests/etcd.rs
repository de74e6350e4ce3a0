//! External etcd and the control plane, moved by one commit.

use jiff::SignedDuration;

use crate::effect::Effect;
use crate::ledger::StageRecordKind;
use crate::stage::StageName;
use crate::step::harness::RolloutHarness;
use policy::{Approval, OnFailure, Windows};

const BOTH: &[crate::step::harness::Stage] = &[("etcd", 1, 2), ("control-plane", 1, 2), ("workers/a", 1, 2)];

fn laboratory() -> RolloutHarness {
    let mut laboratory = RolloutHarness::new(BOTH);
    laboratory.one_field = true;
    laboratory
}

#[test]
fn one_commit_moves_both_and_each_has_its_gate() {
    let mut laboratory = laboratory();
    let plan = laboratory.plan_at(0);
    let state = |name: &str| plan.stage(&name.parse().unwrap()).unwrap().state;
    assert_eq!((state("etcd"), state("control-plane")), (crate::StageState::Pending, crate::StageState::Pending));
    assert_eq!(plan.estimate.commits, 2, "the control plane's own changes nothing");
    laboratory.until("commit etcd 2");
    let digest = laboratory.plan_at(0).digest;
    assert!(laboratory.plan_at(0).running && digest == plan.digest);
    // The control plane is not there yet; its gate is not asked before etcd's holds.
    laboratory.broken = vec![("control-plane", 2)];
    laboratory.until("commit control-plane 2");
    laboratory.turns(5);
    let ledger = laboratory.ledger.clone().unwrap();
    let [etcd, control_plane] = ledger.stages.as_slice() else { panic!("{:?}", ledger.stages) };
    assert_eq!(etcd.carries, [StageName::ControlPlane.into()]);
    let evidence = control_plane.opened_by.as_ref().unwrap();
    assert_eq!(evidence.commit.as_ref(), Some(&laboratory.deploy.commits().first().unwrap().id));
    assert_eq!((&control_plane.before, &control_plane.after), (&control_plane.after, &control_plane.after));
    assert!(laboratory.plan_at(0).running && laboratory.plan_at(0).digest == digest);
    laboratory.broken.clear();
    laboratory.until("close");
    assert_eq!(laboratory.log(), ["commit etcd 2", "commit control-plane 2", "commit workers/a 2", "close"]);
}

#[test]
fn each_of_two_gates_has_its_own_time_limit() {
    let mut laboratory = laboratory();
    laboratory.broken = vec![("control-plane", 2)];
    laboratory.until("commit etcd 2");
    laboratory.until("commit control-plane 2");
    let begun = laboratory.ledger.clone().unwrap().stages[1].committed_at;
    let held = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Hold { .. }));
    while !held(&laboratory.turn()) {}
    let waited = laboratory.now.duration_since(begun);
    assert!(waited >= SignedDuration::from_secs(600) && waited < SignedDuration::from_secs(620), "{waited}");
}

#[test]
fn who_approves_the_control_plane_approves_the_commit_that_moves_it() {
    let mut laboratory = laboratory();
    laboratory.policy.approval = Approval::Stage;
    laboratory.until("ask");
    let plan = laboratory.plan_at(0);
    assert_eq!(laboratory.approvals[0].scope, crate::ApprovalScope::Stage(StageName::Etcd.into()));
    assert!(plan.stage(&StageName::Etcd.into()).unwrap().carries.contains(&StageName::ControlPlane.into()));
    laboratory.merge();
    // Nobody is asked for what is on its way, and no window holds it back.
    laboratory.policy.windows = Windows::from(vec![never()]);
    laboratory.until("commit control-plane 2");
    assert_eq!(laboratory.log(), ["ask", "commit etcd 2", "commit control-plane 2"]);
}

/// A window that is closed at the time of these tests (January 1970).
fn never() -> policy::MaintenanceWindow {
    policy::MaintenanceWindow::daily(0, 1, policy::TimeZone::utc())
}

#[test]
fn a_failed_member_is_undone_with_the_commit_that_moves_both() {
    let mut laboratory = laboratory();
    laboratory.policy.on_failure = OnFailure::Revert;
    laboratory.broken = vec![("etcd", 2)];
    laboratory.until("revert etcd 1");
    assert_eq!(laboratory.stages[1], ("control-plane", 1, 2));
    let effects = laboratory.turns(5);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Hold { .. })), "{effects:?}");
    let ledger = laboratory.ledger.clone().unwrap();
    assert_eq!(ledger.stages.last().unwrap().kind, StageRecordKind::Revert);
    assert!(ledger.carrier(&StageName::ControlPlane.into()).is_none());
    assert_eq!(laboratory.log(), ["commit etcd 2", "revert etcd 1"]);
}

#[test]
fn the_control_plane_that_follows_new_members_is_not_undone() {
    let mut laboratory = laboratory();
    laboratory.policy.on_failure = OnFailure::Revert;
    laboratory.broken = vec![("control-plane", 2)];
    laboratory.until("commit control-plane 2");
    let held = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Hold { .. }));
    while !held(&laboratory.turn()) {}
    assert_eq!(laboratory.log().last(), Some(&"commit control-plane 2"));
    let one_way = laboratory.plan_at(0).stage(&StageName::ControlPlane.into()).unwrap().one_way.clone();
    assert!(one_way.join(" ").contains("old members go"), "said from then on: {one_way:?}");
}
