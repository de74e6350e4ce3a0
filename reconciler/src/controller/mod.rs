//! The loop: assemble a `World` for each cluster, ask `rollout::step`, carry out the effects.
//!
//! Architecture Invariant: nothing here decides. What is next comes from `step`; this folder reads, commits, pushes and waits.

pub mod access;
pub mod adopt;
mod changes;
pub mod clock;
pub mod commit;
mod deploy;
pub mod directory;
pub mod expectation;
mod machines;
pub mod parts;
mod pass;
mod plan;
pub mod planner;
mod report;
pub mod sources;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rollout::{ClusterName, CommitId, GateHistory, Observation};

pub use report::{ClusterOutcome, ClusterPass, CommittedStage, Pass};

use access::Clusters;
use clock::Clock;
use planner::{ClusterView, FleetReading, Planner};

use crate::git::{GitError, ObjectId};

/// What the controller remembers of a cluster between passes. Losing it costs time, never correctness.
#[derive(Clone, Debug, Default)]
struct Memory {
    history: GateHistory,
    observation: Option<Observation>,
    view: Option<(ViewKey, Arc<ClusterView>)>,
    /// The directory that was last applied without Flux.
    applied: Option<DirectoryIds>,
}

/// Ids of a cluster's folders on the deploy branch.
type DirectoryIds = (Option<ObjectId>, Option<ObjectId>);

/// What a view follows from: while it stays, the view is not made again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ViewKey {
    source: CommitId,
    deploy: Option<CommitId>,
    directory: DirectoryIds,
}

/// Carries the rollouts of a fleet through. Two of them may run at once: the deploy branch moves by compare-and-swap only.
pub struct Controller {
    planner: Planner,
    clusters: Arc<dyn Clusters>,
    clock: Arc<dyn Clock>,
    concurrency: usize,
    memory: Mutex<BTreeMap<ClusterName, Memory>>,
    reading: Mutex<Option<FleetReading>>,
    settled: Mutex<Option<Settled>>,
    /// One writer at a time in this process: a lost race against ourselves would only cost a plan.
    writing: tokio::sync::Mutex<()>,
}

/// The heads at which every cluster was done: while they stay, a pass reads two refs and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settled {
    heads: crate::git::Heads,
    pass: Pass,
}

impl Controller {
    /// A controller for the planner's fleet, that works on at most `concurrency` clusters at once.
    pub fn new(planner: Planner, clusters: Arc<dyn Clusters>, clock: Arc<dyn Clock>, concurrency: usize) -> Self {
        Self {
            planner,
            clusters,
            clock,
            concurrency: concurrency.max(1),
            memory: Mutex::default(),
            reading: Mutex::default(),
            settled: Mutex::default(),
            writing: tokio::sync::Mutex::new(()),
        }
    }

    /// The planner that it reads the fleet with.
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The newest view of a cluster, as of the last pass.
    pub fn view(&self, cluster: &ClusterName) -> Option<Arc<ClusterView>> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.get(cluster).and_then(|memory| memory.view.as_ref()).map(|(_, view)| Arc::clone(view))
    }

    fn memory(&self, cluster: &ClusterName) -> Memory {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).get(cluster).cloned().unwrap_or_default()
    }

    fn remember(&self, cluster: &ClusterName, change: impl FnOnce(&mut Memory)) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        change(memory.entry(cluster.clone()).or_default());
    }

    /// Both branches as they are now. The source commit is parsed only when it moved.
    fn read(&self) -> Result<FleetReading, GitError> {
        let last = self.reading.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reading = match last {
            Some(last) if self.source_unmoved(&last)? => self.planner.read_deploy(last.source, last.fleet)?,
            _ => self.planner.read()?,
        };
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading.clone());
        Ok(reading)
    }

    fn source_unmoved(&self, last: &FleetReading) -> Result<bool, GitError> {
        let branch = self.planner.source_branch().clone();
        let heads = self.planner.repository().heads(std::slice::from_ref(&branch))?;
        Ok(heads.get(&branch).cloned().flatten().as_ref() == Some(last.source.snapshot().commit()))
    }
}
