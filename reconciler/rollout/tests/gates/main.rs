//! Every clause of every gate, one violation at a time and many at once.
//!
//! A healthy cluster passes; whatever is broken in it, alone or together with anything else, no gate passes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod addons;
mod first_node;
mod gone;
mod healthy;
mod leftovers;
mod providers;
mod violations;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use policy::StagePolicy;
use proptest::prelude::*;
use rollout::{
    Binding, EtcdMembership, EtcdadmCluster, Expectation, Gate, GateHistory, GateVerdict, KubeVipExpectation, Landing,
    Machine, Observation, Reachability, StageId, StageName, WebhookOutcome, WebhookProbe,
};

use healthy::*;
use violations::VIOLATIONS;

fn policy() -> StagePolicy {
    StagePolicy { soak: Duration::from_secs(10), timeout: Duration::from_secs(100), ..StagePolicy::default() }
}

fn binding() -> Binding {
    Binding {
        commit: commit('b'),
        lineage: vec![commit('b'), commit('c')].into(),
        committed_at: second(-60),
        landing: Landing::Pushed,
    }
}

fn verdict(readings: &[Observation], expectations: &[Expectation], at: Timestamp) -> GateVerdict {
    verdict_by(&policy(), readings, expectations, at)
}

fn verdict_by(
    policy: &StagePolicy,
    readings: &[Observation],
    expectations: &[Expectation],
    at: Timestamp,
) -> GateVerdict {
    let (stage, rollout, binding) = (StageId::from(StageName::Capi), rollout_id(), binding());
    let gate = Gate {
        cluster: "mgmt",
        identity: None,
        stage: &stage,
        rollout: &rollout,
        expectations,
        binding: Some(&binding),
        policy,
    };
    let mut history = GateHistory::default();
    for reading in readings {
        let held = gate.held(reading, at).map(|settled| (gate.key(), settled)).into_iter().collect();
        history = history.record(reading.read_at, held, policy.maximum_age, reading.read_at);
    }
    gate.evaluate(readings.last(), &history, at)
}

/// The same cluster, read for long enough to soak.
fn soaked(observation: &Observation) -> Vec<Observation> {
    let earlier = |seconds: i64| Observation {
        read_at: observation.read_at - SignedDuration::from_secs(seconds),
        ..observation.clone()
    };
    vec![earlier(20), earlier(10), observation.clone()]
}

fn reasons(verdict: &GateVerdict) -> String {
    match verdict {
        GateVerdict::Pass { .. } => String::new(),
        GateVerdict::Wait { reason, .. } => reason.to_string(),
        GateVerdict::Fail { reasons } => reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

#[test]
fn a_healthy_cluster_passes_with_evidence_of_everything() {
    let GateVerdict::Pass { evidence } = verdict(&soaked(&healthy()), &expectations(), now()) else {
        panic!("{:?}", verdict(&soaked(&healthy()), &expectations(), now()));
    };
    assert_eq!(evidence.commit, Some(commit('b')));
    assert_eq!(evidence.applied_revision, Some(commit('c')), "a later commit of the branch contains the stage's");
    assert_eq!((evidence.reads, evidence.observed_at, evidence.held_since), (3, second(-1), second(-21)));
    for object in [
        "Kustomization flux-system/capi",
        "Deployment capi-system/manager",
        "DaemonSet kube-system/cilium",
        "virtual address",
    ] {
        assert!(evidence.facts.iter().any(|fact| fact.object == object), "{object}");
    }
}

#[test]
fn every_expectation_passes_alone_and_none_without_flux() {
    for expectation in expectations() {
        assert!(verdict(&soaked(&healthy()), &[flux(), expectation.clone()], now()).is_pass(), "{expectation:?}");
        if expectation != flux() {
            let unbound = verdict(&soaked(&healthy()), &[expectation], now());
            assert!(reasons(&unbound).contains("ties this gate to its commit"), "{unbound:?}");
        }
    }
    assert!(!verdict(&soaked(&healthy()), &[], now()).is_pass());
}

#[test]
fn every_single_violation_is_seen_and_named() {
    for (name, break_it, mention) in VIOLATIONS.iter() {
        let mut broken = healthy();
        break_it(&mut broken);
        // Alone with Flux, so that the reason is not hidden behind others.
        let all: Vec<String> = expectations()
            .into_iter()
            .map(|expectation| verdict(&soaked(&broken), &[flux(), expectation], now()))
            .map(|verdict| reasons(&verdict))
            .collect();
        assert!(all.iter().any(|reasons| reasons.contains(mention)), "{name}: {mention:?} is not in {all:#?}");
        let verdict = verdict(&soaked(&broken), &expectations(), now());
        assert!(!verdict.is_pass(), "{name}");
    }
}

#[test]
fn one_healthy_read_after_a_violation_is_not_enough() {
    for (name, break_it, _) in VIOLATIONS.iter() {
        let mut readings = soaked(&healthy());
        let read_at = readings[1].read_at;
        break_it(&mut readings[1]);
        // Keep the order of reads: what is tested is the break in between.
        readings[1].read_at = read_at;
        let is_about_time = ["stale", "from the future", "before the commit"].contains(name);
        assert_eq!(verdict(&readings, &expectations(), now()).is_pass(), is_about_time, "{name}");
    }
}

#[test]
fn only_deletions_dropped_versions_deadlines_and_checks_fail_at_once() {
    let failing: Vec<&str> = VIOLATIONS
        .iter()
        .filter(|(_, break_it, _)| {
            let mut broken = healthy();
            break_it(&mut broken);
            matches!(verdict(&soaked(&broken), &expectations(), now()), GateVerdict::Fail { .. })
        })
        .map(|(name, _, _)| *name)
        .collect();
    let expected = [
        "deployment deleted",
        "deadline exceeded",
        "daemon set deleted",
        "definition deleted",
        "stored at a dropped version",
        "object deleted",
        "disk full",
        "certificates about to end",
        "etcd deleted",
        "quorum lost",
        "EKS Anywhere's cluster deleted",
        "cluster deleted",
        "control plane deleted",
        "group deleted",
    ];
    assert_eq!(failing, expected);
}

fn is_heard(etcd: &EtcdadmCluster) -> bool {
    matches!(etcd.membership, Some(EtcdMembership::Known { .. }))
}

#[test]
fn every_wait_becomes_a_failure_at_the_deadline_unless_the_state_is_unknown() {
    for (name, break_it, _) in VIOLATIONS.iter() {
        let mut broken = healthy();
        let late = second(1000);
        broken.read_at = late - SignedDuration::from_secs(1);
        let read_at = broken.read_at;
        break_it(&mut broken);
        if broken.read_at != read_at {
            continue;
        }
        let unheard = broken.etcd_clusters.first().is_some_and(|etcd| !is_heard(etcd));
        let unknown =
            broken.reachable != Reachability::Reachable || !broken.confirmed || !broken.unread.is_empty() || unheard;
        let failed = matches!(verdict(&soaked(&broken), &expectations(), late), GateVerdict::Fail { .. });
        assert_eq!(failed, !unknown, "{name}");
    }
}

#[test]
fn a_deadline_is_judged_by_a_reading_that_is_not_older() {
    let mut broken = healthy();
    broken.deployments[0].available_replicas = Some(0);
    let deadline = second(40);
    for (read_at, fails) in [(second(39), false), (deadline, true), (second(41), true)] {
        broken.read_at = read_at;
        match verdict(std::slice::from_ref(&broken), &expectations(), second(42)) {
            GateVerdict::Fail { .. } => assert!(fails, "read at {read_at}"),
            GateVerdict::Wait { until, .. } => assert_eq!((fails, until), (false, Some(deadline)), "read at {read_at}"),
            GateVerdict::Pass { .. } => panic!("passed"),
        }
    }
}

#[test]
fn a_deadline_does_not_cut_off_what_is_healthy() {
    let late = second(1000);
    let recovered = Observation { read_at: late - SignedDuration::from_secs(1), webhooks: Vec::new(), ..healthy() };
    let mut healthy = recovered.clone();
    healthy.webhooks =
        vec![WebhookProbe { name: "capi".into(), probed_at: healthy.read_at, outcome: WebhookOutcome::Answered }];
    let first = verdict(&[recovered, healthy.clone()], &expectations(), late);
    assert!(matches!(first, GateVerdict::Wait { .. }), "{first:?}");
    assert!(verdict(&soaked(&healthy), &expectations(), late).is_pass());
}

#[test]
fn soak_and_reads_are_both_needed() {
    let observation = healthy();
    let earlier = |seconds: i64| Observation {
        read_at: observation.read_at - SignedDuration::from_secs(seconds),
        ..observation.clone()
    };
    for (readings, expected) in [
        (vec![earlier(0)], "1 of 2 consecutive reads"),
        (vec![earlier(5), earlier(0)], "healthy for 5 of 10 s of soak"),
        (vec![earlier(0), earlier(0), earlier(0)], "1 of 2 consecutive reads"),
        (vec![earlier(10), earlier(0)], ""),
    ] {
        let verdict = verdict(&readings, &expectations(), now());
        assert!(reasons(&verdict).contains(expected) && verdict.is_pass() == expected.is_empty(), "{verdict:?}");
    }
    let soaking = verdict(&[earlier(5), earlier(0)], &expectations(), now());
    assert!(matches!(soaking, GateVerdict::Wait { until: Some(until), .. } if until == second(4)), "{soaking:?}");
}

#[test]
fn a_machine_that_does_not_come_up_is_named_beside_what_its_owner_says() {
    let mut broken = healthy();
    let control_plane = &mut broken.control_planes[0];
    control_plane.replicas = Some(4);
    for condition in ["RollingOut", "ScalingUp", "MachinesReady", "MachinesUpToDate"] {
        control_plane.conditions.remove(condition);
    }
    let owned = |machine: &&mut Machine| machine.control_plane;
    for (index, machine) in broken.machines.iter_mut().filter(owned).enumerate() {
        if index == 2 {
            machine.node = None;
        } else {
            machine.spec_version = Some("v1.30.0".into());
        }
    }
    let stuck = broken.machines.iter().find(|machine| machine.control_plane && machine.node.is_none()).unwrap();
    let reasons = reasons(&verdict(std::slice::from_ref(&broken), &expectations(), now()));
    assert!(reasons.contains(&format!("Machine {}/{}: status.nodeRef", stuck.namespace, stuck.name)), "{reasons}");
}

#[test]
fn a_kube_vip_whose_image_others_choose_has_to_run_on_every_node() {
    let mut expected = expectations();
    for expectation in &mut expected {
        if let Expectation::ControlPlane(control_plane) = expectation {
            control_plane.kube_vip = Some(KubeVipExpectation { image: None, lease: None });
        }
    }
    let mut observation = healthy();
    observation.pods[0].running[0].digest = Some("sha256:0".into());
    assert!(matches!(verdict(&soaked(&observation), &expected, second(0)), GateVerdict::Pass { .. }));
    let address = observation.virtual_address.as_mut().unwrap();
    address.holder = address.holder.take().map(|holder| format!("{holder}.example.com"));
    assert!(matches!(verdict(&soaked(&observation), &expected, second(0)), GateVerdict::Pass { .. }));
    let holder = observation.virtual_address.clone();
    for other in ["example.com", "other", "other.example.com"] {
        observation.virtual_address.as_mut().unwrap().holder = Some(other.to_owned());
        let waits = reasons(&verdict(&soaked(&observation), &expected, second(0)));
        assert!(waits.contains("which is not a control-plane node"), "{waits}");
    }
    observation.virtual_address = holder;
    observation.pods[0].ready = false;
    let waits = reasons(&verdict(&soaked(&observation), &expected, second(0)));
    assert!(waits.contains("kube-vip on node") && waits.contains("not ready"), "{waits}");
    drop(observation.pods.remove(0));
    let waits = reasons(&verdict(&soaked(&observation), &expected, second(0)));
    assert!(waits.contains("no such pod"), "{waits}");
}

/// Machines have been seen settled for a second while they were not; the status of a Deployment says which generation it is of.
#[test]
fn only_machines_are_read_again_no_earlier_than_a_second_later() {
    let observation = healthy();
    let policy = StagePolicy { soak: Duration::ZERO, ..policy() };
    let without_machines: Vec<Expectation> =
        expectations().into_iter().filter(|expectation| !expectation.is_of_machines()).collect();
    assert!(without_machines.len() > 3);
    for (expectations, milliseconds) in [(expectations(), 1000), (without_machines, 1)] {
        let verdict = verdict_by(&policy, std::slice::from_ref(&observation), &expectations, now());
        let expected = observation.read_at + SignedDuration::from_millis(milliseconds);
        assert!(matches!(verdict, GateVerdict::Wait { until: Some(until), .. } if until == expected), "{verdict:?}");
        // A reading that was made earlier all the same, for another gate, does not count for it.
        for (after, passes) in [(milliseconds - 1, false), (milliseconds, true)] {
            let mut second = observation.clone();
            second.read_at += SignedDuration::from_micros(after * 1000 + 500);
            let verdict = verdict_by(&policy, &[observation.clone(), second], &expectations, now());
            assert_eq!(verdict.is_pass(), passes, "{after}: {verdict:?}");
            let is_due = |until: Timestamp| until == expected;
            assert!(passes || matches!(verdict, GateVerdict::Wait { until: Some(until), .. } if is_due(until)));
        }
    }
}

/// Whoever reads again when the verdict says so is not kept waiting by its usual period.
#[test]
fn the_reading_that_confirms_is_due_when_the_soak_ends() {
    let observation = healthy();
    for (soak, due) in [(0, 1), (10, 10)] {
        let policy = StagePolicy { soak: Duration::from_secs(soak), ..policy() };
        let verdict = verdict_by(&policy, std::slice::from_ref(&observation), &expectations(), now());
        let expected = observation.read_at + SignedDuration::from_secs(due);
        assert!(matches!(verdict, GateVerdict::Wait { until: Some(until), .. } if until == expected), "{verdict:?}");
    }
}

#[test]
fn a_machine_replaced_between_two_reads_starts_the_soak_anew() {
    let mut readings = soaked(&healthy());
    readings[2].machines[0].name = "cp-7".into();
    assert!(!verdict(&readings, &expectations(), now()).is_pass());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Violations never cancel each other out.
    #[test]
    fn no_set_of_violations_passes(picks in proptest::collection::vec(0..VIOLATIONS.len(), 1..6)) {
        let mut broken = healthy();
        for pick in &picks {
            // A violation may remove what another one would change.
            let mut next = broken.clone();
            let applied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| VIOLATIONS[*pick].1(&mut next))).is_ok();
            if applied {
                broken = next;
            }
        }
        prop_assume!(broken != healthy());
        let verdict = verdict(&soaked(&broken), &expectations(), now());
        prop_assert!(!verdict.is_pass(), "{:?}", picks.iter().map(|pick| VIOLATIONS[*pick].0).collect::<Vec<_>>());
        prop_assert!(!reasons(&verdict).is_empty());
    }
}

#[test]
fn a_failure_from_before_flux_tried_the_commit_makes_the_gate_wait() {
    let mut broken = healthy();
    broken.deployments[0].conditions.get_mut("Progressing").unwrap().reason = "ProgressDeadlineExceeded".into();
    assert!(matches!(verdict(&soaked(&broken), &expectations(), now()), GateVerdict::Fail { .. }));

    let kustomization = &mut broken.flux.kustomizations[0];
    kustomization.last_applied_revision = Some(commit('a'));
    kustomization.last_attempted_revision = Some(commit('a'));
    let early = verdict(&soaked(&broken), &expectations(), now());
    assert!(matches!(early, GateVerdict::Wait { .. }), "{early:?}");

    // With `wait: true` a stage that really fails is tried and never applied.
    broken.flux.kustomizations[0].last_attempted_revision = Some(commit('b'));
    assert!(matches!(verdict(&soaked(&broken), &expectations(), now()), GateVerdict::Fail { .. }));

    broken.flux.kustomizations[0].last_attempted_revision = Some(commit('a'));
    broken.read_at = second(40);
    let late = verdict(&soaked(&broken), &expectations(), second(41));
    assert!(matches!(late, GateVerdict::Fail { .. }), "the deadline still ends the wait: {late:?}");
}
