//! The fleet's clusters in memory, told of every commit on the deploy branch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use overlays::ClusterSpec;
use rollout::ClusterIdentity;
use rollout::{StageName, StageRecordKind};
use simulator::{DeployedCommit, DesiredState, MachineKind, Pace, SimulatedCluster};

use super::MachineCounts;
use super::deployed::{desired, shape};
use crate::reconcile::clusters::access::{Clusters, NoAccess};
use crate::reconcile::clusters::directory;
use crate::reconcile::planner::EksDReleases;
use crate::reconcile::planner::FleetReading;
use cluster::Cluster;
use cluster::simulated::Simulated;
use git::{GitError, GitSnapshot, Repository};
use planning::ClusterDirectory;

/// What is known of one simulated cluster.
struct Known {
    cluster: Arc<Simulated>,
    desired: Arc<DesiredState>,
    directory: ClusterDirectory,
    releases: EksDReleases,
}

/// What is simulated, and how.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The one cluster that is; every one of the fleet, where none is named.
    pub only: Option<ClusterName>,
    /// What everything random follows from: of the first cluster, and of the next ones as many more.
    pub seed: u64,
    /// How many machines run where no specification tells.
    pub counts: MachineCounts,
    /// The releases before a control plane is committed, and from then on: EKS Anywhere makes all machines anew with the control plane.
    pub releases: (EksDReleases, EksDReleases),
    /// How long machines take to start, where that is known.
    pub paces: BTreeMap<MachineKind, Pace>,
    /// Which cluster readings say that they are of, where a ledger records one.
    pub identity: Option<ClusterIdentity>,
}

impl Default for Simulation {
    fn default() -> Self {
        Self {
            only: None,
            seed: 1,
            counts: MachineCounts::default(),
            releases: (EksDReleases::new(), EksDReleases::new()),
            paces: BTreeMap::new(),
            identity: None,
        }
    }
}

/// The clusters of the fleet.
#[derive(Default)]
pub struct SimulatedFleet {
    clusters: Mutex<BTreeMap<String, Known>>,
    head: Mutex<Option<CommitId>>,
    simulation: Simulation,
}

impl SimulatedFleet {
    /// The fleet as the deploy branch describes it now, everything settled.
    ///
    /// # Errors
    /// [`GitError`] when the deploy branch cannot be read.
    pub fn settled(reading: &FleetReading, at: Timestamp) -> Result<Self, GitError> {
        Self::settled_as(reading, at, Simulation::default())
    }

    /// As [`SimulatedFleet::settled`], by what is known of the clusters beyond their repository.
    ///
    /// # Errors
    /// As [`SimulatedFleet::settled`].
    pub fn settled_as(reading: &FleetReading, at: Timestamp, simulation: Simulation) -> Result<Self, GitError> {
        let fleet = Self { simulation, ..Self::default() };
        let Simulation { only, seed, counts, releases, paces, identity } = &fleet.simulation;
        let Some(deploy) = &reading.deploy else { return Ok(fleet) };
        for (seed, spec) in (*seed..).zip(&reading.fleet.clusters) {
            let Ok(name) = spec.name.parse::<ClusterName>() else { continue };
            if only.as_ref().is_some_and(|only| *only != name) {
                continue;
            }
            let directory = directory::read(deploy, &name)?;
            let wanted = Arc::new(desired(&name, spec, &directory, counts, &releases.0));
            let mut cluster = SimulatedCluster::new(&shape(&name, spec, &directory, counts), seed, at);
            for (kind, pace) in paces {
                cluster.set_pace(kind, *pace);
            }
            cluster.install(
                &DeployedCommit { id: deploy.commit().clone(), stage: None, desired: Arc::clone(&wanted) },
                at,
            );
            let cluster = Arc::new(Simulated::new(cluster).known_as(identity.clone()));
            let known = Known { cluster, desired: wanted, directory, releases: releases.0.clone() };
            fleet.clusters.lock().unwrap_or_else(PoisonError::into_inner).insert(spec.name.clone(), known);
        }
        *fleet.head.lock().unwrap_or_else(PoisonError::into_inner) = Some(deploy.commit().clone());
        Ok(fleet)
    }

    /// One of the clusters.
    pub fn get(&self, name: &str) -> Option<Arc<Simulated>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).get(name).map(|known| Arc::clone(&known.cluster))
    }

    /// Tells the clusters of the commits that came since the last call.
    ///
    /// # Errors
    /// [`GitError`] when the deploy branch cannot be read.
    pub fn follow(&self, repository: &Repository, reading: &FleetReading, at: Timestamp) -> Result<(), GitError> {
        let Some(head) = repository.head(&reading.layout.branch)? else { return Ok(()) };
        let mut last = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() == Some(&head) {
            return Ok(());
        }
        let new = match last.as_ref() {
            Some(last) => repository.lineage(last, &head)?.into_iter().skip(1).collect(),
            None => vec![head.clone()],
        };
        for id in new {
            let snapshot = repository.deploy_snapshot(&reading.layout, &id)?;
            self.commit(repository, reading, &snapshot, &id, at)?;
        }
        *last = Some(head);
        Ok(())
    }

    fn commit(
        &self,
        repository: &Repository,
        reading: &FleetReading,
        snapshot: &GitSnapshot,
        id: &CommitId,
        at: Timestamp,
    ) -> Result<(), GitError> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        for spec in &reading.fleet.clusters {
            let (Ok(name), Some(known)) = (spec.name.parse::<ClusterName>(), clusters.get_mut(&spec.name)) else {
                continue;
            };
            let mut stage: Option<StageName> = None;
            if directory::ids(snapshot, &name)? != known.directory.ids {
                let directory = directory::read(snapshot, &name)?;
                let own = repository.history(id, &reading.layout, &name, 1)?;
                stage = own.first().and_then(|entry| entry.stage.as_ref()).map(|trailers| trailers.stage.name.clone());
                let Simulation { counts, releases: (before, after), .. } = &self.simulation;
                if stage == Some(StageName::ControlPlane) {
                    let last = directory.ledger().and_then(|ledger| ledger.stages.last());
                    let is_back = last.is_some_and(|last| last.kind == StageRecordKind::Revert);
                    known.releases.clone_from(if is_back { before } else { after });
                }
                known.desired = Arc::new(desired(&name, spec, &directory, counts, &known.releases));
                known.directory = directory;
            }
            known.cluster.commit(&DeployedCommit { id: id.clone(), stage, desired: Arc::clone(&known.desired) }, at);
        }
        Ok(())
    }
}

impl Clusters for SimulatedFleet {
    fn cluster(&self, cluster: &ClusterSpec) -> Arc<dyn Cluster> {
        match self.get(&cluster.name) {
            Some(known) => known,
            None => NoAccess::new(format!("cluster {} is not simulated", cluster.name)).cluster(cluster),
        }
    }
}
