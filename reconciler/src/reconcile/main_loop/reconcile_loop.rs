//! One pass after the other. A pass does not wait for a cluster that takes long to answer: it leaves it behind, and a later one decides on what
//! was read then.
//!
//! Architecture Invariant: one cluster's silence holds up no other. A pass waits a second for a
//! cluster's answer and then goes on without it. The visit to that cluster goes on beside the next
//! passes; nothing is decided on it before a pass of its own, and until then nobody visits that
//! cluster a second time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures::future::{BoxFuture, Either, FutureExt as _, select};
use futures::stream::{FuturesUnordered, StreamExt as _};
use jiff::SignedDuration;
use overlays::ClusterSpec;
use rollout::Reason;

use crate::reconcile::Controller;
use crate::reconcile::clusters::cluster_timeout::ClusterTimeout;
use crate::reconcile::main_loop::report::{ClusterOutcome, ClusterPass, CommittedStage, ReconcileReport};
use crate::reconcile::main_loop::single_pass::Work;
use crate::reconcile::planner::{FleetReading, VIEWS};
use crate::reconcile::proposal::ProposalCache;
use cluster::kubernetes::{ChangeScope, Changes};
use git::GitError;

/// How long a pass waits for one cluster. Most are read in a tenth of that; one that stands still answers after many times as long that it does.
const PATIENCE: SignedDuration = SignedDuration::from_secs(1);

/// The passes of one process. Dropping them leaves off whatever is under way.
pub struct ReconcileLoop<'a> {
    controller: &'a Controller,
    patience: Option<SignedDuration>,
    /// Work on clusters, of which some was begun by earlier passes.
    under_way: FuturesUnordered<BoxFuture<'a, Work>>,
    /// The clusters that it is work on.
    clusters: BTreeMap<String, Arc<ClusterTimeout>>,
    /// What has changed of clusters that were left behind, since they began to be read.
    changed: BTreeMap<String, ChangeScope>,
    /// What was committed for clusters that were left behind after that.
    committed: BTreeMap<String, Vec<CommittedStage>>,
    /// What was said of each cluster last.
    said: BTreeMap<String, ClusterPass>,
    /// Whether a cluster that was left behind has answered since the last pass began.
    answered: bool,
}

impl Controller {
    /// Passes that leave clusters behind which take long to answer, so that these do not hold up the others.
    pub fn passes(&self) -> ReconcileLoop<'_> {
        ReconcileLoop::new(self, Some(PATIENCE))
    }

    /// Brings every cluster as far as it can go now, and waits for each as long as it takes. What goes wrong with one cluster stays with it.
    ///
    /// # Errors
    /// [`GitError`] when the repository or the source branch cannot be read at all.
    pub async fn pass(&self) -> Result<Arc<ReconcileReport>, GitError> {
        ReconcileLoop::new(self, None).next().await
    }
}

impl<'a> ReconcileLoop<'a> {
    fn new(controller: &'a Controller, patience: Option<SignedDuration>) -> Self {
        Self {
            controller,
            patience,
            under_way: FuturesUnordered::new(),
            clusters: BTreeMap::new(),
            changed: BTreeMap::new(),
            committed: BTreeMap::new(),
            said: BTreeMap::new(),
            answered: false,
        }
    }

    /// Brings every cluster as far as it can go now, but for those that earlier passes have left behind and that have not answered yet.
    ///
    /// # Errors
    /// [`GitError`] when the repository or the source branch cannot be read at all.
    pub async fn next(&mut self) -> Result<Arc<ReconcileReport>, GitError> {
        let controller = self.controller;
        controller.planner.begin_pass();
        self.leave_off();
        self.forget_changed();
        let mut heads = controller.heads()?;
        if let Some(settled) = controller.settled_at(&heads) {
            return Ok(settled);
        }
        let reading = controller.read(&heads)?;
        // The first reading says which branch is deployed from; it is looked at from the next pass on.
        heads.entry(reading.layout.branch.clone()).or_insert_with(|| reading.deploy_head().cloned());
        for branch in reading.branches.iter().filter(|branch| **branch != reading.layout.branch) {
            heads.entry(branch.clone()).or_insert(controller.planner.repository().head(branch)?);
        }
        let clusters: Vec<&ClusterSpec> =
            reading.fleet.clusters.iter().filter(|cluster| controller.works_on(cluster)).collect();
        // One that was left behind was not done: those that wait for it go on waiting.
        let clusters = clusters.into_iter().filter(|cluster| !self.clusters.contains_key(&cluster.name));
        // Management clusters first, so that the clusters that wait for them see this pass' result.
        let (first, second): (Vec<_>, Vec<_>) = clusters.partition(|cluster| cluster.is_management());
        let board = Arc::new(ProposalCache::knowing(controller.open_pulls()));
        let mut works = self.work_on(&reading, &board, first).await;
        works.extend(self.work_on(&reading, &board, second).await);
        controller.ask_people(&reading, board, &mut works).await?;
        controller.look_again(&reading, &mut works);
        let mut passes: Vec<ClusterPass> = works.into_iter().map(|work| work.pass).collect();
        passes.iter_mut().for_each(|pass| self.catch_up(pass));
        self.said.retain(|name, _| reading.fleet.cluster(name).is_some());
        self.said.extend(passes.iter().map(|pass| (pass.cluster.clone(), pass.clone())));
        let decided: BTreeSet<String> = passes.iter().map(|pass| pass.cluster.clone()).collect();
        let undecided = reading.fleet.clusters.iter().filter(|cluster| controller.works_on(cluster));
        let undecided = undecided.filter(|cluster| !decided.contains(&cluster.name));
        passes.extend(undecided.map(|cluster| self.unanswered(cluster)));
        // In the order of the fleet, which is that of names.
        passes.sort_by(|left, right| left.cluster.cmp(&right.cluster));
        let unreadable = reading.fleet.unreadable_clusters();
        let unreadable = unreadable.into_iter().filter(|_| controller.only.is_none());
        passes.extend(unreadable.map(|name| controller.unreadable(&reading, name)));
        let pass = Arc::new(ReconcileReport { clusters: passes, waves: controller.waves(&reading) });
        controller.settle(heads, &pass);
        Ok(pass)
    }

    /// Returns when a cluster has changed, as far as clusters tell, or one that was left behind has answered; else never.
    pub async fn changed(&mut self) {
        let controller = self.controller;
        while !self.answered {
            let answer = poll_fn(|context| match self.under_way.poll_next_unpin(context) {
                Poll::Ready(Some(work)) => Poll::Ready(work),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            });
            match select(pin!(controller.changed()), answer).await {
                Either::Left(_) => return,
                Either::Right((work, _)) => drop(self.ended(work)),
            }
        }
    }

    /// A pass that was left in the middle has left work that is no pass' any more. Who has answered meanwhile is not behind any more.
    fn leave_off(&mut self) {
        if self.clusters.values().any(|cluster| !cluster.is_late()) {
            self.under_way.clear();
            self.clusters.clear();
        }
        while let Some(Some(work)) = self.under_way.next().now_or_never() {
            drop(self.ended(work));
        }
        self.answered = false;
    }

    /// What was read of a cluster that has changed since is not worth keeping. Of one that is being read still, what is read counts first.
    fn forget_changed(&mut self) {
        for (name, extent) in self.controller.clusters.changes().map(Changes::take).unwrap_or_default() {
            if self.clusters.contains_key(&name) {
                let known = self.changed.entry(name).or_insert(extent);
                *known = extent.max(*known);
            } else {
                self.controller.forget(&name, extent);
            }
        }
    }

    /// A cluster was decided about that earlier passes may have left behind.
    fn catch_up(&mut self, pass: &mut ClusterPass) {
        if let Some(committed) = self.committed.remove(&pass.cluster) {
            pass.committed.splice(0..0, committed);
        }
        // It was decided on what was read before it changed: it is read once more.
        if let Some(extent) = self.changed.remove(&pass.cluster)
            && let Some(changes) = self.controller.clusters.changes()
        {
            changes.note(&pass.cluster, extent);
        }
    }

    async fn work_on(
        &mut self,
        reading: &FleetReading,
        board: &Arc<ProposalCache>,
        clusters: Vec<&ClusterSpec>,
    ) -> Vec<Work> {
        let (mut works, mut moving) = (Vec::new(), Vec::new());
        for cluster in clusters {
            match self.controller.at_rest(reading, cluster) {
                Some(work) => works.push(work),
                None => moving.push(cluster),
            }
        }
        let views = |clusters: &&[&ClusterSpec]| self.controller.make_views(reading, clusters);
        let mut clusters = moving.chunks(VIEWS).inspect(views).flatten().copied();
        loop {
            let places = self.controller.concurrency.saturating_sub(waited_for(&self.clusters));
            clusters.by_ref().take(places).for_each(|cluster| self.begin(reading, board, cluster));
            if waited_for(&self.clusters) == 0 {
                return works;
            }
            let work = self.next_work().await;
            works.extend(work.and_then(|work| self.ended(work)));
        }
    }

    fn begin(&mut self, reading: &FleetReading, board: &Arc<ProposalCache>, cluster: &ClusterSpec) {
        let (controller, name) = (self.controller, cluster.name.clone());
        let answering = Arc::new(ClusterTimeout::within(self.patience));
        self.clusters.insert(name.clone(), Arc::clone(&answering));
        let (reading, board) = (reading.clone(), Arc::clone(board));
        self.under_way.push(Box::pin(async move {
            match reading.fleet.cluster(&name) {
                Some(cluster) => controller.cluster(&reading, &board, cluster, &answering).await,
                None => Work::undecided(&name),
            }
        }));
    }

    /// The work that ends next; none when a cluster is late before.
    async fn next_work(&mut self) -> Option<Work> {
        let before = waited_for(&self.clusters);
        poll_fn(|context| match self.under_way.poll_next_unpin(context) {
            Poll::Ready(work) => Poll::Ready(work),
            Poll::Pending if waited_for(&self.clusters) < before => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// What was decided; nothing of a cluster that was left behind.
    fn ended(&mut self, work: Work) -> Option<Work> {
        let name = &work.pass.cluster;
        if self.clusters.remove(name).is_none_or(|cluster| !cluster.is_late()) {
            return Some(work);
        }
        self.answered = true;
        if !work.pass.committed.is_empty() {
            self.committed.entry(name.clone()).or_default().extend(work.pass.committed);
        }
        None
    }

    /// What is said of a cluster that has not answered yet is what was said before, unless it was that there is nothing to do.
    fn unanswered(&self, cluster: &ClusterSpec) -> ClusterPass {
        match self.said.get(&cluster.name).filter(|said| said.outcome != ClusterOutcome::Done) {
            Some(said) => ClusterPass { committed: Vec::new(), next: None, ..said.clone() },
            None => {
                let reason = Reason::new("the cluster has not answered yet");
                ClusterPass::new(&cluster.name, ClusterOutcome::Waiting { stage: None, reason, until: None })
            }
        }
    }
}

/// How many of these clusters a pass waits for.
fn waited_for(clusters: &BTreeMap<String, Arc<ClusterTimeout>>) -> usize {
    clusters.values().filter(|cluster| !cluster.is_late()).count()
}
