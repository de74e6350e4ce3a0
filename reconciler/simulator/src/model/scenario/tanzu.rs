//! Scenarios of rendered clusters of Tanzu: whatever goes wrong while Stepgate rolls out and is killed itself.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use policy::StagePolicy;
use rollout::{ClusterRole, StageName};

use super::super::{
    branch::Parts,
    fleet::{ModelCluster, kubernetes},
    simulation::{Happening, Simulation},
};
use super::Scenario;
use crate::{
    fault::{Fault, Injection, Trigger},
    random::Random,
    shape::{ClusterShape, Etcd, MachineStrategy, WorkerGroup},
};

/// When people put right what is broken, and look again.
const REPAIRED: [SignedDuration; 3] =
    [SignedDuration::from_mins(30), SignedDuration::from_mins(50), SignedDuration::from_mins(80)];

/// When every rollout has to be over.
const DEADLINE: SignedDuration = SignedDuration::from_hours(8);

/// The scenario of a seed: one cluster, any faults, and perhaps a new target meanwhile; a calm one has neither.
#[must_use]
pub fn tanzu_scenario(seed: u64, calm: bool) -> Scenario {
    let mut random = Random::new(seed.wrapping_add(0x2_0000_0000));
    let start = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 56);
    let cluster = cluster(&mut random);
    let name = cluster.name().clone();
    let stages = cluster.stages();
    let deployed: Parts = stages.iter().map(|stage| (stage.clone(), 40)).collect();
    let deployed = BTreeMap::from([(name.clone(), deployed)]);
    let mut simulation = Simulation::new(vec![cluster], &deployed, random.next_number(), start);
    let mut summary = Vec::new();
    let mut target = |version: u32, at: Timestamp, simulation: &mut Simulation| {
        let parts: Parts = stages.iter().map(|stage| (stage.clone(), version)).collect();
        summary.push(format!("at {at} version {version}"));
        simulation.expect(at, Happening::Target(BTreeMap::from([(name.clone(), parts)])));
    };
    let version = if random.chance(1, 2) { 41 } else { 50 };
    target(version, start + SignedDuration::from_secs(10), &mut simulation);
    let within = |random: &mut Random| start + random.between(Duration::from_secs(60), Duration::from_secs(1500));
    if !calm && random.chance(1, 4) {
        target(version + 1, within(&mut random), &mut simulation);
    }
    // Machines that somebody deletes are made anew at another time than a stage says.
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| !fault.replaces_machines()).collect();
    if let Some(simulated) = simulation.simulated(&name).filter(|_| !calm) {
        for _ in 0..random.below(4) {
            let Some(fault) = random.choose(&faults).copied() else { break };
            let stage = random.choose(&stages).filter(|_| random.chance(1, 2)).cloned();
            let from = stage.map_or_else(|| Trigger::At(within(&mut random)), Trigger::Stage);
            let lasts = Some(random.between(Duration::from_secs(60), Duration::from_secs(1500)));
            let injection = Injection { fault, from, lasts: lasts.filter(|_| random.chance(3, 4)) };
            summary.push(format!("{injection:?}"));
            simulated.inject(&injection);
        }
    }
    for after in REPAIRED {
        simulation.expect(start + after, Happening::Heal);
    }
    Scenario { simulation, deadline: start + DEADLINE, summary, troubles: 0, disturbed: true }
}

fn cluster(random: &mut Random) -> ModelCluster {
    let groups = ["steady", "batch"].into_iter().take(usize::try_from(random.below(3)).unwrap_or_default());
    let worker_groups = groups.filter_map(|group| {
        Some(WorkerGroup { name: group.parse().ok()?, replicas: 1 + u32::from(random.chance(1, 2)) })
    });
    let shape = ClusterShape {
        name: "depot".parse().unwrap_or_else(|_| unreachable!("it is a cluster name")),
        namespace: "eksa-system".to_owned(),
        kubernetes_version: kubernetes(40),
        worker_groups: worker_groups.collect(),
        control_plane_replicas: if random.chance(1, 3) { 1 } else { 3 },
        etcd: Etcd::Stacked,
        strategy: MachineStrategy::Rolling,
    };
    let policy = StagePolicy {
        soak: random.between(Duration::from_secs(5), Duration::from_secs(60)),
        timeout: random.between(Duration::from_secs(300), Duration::from_secs(900)),
        ..StagePolicy::default()
    };
    ModelCluster {
        shape,
        role: ClusterRole::Workload,
        components: vec![StageName::Addons, StageName::Templates],
        policy,
        after: Vec::new(),
        flux_waits: false,
        rendered: Some(random.between(Duration::from_secs(90), Duration::from_secs(240))),
    }
}
