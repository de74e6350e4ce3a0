//! Upgrades on the machines that are there: what is read of clusters for them, and what is done.
//!
//! Architecture Invariant: nothing is remembered between two turns. What is next follows from what is read, and every
//! action may be cut off anywhere and done again.

mod adopt;
mod annotated;
mod cluster_configuration;
mod declined;
mod etcd_leader;
mod files;
mod objects;
mod perform;
mod pods;
mod snapshot;
mod workload;
mod world;

use std::collections::BTreeMap;

use in_place::order::{Action, Settings, World, decide};
use jiff::Timestamp;
use tokio::sync::Mutex;

use crate::ClusterError;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::read::workload::Own;
use snapshot::Snapshot;
use workload::Reading;

pub use objects::definitions;

/// Upgrades nodes in place, in every cluster of a management cluster that wants it.
#[derive(Debug)]
pub struct UpgradeController {
    management: Connection,
    settings: Settings,
    /// Connections to clusters' own servers, by namespace and name.
    own: Mutex<BTreeMap<(String, String), std::sync::Arc<Own>>>,
}

/// What became of one cluster in a turn.
#[derive(Debug)]
pub struct ClusterTurn {
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What was done, in order.
    pub done: Vec<Action>,
    /// Why the rest was not.
    pub error: Option<ClusterError>,
}

impl UpgradeController {
    /// One that works through this connection.
    #[must_use]
    pub fn new(management: Connection, settings: Settings) -> Self {
        Self { management, settings, own: Mutex::default() }
    }

    /// Reads every cluster that wants it, decides, and does what is decided. What fails in one cluster stops no other.
    ///
    /// # Errors
    /// When the management cluster cannot be read.
    pub async fn turn(&self, now: Timestamp) -> Result<Vec<ClusterTurn>, RequestError> {
        let snapshot = Snapshot::read(&self.management).await?;
        let mut turns = Vec::new();
        for cluster in snapshot.wanting() {
            let (namespace, name) = cluster.clone();
            let mut done = Vec::new();
            let error = self.turn_of(&snapshot, &cluster, now, &mut done).await.err();
            turns.push(ClusterTurn { namespace, name, done, error });
        }
        Ok(turns)
    }

    async fn turn_of(
        &self,
        snapshot: &Snapshot,
        cluster: &(String, String),
        now: Timestamp,
        done: &mut Vec<Action>,
    ) -> Result<(), ClusterError> {
        let own = self.own_of(cluster).await;
        let reading = Reading::of(&self.management, &own, &workload::address_lease(snapshot, cluster)).await;
        let world = world::read(&self.management, snapshot, cluster, &reading, self.settings).await?;
        let performer = perform::Performer {
            management: &self.management,
            snapshot,
            served: &snapshot.served,
            own: reading.connection.as_ref(),
            namespace: &cluster.0,
            world: &world,
            now,
        };
        for action in decide(&world, now) {
            performer.perform(&action).await?;
            done.push(action);
        }
        Ok(())
    }

    async fn own_of(&self, cluster: &(String, String)) -> std::sync::Arc<Own> {
        let mut known = self.own.lock().await;
        let own = known.entry(cluster.clone()).or_insert_with(|| Own::workload(&cluster.0, &cluster.1).into());
        std::sync::Arc::clone(own)
    }
}

/// What a world says of the machines of a cluster, for whoever performs its actions.
fn has_several_control_planes(world: &World) -> bool {
    world.machines.iter().filter(|machine| machine.control_plane).count() > 1
}
