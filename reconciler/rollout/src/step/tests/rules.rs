use jiff::SignedDuration;

use crate::approval::{ApprovalFacts, ApprovalScope, Retry};
use crate::effect::Effect;
use crate::step::harness::RolloutHarness;
use crate::step::merged_outside_window;
use policy::{Approval, MaintenanceWindow, OnFailure};
use policy::{ApprovalRules, Override};

fn asking(stages: &[(&'static str, u8, u8)], rules: ApprovalRules) -> RolloutHarness {
    let mut laboratory = RolloutHarness::new(stages);
    laboratory.policy.approval = Approval::Stage;
    laboratory.policy.approvers = rules;
    laboratory
}

fn two() -> ApprovalRules {
    ApprovalRules { minimum: 2, ..ApprovalRules::default() }
}

/// What holds, and what helps.
fn held(effects: &[Effect]) -> (String, String) {
    let told = effects.iter().find_map(|effect| match effect {
        Effect::Hold { reasons, help, .. } => {
            Some((reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "), help.clone()))
        }
        _ => None,
    });
    told.unwrap_or_else(|| panic!("nothing is held: {effects:?}"))
}

fn waits(effects: &[Effect]) -> String {
    let told = effects.iter().find_map(|effect| match effect {
        Effect::Wait { reason, .. } => Some(reason.to_string()),
        _ => None,
    });
    told.unwrap_or_else(|| panic!("nothing is waited for: {effects:?}"))
}

#[test]
fn what_is_asked_tells_what_is_missing() {
    let rules = ApprovalRules { groups: [("platform".into(), 1)].into(), ..two() };
    let mut laboratory = asking(&[("capi", 1, 2)], rules);
    laboratory.people.roster.groups.insert("platform".into(), vec!["carol".parse().unwrap()]);
    let effects = laboratory.turns(20);
    let waiting = waits(&effects);
    assert!(waiting.contains("waits for approval; 0 of 2 approvals; group platform missing"), "{waiting}");
    let Some(Effect::RequestApproval(request)) =
        effects.iter().find(|effect| matches!(effect, Effect::RequestApproval(_)))
    else {
        panic!("{effects:?}")
    };
    assert_eq!(request.missing, ["0 of 2 approvals", "group platform missing"]);
    assert_eq!(laboratory.log(), ["ask"]);
}

#[test]
fn a_merge_without_enough_approvals_holds_until_they_are_there() {
    let mut laboratory = asking(&[("cert-manager", 1, 2), ("capi", 1, 2)], two());
    laboratory.turns(20);
    laboratory.merge_by("alice");
    let (reasons, help) = held(&laboratory.turns(20));
    assert!(reasons.contains("stage cert-manager was merged too early: 1 of 2 approvals"), "{reasons}");
    assert!(help.contains("stepgate approve mgmt --yes") && help.contains("--override --reason"), "{help}");
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2"], "nothing follows");
    laboratory.approve("bob");
    laboratory.turns(20);
    laboratory.merge_by("alice");
    laboratory.approve("bob");
    laboratory.until("close");
    let approvals = &laboratory.ledger.as_ref().unwrap().approvals;
    let names = |index: usize| approvals[index].approvers.iter().map(|it| it.who.to_string()).collect::<Vec<_>>();
    assert_eq!((names(0), names(1)), (vec!["alice".to_owned(), "bob".to_owned()], vec!["alice".into(), "bob".into()]));
    assert!(approvals.iter().all(|approved| approved.approvers.iter().all(|given| given.plan == approved.plan)));
}

#[test]
fn nothing_is_closed_without_the_approvals_of_the_last_stage() {
    let mut laboratory = asking(&[("capi", 1, 2)], two());
    laboratory.turns(20);
    laboratory.merge_by("alice");
    held(&laboratory.turns(100));
    assert_eq!(laboratory.log(), ["ask", "commit capi 2"]);
}

#[test]
fn a_person_may_override_and_the_ledger_tells_who_and_why() {
    let mut laboratory = asking(&[("capi", 1, 2)], two());
    laboratory.turns(20);
    laboratory.merge_by("alice");
    held(&laboratory.turns(20));
    let plan = laboratory.ledger.as_ref().unwrap().plan.clone();
    let (who, at) = ("alice".parse().unwrap(), laboratory.now);
    let reason = "the cluster is down".to_owned();
    let missing = vec!["1 of 2 approvals".to_owned()];
    let facts: &mut ApprovalFacts = &mut laboratory.people.landed.last_mut().unwrap().facts;
    facts.overridden = Some(Override { who, at, plan, reason, missing });
    laboratory.until("close");
    let approved = &laboratory.ledger.as_ref().unwrap().approvals[0];
    assert_eq!(approved.overridden.as_ref().unwrap().reason, "the cluster is down");
    assert!(approved.approvers.is_empty(), "nobody else approved it");
}

#[test]
fn a_merge_after_the_source_has_moved_on_holds() {
    let mut laboratory = asking(&[("cert-manager", 1, 2), ("capi", 1, 2)], ApprovalRules::default());
    laboratory.turns(20);
    laboratory.push(&[("capi", 3)]);
    laboratory.people.source_moved_at = Some(laboratory.now);
    laboratory.now += SignedDuration::from_secs(1);
    laboratory.merge_by("alice");
    let (reasons, help) = held(&laboratory.turns(20));
    assert!(reasons.contains("after the source branch had moved on at"), "{reasons}");
    assert!(help.contains("git revert") && !help.contains("--yes`, or a review"), "{help}");
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2"]);
    // The source branch comes back to what was merged.
    laboratory.push(&[("capi", 2)]);
    laboratory.people.source_moved_at = None;
    laboratory.turns(20);
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2", "ask"]);
}

#[test]
fn a_rollout_that_has_to_end_first_is_merged_wherever_the_source_is() {
    let stages = [("cert-manager", 1, 1), ("control-plane", 1, 2), ("workers/md-0", 1, 2)];
    let mut laboratory = asking(&stages, ApprovalRules::default());
    laboratory.until("ask");
    laboratory.merge_by("alice");
    laboratory.now += SignedDuration::from_secs(1);
    laboratory.push(&[("cert-manager", 2)]);
    laboratory.people.source_moved_at = Some(laboratory.now);
    // It is Stepgate that asks for the workers after that.
    laboratory.until("ask");
    laboratory.merge_by("alice");
    laboratory.until("close");
    assert_eq!(laboratory.log(), ["ask", "commit control-plane 2", "ask", "commit workers/md-0 2", "close"]);
}

#[test]
fn a_merge_after_the_source_has_moved_on_is_taken_back_where_the_policy_says_so() {
    let mut laboratory = asking(&[("cert-manager", 1, 2), ("capi", 1, 2)], ApprovalRules::default());
    laboratory.policy.on_stale_merge = OnFailure::Revert;
    laboratory.turns(20);
    laboratory.push(&[("cert-manager", 3)]);
    laboratory.people.source_moved_at = Some(laboratory.now);
    laboratory.now += SignedDuration::from_secs(1);
    laboratory.merge_by("alice");
    laboratory.until("revert cert-manager 1");
    let record = laboratory.ledger.as_ref().unwrap().stages.last().unwrap().clone();
    assert!(record.reasons[0].to_string().contains("after the source branch had moved on at"), "{record:?}");
    // What the source branch asks for now is asked.
    laboratory.turns(20);
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2", "revert cert-manager 1", "ask"]);
    laboratory.merge_by("alice");
    laboratory.turns(40);
    assert_eq!(laboratory.log()[4..], ["commit cert-manager 3", "ask"]);
}

#[test]
fn what_has_no_way_back_is_held_however_stale() {
    let mut laboratory = asking(&[("cert-manager", 1, 2)], ApprovalRules::default());
    laboratory.policy.on_stale_merge = OnFailure::Revert;
    laboratory.one_way = true;
    laboratory.turns(20);
    laboratory.push(&[("cert-manager", 3)]);
    laboratory.people.source_moved_at = Some(laboratory.now);
    laboratory.now += SignedDuration::from_secs(1);
    laboratory.merge_by("alice");
    let (reasons, _) = held(&laboratory.turns(20));
    assert!(reasons.contains("after the source branch had moved on at"), "{reasons}");
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2"]);
}

#[test]
fn a_source_that_moves_after_the_merge_holds_nothing() {
    let mut laboratory = asking(&[("cert-manager", 1, 2), ("capi", 1, 2)], ApprovalRules::default());
    laboratory.turns(20);
    laboratory.merge_by("alice");
    laboratory.now += SignedDuration::from_secs(1);
    laboratory.push(&[("capi", 3)]);
    laboratory.people.source_moved_at = Some(laboratory.now);
    laboratory.turns(20);
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2", "ask"]);
}

#[test]
fn a_failed_stage_is_reverted_whoever_approved_it() {
    let mut laboratory = asking(&[("cert-manager", 1, 2)], two());
    laboratory.policy.on_failure = OnFailure::Revert;
    laboratory.broken = vec![("cert-manager", 2)];
    laboratory.turns(20);
    laboratory.merge_by("alice");
    laboratory.until("revert cert-manager 1");
}

#[test]
fn a_stage_without_a_way_back_is_asked_apart_and_of_somebody_else() {
    let rules = ApprovalRules { separate: true, ..ApprovalRules::default() };
    let mut laboratory = asking(&[("cert-manager", 1, 2), ("capi", 1, 2)], rules);
    laboratory.policy.approval = Approval::Rollout;
    laboratory.one_way = true;
    laboratory.turns(20);
    assert_eq!(laboratory.approvals[0].scope, ApprovalScope::Stage("cert-manager".parse().unwrap()));
    laboratory.merge_by("alice");
    laboratory.turns(20);
    assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2", "ask"]);
    laboratory.merge_by("alice");
    let (reasons, _) = held(&laboratory.turns(20));
    assert!(reasons.contains("somebody who has approved no other stage"), "{reasons}");
    laboratory.approve("bob");
    laboratory.until("close");
}

#[test]
fn a_reverted_stage_is_committed_once_more_where_somebody_wants_that_attempt() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2)]);
    laboratory.policy.on_failure = OnFailure::Revert;
    laboratory.broken = vec![("cert-manager", 2)];
    laboratory.until("revert cert-manager 1");
    let (reasons, help) = held(&laboratory.turns(20));
    assert!(
        reasons.contains("committed once and reverted") && help.contains("stepgate retry mgmt"),
        "{reasons} {help}"
    );
    let (plan, stage) = (laboratory.world().plan.digest.clone(), "cert-manager".parse().unwrap());
    let (who, at) = ("alice".parse().unwrap(), laboratory.now);
    laboratory.people.retries = vec![Retry { stage, plan, attempt: 2, who, at, place: None }];
    laboratory.turns(20);
    laboratory.until("revert cert-manager 1");
    let (reasons, _) = held(&laboratory.turns(20));
    assert!(reasons.contains("committed 2 times and reverted"), "the third attempt is another one: {reasons}");
    let retries = &laboratory.ledger.as_ref().unwrap().retries;
    assert_eq!(retries.iter().map(|retry| retry.attempt).collect::<Vec<_>>(), [2]);
    assert_eq!(laboratory.log().iter().filter(|line| **line == "commit cert-manager 2").count(), 2);
}

#[test]
fn a_merge_outside_of_its_window_is_told_and_on_record_and_the_next_stage_waits() {
    for is_overridden in [false, true] {
        let mut laboratory = asking(&[("cert-manager", 1, 2), ("capi", 1, 2)], ApprovalRules::default());
        let opens = laboratory.now + SignedDuration::from_hours(8);
        let from = u16::try_from(opens.as_second().rem_euclid(86_400) / 60).unwrap();
        let time_zone = "UTC".parse().unwrap();
        laboratory.policy.windows = vec![MaintenanceWindow::daily(from, from + 60, time_zone)].into();
        laboratory.turns(20);
        laboratory.merge_by("alice");
        let at = laboratory.now;
        if is_overridden {
            let plan = laboratory.ledger.as_ref().unwrap().plan.clone();
            let (who, reason) = ("alice".parse().unwrap(), "the cluster is down".to_owned());
            let facts: &mut ApprovalFacts = &mut laboratory.people.landed.last_mut().unwrap().facts;
            facts.overridden = Some(Override { who, at, plan, reason, missing: Vec::new() });
        }
        let told = merged_outside_window(&laboratory.world()).map(|reason| reason.to_string());
        let expected = format!("stage cert-manager was merged outside of its maintenance windows by alice at {at}");
        assert_eq!(told, (!is_overridden).then(|| expected.clone()));
        let waiting = waits(&laboratory.turns(40));
        assert!(waiting.contains("waits for approval; the next maintenance window opens at"), "{waiting}");
        assert_eq!(laboratory.log(), ["ask", "commit cert-manager 2", "ask"]);
        laboratory.now = opens;
        laboratory.turns(40);
        laboratory.merge_by("alice");
        laboratory.until("close");
        let records = &laboratory.ledger.as_ref().unwrap().stages;
        let noted = records.iter().map(|record| record.reasons.iter().map(ToString::to_string).collect::<Vec<_>>());
        let first = if is_overridden { Vec::new() } else { vec![expected] };
        assert_eq!(noted.collect::<Vec<_>>(), [first, Vec::new()]);
    }
}
