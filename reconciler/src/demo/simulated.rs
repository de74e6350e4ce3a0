//! The fleet's clusters in memory, told of every commit on the deploy branch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use overlays::ClusterSpec;
use rollout::StageName;
use simulator::{DeployedCommit, DesiredState, SimulatedCluster};

use super::deployed::{desired, shape};
use crate::reconcile::clusters::access::{Clusters, NoAccess};
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
}

/// The clusters of the fleet.
#[derive(Default)]
pub struct SimulatedFleet {
    clusters: Mutex<BTreeMap<String, Known>>,
    head: Mutex<Option<CommitId>>,
}

impl SimulatedFleet {
    /// The fleet as the deploy branch describes it now, everything settled.
    ///
    /// # Errors
    /// [`GitError`] when the deploy branch cannot be read.
    pub fn settled(reading: &FleetReading, at: Timestamp) -> Result<Self, GitError> {
        let fleet = Self::default();
        let Some(deploy) = &reading.deploy else { return Ok(fleet) };
        for (seed, spec) in (1..).zip(&reading.fleet.clusters) {
            let Ok(name) = spec.name.parse::<ClusterName>() else { continue };
            let directory = crate::reconcile::clusters::directory::read(deploy, &name)?;
            let wanted = Arc::new(desired(&name, spec, &directory));
            let mut cluster = SimulatedCluster::new(&shape(&name, spec, &directory), seed, at);
            cluster.install(
                &DeployedCommit { id: deploy.commit().clone(), stage: None, desired: Arc::clone(&wanted) },
                at,
            );
            let known = Known { cluster: Arc::new(Simulated::new(cluster)), desired: wanted, directory };
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
            let directory = crate::reconcile::clusters::directory::read(snapshot, &name)?;
            let mut stage: Option<StageName> = None;
            if directory.ids != known.directory.ids {
                known.desired = Arc::new(desired(&name, spec, &directory));
                let own = repository.history(id, &reading.layout, &name, 1)?;
                stage = own.first().and_then(|entry| entry.stage.as_ref()).map(|trailers| trailers.stage.name.clone());
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
            None => NoAccess::new(format!("the demo has no cluster {}", cluster.name)).cluster(cluster),
        }
    }
}
