//! A visit to a cluster: what is to be done there first is done, then it is read.

use std::sync::Arc;

use jiff::Timestamp;
use overlays::ClusterSpec;
use policy::Apply;
use rollout::{FastPath, LedgerState, World};

use crate::reconcile::Controller;
use crate::reconcile::clusters::cluster_timeout::ClusterTimeout;
use crate::reconcile::effects::direct;
use crate::reconcile::main_loop::report::ClusterOutcome;
use crate::reconcile::observe::eks;
use crate::reconcile::observe::flux_precheck::PrecheckOutcome;
use crate::reconcile::observe::observe_request::request;
use crate::reconcile::planner::{ClusterView, FleetReading, PlanError};
use cluster::eksctl::{EksctlRequest, EksctlTarget};
use cluster::{Cluster, Freshness, ObserveRequest};
use domain::CommitId;
use overlays::ClusterKind;
use planning::{EksctlWork, eksctl_work};

/// What a visit comes to.
pub(in crate::reconcile) enum Visit {
    /// There is nothing to decide yet; when to look again.
    Waits(ClusterOutcome, Timestamp),
    /// This was read.
    Read(FastPath),
}

impl Controller {
    pub(in crate::reconcile) async fn visit(
        &self,
        reading: &FleetReading,
        view: &Arc<ClusterView>,
        world: &World,
        freshness: Freshness,
        answering: &ClusterTimeout,
    ) -> Visit {
        let now = self.clock.now();
        let cluster = self.handle(reading, view);
        self.ensure_applied(reading, view, cluster.as_ref(), now).await;
        self.ensure_carried_out(reading, view, now).await;
        self.ensure_told(reading, view, cluster.as_ref(), now).await;
        let mut request = request(view, world, freshness, now);
        // First the watches: what changes after the reading is told, and nothing in between is missed.
        cluster.follow(&request, &FastPath::concerning_running_gate(world)).await;
        match self.precheck(view, world, cluster.as_ref(), &request).await {
            // What a precheck sees is for its own pass. If that has gone on without it, everything is read: this is kept for the next one.
            PrecheckOutcome::Waits(..) if answering.is_late() => {
                request = ObserveRequest { at: self.clock.now(), ..request };
            }
            PrecheckOutcome::Waits(outcome, next) => return Visit::Waits(outcome, next),
            PrecheckOutcome::First(readings) => return Visit::Read(readings),
            PrecheckOutcome::ReadEverything => {}
        }
        let readings = match self.confirm(reading, view, world, cluster.as_ref(), &request).await {
            Some(readings) => readings,
            None => {
                let (clusters, policy) = (self.clusters.as_ref(), &reading.fleet.policy);
                FastPath::whole(eks::observe(clusters, policy, cluster.as_ref(), view, &request).await)
            }
        };
        let reachable = readings.reading().observation().map(|observation| observation.reachable.clone());
        self.remember(&view.name, |memory| memory.reachable = reachable);
        Visit::Read(readings)
    }

    /// The cluster that is meant now. Where that leads elsewhere than before, what was read there says nothing of it.
    pub(in crate::reconcile) fn handle(&self, reading: &FleetReading, view: &ClusterView) -> Arc<dyn Cluster> {
        let reference = self.planner.reference(reading, &view.cluster);
        self.remember(&view.name, |memory| {
            if memory.reference.as_ref().is_some_and(|known| known.leads_elsewhere(&reference)) {
                memory.forget_cluster();
            }
            memory.reference = Some(reference.clone());
        });
        self.clusters.referred(&view.cluster, &reference)
    }

    /// Flux is told of our own commit by the work that made it: the pass may go on without this
    /// cluster, and a later visit begins behind everything else that is asked of the API server.
    pub(in crate::reconcile) async fn tell_of_commit(
        &self,
        reading: &FleetReading,
        cluster: &ClusterSpec,
        answering: &ClusterTimeout,
    ) -> Result<(), PlanError> {
        let view = self.current_view(reading, cluster)?;
        let handle = self.handle(reading, &view);
        let telling = self.ensure_told(reading, &view, handle.as_ref(), self.clock.now());
        answering.wait(self.clock.as_ref(), telling).await;
        Ok(())
    }

    /// Flux is told of a commit before its effect is looked for, whoever brought it onto the branch: it would find it at its own interval, which
    /// may be an hour. A new process cannot know what the one before it told, and tells it once more.
    async fn ensure_told(&self, reading: &FleetReading, view: &ClusterView, cluster: &dyn Cluster, now: Timestamp) {
        let runs = view.directory.ledger().is_some_and(|ledger| ledger.state == LedgerState::Running);
        if !runs
            || reading.fleet.policy.apply != Apply::Flux
            || self.memory(&view.name).told == Some(view.directory.ids)
        {
            return;
        }
        if let Err(error) = cluster.nudge(&view.flux_references(), now).await {
            tracing::warn!(cluster.name = %view.name, %error, "Flux was not told of the commit; it finds it at its own interval");
        }
        self.remember(&view.name, |memory| memory.told = Some(view.directory.ids));
    }

    /// Where Stepgate runs eksctl, the newest stage is carried out. What is begun goes on by itself; what is there already, or on its way,
    /// is not begun once more.
    async fn ensure_carried_out(&self, reading: &FleetReading, view: &ClusterView, now: Timestamp) {
        let policy = &reading.fleet.policy;
        let programs = self.clusters.eks_programs().and_then(|programs| programs.eksctl.as_ref());
        let (Some(eksctl), Some(head)) = (programs, reading.deploy_head()) else { return };
        let name = view.name.as_str();
        let may_run = view.befores.runs_eksctl(policy, name)
            && !policy.is_paused(name, now)
            && view.befores.pausing(name, now).is_none()
            && view.foreign.is_none();
        if view.cluster.kind != ClusterKind::Eksctl || !may_run {
            return;
        }
        let Some(work) = eksctl_work(&view.cluster, &view.name, &view.directory, &view.head) else { return };
        let is_known = |commit: &CommitId| view.head.lineage().iter().any(|known| known == commit);
        let branch = &reading.layout.branch;
        let is_newest = || self.planner.repository().head(branch).is_ok_and(|newest| newest.as_ref() == Some(head));
        let EksctlWork { name, region, step, config } = work;
        let target = EksctlTarget { cluster: view.name.clone(), name, region };
        let request = EksctlRequest { target, step, config, is_known: &is_known, is_newest: &is_newest };
        eksctl.carry_out(&request, now).await;
    }

    /// Without Flux the directory is applied by us: after a commit, and once by each new process, since it cannot know what the
    /// one before it still did.
    async fn ensure_applied(&self, reading: &FleetReading, view: &ClusterView, cluster: &dyn Cluster, now: Timestamp) {
        let Some(commit) = reading.deploy_head().filter(|_| view.befores.applies_directly(&reading.fleet.policy))
        else {
            return;
        };
        if self.memory(&view.name).applied == Some(view.directory.ids) {
            return;
        }
        let request = direct::request(&reading.fleet, view, commit);
        match cluster.apply(&request, now).await {
            Ok(report) => direct::tell(view, &report),
            Err(error) => {
                // The next observation carries the problem, so the gate says it.
                tracing::warn!(cluster.name = %view.name, %error, "could not apply the directory of `{}`", view.name);
                return;
            }
        }
        self.remember(&view.name, |memory| memory.applied = Some(view.directory.ids));
    }
}
