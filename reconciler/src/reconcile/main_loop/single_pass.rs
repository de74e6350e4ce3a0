//! What a pass does for one cluster, and for all of them at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::ClusterName;
use overlays::ClusterSpec;

use crate::reconcile::announce::standing;
use crate::reconcile::clusters::cluster_timeout::ClusterTimeout;
use crate::reconcile::main_loop::report::{ClusterOutcome, ClusterPass, ReconcileReport};
use crate::reconcile::observe::final_health::FinalHealth;
use crate::reconcile::planner::{ClusterView, FleetReading};
use crate::reconcile::proposal::{OpenOnes, Position, ProposalCache};
use crate::reconcile::{Controller, Settled};
use domain::BranchName;
use git::GitError;
use rollout::Ledger;

impl Controller {
    pub(in crate::reconcile) fn open_pulls(&self) -> OpenOnes {
        self.open_pulls.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// The branches that the fleet is read from: the source, and the deploy branch once a policy has named it.
    pub fn branches(&self) -> Vec<BranchName> {
        let reading = self.reading.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let deploy = reading.iter().flat_map(|(reading, _)| reading.branches.iter().cloned());
        [self.planner.source_branch().clone()].into_iter().chain(deploy).collect()
    }

    pub(in crate::reconcile) fn heads(&self) -> Result<git::Heads, GitError> {
        self.planner.repository().heads(&self.branches())
    }

    pub(in crate::reconcile) fn settled_at(&self, heads: &git::Heads) -> Option<Arc<ReconcileReport>> {
        let settled = self.settled.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = self.clock.now();
        let is_so = |settled: &&Settled| &settled.heads == heads && settled.until.is_none_or(|until| now < until);
        settled.as_ref().filter(is_so).map(|settled| Arc::clone(&settled.pass))
    }

    /// `heads` are those from before the pass: what was pushed while it went on has not been looked at.
    pub(in crate::reconcile) fn settle(&self, heads: git::Heads, pass: &Arc<ReconcileReport>) {
        let quiet =
            pass.clusters.iter().all(|cluster| cluster.outcome == ClusterOutcome::Done && cluster.committed.is_empty());
        let settled = quiet.then(|| {
            let memory = self.memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let until = memory.values().filter_map(|memory| memory.final_health.as_ref()).map(FinalHealth::due).min();
            Settled { heads, until, pass: Arc::clone(pass) }
        });
        *self.settled.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = settled;
    }

    /// Asks people for everything that waits for them, once for all clusters. Those of which there is something new to say then are decided
    /// about once more, so that the pass says where people are asked.
    pub(in crate::reconcile) async fn ask_people(
        &self,
        reading: &FleetReading,
        board: Arc<ProposalCache>,
        works: &mut [Work],
    ) -> Result<(), GitError> {
        if !works.iter().filter_map(|work| work.position.as_ref()).any(|position| asks_people(&position.view)) {
            return Ok(());
        }
        let (mut positions, mut undecided) = (BTreeMap::new(), BTreeSet::new());
        for work in works.iter() {
            let Ok(name) = work.pass.cluster.parse::<ClusterName>() else { continue };
            match &work.position {
                // What is void cannot be told from what could not be rendered: nothing of it is withdrawn.
                Some(position) if position.view.is_unsure(reading) => drop(undecided.insert(name)),
                Some(position) => drop(positions.insert(name, position.clone())),
                None if work.asks_nobody || work.pass.outcome == ClusterOutcome::Done => {}
                None => drop(undecided.insert(name)),
            }
        }
        // Nor is anything known of those that have not answered.
        let known: BTreeSet<&str> = works.iter().map(|work| work.pass.cluster.as_str()).collect();
        let names = reading.fleet.clusters.iter().map(|cluster| cluster.name.as_str());
        undecided.extend(names.filter(|name| !known.contains(name)).filter_map(|name| name.parse().ok()));
        undecided.extend(reading.fleet.unreadable_clusters().into_iter().filter_map(|name| name.parse().ok()));
        let asked = match self.ask(reading, &board, &positions, &undecided).await {
            Ok(asked) => asked,
            // Those who are asked nothing go on.
            Err(error) => {
                for work in
                    works.iter_mut().filter(|work| work.position.as_ref().is_some_and(|it| asks_people(&it.view)))
                {
                    work.fail(&anyhow::Error::from(error.again("ask people")));
                }
                return Ok(());
            }
        };
        let open = board.open_ones();
        *self.open_pulls.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = open;
        let (reading, board) = if asked.landed {
            (self.planner.read_deploy(Arc::clone(&reading.source))?, Arc::default())
        } else {
            (reading.clone(), board)
        };
        for work in works.iter_mut() {
            let is = |name: &ClusterName| name.as_str() == work.pass.cluster;
            let is_decided = work.position.is_some() || work.asks_nobody;
            let concerned = asked.told.iter().any(is) || (asked.landed && is_decided);
            if let Some(cluster) = reading.fleet.cluster(&work.pass.cluster).filter(|_| concerned) {
                let before = std::mem::take(&mut work.pass.committed);
                *work = self.cluster(&reading, &board, cluster, &ClusterTimeout::default()).await;
                work.pass.committed.splice(0..0, before);
            }
        }
        for (name, error) in asked.failed {
            for work in works.iter_mut().filter(|work| name.as_str() == work.pass.cluster) {
                work.fail(&error);
            }
        }
        for name in asked.later {
            for work in works.iter_mut().filter(|work| name.as_str() == work.pass.cluster) {
                if let ClusterOutcome::Waiting { reason, .. } = &mut work.pass.outcome {
                    reason.message.push_str("; it is asked for when its wave has a place for it");
                }
            }
        }
        Ok(())
    }

    /// Others of its wave do not wait until a cluster can be decided about.
    fn undecided(&self, reading: &FleetReading, cluster: Option<&ClusterName>) {
        if let Some(cluster) = cluster {
            self.decided(reading, cluster, None);
        }
    }

    /// Clusters that wait, and were decided about before others of the pass had come to stand elsewhere, are looked at again at once.
    pub(in crate::reconcile) fn look_again(&self, reading: &FleetReading, works: &mut [Work]) {
        let (standings, now) = (self.standings().changes(), self.clock.now());
        if reading.fleet.policy.waves.is_empty() {
            return;
        }
        for work in works.iter_mut().filter(|work| work.waits_since.is_some_and(|since| since != standings)) {
            if matches!(work.pass.outcome, ClusterOutcome::Waiting { .. }) {
                work.pass.next = Some(now);
            }
        }
    }

    /// A cluster whose files cannot be read: it stays where it is, and the others go on.
    pub(in crate::reconcile) fn unreadable(&self, reading: &FleetReading, name: &str) -> ClusterPass {
        let message = match self.planner.view(reading, name) {
            Err(error) => error.to_string(),
            Ok(_) => format!("cluster {name} could not be read"),
        };
        tracing::error!(cluster.name = %name, "cluster `{name}` was not moved on: {message}");
        let help = Some("`stepgate check` lists what to repair".to_owned());
        let outcome = ClusterOutcome::Failed { message, help };
        ClusterPass::new(name, outcome)
    }

    pub(in crate::reconcile) async fn cluster(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        cluster: &ClusterSpec,
        answering: &ClusterTimeout,
    ) -> Work {
        if let Some(work) = self.at_rest(reading, cluster) {
            return work;
        }
        let name = cluster.name.parse::<ClusterName>().ok();
        if let Some((name, final_health)) =
            name.as_ref().and_then(|name| Some((name, self.final_health(reading, cluster, name)?)))
            && let Some(work) = self.look_at_the_end(cluster, name, final_health, answering).await
        {
            return work;
        }
        let mut work = Work::undecided(&cluster.name);
        let state = Self::state(reading, cluster);
        let standings = self.standings().changes();
        match self.advance(reading, board, cluster, &mut work.pass, answering).await {
            _ if answering.is_late() => {
                self.undecided(reading, name.as_ref());
                return work;
            }
            Ok(position) => work.position = position,
            Err(error) => {
                self.undecided(reading, name.as_ref());
                work.fail(&error);
            }
        }
        if let Some(name) = name {
            work.pass.tanzu = self.memory(&name).tanzu;
            if let Some(position) = &work.position {
                work.pass.standing = standing(reading, &position.view, &work.pass, self.clock.now());
                work.pass.stage_since = position.view.directory.ledger().and_then(Ledger::stage_since);
            }
            work.waits_since = work.position.is_some().then_some(standings);
            let resting = self.rests(reading, &name, standings, &work);
            let final_health = match &work.position {
                Some(position) if work.pass.outcome == ClusterOutcome::Done => {
                    self.end(reading, &position.view, answering).await
                }
                Some(_) | None => None,
            };
            let pass = &work.pass;
            // Of a cluster that is done the view is let go: its files need not be kept in memory.
            let done = state.filter(|_| pass.outcome == ClusterOutcome::Done && pass.committed.is_empty());
            self.remember(&name, |memory| {
                memory.final_health.clone_from(&final_health);
                memory.held = matches!(pass.outcome, ClusterOutcome::Held { .. });
                let reaches_far = memory.view.as_ref().is_some_and(|known| known.view.reaches_far);
                memory.done = done.filter(|_| !reaches_far);
                memory.view.take_if(|known| known.is_for_its_turn);
                let has_view = memory.view.is_some();
                memory.resting = resting.filter(|resting| has_view || !resting.needs_view());
                if memory.done.is_some() {
                    (memory.view, memory.reachable) = (None, None);
                    memory.fast_path.forget();
                }
            });
            work = work.without_position(reading);
            self.keep_readings(&name);
            if let Some(final_health) = final_health {
                self.stands_afterwards(&name, &final_health);
                work.pass.outcome = final_health.outcome();
                work.pass.tanzu = final_health.tanzu().cloned().or(work.pass.tanzu);
            }
        }
        work
    }
}

/// What a pass did for one cluster, and where it stands with people; none where nothing was decided.
#[derive(Clone, Debug)]
pub(in crate::reconcile) struct Work {
    pub(in crate::reconcile) pass: ClusterPass,
    pub(in crate::reconcile) position: Option<Position>,
    /// It stands nowhere with people: none of its plans asks anybody.
    asks_nobody: bool,
    /// How often clusters had come to stand elsewhere before it was decided; none where nothing was.
    waits_since: Option<u64>,
}

impl Work {
    pub(in crate::reconcile) fn undecided(cluster: &str) -> Self {
        let undecided = ClusterOutcome::Failed { message: "not decided yet".to_owned(), help: None };
        let pass = ClusterPass::new(cluster, undecided);
        Self { pass, position: None, asks_nobody: false, waits_since: None }
    }

    /// There is nothing left to do.
    pub(in crate::reconcile) fn done(cluster: &str) -> Self {
        let work = Self::undecided(cluster);
        let standing = Some(Vec::new());
        Self { pass: ClusterPass { outcome: ClusterOutcome::Done, standing, ..work.pass }, ..work }
    }

    /// There is nothing left to be committed.
    pub(in crate::reconcile) fn final_health(cluster: &str, final_health: &FinalHealth) -> Self {
        let work = Self::undecided(cluster);
        let tanzu = final_health.tanzu().cloned();
        Self { pass: ClusterPass { outcome: final_health.outcome(), tanzu, ..work.pass }, ..work }
    }

    /// The same without its position where that asks nobody: who asks nobody is not needed when people are asked, and a pass over a large fleet does
    /// not keep its view till then.
    pub(in crate::reconcile) fn without_position(mut self, reading: &FleetReading) -> Self {
        let asks_nobody = |position: &mut Position| !asks_people(&position.view) && !position.view.is_unsure(reading);
        self.asks_nobody |= self.position.take_if(asks_nobody).is_some();
        self
    }

    /// The same, where nothing that others have come to since changes it.
    pub(in crate::reconcile) fn of_standings(self, standings: u64) -> Self {
        Self { waits_since: self.waits_since.map(|_| standings), ..self }
    }

    fn fail(&mut self, error: &anyhow::Error) {
        let (name, message) = (&self.pass.cluster, format!("{error:#}"));
        let help = error.chain().find_map(|cause| cause.downcast_ref::<GitError>().and_then(GitError::hint));
        tracing::error!(cluster.name = %name, error = message, hint = help, "cluster `{name}` was not moved on");
        self.pass.outcome = ClusterOutcome::Failed { message, help };
    }
}

/// Whether people are asked anything about this cluster, by its newest plan or by the one that is running.
pub(in crate::reconcile) fn asks_people(view: &ClusterView) -> bool {
    view.asks_people()
}
