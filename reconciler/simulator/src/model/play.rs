//! Plays a scenario through, with crashes, and with several controllers at once and stopped ones where its seed says so.

use std::collections::BTreeMap;

use domain::ClusterName;
use jiff::{SignedDuration, Timestamp};
use rollout::Effect;

use super::{
    controller::{Controller, Turn},
    crash::{Crash, Torn},
    scenario::Scenario,
    simulation::Simulation,
};
use crate::random::Random;

/// For how long processes crash and two of them work at once. One goes on alone afterwards.
const DISTURBED: SignedDuration = SignedDuration::from_mins(30);

/// In so many of a hundred turns a process is stopped between its decision and what it does about it.
const STOPPED: u64 = 4;

/// The longest time for which a process is stopped: four terms of a lease.
const LONGEST_STOP: SignedDuration = SignedDuration::from_secs(60);

/// One of so many effects of several writes is torn.
const TORN: u64 = 8;

/// How long a process may write to clusters without renewing its lease (`run --lease-duration`).
const TERM: SignedDuration = SignedDuration::from_secs(15);

/// A process that the machine has stopped (`SIGSTOP`): it goes on with what it has decided, whatever has become of that.
struct Stopped {
    process: Controller,
    turn: Turn,
    until: Timestamp,
}

/// The processes beside the one that has its turn.
struct Replicas {
    /// Those that may have a turn.
    others: Vec<Controller>,
    stopped: Vec<Stopped>,
    /// A sequence of its own: what is drawn here changes nothing of the crashes.
    random: Random,
    stops: bool,
}

impl Replicas {
    fn new(simulation: &Simulation, seed: u64, others: bool, start: &impl Fn(&Simulation) -> Controller) -> Self {
        let mut random = Random::new(seed.wrapping_add(0x57_0995));
        let count = if others { 1 + random.below(7) } else { 0 };
        let stops = random.chance(1, 3);
        let others = (0..count).map(|_| start(simulation)).collect();
        Self { others, stopped: Vec::new(), random, stops }
    }

    fn any(&mut self) -> Option<&mut Controller> {
        let index = self.random.below(u64::try_from(self.others.len()).unwrap_or(0));
        self.others.get_mut(usize::try_from(index).unwrap_or(0))
    }

    /// Stops a process at its turn, at times; another one, or a new one, takes its place. Gives the turn back otherwise.
    fn stop(
        &mut self,
        simulation: &Simulation,
        controller: &mut Controller,
        turn: Turn,
        start: &impl Fn(&Simulation) -> Controller,
    ) -> Option<Turn> {
        if !self.stops || !self.random.chance(STOPPED, 100) || self.stopped.len() > 3 {
            return Some(turn);
        }
        let longest = u64::try_from(LONGEST_STOP.as_millis()).unwrap_or(0);
        let stop = SignedDuration::from_millis(i64::try_from(self.random.below(longest)).unwrap_or(0));
        let next = self.others.pop().unwrap_or_else(|| start(simulation));
        let process = std::mem::replace(controller, next);
        self.stopped.push(Stopped { process, turn, until: simulation.now() + stop });
        None
    }

    /// Those whose stop is over do what they have decided. Git takes it only where nobody else was faster; the API server takes nothing
    /// of a process whose lease has run out.
    fn go_on(&mut self, simulation: &mut Simulation, all: bool) {
        let (over, stopped) = std::mem::take(&mut self.stopped)
            .into_iter()
            .partition(|stopped: &Stopped| all || stopped.until <= simulation.now());
        self.stopped = stopped;
        for Stopped { mut process, mut turn, .. } in over {
            if simulation.now() >= turn.at + TERM {
                turn.effects.retain(|effect| !writes_to_clusters(effect));
            }
            process.perform(simulation, &turn, |_| None);
            self.others.push(process);
        }
    }
}

fn writes_to_clusters(effect: &Effect) -> bool {
    matches!(effect, Effect::Backup { .. } | Effect::Etcd(_) | Effect::Cluster(_) | Effect::OrderMachines { .. })
}

/// A scenario that has been played.
#[derive(Debug)]
pub struct Played {
    /// The world at the end.
    pub simulation: Simulation,
    /// The process that was there at the end.
    pub controller: Controller,
    /// What it decided last for each cluster.
    pub last: BTreeMap<ClusterName, Vec<Effect>>,
}

/// Plays `scenario` with processes made by `start`: crashes at random effects, late effects, up to eight processes at once and those
/// that are stopped all follow from `seed`. Whether it ended well is in [`Simulation::violations`].
#[must_use]
pub fn play(scenario: &Scenario, seed: u64, start: impl Fn(&Simulation) -> Controller) -> Played {
    let mut simulation = scenario.simulation.clone();
    let mut random = Random::new(seed.wrapping_add(0x00c0_ffee));
    // As of the replicas.
    let mut tearing = Random::new(seed.wrapping_add(0x7e_a125));
    let mut controller = start(&simulation);
    let mut replicas = Replicas::new(&simulation, seed, random.chance(1, 3), &start);
    let several = !replicas.others.is_empty();
    let end = simulation.now() + DISTURBED;
    while scenario.disturbed && simulation.now() < end && simulation.violations().is_empty() {
        replicas.go_on(&mut simulation, false);
        if several
            && random.chance(1, 2)
            && let Some(other) = replicas.any()
        {
            std::mem::swap(other, &mut controller);
        }
        let Some(turn) = controller.decide(&mut simulation) else { break };
        // What is decided now may be carried out when the other has already acted.
        if several
            && random.chance(1, 4)
            && let Some(other) = replicas.any()
        {
            other.turn(&mut simulation);
        }
        let Some(turn) = replicas.stop(&simulation, &mut controller, turn, &start) else { continue };
        let crash = random.choose(&[Crash::Before, Crash::After, Crash::AnswerLost]).copied();
        let crash = crash.filter(|_| random.chance(1, 20));
        let mut left = random.below(u64::try_from(turn.effects.len()).unwrap_or(1));
        controller.perform(&mut simulation, &turn, |effect| {
            let now = left == 0;
            left = left.wrapping_sub(1);
            crash.filter(|_| now).or_else(|| tear(effect, &mut tearing))
        });
    }
    replicas.go_on(&mut simulation, true);
    let last = if simulation.violations().is_empty() {
        let last = controller.run(&mut simulation, scenario.deadline);
        simulation.check_end();
        last
    } else {
        BTreeMap::new()
    };
    Played { simulation, controller, last }
}

/// Ends or fails in the middle of an effect, at times.
fn tear(effect: &Effect, random: &mut Random) -> Option<Crash> {
    let ways = Torn::ways(effect);
    let torn = *random.choose(&ways)?;
    let crash = if random.chance(1, 2) { Crash::Within(torn) } else { Crash::Failed(torn) };
    random.chance(1, TORN).then_some(crash)
}
