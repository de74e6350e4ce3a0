//! Scenarios of machines that stay: what goes wrong with upgrades in place while Stepgate rolls out and is killed itself.

use std::{collections::BTreeMap, time::Duration};

use in_place::{hooks::OnDecline, order::Driver};
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
    cluster::UpgradeFault,
    fault::{Fault, Injection, Trigger},
    random::Random,
    shape::{ClusterShape, Etcd, MachineStrategy, WorkerGroup},
};

/// When people put right what is broken, and look again.
const REPAIRED: [SignedDuration; 3] =
    [SignedDuration::from_mins(30), SignedDuration::from_mins(50), SignedDuration::from_mins(80)];

/// When every rollout has to be over.
const DEADLINE: SignedDuration = SignedDuration::from_hours(8);

/// The scenario of a seed: one cluster whose machines are upgraded in place, faults, and perhaps a new target meanwhile.
#[must_use]
pub fn in_place_scenario(seed: u64) -> Scenario {
    let mut random = Random::new(seed.wrapping_add(0x1_0000_0000));
    let start = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 56);
    let cluster = cluster(&mut random);
    let name = cluster.name().clone();
    let deployed: Parts = cluster.stages().into_iter().map(|stage| (stage, 40)).collect();
    let deployed = BTreeMap::from([(name.clone(), deployed)]);
    let mut simulation = Simulation::new(vec![cluster.clone()], &deployed, random.next_number(), start);
    let mut summary = vec![format!("{:?}", cluster.shape)];
    let machines = |stage: &StageName| matches!(stage, StageName::ControlPlane | StageName::Workers(_));
    let mut target = |version: u32, at: Timestamp, simulation: &mut Simulation| {
        let parts: Parts = cluster.stages().into_iter().filter(machines).map(|stage| (stage, version)).collect();
        summary.push(format!("at {at} version {version}"));
        simulation.expect(at, Happening::Target(BTreeMap::from([(name.clone(), parts)])));
    };
    let version = if random.chance(1, 2) { 41 } else { 50 };
    target(version, start + SignedDuration::from_secs(10), &mut simulation);
    let within = |random: &mut Random| start + random.between(Duration::from_secs(60), Duration::from_secs(1500));
    if random.chance(1, 4) {
        target(version + 1, within(&mut random), &mut simulation);
    }
    if let Some(simulated) = simulation.simulated(&name) {
        for _ in 0..random.below(6) {
            let at = within(&mut random);
            let Some(fault) = random.choose(&UpgradeFault::ALL) else { break };
            summary.push(format!("at {at} {fault:?}"));
            simulated.disturb(*fault, at);
        }
        let faults =
            [Fault::DrainBlocked, Fault::NodeNotReady, Fault::ClusterPaused, Fault::StaleReads, Fault::ApiOutage];
        for _ in 0..random.below(3) {
            let Some(fault) = random.choose(&faults).copied() else { break };
            let from = Trigger::At(within(&mut random));
            let lasts = Some(random.between(Duration::from_secs(60), Duration::from_secs(900)));
            let injection = Injection { fault, from, lasts };
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
    let driver = if random.chance(1, 2) { Driver::ClusterApi } else { Driver::Controller };
    // Cluster API upgrades no control plane of one machine in place.
    let single = driver == Driver::Controller && random.chance(1, 3);
    let groups = ["md-0", "md-1"].into_iter().take(usize::try_from(random.below(3)).unwrap_or_default());
    let worker_groups = groups.filter_map(|group| {
        Some(WorkerGroup { name: group.parse().ok()?, replicas: 1 + u32::from(random.chance(1, 2)) })
    });
    let shape = ClusterShape {
        name: "edge".parse().unwrap_or_else(|_| unreachable!("it is a cluster name")),
        namespace: "eksa-system".to_owned(),
        kubernetes_version: kubernetes(40),
        control_plane_replicas: if single { 1 } else { 3 },
        worker_groups: worker_groups.collect(),
        etcd: Etcd::Stacked,
        strategy: MachineStrategy::InPlace { driver, on_decline: OnDecline::Hold },
    };
    let policy = StagePolicy {
        soak: random.between(Duration::from_secs(5), Duration::from_secs(60)),
        timeout: Duration::from_secs(6 * 3600),
        ..StagePolicy::default()
    };
    let role = if random.chance(1, 2) { ClusterRole::Management } else { ClusterRole::Workload };
    ModelCluster {
        shape,
        role,
        components: vec![StageName::Cilium],
        policy,
        after: Vec::new(),
        flux_waits: false,
        rendered: None,
    }
}
