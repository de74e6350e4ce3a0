//! Workloads on old nodes of Fargate, restarted one after another while the stage waits for them.

use std::sync::Arc;

use rollout::eksctl::fargate::{FargateAct, next_restart};
use rollout::{Reason, World};

use crate::reconcile::Controller;
use crate::reconcile::clusters::cluster_timeout::ClusterTimeout;
use crate::reconcile::planner::{ClusterView, FleetReading};

impl Controller {
    /// Restarts the next workload, where the policy lets Stepgate do that. The next reading shows what became of it; why it could not
    /// be restarted is told.
    pub(super) async fn restart_on_fargate(
        &self,
        reading: &FleetReading,
        view: &Arc<ClusterView>,
        world: &World,
        answering: &ClusterTimeout,
    ) -> Option<Reason> {
        let restarts = view.befores.restarts_fargate(&reading.fleet.policy, view.name.as_str());
        let observation = world.observation.as_deref().filter(|read| read.confirmed && restarts);
        let fargate = observation.and_then(|observation| observation.fargate.as_ref())?;
        let ledger = view.directory.ledger()?;
        let FargateAct::Restart(workload) = next_restart(fargate, &ledger.rollout) else { return None };
        let subject = workload.subject();
        tracing::info!(cluster.name = %view.name, workload = %subject, "restarts what runs on old nodes of Fargate");
        let cluster = self.handle(reading, view);
        let restarting = cluster.restart(workload, &ledger.rollout, self.clock.now());
        if let Err(error) = answering.wait(self.clock.as_ref(), restarting).await {
            tracing::warn!(cluster.name = %view.name, workload = %subject, %error, "a workload could not be restarted");
            let help = "let Stepgate get and patch deployments and statefulsets there, or restart it by hand";
            return Some(Reason::on(subject, format!("could not be restarted: {error}")).help(help));
        }
        // Only a new reading shows it.
        self.remember(&view.name, |memory| memory.fast_path.forget());
        None
    }
}
