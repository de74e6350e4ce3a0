//! One cluster whose machines stay, from one version to another, and what is seen on the way.

use std::{sync::Arc, time::Duration};

use domain::{CommitId, RolloutId};
use in_place::{hooks::OnDecline, order::Driver};
use jiff::{SignedDuration, Timestamp};
use policy::StagePolicy;
use rollout::{Binding, ClusterRole, Expectation, Gate, GateHistory, Landing, StageId, StageName};
use simulator::{
    ClusterShape, DeployedCommit, DesiredObject, DesiredState, Etcd, Fault, Injection, MachineStrategy, Random,
    SimulatedCluster, Trigger, UpgradeDefect, UpgradeFault, WorkerGroup,
    model::{ModelCluster, Parts},
};

const DEADLINE: SignedDuration = SignedDuration::from_hours(8);
/// How often somebody looks at what has failed.
const REPAIRED: SignedDuration = SignedDuration::from_mins(9);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn id(number: usize) -> CommitId {
    format!("{number:040x}").parse().unwrap()
}

/// What a cluster is, where it goes, and what goes wrong.
#[derive(Debug, Clone)]
pub struct Setting {
    seed: u64,
    cluster: ModelCluster,
    /// A version, and whether machines are made from another template too, which no upgrade in place brings about.
    targets: Vec<(Timestamp, u32, bool)>,
    faults: Vec<(Timestamp, UpgradeFault)>,
    injections: Vec<Injection>,
    /// From when on nothing more goes wrong.
    calm_from: Timestamp,
}

impl Setting {
    pub fn calm(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let driver = if random.chance(1, 2) { Driver::ClusterApi } else { Driver::Controller };
        // Cluster API upgrades no control plane of one machine in place.
        let single = driver == Driver::Controller && random.chance(1, 3);
        let groups = ["md-0", "md-1"].into_iter().take(usize::try_from(random.below(3)).unwrap());
        let shape = ClusterShape {
            name: "edge".parse().unwrap(),
            namespace: "eksa-system".to_owned(),
            kubernetes_version: "v1.34.0".to_owned(),
            control_plane_replicas: if single { 1 } else { 3 },
            worker_groups: groups
                .map(|name| WorkerGroup { name: name.parse().unwrap(), replicas: 1 + u32::from(random.chance(1, 2)) })
                .collect(),
            etcd: Etcd::Stacked,
            strategy: MachineStrategy::InPlace { driver, on_decline: OnDecline::Hold },
        };
        let cluster = ModelCluster {
            shape,
            role: ClusterRole::Workload,
            components: Vec::new(),
            policy: StagePolicy::default(),
            after: Vec::new(),
            flux_waits: false,
            rendered: None,
        };
        let first = if random.chance(1, 2) { 41 } else { 50 };
        let targets = vec![(start() + SignedDuration::from_secs(5), first, false)];
        Self { seed, cluster, targets, faults: Vec::new(), injections: Vec::new(), calm_from: start() }
    }

    pub fn of_seed(seed: u64) -> Self {
        let mut setting = Self::calm(seed);
        let mut random = Random::new(!seed);
        let within =
            |random: &mut Random| start() + random.between(Duration::from_secs(20), Duration::from_secs(45 * 60));
        for _ in 0..random.below(7) {
            let fault = *random.choose(&UpgradeFault::ALL).unwrap();
            setting.faults.push((within(&mut random), fault));
        }
        // A new target in the middle.
        if random.chance(1, 3) {
            let (_, first, _) = setting.targets[0];
            setting.targets.push((within(&mut random), first + 1, false));
        } else if setting.is_asked_by_hooks() && random.chance(1, 4) {
            // What cannot be done in place: machines are replaced, or nothing happens until it is taken back.
            let (at, first, _) = setting.targets[0];
            setting.targets[0] = (at, first, true);
            if random.chance(1, 2) {
                let driver = Driver::ClusterApi;
                let strategy = MachineStrategy::InPlace { driver, on_decline: OnDecline::Replace };
                setting.cluster.shape.strategy = strategy;
            } else {
                setting.targets.push((start() + SignedDuration::from_mins(50), first, false));
            }
        }
        setting.calm_from = start() + SignedDuration::from_mins(60);
        let faults = [
            Fault::DrainBlocked,
            Fault::NodeNotReady,
            Fault::ClusterPaused,
            Fault::ControlPlanePaused,
            Fault::ApiOutage,
            Fault::StaleReads,
            Fault::ControllerSlow,
            Fault::FluxError,
        ];
        for _ in 0..random.below(3) {
            let fault = *random.choose(&faults).unwrap();
            let lasts = Some(random.between(Duration::from_secs(60), Duration::from_secs(900)));
            setting.injections.push(Injection { fault, from: Trigger::At(within(&mut random)), lasts });
        }
        setting
    }
}

impl Setting {
    fn is_asked_by_hooks(&self) -> bool {
        matches!(self.cluster.shape.strategy, MachineStrategy::InPlace { driver: Driver::ClusterApi, .. })
    }
}

/// What the deploy branch says of a version.
fn desired(cluster: &ModelCluster, parts: &Parts, has_other_template: bool) -> Arc<DesiredState> {
    let mut desired = (*cluster.desired(parts)).clone();
    for object in desired.kustomizations.iter_mut().flat_map(|known| &mut known.objects) {
        if let DesiredObject::ControlPlane { machines, .. } | DesiredObject::Workers { machines, .. } = object
            && has_other_template
        {
            machines.template.push_str("-larger");
        }
    }
    Arc::new(desired)
}

/// A gate that is asked at every event.
struct Watched {
    stage: StageName,
    expectations: Vec<Expectation>,
    binding: Binding,
    history: GateHistory,
    passed: bool,
}

/// What became of it.
#[derive(Debug, Default)]
pub struct Course {
    /// What should not have been seen.
    pub found: Vec<String>,
    pub told: Vec<String>,
}

impl Course {
    /// `tells` has it say what upgrades tell of themselves.
    pub fn play(setting: &Setting, defect: Option<UpgradeDefect>, tells: bool) -> Self {
        let Setting { cluster, seed, .. } = setting;
        let mut course = Self::default();
        course.told.push(format!("{setting:?}"));
        let before = start() - SignedDuration::from_mins(10);
        let mut simulated = SimulatedCluster::new(&cluster.shape, *seed, before);
        let parts = |version: u32| -> Parts { cluster.stages().into_iter().map(|stage| (stage, version)).collect() };
        let commit =
            |number: usize, desired: Arc<DesiredState>| DeployedCommit { id: id(number), stage: None, desired };
        simulated.install(&commit(1, cluster.desired(&parts(40))), before);
        simulated.advance(start());
        defect.into_iter().for_each(|defect| simulated.with_upgrade_defect(defect));
        setting.faults.iter().for_each(|(at, fault)| simulated.disturb(*fault, *at));
        setting.injections.iter().for_each(|injection| simulated.inject(injection));
        let mut repaired = start() + REPAIRED;
        let mut targets = setting.targets.clone();
        targets.sort();
        let mut commits = 1;
        let mut gates: Vec<Watched> = Vec::new();
        let mut looks = 0_u64;
        let mut last: Vec<String> = Vec::new();
        while let Some(next) = simulated.next_event().filter(|next| *next <= start() + DEADLINE) {
            if let Some((at, version, other)) = targets.first().copied().filter(|(at, ..)| *at <= next) {
                targets.remove(0);
                commits += 1;
                simulated.commit(&commit(commits, desired(cluster, &parts(version), other)), at);
                gates = watched(cluster, &parts(version), commits, at);
                continue;
            }
            if repaired <= next {
                simulated.repair_nodes(repaired);
                repaired += REPAIRED;
                continue;
            }
            simulated.advance(next);
            looks += 1;
            if looks.is_multiple_of(7) {
                course.ask(&mut simulated, cluster, &mut gates, next);
            }
            course.found.extend(simulated.upgrade_violations().iter().cloned());
            if tells {
                let told = simulated.observe_afresh(next).in_place.into_iter();
                let told: Vec<String> = told.map(|it| format!("{:?} {}: {}", it.state, it.name, it.told)).collect();
                let news = told.iter().filter(|line| !last.contains(line));
                course.told.extend(news.map(|line| format!("{next} {line}")));
                last = told;
            }
            if !course.found.is_empty() {
                return course;
            }
            let over = targets.is_empty() && next > setting.calm_from && gates.iter().all(|gate| gate.passed);
            if over && simulated.unfinished().is_empty() && simulated.unfinished_upgrades().is_empty() {
                return course;
            }
        }
        course.found.push(format!("never over: {:?} {:?}", simulated.unfinished(), simulated.unfinished_upgrades()));
        for gate in gates.iter().filter(|gate| !gate.passed) {
            course.found.push(format!("the gate of {} never passes", gate.stage));
        }
        course
    }

    /// What each gate says now, and whether that is true.
    fn ask(&mut self, simulated: &mut SimulatedCluster, cluster: &ModelCluster, gates: &mut [Watched], now: Timestamp) {
        let observation = simulated.observe_afresh(now);
        let unfinished = simulated.unfinished();
        let rollout: RolloutId = "0123456789ab".parse().unwrap();
        for watched in gates {
            let stage = StageId::last(watched.stage.clone());
            let gate = Gate {
                cluster: cluster.shape.name.as_str(),
                identity: None,
                stage: &stage,
                rollout: &rollout,
                expectations: &watched.expectations,
                binding: Some(&watched.binding),
                policy: &cluster.policy,
            };
            let held = gate.held(&observation, now);
            let is_held = held.is_some();
            watched.history = watched.history.record(
                now,
                held.map(|settled| (gate.key(), settled)).into_iter().collect(),
                cluster.policy.maximum_age,
                now,
            );
            let passes = gate.evaluate(Some(&observation), &watched.history, now).is_pass();
            watched.passed |= passes;
            let own = cluster.names_of(&watched.stage);
            let left: Vec<&String> = unfinished.iter().filter(|name| own.contains(*name)).collect();
            if (is_held || passes) && !left.is_empty() {
                self.found.push(format!("at {now} the gate of {} holds early: {left:?}", watched.stage));
            }
        }
    }
}

fn watched(cluster: &ModelCluster, parts: &Parts, number: usize, committed_at: Timestamp) -> Vec<Watched> {
    let gate = |stage: StageName| Watched {
        expectations: cluster.expectations(&stage, parts),
        binding: Binding {
            commit: id(number),
            lineage: vec![id(number)].into(),
            committed_at,
            landing: Landing::Pushed,
        },
        history: GateHistory::default(),
        passed: false,
        stage,
    };
    cluster.stages().into_iter().map(gate).collect()
}
