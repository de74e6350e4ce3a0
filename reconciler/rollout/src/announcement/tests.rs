use jiff::Timestamp;
use policy::AnnouncementKind;

use super::{Announcement, RolloutStanding, announcements, standing};
use crate::ledger::{Ledger, LedgerState, StageRecordKind};
use crate::step::harness::RolloutHarness;
use crate::verdict::Reason;
use domain::CommitId;

fn commit(number: u8) -> CommitId {
    format!("{number:040x}").parse().unwrap()
}

fn ids(told: &[Announcement]) -> Vec<String> {
    let id = |it: &Announcement| it.id().as_str().splitn(3, '/').nth(2).unwrap().to_owned();
    told.iter().map(id).collect()
}

/// The states of the ledger of a rollout of two stages, of which the first is undone once.
fn states() -> Vec<Ledger> {
    let mut harness = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    let mut states = Vec::new();
    for line in ["commit cert-manager 2", "commit capi 2", "close"] {
        harness.until(line);
        states.push(harness.ledger.clone().unwrap());
    }
    states
}

#[test]
fn a_rollout_is_told_of_stage_by_stage_as_its_ledger_grows() {
    let states = states();
    let mut told = Vec::new();
    let mut before = None;
    for (number, state) in (1..).zip(&states) {
        told.extend(announcements(before, state, &commit(number)));
        before = Some(state);
    }
    let expected = [
        "rollout/started/1",
        "cert-manager/started/1",
        "cert-manager/done/1",
        "capi/started/1",
        "capi/done/1",
        "rollout/done/1",
    ];
    assert_eq!(ids(&told), expected);
    // Whoever looks later is told the same, however many commits lie in between.
    let at_once = announcements(None, states.last().unwrap(), &commit(3));
    assert_eq!(ids(&at_once), expected);
    assert!(announcements(states.last(), states.last().unwrap(), &commit(4)).is_empty());
    assert!(told.iter().zip(&at_once).all(|(one, other)| one.id() == other.id() && one.at == other.at));
}

#[test]
fn what_was_recorded_as_it_is_had_no_rollout() {
    let mut adopted = states().pop().unwrap();
    adopted.stages.clear();
    assert!(announcements(None, &adopted, &commit(1)).is_empty());
}

#[test]
fn a_stage_that_is_taken_back_and_tried_again_is_told_by_turns() {
    let mut ledger = states().remove(0);
    let before = ledger.clone();
    let mut back = ledger.stages[0].clone();
    (back.kind, back.opened_by) = (StageRecordKind::Revert, None);
    back.reasons = vec![Reason::on("Deployment a/b", "is not ready")];
    ledger.stages.push(back);
    let told = announcements(Some(&before), &ledger, &commit(2));
    assert_eq!(ids(&told), ["cert-manager/rolled-back/1"]);
    assert_eq!(told[0].reasons, ["Deployment a/b: is not ready"]);
    let mut again = ledger.clone();
    let mut record = again.stages[0].clone();
    (record.attempt, record.opened_by) = (2, None);
    again.stages.push(record);
    let told = announcements(Some(&ledger), &again, &commit(3));
    assert_eq!(ids(&told), ["cert-manager/started/2"]);
    again.state = LedgerState::Superseded;
    let told = announcements(Some(&ledger), &again, &commit(3));
    assert_eq!(ids(&told), ["cert-manager/started/2", "rollout/done/1"]);
}

#[test]
fn what_goes_on_is_told_with_window_impact_and_what_helps() {
    let mut harness = RolloutHarness::new(&[("cert-manager", 1, 2), ("control-plane", 1, 2)]);
    let plan = harness.plan_at(0);
    let now: Timestamp = harness.now;
    let reason = Reason::new("alice has to agree").help("merge it");
    let waits = RolloutStanding::Waits { stage: None, reason: &reason, asked: Some("stepgate/fleet/cert-manager") };
    let said = |stage: &crate::StageId| (stage.to_string() == "cert-manager").then(|| "tea time".to_owned());
    let told = standing(&plan, None, &waits, said, now);
    assert_eq!(ids(&told), ["rollout/upcoming/1", "cert-manager/waiting/1"]);
    assert_eq!(told[0].impact[0], "tea time");
    assert!(told[0].impact[1].starts_with("the API server answers with short breaks"), "{:?}", told[0].impact);
    let expected = [
        "mgmt: stage cert-manager waits for people",
        "why: alice has to agree",
        "what helps: merge it",
        "asked on: stepgate/fleet/cert-manager",
    ];
    assert_eq!(told[1].lines(), expected);
    let template = "{cluster} {stage} {kind}: {reason} ({asked})".parse().unwrap();
    let text = "mgmt cert-manager waiting: alice has to agree (stepgate/fleet/cert-manager)";
    assert_eq!(told[1].render(&template), text);

    harness.until("commit cert-manager 2");
    let stage = crate::StageName::CertManager.into();
    let held = RolloutStanding::Held { stage: Some(&stage), reasons: &[reason], help: "look" };
    let told = standing(&harness.plan_at(0), harness.ledger.as_ref(), &held, |_| None, now);
    assert_eq!(ids(&told), ["cert-manager/held/1"]);
    assert_eq!(told[0].kind, AnnouncementKind::Held);
}
