//! What people are asked, and waves.

use super::*;

#[test]
fn an_approval_is_asked_once_and_bound_to_the_plan() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.policy.approval = Approval::Rollout;
    let waiting = waits_for(&laboratory.turns(20));
    assert!(waiting.contains("waits for approval"), "{waiting}");
    assert_eq!(laboratory.log(), ["ask"]);
    laboratory.approvals[0].state = ApprovalState::Approved;
    // Another target makes it void.
    laboratory.push(&[("capi", 3)]);
    waits_for(&laboratory.turns(20));
    assert_eq!(laboratory.log(), ["ask", "ask"]);
    laboratory.approvals[1].state = ApprovalState::Approved;
    laboratory.until("close");
    assert_eq!(laboratory.log()[2..], ["commit cert-manager 2", "commit capi 3", "close"]);
}

#[test]
fn each_stage_asks_when_its_gate_is_open_and_a_rejection_holds() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.policy.approval = Approval::Stage;
    laboratory.turns(20);
    assert_eq!(laboratory.approvals[0].scope, ApprovalScope::Stage("cert-manager".parse().unwrap()));
    laboratory.approvals[0].state = ApprovalState::Approved;
    laboratory.turns(20);
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2", "ask"]);
    laboratory.approvals[1].state = ApprovalState::Rejected;
    let reasons = held(&laboratory.turns(5));
    assert!(reasons.starts_with("capi: stage capi of rollout") && reasons.contains("rejected"), "{reasons}");
}

#[test]
fn a_merged_proposal_is_the_commit_and_a_rollout_is_approved_once() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.policy.approval = Approval::Rollout;
    laboratory.turns(20);
    laboratory.merge();
    laboratory.until("close");
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2", "commit capi 2", "close"]);
    let approvals = &laboratory.ledger.as_ref().unwrap().approvals;
    assert_eq!(approvals.iter().map(|approved| &approved.scope).collect::<Vec<_>>(), [&ApprovalScope::Rollout]);
}

#[test]
fn each_stage_waits_for_its_own_merge() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.policy.approval = Approval::Stage;
    laboratory.turns(20);
    laboratory.merge();
    let waiting = waits_for(&laboratory.turns(20));
    assert!(waiting.starts_with("stage capi of rollout") && waiting.contains("waits for approval"), "{waiting}");
    laboratory.merge();
    laboratory.until("close");
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2", "ask", "commit capi 2", "close"]);
    assert_eq!(laboratory.ledger.as_ref().unwrap().approvals.len(), 2);
}

#[test]
fn nothing_is_proposed_before_its_gate_is_open() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.policy.approval = Approval::Stage;
    laboratory.broken = vec![("cert-manager", 2)];
    laboratory.turns(20);
    laboratory.merge();
    laboratory.turns(20);
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2"]);
    laboratory.broken.clear();
    laboratory.turns(20);
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2", "ask"]);
}

#[test]
fn a_proposal_tells_when_a_merge_is_welcome_and_an_approved_commit_waits_for_it() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2)]);
    laboratory.policy.approval = Approval::Stage;
    let opens = laboratory.now + SignedDuration::from_hours(2);
    let minute = u16::try_from(opens.as_second().rem_euclid(86_400) / 60).unwrap();
    laboratory.policy.windows = vec![MaintenanceWindow::daily(minute, minute + 60, "UTC".parse().unwrap())].into();
    let waiting = waits_for(&laboratory.turns(20));
    assert!(waiting.contains("the next maintenance window opens at"), "{waiting}");
    laboratory.approvals[0].state = ApprovalState::Approved;
    assert_eq!(waits_for(&laboratory.turns(5)), "outside of the maintenance windows");
}

#[test]
fn a_wave_binds_the_start_the_stages_before_machines_or_every_stage() {
    let hold = |binds: Binds| Some(WaveHold { reason: Reason::new("wave one is stopped"), until: None, binds });
    let says = |effects: &[Effect]| {
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Wait { reason, .. } if reason.message == "wave one is stopped"))
    };
    let stages = [("capi", 1, 2), ("control-plane", 1, 2), ("workers/a", 1, 2)];
    for (binds, held) in [
        (Binds::Start, [true, false, false]),
        (Binds::BeforeMachines, [true, true, false]),
        (Binds::EveryStage, [true, true, true]),
    ] {
        // Before the first stage, before the machines, and after them.
        for (begun, is_held) in [None, Some("commit capi 2"), Some("commit control-plane 2")].into_iter().zip(held) {
            let mut laboratory = RolloutHarness::new(&stages);
            if let Some(begun) = begun {
                laboratory.until(begun);
            }
            let before = laboratory.log.len();
            laboratory.wave = hold(binds);
            let effects = laboratory.turns(50);
            assert_eq!(says(&effects), is_held, "{binds:?} after {begun:?}: {effects:?}");
            assert_eq!(laboratory.log.len() == before, is_held, "{binds:?} after {begun:?}: {:?}", laboratory.log);
            laboratory.wave = None;
            if is_held {
                laboratory.until("close");
            }
        }
    }
}
