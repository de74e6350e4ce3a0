//! What a plan says of the time that it takes, and which risks apply to a cluster that was read.

use jiff::{SignedDuration, Timestamp};

use super::tests::{commit, input, stage};
use super::*;
use crate::ledger::{Ledger, LedgerState};
use crate::observation::CustomResourceDefinition;
use crate::verdict::Evidence;

fn minute(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn evidence(minutes: i64) -> Evidence {
    Evidence {
        commit: None,
        applied_revision: None,
        identity: None,
        observed_at: minute(minutes),
        held_since: minute(minutes),
        reads: 2,
        facts: Vec::new(),
    }
}

/// A finished rollout of two stages: 10 minutes, half an hour until somebody approved, and 25 minutes.
fn finished() -> Ledger {
    let plan = plan(input(vec![stage("cert-manager", "1", "2"), stage("capi", "1", "2")]));
    let mut ledger = commit(&plan, None);
    let mut second = ledger.stages[0].clone();
    second.stage = "capi".parse().unwrap();
    (second.committed_at, second.opened_by) = (minute(40), Some(evidence(10)));
    ledger.stages.push(second);
    (ledger.state, ledger.finished_at) = (LedgerState::Done, Some(minute(70)));
    ledger.verified = Some(evidence(65));
    ledger
}

#[test]
fn several_stages_take_as_long_as_they_took_without_what_was_waited_for_between_them() {
    let of = |names: &[&str]| plan(input(names.iter().map(|name| stage(name, "1", "3")).collect()));
    let told = |names: &[&str]| {
        let expected = of(names).expected_time(&finished());
        expected.map(|expected| (expected.takes.as_mins(), expected.is_whole))
    };
    assert_eq!(told(&["cert-manager", "capi"]), Some((10 + 25, true)));
    assert_eq!(told(&["capi"]), Some((25, true)));
    assert_eq!(told(&["capi", "flux"]), Some((25, false)), "nobody knows how long flux takes");
    assert_eq!(told(&["flux"]), None);
    let running = Ledger { state: LedgerState::Running, ..finished() };
    assert_eq!(of(&["capi"]).expected_time(&running), None);
}

#[test]
fn risks_that_the_cluster_does_not_have_leave_every_stage() {
    let lost = |definition: &str, version: &str| Risk {
        lost: vec![LostVersion {
            definition: definition.to_owned(),
            kind: "X".to_owned(),
            version: version.to_owned(),
        }],
        ..Risk::new(RiskKind::VersionRemoved, format!("{version} of {definition} is removed"))
    };
    let mut stages = [stage("cert-manager", "1", "2"), stage("capi", "1", "2")];
    stages[0].risks = vec![lost("a.example.com", "v1alpha1"), Risk::new(RiskKind::TwoWriters, "two write")];
    stages[1].risks = vec![lost("b.example.com", "v1alpha1"), lost("c.example.com", "v1alpha1")];
    let stored = |name: &str, version: &str| CustomResourceDefinition {
        name: name.to_owned(),
        established: true,
        names_accepted: true,
        deleting: false,
        versions: vec![version.to_owned()],
        served_versions: vec![version.to_owned()],
        storage_version: Some(version.to_owned()),
        stored_versions: vec![version.to_owned()],
        conversion_authority_injected: None,
    };
    let live = [stored("a.example.com", "v1"), stored("b.example.com", "v1alpha1")];
    let plan = plan(input(stages.into())).with_definitions(&live);
    let told = |name: &str| -> Vec<&str> {
        let stage = plan.stages.iter().find(|stage| stage.stage.to_string() == name).unwrap();
        stage.risks.iter().map(|risk| risk.text.as_str()).collect()
    };
    assert_eq!(told("cert-manager"), ["two write"]);
    let kept = told("capi");
    assert!(kept.iter().any(|message| message.contains("b.example.com")), "{kept:?}");
}
