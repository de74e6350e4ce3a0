//! A scenario of many clusters in three waves, some of which break.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::ClusterName;
use jiff::{SignedDuration, Timestamp};
use policy::{First, Share, StagePolicy, Wave};
use rollout::{ClusterRole, StageName};

use super::super::{
    branch::Parts,
    fleet::ModelCluster,
    simulation::{Happening, Simulation},
    waves::ModelWave,
};
use super::Scenario;
use crate::{
    fault::{Fault, Injection, Trigger},
    shape::{ClusterShape, Etcd, MachineStrategy},
};

/// When every rollout has to be over.
const DEADLINE: SignedDuration = SignedDuration::from_hours(20);

/// So many clusters in three waves, `canary`, `early` and `rest`. As many of the second wave break as stop it, and two of the last one;
/// people put them right after hours.
#[must_use]
pub fn wave_scenario(clusters: usize) -> Scenario {
    let [first, second, third] = [clusters * 4 / 50, clusters * 20 / 50, clusters * 26 / 50];
    let numbers = 0..first + second + third;
    let names: Vec<ClusterName> = numbers.filter_map(|number| format!("edge-{number:03}").parse().ok()).collect();
    let start = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 56);
    let fleet: Vec<ModelCluster> = names.iter().map(cluster).collect();
    let waves = waves(&names, [first, second, third]);
    let mut simulation = Simulation::new(fleet, &parts(&names, 40), 7, start).with_waves(waves);
    simulation.expect(start + SignedDuration::from_secs(10), Happening::Target(parts(&names, 41)));
    let more = second / 10 + 1;
    let mut summary = Vec::new();
    for place in (0..more).map(|number| first + number * 3).chain([first + second + 1, first + second + third - 1]) {
        let Some(name) = names.get(place) else { continue };
        let injection = Injection { fault: Fault::FailingPod, from: Trigger::Stage(StageName::Cilium), lasts: None };
        summary.push(format!("{name}: {injection:?}"));
        simulation.simulated(name).into_iter().for_each(|simulated| simulated.inject(&injection));
    }
    for hours in [4, 9, 14] {
        simulation.expect(start + SignedDuration::from_hours(hours), Happening::Heal);
    }
    Scenario { simulation, deadline: start + DEADLINE, summary, troubles: 0, disturbed: false }
}

fn cluster(name: &ClusterName) -> ModelCluster {
    let shape = ClusterShape {
        name: name.clone(),
        namespace: "eksa-system".to_owned(),
        kubernetes_version: super::super::fleet::kubernetes(40),
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

fn waves(names: &[ClusterName], sizes: [usize; 3]) -> Vec<ModelWave> {
    let says = [
        Wave { first: First::Count(1), concurrency: Share::Percent(50), ..Wave::named("canary") },
        Wave { concurrency: Share::Percent(25), max_failures: Share::Percent(10), ..Wave::named("early") },
        Wave { concurrency: Share::Count(40), soak: Duration::from_secs(600), ..Wave::named("rest") },
    ];
    let mut names = names.iter().cloned();
    let waves = says.into_iter().zip(sizes);
    waves.map(|(wave, size)| ModelWave { wave, clusters: names.by_ref().take(size).collect() }).collect()
}

fn parts(names: &[ClusterName], version: u32) -> BTreeMap<ClusterName, Parts> {
    let parts = Parts::from([(StageName::Cilium, version), (StageName::ControlPlane, version)]);
    names.iter().map(|name| (name.clone(), parts.clone())).collect()
}
