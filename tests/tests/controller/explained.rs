//! What a process that has just been started says of clusters, beside the controller that runs: the same as that one.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use jiff::SignedDuration;
use rollout::StageName;
use simulator::{Fault, Injection, Trigger};
use stepgate::reconcile::main_loop::clock::Clock as _;
use stepgate::reconcile::observe::explain::{Explainer, Explanation, State};
use stepgate::reconcile::proposal;
use stepgate::telemetry::Metrics;

use crate::approvals::{Git, Merge, OVERLAY, waits_for_people};
use crate::fleet::{CLUSTERS, Fleet, outcome, told};

fn explain(fleet: &Fleet, cluster: &str) -> Explanation {
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, cluster).unwrap();
    let explainer = Explainer::new(&planner, &reading, fleet.simulated.as_ref(), &fleet.clock);
    block_on(explainer.explain(&view)).unwrap()
}

fn reasons(explanation: &Explanation) -> Vec<String> {
    explanation.reasons.iter().map(ToString::to_string).collect()
}

/// The management cluster waits for people at its first stage.
fn asked(policy: &str) -> Fleet {
    let fleet = Fleet::with_policy(|text| format!("{text}{policy}"));
    fleet.bump();
    fleet.run_until(&fleet.controller(), waits_for_people);
    fleet
}

#[test]
fn an_approval_that_is_waited_for_comes_first_with_both_commands() {
    let fleet = asked("approval: stage\n");
    let told = explain(&fleet, "mgmt");
    assert_eq!((told.state, told.stage), (State::Waiting, Some(StageName::CertManager.into())));
    let first = told.reasons[0].to_string();
    assert!(first.contains("waits for approval") && first.contains("branch stepgate/"), "{first}");
    let help = &told.help[0];
    assert!(
        help.contains("`stepgate approve mgmt --yes`") && help.contains("`stepgate reject mgmt --reason"),
        "{help}"
    );
    // Who has to come after it is told so.
    let told = explain(&fleet, "team-a");
    assert_eq!(told.state, State::Waiting);
    assert!(reasons(&told).iter().any(|reason| reason.contains("cluster mgmt comes first")), "{told:?}");
}

#[test]
fn an_approval_behind_a_soak_is_seen_by_a_process_that_remembers_nothing() {
    let fleet = Fleet::with_policy(|text| format!("{text}approval: stage\n").replace("soak: ", "soak: 9"));
    fleet.bump();
    let controller = fleet.controller();
    fleet.run_until(&controller, waits_for_people);
    let git = Git::of(&fleet);
    git.merge(git.of_cluster("mgmt").unwrap().1, Merge::Commit, fleet.clock_now());
    fleet.run_until(&controller, |pass| waits_for_people(pass) && git.of_cluster("mgmt").is_some());
    let told = explain(&fleet, "mgmt");
    assert_eq!(told.state, State::Waiting);
    assert!(reasons(&told)[0].contains("waits for approval"), "{told:?}");
    // However short it has looked itself.
    assert!(!reasons(&told)[0].contains("reads"), "{told:?}");
}

#[test]
fn a_rejection_is_seen_whatever_the_gate_before_it_says() {
    let fleet = asked("approval: stage\n");
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    let person = "A Person <person@example.com>".parse().unwrap();
    proposal::reject(&planner, &reading, &view, Some(&person), "not today", fleet.clock_now()).unwrap();
    let told = explain(&fleet, "mgmt");
    assert_eq!(told.state, State::Held);
    assert!(told.reasons[0].to_string().contains("was rejected by A Person"), "{told:?}");
    let node = Injection { fault: Fault::NodeNotReady, from: Trigger::At(fleet.clock.now()), lasts: None };
    fleet.simulated.get("mgmt").unwrap().cluster().inject(&node);
    block_on(fleet.clock.sleep_until(fleet.clock.now() + SignedDuration::from_mins(5)));
    let told = explain(&fleet, "mgmt");
    assert_eq!(told.state, State::Held);
    assert!(reasons(&told).iter().any(|reason| reason.contains("Node ")), "{told:?}");
}

#[test]
fn done_is_said_of_a_cluster_whose_own_kustomizations_are_settled_and_of_no_other() {
    let fleet = Fleet::new();
    assert_eq!(explain(&fleet, "mgmt").state, State::Done);
    for (fault, object) in [(Fault::FluxSuspended, "Kustomization "), (Fault::SourceError, "GitRepository ")] {
        let injection = Injection { fault, from: Trigger::At(fleet.clock.now()), lasts: None };
        fleet.simulated.get("mgmt").unwrap().cluster().inject(&injection);
        block_on(fleet.clock.sleep_until(fleet.clock.now() + SignedDuration::from_mins(20)));
        let told = explain(&fleet, "mgmt");
        assert_eq!(told.state, State::Held, "{fault}: {told:?}");
        assert!(told.reasons[0].object.starts_with(object) && !told.help.is_empty(), "{fault}: {told:?}");
        fleet.heal("mgmt");
        block_on(fleet.clock.sleep_until(fleet.clock.now() + SignedDuration::from_mins(20)));
        assert_eq!(explain(&fleet, "mgmt").state, State::Done, "after {fault}");
    }
    let outage = Injection { fault: Fault::ApiOutage, from: Trigger::At(fleet.clock.now()), lasts: None };
    fleet.simulated.get("mgmt").unwrap().cluster().inject(&outage);
    block_on(fleet.clock.sleep_until(fleet.clock.now() + SignedDuration::from_secs(1)));
    let told = explain(&fleet, "mgmt");
    assert!(told.state == State::Waiting && reasons(&told)[0].contains("not known"), "{told:?}");
}

#[test]
fn a_controller_says_the_same_of_a_cluster_that_was_done() {
    let fleet = Fleet::new();
    let controller = fleet.controller();
    fleet.run_to_the_end(&controller);
    let metrics = Metrics::default();
    let state = || {
        let pass = fleet.pass(&controller);
        metrics.passed(Some(&pass), Duration::ZERO, 0.0);
        let series = |state: &str| format!("stepgate_cluster_state{{cluster=\"mgmt\",state=\"{state}\",stage=\"\"}} 1");
        let word = outcome(&pass, "mgmt").word();
        assert!(metrics.text().contains(&series(word)), "{word}: {}", metrics.text());
        assert!(CLUSTERS[1..].iter().all(|other| outcome(&pass, other).word() == "done"), "{}", told(&pass));
        (word, told(&pass), pass)
    };
    let wait = || block_on(fleet.clock.sleep_until(fleet.clock.now() + SignedDuration::from_mins(20)));
    for (fault, object) in [(Fault::FluxSuspended, "Kustomization "), (Fault::SourceError, "GitRepository ")] {
        let (word, said, pass) = state();
        assert_eq!(word, "done", "{said}");
        // Nothing is read again before its time.
        assert!(Arc::ptr_eq(&pass, &fleet.pass(&controller)), "before {fault}");
        let injection = Injection { fault, from: Trigger::At(fleet.clock.now()), lasts: None };
        fleet.simulated.get("mgmt").unwrap().cluster().inject(&injection);
        wait();
        let (word, said, pass) = state();
        assert_eq!(word, explain(&fleet, "mgmt").state.word(), "{fault}: {said}");
        assert!(word == "held" && said.contains(object), "{fault}: {said}");
        assert!(outcome(&pass, "mgmt").help().is_some(), "{fault}: {said}");
        fleet.heal("mgmt");
        wait();
        assert_eq!(state().0, "done", "after {fault}");
    }
    // What is pushed then is begun as ever: its preflight looks at Flux by itself.
    fleet.bump();
    fleet.run_to_the_end(&controller);
}

#[test]
fn what_flux_refuses_is_repaired_within_a_minute_of_the_push() {
    let fleet = Fleet::new();
    fleet.break_at("mgmt", StageName::CertManager, Fault::FluxError);
    fleet.bump();
    let controller = fleet.controller();
    fleet.run_until_committed(&controller, "mgmt", "cert-manager");
    let refused = fleet.clock.now() + SignedDuration::from_mins(3);
    fleet.run_until(&controller, |_| fleet.clock.now() > refused);
    let told = explain(&fleet, "mgmt");
    assert_eq!(told.state, State::Running);
    assert!(told.reasons[0].to_string().contains("admission webhook denied"), "what failed comes first: {told:?}");
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    let told = explain(&fleet, "mgmt");
    assert!(reasons(&told)[0].contains("a repair is pushed"), "{told:?}");
    let pushed = fleet.clock.now();
    fleet.run_until(&controller, |_| fleet.stages("mgmt").len() == 2);
    assert!(fleet.clock.now().duration_since(pushed) <= SignedDuration::from_mins(1));
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "cert-manager"]);
    fleet.heal("mgmt");
    fleet.run_to_the_end(&controller);
}
