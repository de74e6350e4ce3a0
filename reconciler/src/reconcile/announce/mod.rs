//! What is to be told of a pass: read off the deploy branch, commit by commit, and off where each cluster stands.
//!
//! Architecture Invariant: nothing here is part of a pass. What has happened is read beside the passes, from the commit
//! on that was read last, so a process that dies tells nothing twice and leaves nothing out.

mod history;
mod rolled;
mod standing;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use domain::{ClusterName, CommitId};
use overlays::Fleet;
use rollout::{Announcement, Spans, StageId, spans};
use stepgate_notify::{FluxObject, Happened, Outgoing, Route};

use crate::reconcile::Controller;
use crate::reconcile::main_loop::report::ReconcileReport;
use git::{DeployLayout, GitError, GitSnapshot, Repository};
use history::Happening;
pub(in crate::reconcile) use standing::standing;

/// The fleet and its deploy branch, as announcements are read off them.
#[derive(Clone)]
pub struct Announcer {
    repository: Repository,
    layout: DeployLayout,
    fleet: Arc<Fleet>,
    /// The head of the deploy branch before the first pass.
    before: Option<CommitId>,
}

impl Controller {
    /// The head of the deploy branch before anything is done: what happens from here on is announced.
    ///
    /// # Errors
    /// [`GitError`] when the fleet cannot be read.
    pub fn begin_announcing(&self) -> Result<Option<CommitId>, GitError> {
        if let Some(head) = self.first_head.get() {
            return Ok(head.clone());
        }
        let head = self.planner.read()?.deploy_head().cloned();
        Ok(self.first_head.get_or_init(|| head).clone())
    }

    /// What announcements are read off; none before the first pass.
    pub fn announcer(&self) -> Option<Announcer> {
        let reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let (reading, _) = reading.as_ref()?;
        Some(Announcer {
            repository: self.planner.repository().clone(),
            layout: reading.layout.clone(),
            fleet: Arc::clone(&reading.fleet),
            before: self.first_head.get_or_init(|| reading.deploy_head().cloned()).clone(),
        })
    }
}

impl Announcer {
    /// What has happened since that commit of the deploy branch, and what stands so after this pass. Without a commit nothing
    /// has happened before the first pass.
    ///
    /// # Errors
    /// [`GitError`] when the deploy branch cannot be read.
    pub fn happened(&self, since: Option<&CommitId>, pass: &ReconcileReport) -> Result<Happened, GitError> {
        let Some(head) = self.repository.head(&self.layout.branch)? else { return Ok(Happened::default()) };
        let mut happened = Happened { head: Some(head.clone()), ..Happened::default() };
        let Some(since) = since.or(self.before.as_ref()) else { return Ok(happened) };
        for Happening { announcement, ledger, snapshot } in
            history::happenings(&self.repository, &self.layout, since, &head)?
        {
            let ended = spans(&ledger, &announcement);
            happened.told.extend(self.outgoing(announcement, ended, &snapshot)?);
        }
        if self.fleet.policy.announce.routes.is_empty() {
            return Ok(happened);
        }
        let snapshot = self.repository.deploy_snapshot(&self.layout, &head)?;
        for cluster in &pass.clusters {
            let (Some(standing), Ok(name)) = (&cluster.standing, cluster.cluster.parse::<ClusterName>()) else {
                continue;
            };
            let outgoing = standing.iter().map(|announcement| self.outgoing(announcement.clone(), None, &snapshot));
            let outgoing = outgoing.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
            happened.standing.insert(name, outgoing);
        }
        Ok(happened)
    }

    /// What is rolled out of each cluster of which that is known.
    ///
    /// # Errors
    /// [`GitError`] when the deploy branch cannot be read.
    pub fn rolled(&self, pass: &ReconcileReport) -> Result<BTreeMap<ClusterName, Option<StageId>>, GitError> {
        let Some(head) = self.repository.head(&self.layout.branch)? else { return Ok(BTreeMap::new()) };
        let snapshot = self.repository.deploy_snapshot(&self.layout, &head)?;
        let mut found = BTreeMap::new();
        for cluster in &pass.clusters {
            let Ok(name) = cluster.cluster.parse::<ClusterName>() else { continue };
            let ledger = history::ledger(&snapshot, &name)?;
            if let Some(stage) = rolled::rolled(ledger.as_deref(), cluster) {
                found.insert(name, stage);
            }
        }
        Ok(found)
    }

    /// The announcement with those who tell it and the spans that end with it; none where nobody tells
    /// it and nothing ends.
    fn outgoing(
        &self,
        announcement: Announcement,
        spans: Option<Spans>,
        snapshot: &GitSnapshot,
    ) -> Result<Option<Outgoing>, GitError> {
        let stage = announcement.stage.as_ref().map(|stage| stage.name.to_string());
        let mut routes: Vec<Route> = Vec::new();
        for route in self.fleet.policy.announcement_routes(announcement.cluster.as_str()) {
            let is_told = routes.iter().any(|told| told.to == route.to);
            if !is_told && route.tells(announcement.kind, stage.as_deref()) {
                let template = route.templates.get(&announcement.kind);
                let text = template.map(|template| announcement.render(template));
                routes.push(Route { to: route.to.clone(), text, spans: None });
            }
        }
        if routes.is_empty() && spans.is_none() {
            return Ok(None);
        }
        let object = self.object(&announcement, snapshot)?;
        Ok(Some(Outgoing { announcement, object, routes, spans }))
    }

    /// The Kustomization that applies what is told of; the source of all of them where there is none.
    fn object(&self, announcement: &Announcement, snapshot: &GitSnapshot) -> Result<FluxObject, GitError> {
        let branch = self.layout.branch.to_string();
        if let Some((namespace, name)) = history::kustomization(snapshot, announcement)? {
            return Ok(FluxObject { kind: "Kustomization".to_owned(), namespace, name, branch });
        }
        let flux = &self.fleet.policy.flux;
        let (kind, namespace, name) = (flux.source.kind.clone(), flux.namespace.clone(), flux.source.name.clone());
        Ok(FluxObject { kind, namespace, name, branch })
    }
}
