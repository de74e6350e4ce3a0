//! Plays a scenario through, with crashes and with two controllers at once where its seed says so.

use std::collections::BTreeMap;

use domain::ClusterName;
use jiff::SignedDuration;
use rollout::Effect;

use super::{
    controller::{Controller, Crash},
    scenario::Scenario,
    simulation::Simulation,
};
use crate::random::Random;

/// For how long processes crash and two of them work at once. One goes on alone afterwards.
const DISTURBED: SignedDuration = SignedDuration::from_mins(30);

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

/// Plays `scenario` with processes made by `start`: crashes at random effects, late effects and a second process all follow
/// from `seed`. Whether it ended well is in [`Simulation::violations`].
#[must_use]
pub fn play(scenario: &Scenario, seed: u64, start: impl Fn(&Simulation) -> Controller) -> Played {
    let mut simulation = scenario.simulation.clone();
    let mut random = Random::new(seed.wrapping_add(0x00c0_ffee));
    let mut controller = start(&simulation);
    let mut second = random.chance(1, 3).then(|| start(&simulation));
    let end = simulation.now() + DISTURBED;
    while scenario.disturbed && simulation.now() < end && simulation.violations().is_empty() {
        if let Some(second) = second.as_mut().filter(|_| random.chance(1, 2)) {
            std::mem::swap(second, &mut controller);
        }
        let Some(turn) = controller.decide(&mut simulation) else { break };
        // What is decided now may be carried out when the other has already acted.
        if let Some(second) = second.as_mut().filter(|_| random.chance(1, 4)) {
            second.turn(&mut simulation);
        }
        let crash = random.choose(&[Crash::Before, Crash::After, Crash::AnswerLost]).copied();
        let crash = crash.filter(|_| random.chance(1, 20));
        let mut left = random.below(u64::try_from(turn.effects.len()).unwrap_or(1));
        controller.perform(&mut simulation, &turn, |_| {
            let now = left == 0;
            left = left.wrapping_sub(1);
            crash.filter(|_| now)
        });
    }
    let last = if simulation.violations().is_empty() {
        let last = controller.run(&mut simulation, scenario.deadline);
        simulation.check_end();
        last
    } else {
        BTreeMap::new()
    };
    Played { simulation, controller, last }
}
