//! What a plan says of the time that it takes, and which risks apply to a cluster that was read.

use jiff::{SignedDuration, Timestamp};

use super::tests::{commit, input, stage};
use super::*;
use crate::ledger::{Ledger, LedgerState};
use crate::observation::CustomResourceDefinition;
use crate::verdict::{Evidence, Fact};

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
fn nodes_that_stay_take_as_long_as_those_before_them() {
    let told = |name: &str, reasons: &[&str], estimate: Option<u64>, ledger: Option<&Ledger>| {
        let mut wanted = stage(name, "1", "3");
        wanted.reasons = reasons.iter().map(|reason| (*reason).to_owned()).collect();
        wanted.policy.estimate = estimate.map(|minutes| std::time::Duration::from_secs(minutes * 60));
        wanted.machines = 3;
        let plan = plan(input(vec![wanted]));
        let stage = plan.stages.iter().find(|known| known.stage.to_string() == name).unwrap();
        NodeTime::of(stage, ledger).map(|time| time.to_string())
    };
    let mut ledger = finished();
    let node = |seconds: u64| Fact { seconds: Some(seconds), ..Fact::new("NodeKubeadmUpgrade a/b", "done") };
    ledger.stages[0].stage = "workers/blue".parse().unwrap();
    ledger.stages[1].opened_by.as_mut().unwrap().facts =
        vec![node(600), node(240), node(250), node(260), node(300), Fact::new("Deployment a/b", "ready")];
    let stays = ["in place: 3 machines stay"];
    for (name, reasons, estimate, ledger, expected) in [
        (
            "workers/blue",
            &stays[..],
            None,
            Some(&ledger),
            Some("takes 5 min, by the 80th percentile of 5 nodes before"),
        ),
        // What other groups took is more than nothing.
        ("workers/red", &stays, Some(90), Some(&ledger), Some("takes 5 min, by the 80th percentile of 5 nodes before")),
        ("control-plane", &stays, Some(45), Some(&ledger), Some("takes 15 min, by the `estimate` of the policy")),
        ("control-plane", &stays, None, None, Some("nobody knows how long a node takes")),
        ("workers/blue", &["replace because of a file"], None, Some(&ledger), None),
    ] {
        let told = told(name, reasons, estimate, ledger);
        assert_eq!(told.is_some(), expected.is_some(), "{name}: {told:?}");
        assert!(expected.is_none_or(|text| told.as_ref().is_some_and(|told| told.contains(text))), "{name}: {told:?}");
    }
    // The next rollout carries it on.
    let next = Ledger { durations: PastDurations::after(&ledger), ..finished() };
    let told = told("workers/blue", &stays, None, Some(&next));
    assert!(told.unwrap().contains("of 5 nodes before"));
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
