//! Many clusters in three waves, some of which break, and processes that die meanwhile.
//!
//! `STEPGATE_CLUSTERS=200` plays as many (50 by default).

use std::collections::BTreeMap;
use std::time::Duration;

use domain::ClusterName;
use jiff::{SignedDuration, Timestamp};
use policy::{First, Share, StagePolicy, Wave};
use rollout::{ClusterRole, Effect, StageName};
use simulator::model::{Controller, Crash, Happening, ModelCluster, ModelWave, Parts, Simulation};
use simulator::{ClusterShape, Etcd, Fault, Injection, MachineStrategy, Trigger};

#[expect(clippy::disallowed_methods, reason = "how many clusters to play is the caller's choice")]
fn setting() -> Option<usize> {
    std::env::var("STEPGATE_CLUSTERS").ok().and_then(|text| text.parse().ok())
}

/// How many clusters each wave has.
fn sizes() -> [usize; 3] {
    let all = setting().unwrap_or(50);
    [all * 4 / 50, all * 20 / 50, all * 26 / 50]
}

fn cluster(name: &ClusterName) -> ModelCluster {
    let shape = ClusterShape {
        name: name.clone(),
        namespace: "eksa-system".to_owned(),
        kubernetes_version: "v1.30.40".to_owned(),
        control_plane_replicas: 1,
        worker_groups: Vec::new(),
        etcd: Etcd::Stacked,
        strategy: MachineStrategy::Rolling,
    };
    let policy = StagePolicy {
        soak: Duration::from_secs(5),
        timeout: Duration::from_secs(900),
        maximum_age: Duration::from_secs(240),
        ..StagePolicy::default()
    };
    ModelCluster {
        shape,
        role: ClusterRole::Workload,
        components: vec![StageName::Cilium],
        policy,
        after: Vec::new(),
        flux_waits: false,
        rendered: None,
    }
}

fn waves(names: &[ClusterName]) -> Vec<ModelWave> {
    let says = [
        Wave { first: First::Count(1), concurrency: Share::Percent(50), ..Wave::named("canary") },
        Wave { concurrency: Share::Percent(25), max_failures: Share::Percent(10), ..Wave::named("early") },
        Wave { concurrency: Share::Count(40), soak: Duration::from_secs(600), ..Wave::named("rest") },
    ];
    let mut names = names.iter().cloned();
    let waves = says.into_iter().zip(sizes());
    waves.map(|(wave, size)| ModelWave { wave, clusters: names.by_ref().take(size).collect() }).collect()
}

/// What is wanted at the start, and what is wanted then.
fn parts(names: &[ClusterName], cilium: u32, machines: u32) -> BTreeMap<ClusterName, Parts> {
    let parts = Parts::from([(StageName::Cilium, cilium), (StageName::ControlPlane, machines)]);
    names.iter().map(|name| (name.clone(), parts.clone())).collect()
}

#[test]
fn many_clusters_keep_the_budgets_of_their_waves_while_some_break_and_processes_die() {
    let names: Vec<ClusterName> =
        (0..sizes().iter().sum()).map(|number: usize| format!("edge-{number:03}").parse().unwrap()).collect();
    let start = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 56);
    let fleet: Vec<ModelCluster> = names.iter().map(cluster).collect();
    let mut simulation = Simulation::new(fleet, &parts(&names, 40, 40), 7, start).with_waves(waves(&names));
    simulation.expect(start + SignedDuration::from_secs(10), Happening::Target(parts(&names, 41, 41)));
    // As many of the second wave as stop it, and two of the last one.
    let [first, second, _] = sizes();
    let more = second / 10 + 1;
    for number in (0..more).map(|number| first + number * 3).chain([first + second + 1, first + second + 20]) {
        let injection = Injection { fault: Fault::FailingPod, from: Trigger::Stage(StageName::Cilium), lasts: None };
        simulation.simulated(&names[number]).unwrap().inject(&injection);
    }
    for hours in [4, 9, 14] {
        simulation.expect(start + SignedDuration::from_hours(hours), Happening::Heal);
    }
    let mut controller = Controller::start(&simulation);
    let end = start + SignedDuration::from_hours(20);
    let (mut turns, mut deaths) = (0_usize, 0_usize);
    // A process dies at one commit in twenty.
    while simulation.now() < end && simulation.violations().is_empty() {
        let Some(turn) = controller.decide(&mut simulation) else { break };
        turns += 1;
        let commits = turn.effects.iter().any(|effect| matches!(effect, Effect::Commit(_)));
        let dies = commits && turns.is_multiple_of(20);
        deaths += usize::from(dies);
        let crash = if turns.is_multiple_of(40) { Crash::Before } else { Crash::After };
        controller
            .perform(&mut simulation, &turn, |effect| (dies && matches!(effect, Effect::Commit(_))).then_some(crash));
        let is_done = |name: &ClusterName| {
            let deployed = simulation.deployed(name).unwrap();
            deployed.parts == parts(std::slice::from_ref(name), 41, 41)[name]
                && deployed.ledger.as_ref().is_some_and(|ledger| ledger.finished_at.is_some())
        };
        if turns.is_multiple_of(500) && names.iter().all(is_done) {
            break;
        }
    }
    simulation.check_end();
    let violations: Vec<String> = simulation.violations().iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "after {turns} turns and {deaths} deaths at {}: {violations:#?}", simulation.now());
    assert!(deaths > 3, "{deaths}");
}
