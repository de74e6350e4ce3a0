//! Many clusters in three waves, some of which break, and processes that die meanwhile.
//!
//! `STEPGATE_CLUSTERS=200` plays as many (50 by default).

use rollout::Effect;
use simulator::model::{Controller, Crash, ModelCluster, Scenario, wave_scenario};

#[expect(clippy::disallowed_methods, reason = "how many clusters to play is the caller's choice")]
fn setting() -> Option<usize> {
    std::env::var("STEPGATE_CLUSTERS").ok().and_then(|text| text.parse().ok())
}

#[test]
fn many_clusters_keep_the_budgets_of_their_waves_while_some_break_and_processes_die() {
    let Scenario { mut simulation, deadline, .. } = wave_scenario(setting().unwrap_or(50));
    let fleet = simulation.fleet().to_vec();
    let mut controller = Controller::start(&simulation);
    let (mut turns, mut deaths) = (0_usize, 0_usize);
    // A process dies at one commit in twenty.
    while simulation.now() < deadline && simulation.violations().is_empty() {
        let Some(turn) = controller.decide(&mut simulation) else { break };
        turns += 1;
        let commits = turn.effects.iter().any(|effect| matches!(effect, Effect::Commit(_)));
        let dies = commits && turns.is_multiple_of(20);
        deaths += usize::from(dies);
        let crash = if turns.is_multiple_of(40) { Crash::Before } else { Crash::After };
        controller
            .perform(&mut simulation, &turn, |effect| (dies && matches!(effect, Effect::Commit(_))).then_some(crash));
        let is_done = |cluster: &ModelCluster| {
            let deployed = simulation.deployed(cluster.name()).unwrap();
            Some(&deployed.parts) == simulation.source().unwrap().wanted.get(cluster.name())
                && deployed.ledger.as_ref().is_some_and(|ledger| ledger.finished_at.is_some())
        };
        if turns.is_multiple_of(500) && fleet.iter().all(is_done) {
            break;
        }
    }
    simulation.check_end();
    let violations: Vec<String> = simulation.violations().iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "after {turns} turns and {deaths} deaths at {}: {violations:#?}", simulation.now());
    assert!(deaths > 3, "{deaths}");
}
