//! One commit for a `TanzuKubernetesCluster`, and gates that follow its Supervisor: in any order of readings, restarts and failures.

use std::sync::Arc;

use jiff::SignedDuration;

use crate::effect::Effect;
use crate::expectation::{Expectation, TanzuExpectation, TanzuMachines, TanzuPart};
use crate::history::GateHistory;
use crate::observation::{
    ConditionStatus, Machine, Node, Observation, TanzuAddon, TanzuAddonState, TanzuCluster, conditions,
};
use crate::stage::StageName;
use crate::step::harness::RolloutHarness;
use crate::step::{record, step};
use crate::world::World;

const RELEASES: [&str; 2] = ["v1.26.5+vmware.2-tkg.1", "v1.27.11+vmware.1-tkg.2"];
const POOLS: [&str; 2] = ["a", "b"];

/// What a Supervisor has brought about so far, of what it is told: each number is how many of its parts are new.
#[derive(Clone, Default)]
struct Supervisor {
    told: bool,
    addons: bool,
    plane: usize,
    pools: [usize; 2],
    settled: bool,
    /// An add-on that could not be applied for now.
    error: bool,
}

const PLANE: usize = 3;
const POOL: usize = 2;

impl Supervisor {
    /// The next thing that its controllers do.
    fn go_on(&mut self) {
        if !self.told {
            self.settled = true;
        } else if !self.addons {
            (self.addons, self.settled) = (!self.error, false);
            self.error = false;
        } else if self.plane < PLANE {
            self.plane += 1;
        } else if let Some(pool) = self.pools.iter_mut().find(|pool| **pool < POOL) {
            *pool += 1;
        } else {
            self.settled = true;
        }
    }

    fn read(&self, observation: &mut Observation) {
        let release = |new: bool| RELEASES[usize::from(new)];
        let mut made = |name: String, owner: Option<String>, new: bool| {
            let build = release(new).split_once("-tkg").unwrap().0.to_owned();
            observation.machines.push(Machine {
                namespace: "n".into(),
                name: name.clone(),
                cluster: "t".into(),
                control_plane: owner.is_none(),
                owner,
                spec_version: Some(build.clone()),
                node: Some(name.clone()),
                ..Machine::default()
            });
            observation.nodes.push(Node {
                name,
                ready: ConditionStatus::True,
                unschedulable: false,
                pressures: Vec::new(),
                control_plane: false,
                kubelet_version: Some(build),
                release: Some(release(new).replacen('+', "---", 1)),
                origin: None,
                unschedulable_since: None,
            });
        };
        for number in 0..PLANE {
            made(format!("plane-{number}"), None, number < self.plane);
        }
        for (pool, new) in POOLS.iter().zip(self.pools) {
            for number in 0..POOL {
                made(format!("{pool}-{number}"), Some(format!("t-{pool}-x")), number < new);
            }
        }
        let addon = TanzuAddon {
            name: "antrea".into(),
            role: "CNI".into(),
            state: if self.error { TanzuAddonState::Error } else { TanzuAddonState::Applied },
            version: Some(release(self.addons).into()),
            message: None,
        };
        let status = |holds: bool| if holds { ConditionStatus::True } else { ConditionStatus::False };
        observation.tanzu_clusters.push(TanzuCluster {
            namespace: "n".into(),
            name: "t".into(),
            version: "v1alpha3".into(),
            release: Some(release(self.told).into()),
            addons: vec![addon],
            // Ready is what it was before all the while.
            conditions: conditions([("Ready", ConditionStatus::True), ("NodePoolsReady", status(self.settled))]),
            ..TanzuCluster::default()
        });
    }
}

fn expect(part: TanzuPart) -> Expectation {
    Expectation::Tanzu(TanzuExpectation { namespace: "n".into(), name: "t".into(), part })
}

fn machines(release: &str, replicas: usize) -> TanzuMachines {
    TanzuMachines {
        release: release.into(),
        replicas: u32::try_from(replicas).ok(),
        class: None,
        storage_class: None,
        volumes: Vec::new(),
    }
}

fn part(stage: &StageName, release: &str) -> Option<Expectation> {
    Some(expect(match stage {
        StageName::Preflight | StageName::Verify => TanzuPart::Settled,
        StageName::Addons => TanzuPart::Addons { release: release.into() },
        StageName::ControlPlane => TanzuPart::ControlPlane(machines(release, PLANE)),
        StageName::Workers(pool) => TanzuPart::Workers {
            pool: pool.clone(),
            pools: POOLS.map(|pool| pool.parse().unwrap()).into(),
            machines: machines(release, POOL),
        },
        _ => return None,
    }))
}

struct Bench {
    laboratory: RolloutHarness,
    supervisor: Supervisor,
    state: u64,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let stages = [("addons", 1, 2), ("control-plane", 1, 2), ("workers/a", 1, 2), ("workers/b", 1, 2)];
        let mut laboratory = RolloutHarness::new(&stages);
        laboratory.one_field = true;
        let supervisor = Supervisor { settled: true, ..Supervisor::default() };
        Self { laboratory, supervisor, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Whether something happens that happens once in so many turns.
    fn once_in(&mut self, turns: u64) -> bool {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.is_multiple_of(turns)
    }

    fn world(&self, supervisor: &Supervisor) -> World {
        let mut world = self.laboratory.world();
        let plan = Arc::make_mut(&mut world.plan);
        for stage in &mut plan.stages {
            stage.expectations.extend(part(&stage.stage.name, RELEASES[1]));
            stage.deployed_expectations.extend(part(&stage.stage.name, RELEASES[0]));
        }
        let mut read = self.laboratory.read();
        supervisor.read(&mut read);
        world.observation = Some(Arc::new(read));
        world
    }

    /// Reads, decides and carries out; `seen` is what the reading shows of the Supervisor.
    fn turn(&mut self, seen: &Supervisor) -> Vec<Effect> {
        self.laboratory.now += SignedDuration::from_secs(6);
        self.laboratory.history = record(&self.world(seen), self.laboratory.now);
        let effects = step(&self.world(seen), self.laboratory.now);
        for effect in &effects {
            if let Effect::Commit(commit) = effect {
                let Supervisor { addons, plane, pools, .. } = self.supervisor;
                match &commit.stage.name {
                    StageName::Addons => self.supervisor.told = true,
                    StageName::ControlPlane => assert!(addons),
                    StageName::Workers(pool) if pool.as_str() == "a" => assert_eq!(plane, PLANE),
                    StageName::Workers(_) => assert_eq!(pools[0], POOL),
                    other => panic!("{other}"),
                }
            }
            if matches!(effect, Effect::Close(_)) {
                assert_eq!((self.supervisor.pools, self.supervisor.settled), ([POOL, POOL], true));
            }
            self.laboratory.carry_out(effect);
        }
        effects
    }
}

const LOG: [&str; 5] =
    ["commit addons 2", "commit control-plane 2", "commit workers/a 2", "commit workers/b 2", "close"];

#[test]
fn no_gate_passes_early_in_any_order_of_events() {
    for seed in 1..=300 {
        let mut bench = Bench::new(seed);
        for _ in 0..600 {
            if bench.laboratory.log().last() == Some(&"close") {
                break;
            }
            if bench.once_in(3) {
                bench.supervisor.error = !bench.supervisor.addons && bench.once_in(4);
                bench.supervisor.go_on();
            }
            // The process is killed, and the next one remembers nothing.
            if bench.once_in(20) {
                bench.laboratory.history = GateHistory::default();
            }
            let seen = bench.supervisor.clone();
            bench.turn(&seen);
        }
        assert_eq!(bench.laboratory.log(), LOG, "seed {seed}");
    }
}

#[test]
fn a_rollout_begins_only_when_nothing_else_is_on_its_way() {
    let mut bench = Bench::new(1);
    bench.supervisor.settled = false;
    for _ in 0..20 {
        let seen = bench.supervisor.clone();
        bench.turn(&seen);
    }
    assert_eq!(bench.laboratory.log(), [""; 0]);
    bench.supervisor.settled = true;
    for _ in 0..20 {
        let seen = bench.supervisor.clone();
        bench.turn(&seen);
    }
    assert_eq!(bench.laboratory.log(), LOG[..1]);
}
