//! Scenarios that follow from a seed: a fleet, a new target, faults, and people who change their minds.

mod in_place;
mod story;
mod tanzu;
mod waves;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use domain::ClusterName;
use jiff::{SignedDuration, Timestamp};
use policy::{Approval, ControlPlaneGate, OnFailure, StagePolicy};
use rollout::{ApprovalState, ClusterRole, StageName};

pub use in_place::in_place_scenario;
pub use story::{InvalidStory, Story};
pub use tanzu::tanzu_scenario;
pub use waves::wave_scenario;

use super::{
    branch::Parts,
    fleet::ModelCluster,
    simulation::{Happening, Simulation},
};
use crate::{
    fault::{Fault, Injection, Trigger},
    random::Random,
    shape::{ClusterShape, Etcd, MachineStrategy, WorkerGroup},
};

/// When everything is healed and people push a target that repairs whatever is broken.
const HEALED: SignedDuration = SignedDuration::from_mins(30);
/// When every rollout has to be over.
const DEADLINE: SignedDuration = SignedDuration::from_hours(4);

/// A simulation and what is to happen in it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The world, with everything planned in it.
    pub simulation: Simulation,
    /// When every rollout has to be over.
    pub deadline: Timestamp,
    /// What goes wrong, for a person who reads a failing seed.
    pub summary: Vec<String>,
    /// How many things go wrong, each of which can be left out by its number (see [`Story`]).
    pub troubles: usize,
    /// Whether processes die and two of them work at once for a while.
    pub disturbed: bool,
}

/// The scenario of a seed, with faults and people, or a calm one without either.
#[must_use]
pub fn scenario(seed: u64, calm: bool) -> Scenario {
    scenario_without(seed, calm, &BTreeSet::new())
}

/// The same without some of its troubles: everything else is as the seed has it.
pub(super) fn scenario_without(seed: u64, calm: bool, without: &BTreeSet<usize>) -> Scenario {
    let mut random = Random::new(seed);
    let start = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 56);
    let fleet = fleet(&mut random);
    let deployed: BTreeMap<ClusterName, Parts> = fleet
        .iter()
        .map(|cluster| (cluster.name().clone(), cluster.stages().into_iter().map(|stage| (stage, 40)).collect()))
        .collect();
    let mut simulation = Simulation::new(fleet.clone(), &deployed, random.next_number(), start);
    let mut summary = Vec::new();
    let minor = random.chance(1, 3);
    let target = targets(&fleet, &deployed, minor, &mut random);
    summary.push(format!("target {}", text(&target)));
    simulation.expect(start + SignedDuration::from_secs(10), Happening::Target(target.clone()));
    if fleet.iter().any(|cluster| cluster.policy.approval != Approval::None) {
        // Somebody looks every few minutes.
        let every = random.between(Duration::from_secs(60), Duration::from_secs(420));
        let mut at = start + every;
        while at < start + DEADLINE {
            simulation.expect(at, Happening::Answer(ApprovalState::Approved));
            at += every;
        }
    }
    let mut troubles = Vec::new();
    if !calm {
        troubles = self::troubles(&fleet, &target, &mut random, start);
        let mut wanted = target;
        for (_, trouble) in troubles.iter().enumerate().filter(|(number, _)| !without.contains(number)) {
            summary.push(trouble.to_string());
            trouble.begin(&mut simulation, &mut wanted);
        }
        put_right(&mut simulation, &fleet, start, &wanted);
    }
    let troubles = troubles.len();
    Scenario { simulation, deadline: start + DEADLINE, summary, troubles, disturbed: true }
}

/// Something that goes wrong, or that people do in the middle.
#[derive(Debug, Clone)]
enum Trouble {
    Fault(ClusterName, Injection),
    Target(Timestamp, BTreeMap<ClusterName, Parts>),
    Pause(Timestamp),
}

impl Trouble {
    fn begin(&self, simulation: &mut Simulation, wanted: &mut BTreeMap<ClusterName, Parts>) {
        match self {
            Self::Fault(name, injection) => {
                simulation.simulated(name).into_iter().for_each(|simulated| simulated.inject(injection));
            }
            Self::Target(at, target) => {
                merge(wanted, target);
                simulation.expect(*at, Happening::Target(target.clone()));
            }
            Self::Pause(at) => {
                simulation.expect(*at, Happening::Pause);
                simulation.expect(*at + SignedDuration::from_mins(10), Happening::Resume);
            }
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(name, injection) => write!(formatter, "{name}: {injection:?}"),
            Self::Target(at, target) => write!(formatter, "at {at} target {}", text(target)),
            Self::Pause(at) => write!(formatter, "at {at} paused for ten minutes"),
        }
    }
}

fn troubles(
    fleet: &[ModelCluster],
    wanted: &BTreeMap<ClusterName, Parts>,
    random: &mut Random,
    start: Timestamp,
) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for cluster in fleet {
        for _ in 0..random.below(3) {
            troubles.push(Trouble::Fault(cluster.name().clone(), injection(cluster, random, start)));
        }
    }
    let within = |random: &mut Random| start + random.between(Duration::from_secs(60), Duration::from_secs(1200));
    if random.chance(1, 3) {
        let at = within(random);
        troubles.push(Trouble::Target(at, targets(fleet, wanted, false, random)));
    }
    if random.chance(1, 5) {
        troubles.push(Trouble::Pause(within(random)));
    }
    troubles
}

/// In the end people put everything right.
fn put_right(
    simulation: &mut Simulation,
    fleet: &[ModelCluster],
    start: Timestamp,
    wanted: &BTreeMap<ClusterName, Parts>,
) {
    simulation.expect(start + HEALED, Happening::Heal);
    // Once the control plane has moved, a rollout ends at its own target before another is looked at: what was reverted too
    // often there is allowed once more.
    simulation.expect(start + HEALED, Happening::Retries(20));
    // A target that differs everywhere is a repair of whatever was reverted or held.
    let repair: BTreeMap<ClusterName, Parts> = fleet
        .iter()
        .map(|cluster| {
            let parts = wanted.get(cluster.name());
            let next = |stage: StageName| {
                let version = parts.and_then(|parts| parts.get(&stage)).copied().unwrap_or(40);
                (stage, version + 1)
            };
            (cluster.name().clone(), cluster.stages().into_iter().map(next).collect())
        })
        .collect();
    simulation.expect(start + HEALED + SignedDuration::from_secs(1), Happening::Target(repair));
}

fn fleet(random: &mut Random) -> Vec<ModelCluster> {
    let policy = StagePolicy {
        soak: random.between(Duration::from_secs(5), Duration::from_secs(60)),
        timeout: random.between(Duration::from_secs(300), Duration::from_secs(600)),
        approval: match random.below(6) {
            0 => Approval::Rollout,
            1 => Approval::Stage,
            _ => Approval::None,
        },
        on_failure: if random.chance(1, 3) { OnFailure::Revert } else { OnFailure::Hold },
        retries: u32::try_from(random.below(3)).unwrap_or(0),
        maximum_age: Duration::from_secs(120 * (1 + random.below(2))),
        ..StagePolicy::default()
    };
    let mut fleet = vec![cluster("mgmt", ClusterRole::Management, &policy, &[], random)];
    if random.chance(1, 4)
        && let Some(first) = fleet.first().map(|first| first.name().clone())
    {
        fleet.push(cluster("prod", ClusterRole::Workload, &policy, &[first], random));
    }
    fleet
}

fn cluster(
    name: &str,
    role: ClusterRole,
    policy: &StagePolicy,
    after: &[ClusterName],
    random: &mut Random,
) -> ModelCluster {
    let groups = ["md-0", "md-1"].into_iter().take(usize::try_from(random.below(3)).unwrap_or(0));
    let worker_groups = groups
        .filter_map(|group| {
            Some(WorkerGroup { name: group.parse().ok()?, replicas: 1 + u32::try_from(random.below(2)).unwrap_or(0) })
        })
        .collect();
    let shape = ClusterShape {
        name: name.parse().unwrap_or_else(|_| unreachable!("{name:?} is a cluster name")),
        namespace: "eksa-system".to_owned(),
        kubernetes_version: super::fleet::kubernetes(40),
        control_plane_replicas: if random.chance(1, 2) { 3 } else { 1 },
        worker_groups,
        etcd: if random.chance(1, 3) { Etcd::External { replicas: 3 } } else { Etcd::Stacked },
        strategy: MachineStrategy::Rolling,
    };
    let components = match role {
        ClusterRole::Management => vec![
            StageName::CertManager,
            StageName::Capi,
            StageName::EksA,
            StageName::Bundle,
            StageName::Cilium,
            StageName::Flux,
        ],
        ClusterRole::Workload => vec![StageName::Cilium],
    };
    let mut policy = policy.clone();
    // Half of the workload clusters; what was drawn for them decides, so that no other seed changes its course.
    if role == ClusterRole::Workload && policy.soak.subsec_millis().is_multiple_of(2) {
        policy.machines.gate = ControlPlaneGate::FirstNode;
    }
    ModelCluster {
        shape,
        role,
        components,
        policy,
        after: after.to_vec(),
        flux_waits: random.chance(1, 3),
        rendered: None,
    }
}

/// New versions for some of the parts, at least one in the whole fleet. Machines move by a patch or, where `minor`
/// says so, by a minor: a second minor on top would rightly be refused. Workers move with their control plane.
fn targets(
    fleet: &[ModelCluster],
    deployed: &BTreeMap<ClusterName, Parts>,
    minor: bool,
    random: &mut Random,
) -> BTreeMap<ClusterName, Parts> {
    let mut targets = BTreeMap::new();
    for cluster in fleet {
        let parts = deployed.get(cluster.name());
        let version = |stage: &StageName| parts.and_then(|parts| parts.get(stage)).copied().unwrap_or(40);
        let mut changed = Parts::new();
        for stage in &cluster.components {
            if random.chance(1, 2) {
                changed.insert(stage.clone(), version(stage) + 1);
            }
        }
        if random.chance(2, 3) {
            let step = if minor { 10 } else { 1 };
            for stage in cluster.stages() {
                if matches!(stage, StageName::ControlPlane | StageName::Workers(_)) {
                    let version = version(&stage) + step;
                    changed.insert(stage, version);
                }
            }
        }
        if matches!(cluster.shape.etcd, Etcd::External { .. }) && random.chance(1, 2) {
            changed.insert(StageName::Etcd, version(&StageName::Etcd) + 1);
        }
        if changed.is_empty() {
            changed.insert(StageName::Cilium, version(&StageName::Cilium) + 1);
        }
        targets.insert(cluster.name().clone(), changed);
    }
    targets
}

fn merge(wanted: &mut BTreeMap<ClusterName, Parts>, target: &BTreeMap<ClusterName, Parts>) {
    for (name, parts) in target {
        wanted.entry(name.clone()).or_default().extend(parts.clone());
    }
}

fn injection(cluster: &ModelCluster, random: &mut Random, start: Timestamp) -> Injection {
    // The oracle compares the whole cluster with the branch whenever a gate opens.
    // Only a rendered cluster asks for its certificates.
    let is_asked = |fault: &Fault| *fault != Fault::CertificatesLost;
    let faults: Vec<Fault> =
        Fault::ALL.into_iter().filter(|fault| !fault.replaces_machines()).filter(is_asked).collect();
    let fault = *random.choose(&faults).unwrap_or(&Fault::SlowImage);
    let stages = cluster.stages();
    let stage = random.choose(&stages).filter(|_| random.chance(2, 3)).cloned();
    let from = match stage {
        Some(stage) => Trigger::Stage(stage),
        None => Trigger::At(start + random.between(Duration::from_secs(20), Duration::from_secs(900))),
    };
    let lasts = random.between(Duration::from_secs(30), Duration::from_secs(900));
    Injection { fault, from, lasts: random.chance(3, 4).then_some(lasts) }
}

fn text(targets: &BTreeMap<ClusterName, Parts>) -> String {
    let parts =
        |parts: &Parts| parts.iter().map(|(stage, version)| format!("{stage}={version}")).collect::<Vec<_>>().join(" ");
    targets.iter().map(|(name, changed)| format!("{name}: {}", parts(changed))).collect::<Vec<_>>().join("; ")
}
