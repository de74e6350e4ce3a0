//! Reads the fleet for a process that carries nothing through: a follower, or `stepgate web`.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;

use super::snapshot::{ClusterRow, Read, ReadBy, Snapshot};
use crate::reconcile::clusters::access::Clusters;
use crate::reconcile::main_loop::clock::SystemClock;
use crate::reconcile::observe::explain::{Explainer, Explanation};
use crate::reconcile::planner::{FleetReading, PlanError, Planner};
use crate::report::{ClusterStatus, WaveReport};
use git::GitError;

/// How many clusters are read at once.
const AT_ONCE: usize = 8;

/// Reads the fleet as `stepgate status` does.
#[derive(Clone)]
pub struct FleetReader {
    planner: Planner,
    clusters: Arc<dyn Clusters>,
    read_by: ReadBy,
}

impl FleetReader {
    /// A reader of the planner's fleet that asks these clusters.
    #[must_use]
    pub fn new(planner: Planner, clusters: Arc<dyn Clusters>, read_by: ReadBy) -> Self {
        Self { planner, clusters, read_by }
    }

    /// The planner that it reads with.
    #[must_use]
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The fleet as it is now.
    ///
    /// # Errors
    /// [`GitError`] when the repository or a branch of it cannot be read.
    pub async fn read(&self) -> Result<Snapshot, GitError> {
        let reading = self.planner.read_to_check()?;
        let explainer = Explainer::new(&self.planner, &reading, self.clusters.as_ref(), &SystemClock);
        let known = reading.fleet.clusters.iter().map(|cluster| cluster.name.clone());
        let unreadable = reading.fleet.unreadable_clusters().into_iter().map(str::to_owned);
        let names: Vec<String> = known.chain(unreadable).collect();
        let (explainer, reading) = (&explainer, &reading);
        let rows = stream::iter(names).map(|name| async move {
            match self.cluster(explainer, reading, &name).await {
                Ok((row, explanation)) => (row, Some(Arc::new(explanation))),
                Err(error) => {
                    let status = ClusterStatus::failed(name, error.to_string());
                    (ClusterRow::of(reading, status, None), None)
                }
            }
        });
        let rows = rows.buffered(AT_ONCE).collect().await;
        let at = Timestamp::now();
        let waves = Box::pin(explainer.waves()).await.iter().map(|wave| WaveReport::of(wave, at)).collect();
        Ok(Read { planner: &self.planner, reading, read_by: self.read_by, waves, at }.with(rows))
    }

    async fn cluster(
        &self,
        explainer: &Explainer<'_>,
        reading: &FleetReading,
        name: &str,
    ) -> Result<(ClusterRow, Explanation), PlanError> {
        let view = self.planner.view(reading, name)?;
        let explanation = Box::pin(explainer.explain(&view)).await?;
        let outlook = self.planner.outlook(reading, &view, Timestamp::now())?;
        let status =
            ClusterStatus { rollback: outlook.told(&view.name), ..ClusterStatus::of(&view, &explanation, None) }
                .with_stages(&view, &explanation);
        Ok((ClusterRow::of(reading, status, Some(&view)), explanation))
    }
}
