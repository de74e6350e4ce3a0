//! One pass: every cluster is brought as far as it can go now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt as _;
use overlays::ClusterSpec;
use rollout::ClusterName;

use super::planner::{ClusterView, FleetReading};
use super::proposal::{Board, Position};
use super::readings::Readings;
use super::report::{ClusterOutcome, ClusterPass, Pass};
use super::{Controller, Settled};
use crate::git::GitError;

impl Controller {
    /// Brings every cluster as far as it can go now. What goes wrong with one cluster stays with it.
    ///
    /// # Errors
    /// [`GitError`] when the repository or the source branch cannot be read at all.
    pub async fn pass(&self) -> Result<Arc<Pass>, GitError> {
        self.forget_changed();
        let heads = self.heads()?;
        if let Some(settled) = self.settled_at(&heads) {
            return Ok(settled);
        }
        let reading = self.read(heads.clone())?;
        let management = |cluster: &&ClusterSpec| cluster.is_management();
        let clusters = &reading.fleet.clusters;
        self.make_views(&reading, &clusters.iter().collect::<Vec<_>>());
        // Management clusters first, so that the clusters that wait for them see this pass' result.
        let (first, second): (Vec<_>, Vec<_>) = clusters.iter().partition(management);
        let open = self.open_pulls.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let board = Board::knowing(open);
        let mut works = self.work_on(&reading, &board, first).await;
        works.extend(self.work_on(&reading, &board, second).await);
        self.ask_people(&reading, board, &mut works).await?;
        let mut passes: Vec<ClusterPass> = works.into_iter().map(|work| work.pass).collect();
        // In the order of the fleet, which is that of names.
        passes.sort_by(|left, right| left.cluster.cmp(&right.cluster));
        passes.extend(reading.fleet.unreadable_clusters().into_iter().map(|name| self.unreadable(&reading, name)));
        let pass = Arc::new(Pass { clusters: passes });
        self.settle(heads, &pass);
        Ok(pass)
    }

    fn heads(&self) -> Result<crate::git::Heads, GitError> {
        let mut branches = vec![self.planner.source_branch().clone()];
        let reading = self.reading.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        branches.extend(reading.as_ref().map(|reading| reading.layout.branch.clone()));
        drop(reading);
        self.planner.repository().heads(&branches)
    }

    fn settled_at(&self, heads: &crate::git::Heads) -> Option<Arc<Pass>> {
        let settled = self.settled.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        settled.as_ref().filter(|settled| &settled.heads == heads).map(|settled| Arc::clone(&settled.pass))
    }

    /// `heads` are those from before the pass: what was pushed while it went on has not been looked at.
    fn settle(&self, heads: crate::git::Heads, pass: &Arc<Pass>) {
        let quiet =
            pass.clusters.iter().all(|cluster| cluster.outcome == ClusterOutcome::Done && cluster.committed.is_empty());
        let settled = quiet.then(|| Settled { heads, pass: Arc::clone(pass) });
        *self.settled.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = settled;
    }

    async fn work_on(&self, reading: &FleetReading, board: &Board, clusters: Vec<&ClusterSpec>) -> Vec<Work> {
        let work = clusters.into_iter().map(|cluster| self.cluster(reading, board, cluster));
        futures::stream::iter(work).buffer_unordered(self.concurrency).collect().await
    }

    /// Asks people for everything that waits for them, once for all clusters. Those of which there is something new to say then are decided
    /// about once more, so that the pass says where people are asked.
    async fn ask_people(&self, reading: &FleetReading, board: Board, works: &mut [Work]) -> Result<(), GitError> {
        if !works.iter().filter_map(|work| work.position.as_ref()).any(|position| asks_people(&position.view)) {
            return Ok(());
        }
        let (mut positions, mut undecided) = (BTreeMap::new(), BTreeSet::new());
        for work in works.iter() {
            let Ok(name) = work.pass.cluster.parse::<ClusterName>() else { continue };
            match &work.position {
                Some(position) => drop(positions.insert(name, position.clone())),
                None if work.pass.outcome == ClusterOutcome::Done => {}
                None => drop(undecided.insert(name)),
            }
        }
        undecided.extend(reading.fleet.unreadable_clusters().into_iter().filter_map(|name| name.parse().ok()));
        let asked = self.ask(reading, &board, &positions, &undecided).await?;
        let open = board.open_ones().await;
        *self.open_pulls.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = open;
        let (reading, board) = if asked.landed {
            (self.planner.read_deploy(Arc::clone(&reading.source))?, Board::default())
        } else {
            (reading.clone(), board)
        };
        for work in works.iter_mut() {
            let is = |name: &ClusterName| name.as_str() == work.pass.cluster;
            let concerned = asked.told.iter().any(is) || (asked.landed && work.position.is_some());
            if let Some(cluster) = reading.fleet.cluster(&work.pass.cluster).filter(|_| concerned) {
                let before = std::mem::take(&mut work.pass.committed);
                *work = self.cluster(&reading, &board, cluster).await;
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

    /// A cluster whose files cannot be read: it stays where it is, and the others go on.
    fn unreadable(&self, reading: &FleetReading, name: &str) -> ClusterPass {
        let message = match self.planner.view(reading, name) {
            Err(error) => error.to_string(),
            Ok(_) => format!("cluster {name} could not be read"),
        };
        tracing::error!(cluster.name = %name, "cluster `{name}` was not moved on: {message}");
        let help = Some("`stepgate check` lists what to repair".to_owned());
        let outcome = ClusterOutcome::Failed { message, help };
        ClusterPass { cluster: name.to_owned(), committed: Vec::new(), outcome, proposed: None, next: None }
    }

    async fn cluster(&self, reading: &FleetReading, board: &Board, cluster: &ClusterSpec) -> Work {
        let pass = ClusterPass {
            cluster: cluster.name.clone(),
            committed: Vec::new(),
            outcome: ClusterOutcome::Failed { message: "not decided yet".to_owned(), help: None },
            proposed: None,
            next: None,
        };
        let mut work = Work { pass, position: None };
        let name = cluster.name.parse::<ClusterName>().ok();
        let state = Self::state(reading, cluster);
        if let Some(name) = &name
            && state.is_some()
            && self.memory(name).done == state
        {
            work.pass.outcome = ClusterOutcome::Done;
            return work;
        }
        match self.advance(reading, board, cluster, &mut work.pass).await {
            Ok(position) => work.position = position,
            Err(error) => work.fail(&error),
        }
        let pass = &work.pass;
        if let Some(name) = name {
            // Of a cluster that is done the view is let go: its files need not be kept in memory.
            let done = state.filter(|_| pass.outcome == ClusterOutcome::Done && pass.committed.is_empty());
            self.remember(&name, |memory| {
                memory.held = matches!(pass.outcome, ClusterOutcome::Held { .. });
                let reaches_far = memory.view.as_ref().is_some_and(|(_, view)| view.reaches_far);
                memory.done = done.filter(|_| !reaches_far);
                if memory.done.is_some() {
                    (memory.view, memory.readings) = (None, Readings::Nothing);
                }
            });
            if pass.outcome == ClusterOutcome::Done {
                self.clusters.cluster(cluster).rest();
            }
        }
        work
    }
}

/// What a pass did for one cluster, and where it stands with people; none where nothing was decided.
struct Work {
    pass: ClusterPass,
    position: Option<Position>,
}

impl Work {
    fn fail(&mut self, error: &anyhow::Error) {
        let (name, message) = (&self.pass.cluster, format!("{error:#}"));
        let help = error.chain().find_map(|cause| cause.downcast_ref::<GitError>().and_then(GitError::hint));
        tracing::error!(cluster.name = %name, error = message, hint = help, "cluster `{name}` was not moved on");
        self.pass.outcome = ClusterOutcome::Failed { message, help };
    }
}

/// Whether people are asked anything about this cluster, by its newest plan or by the one that is running.
fn asks_people(view: &ClusterView) -> bool {
    let plans = [Some(&view.plan), view.running.as_ref().map(|(plan, _)| plan)];
    let mut stages = plans.into_iter().flatten().flat_map(|plan| &plan.stages);
    stages.any(|stage| rollout::approval_scope(stage).is_some())
}
