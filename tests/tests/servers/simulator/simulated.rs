//! A scenario played on the simulator.

use std::ops::RangeInclusive;
use std::sync::Arc;

use domain::CommitId;
use jiff::{SignedDuration, Timestamp};
use rollout::Observation;
use simulator::{ClusterShape, DeployedCommit, Etcd, Injection, MachineStrategy, SimulatedCluster, Trigger};

use super::course::Expected;
use super::scenario::Scenario;
use super::{NODES, Step, machines};
use crate::verdicts::Judge;

/// How long each step is watched: until everything has settled, and less than a Deployment's deadline.
const WATCHED: SignedDuration = SignedDuration::from_secs(300);

/// The longest time between two readings.
const PERIOD: SignedDuration = SignedDuration::from_secs(5);

/// The shortest time between two readings.
const MOMENT: SignedDuration = SignedDuration::from_millis(1);

/// Runs of each scenario: what takes how long differs from one to the next.
const SEEDS: RangeInclusive<u64> = 1..=12;

/// Runs beyond those, of a scenario whose real course contradicts them: an order that a few runs have
/// in common may be chance.
const MORE_SEEDS: RangeInclusive<u64> = 13..=120;

/// What the gate says in each step, in all runs.
pub fn expected(scenario: &Scenario) -> Vec<Expected> {
    let mut all = vec![Expected::default(); Step::ALL.len()];
    add(&mut all, scenario, SEEDS);
    all
}

/// Adds what it says in many more runs.
pub fn add_more(all: &mut [Expected], scenario: &Scenario) {
    add(all, scenario, MORE_SEEDS);
}

fn add(all: &mut [Expected], scenario: &Scenario, seeds: RangeInclusive<u64>) {
    for seed in seeds {
        for (expected, settled) in all.iter_mut().zip(play(scenario, seed)) {
            expected.ends.insert(settled.said);
            expected.courses.push(settled.course);
        }
    }
}

/// What the gate says in a step: what it is about on the way, and the words in the end.
struct Settled {
    course: Vec<String>,
    said: String,
}

/// Plays a scenario from its first step to its last.
fn play(scenario: &Scenario, seed: u64) -> Vec<Settled> {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let shape = machines::shape(scenario).unwrap_or_else(|| ClusterShape {
        name: "prod".parse().unwrap(),
        namespace: "eksa-system".to_owned(),
        kubernetes_version: "v1.34.0".to_owned(),
        control_plane_replicas: u32::try_from(NODES.len()).unwrap(),
        worker_groups: Vec::new(),
        etcd: Etcd::Stacked,
        strategy: MachineStrategy::Rolling,
    });
    let mut cluster = SimulatedCluster::new(&shape, seed, start);
    let (mut number, mut version) = (0, 0);
    let mut now = start;
    let mut judge = Judge::new(id(0), Vec::new(), start);
    let mut settled = Vec::new();
    for step in Step::ALL {
        if let Some(fault) = scenario.fault().filter(|_| step == Step::Trouble) {
            cluster.inject(&Injection { fault, from: Trigger::At(now), lasts: None });
        }
        if step.mends(scenario) {
            cluster.heal(now);
        }
        let committed = step.version(scenario);
        // Flux fetches what is committed for others on the same branch too, and gates wait while it does.
        let is_followed = step == Step::End && scenario.has_neighbours();
        version = committed.unwrap_or(version);
        if committed.is_some() || is_followed {
            number += 1;
            let desired = Arc::new(scenario.desired(version));
            let commit = DeployedCommit { id: id(number), stage: None, desired };
            if step == Step::Install {
                cluster.install(&commit, now);
            } else {
                cluster.commit(&commit, now);
            }
        }
        if committed.is_some() {
            judge.commit(id(number), scenario.expectations(version), now);
        } else if is_followed {
            judge.follow(id(number));
        }
        // Where nothing is mended, somebody commits another version instead, long before a Deployment's deadline.
        let passes_by = step == Step::Mend && !step.mends(scenario);
        let end = now + if passes_by { SignedDuration::from_secs(1) } else { WATCHED };
        judge.course.clear();
        let mut said = String::new();
        while now < end {
            let next = cluster.next_event().unwrap_or(end).min(now + PERIOD);
            // Two readings of whatever lasts between two events: a gate that waits for a second one says pass then.
            for at in [next - MOMENT, next] {
                now = at.max(now + MOMENT);
                said = judge.read(&without_kubelets(cluster.observe_afresh(now)), now);
            }
        }
        settled.push(Settled { course: judge.course.clone(), said });
    }
    settled
}

/// Nodes that exist in memory do not say which kubelet they run, as all others do.
fn without_kubelets(mut observation: Observation) -> Observation {
    observation.machines.iter_mut().for_each(|machine| machine.kubelet_version = None);
    observation.nodes.iter_mut().for_each(|node| node.kubelet_version = None);
    observation
}

fn id(number: u32) -> CommitId {
    format!("{number:040x}").parse().unwrap()
}
