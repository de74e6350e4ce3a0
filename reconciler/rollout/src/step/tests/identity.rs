//! A rollout goes on with the cluster that it began with alone.

use std::sync::Arc;

use crate::identity::{ClusterIdentity, Identification};
use crate::step::harness::RolloutHarness;
use crate::step::*;

fn identified(uid: &str) -> Identification {
    let identity = ClusterIdentity {
        uid: Some(uid.to_owned()),
        endpoint: "https://a:6443".to_owned(),
        certificate_authority: None,
    };
    Identification::Proven { identity }
}

fn unproven() -> Identification {
    Identification::Unproven { reason: "nobody named it".to_owned(), help: "--management-cluster".to_owned() }
}

/// The first of two stages is committed, to the cluster with this uid.
fn begun(uid: &str) -> RolloutHarness {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
    laboratory.identity = identified(uid);
    laboratory.until("commit cert-manager 2");
    laboratory
}

#[track_caller]
fn waits_for(effects: &[Effect], words: &[&str]) {
    let Some(Effect::Wait { reason, .. }) = effects.last() else { panic!("{effects:?}") };
    let text = format!("{reason} {}", reason.help.clone().unwrap_or_default());
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn another_cluster_of_the_same_name_waits_for_ever_and_the_way_out_is_said() {
    let mut laboratory = begun("one");
    laboratory.identity = identified("another");
    let effects = laboratory.turns(200);
    assert_eq!(laboratory.log(), ["commit cert-manager 2"]);
    waits_for(&effects, &["kube-system another", "kube-system one", "stepgate adopt mgmt --replace-identity --yes"]);

    // What people have recorded anew is gone on with.
    laboratory.ledger.as_mut().unwrap().identity = identified("another").proven().cloned();
    laboratory.until("close");
}

#[test]
fn what_is_not_proven_waits_before_the_first_stage_in_mid_rollout_and_at_the_end() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2)]);
    laboratory.identity = unproven();
    waits_for(&laboratory.turns(50), &["not proven", "nobody named it", "--management-cluster"]);
    assert!(laboratory.log().is_empty() && laboratory.backup.is_none());
    for last in ["commit cert-manager 2", "commit capi 2"] {
        let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
        laboratory.until(last);
        laboratory.identity = unproven();
        waits_for(&laboratory.turns(50), &["not proven"]);
        assert_eq!(laboratory.log().last(), Some(&last));
    }
}

#[test]
fn a_repair_is_committed_to_the_recorded_cluster_alone() {
    let mut laboratory = begun("one");
    laboratory.broken = vec![("cert-manager", 2)];
    laboratory.now += SignedDuration::from_secs(700);
    assert!(laboratory.turns(3).iter().any(|effect| matches!(effect, Effect::Hold { .. })));
    laboratory.push(&[("cert-manager", 3)]);
    let read = laboratory.read();
    for identity in [identified("another"), unproven()] {
        let mut world = laboratory.world();
        world.observation = Some(Arc::new(crate::observation::Observation { identity, ..read.clone() }));
        let effects = step(&world, laboratory.now);
        assert!(
            effects.iter().all(|effect| matches!(effect, Effect::Observe { .. } | Effect::Wait { .. })),
            "{effects:?}"
        );
    }
    laboratory.until("commit cert-manager 3");
}

#[test]
fn a_ledger_without_an_identity_goes_on_and_records_it_with_the_next_commit() {
    let mut laboratory = begun("one");
    laboratory.ledger.as_mut().unwrap().identity = None;
    laboratory.until("commit capi 2");
    let ledger = laboratory.ledger.clone().unwrap();
    assert_eq!(ledger.identity.as_ref(), identified("one").proven());
    let evidence = ledger.stages.last().and_then(|record| record.opened_by.clone()).unwrap();
    assert_eq!(evidence.identity.as_deref(), identified("one").proven());
    let said = |facts: &[crate::verdict::Fact]| facts.iter().filter(|fact| fact.seen.contains("recorded from")).count();
    assert_eq!(said(&evidence.facts), 1, "{:?}", evidence.facts);
    laboratory.until("close");
    assert_eq!(said(&laboratory.ledger.unwrap().verified.unwrap().facts), 0);
}

#[test]
fn two_reads_of_two_clusters_confirm_nothing() {
    let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2)]);
    for number in 0..100 {
        laboratory.identity = identified(if number % 2 == 0 { "one" } else { "another" });
        laboratory.turn();
    }
    assert!(laboratory.log().is_empty(), "{:?}", laboratory.log());
}

#[test]
fn ledgers_of_versions_without_identities_are_read() {
    let mut ledger = begun("one").ledger.unwrap();
    ledger.identity = None;
    for record in &mut ledger.stages {
        record.opened_by.as_mut().unwrap().identity = None;
    }
    let text = serde_json::to_string(&ledger).unwrap();
    assert!(!text.contains("identity"), "{text}");
    assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), ledger);
}
