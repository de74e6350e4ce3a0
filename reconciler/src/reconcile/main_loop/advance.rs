//! One cluster in a pass: what `step` says is carried out, until it says nothing that can be done now.

use std::sync::Arc;

use jiff::Timestamp;
use overlays::ClusterSpec;
use planning::progress::Others;
use rollout::{Decision, Effect, LedgerState, World};

use crate::reconcile::Controller;
use crate::reconcile::clusters::cluster_timeout::ClusterTimeout;
use crate::reconcile::effects::perform::Performed;
use crate::reconcile::main_loop::report::ClusterPass;
use crate::reconcile::planner::{ClusterView, FleetReading};
use crate::reconcile::proposal::{self, Asking, Position, ProposalCache};

/// How many effects one cluster may carry out in one pass before the others have their turn again.
const EFFECTS_PER_PASS: usize = 100;

impl Controller {
    /// Asks `step` and carries out what it says, until it says nothing that can be done now but to ask people.
    pub(in crate::reconcile) async fn advance(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        cluster: &ClusterSpec,
        pass: &mut ClusterPass,
        answering: &ClusterTimeout,
    ) -> Result<Option<Position>, anyhow::Error> {
        let mut reading = reading.clone();
        let mut turn = None;
        for _ in 0..EFFECTS_PER_PASS {
            let view = self.current_view(&reading, cluster)?;
            let now = self.clock.now();
            let considered = proposal::consider(&self.planner, board, &reading, view).await?;
            let mut askings = proposal::askings(&self.planner, board, &reading, &considered).await?;
            let view = considered.view;
            self.forget_before_merge(&view);
            for asking in askings.iter_mut() {
                asking.problem = self.problem(&asking.branch);
            }
            let people = proposal::people(&self.planner, board, &reading, &view).await?;
            if people.retries.is_empty() && self.retry_by_comment(&reading, board, &view).await {
                reading = self.planner.read_deploy(Arc::clone(&reading.source))?;
                continue;
            }
            let standings = self.standings().changes();
            let world = self.world(&reading, board, &view, &askings, people, now).await;
            let effects = rollout::step(&world, now);
            if !effects.iter().any(writes) {
                drop(turn.take());
            } else if turn.is_none() {
                turn = Some(self.writing.lock().await);
                if self.standings().changes() != standings && begins(&reading, &effects) {
                    // A cluster of its wave may have been found held while we waited for our turn.
                    drop(turn.take());
                    continue;
                }
                // Somebody may have written while we waited for our turn: then everything is decided anew from there, and others have theirs
                // meanwhile, since that may ask a forge.
                if self.planner.repository().head(&reading.layout.branch)?.as_ref() != reading.deploy_head() {
                    drop(turn.take());
                    reading = self.planner.read_deploy(Arc::clone(&reading.source))?;
                    continue;
                }
            }
            let mut decision = decision(&reading, &world, &effects, now);
            let mut again = false;
            (pass.next, pass.proposed) = (None, None);
            let held = effects.iter().any(|effect| matches!(effect, Effect::Hold { .. }));
            let others = Others { prerequisite: world.prerequisites.first().cloned(), wave: world.wave.clone() };
            let mut position = Position { view: Arc::clone(&view), askings, request: None, held, others };
            for effect in effects {
                if let Effect::RequestApproval(request) = effect {
                    let is_for = |asking: &&Asking| asking.is_for(&request);
                    pass.proposed = position.askings.iter().find(is_for).map(|asking| asking.branch.clone());
                    position.request = Some(request);
                    continue;
                }
                let closes = matches!(effect, Effect::Close(_));
                let performed = self.perform(&reading, &view, &world, effect, pass, answering).await?;
                if matches!(performed, Performed::Pushed) {
                    drop(turn.take());
                    // What was read before the commit says nothing about it.
                    let until = self.precheck_after_commit();
                    self.remember(&view.name, |memory| memory.forget_reading(until));
                    reading = self.planner.read_deploy(Arc::clone(&reading.source))?;
                    self.tell_of_commit(&reading, cluster, answering).await?;
                    if closes {
                        Box::pin(self.say_what_differs(&reading, board, cluster)).await;
                    }
                }
                if answering.is_late() {
                    // The pass has gone on without this cluster: the next one decides, on what was read.
                    return Ok(None);
                }
                match performed {
                    Performed::Nothing => {}
                    Performed::Waits => {
                        // It was not read whole: what was decided of it before stays.
                        decision = None;
                        break;
                    }
                    Performed::Again => again = true,
                    Performed::Pushed => {
                        again = true;
                        break;
                    }
                    Performed::Moved => {
                        // The deploy branch moved, by us or by somebody else: everything is decided anew from there.
                        reading = self.planner.read_deploy(Arc::clone(&reading.source))?;
                        again = true;
                        break;
                    }
                }
            }
            drop(turn.take());
            if !again {
                self.decided(&reading, &view.name, decision);
                Box::pin(self.say_what_keeps_nodes(&reading, board, &view, &world)).await;
                return Ok(Some(position));
            }
        }
        pass.next = Some(self.clock.now());
        Ok(None)
    }

    /// What people merge is looked for at once, as what Stepgate commits is: what was read before says nothing about it.
    fn forget_before_merge(&self, view: &ClusterView) {
        let until = self.precheck_after_commit();
        self.remember(&view.name, |memory| {
            if memory.read.is_some_and(|read| read != view.directory.ids) {
                memory.forget_reading(until);
            }
        });
    }
}

/// What the others of its wave are told of a cluster; none where nothing was decided yet.
fn decision(reading: &FleetReading, world: &World, effects: &[Effect], now: Timestamp) -> Option<Decision> {
    if reading.fleet.policy.waves.is_empty() {
        return None;
    }
    let is_running = world.ledger.as_deref().is_some_and(|ledger| ledger.state == LedgerState::Running);
    let ahead = if is_running { Vec::new() } else { rollout::after_soak(world, now) };
    Decision::of(world, effects, &ahead)
}

/// Whether a stage is committed beside others of a wave.
fn begins(reading: &FleetReading, effects: &[Effect]) -> bool {
    !reading.fleet.policy.waves.is_empty() && effects.iter().any(|effect| matches!(effect, Effect::Commit(_)))
}

/// Whether an effect writes to the deploy branch.
fn writes(effect: &Effect) -> bool {
    matches!(effect, Effect::Commit(_) | Effect::Revert(_) | Effect::Close(_))
}
