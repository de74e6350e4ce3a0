//! Real clusters, through their API servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use domain::{CommitId, RolloutId};
use futures::future::BoxFuture;
use jiff::Timestamp;
use policy::InjectionRule;
use rollout::dump::{Dump, compare};
use rollout::{
    BackupFailure, BackupReport, ClusterAct, EtcdAct, Expectation, FargateWorkload, FluxObservation, FluxReference,
    Identification, LoginSource, MarkChange, ObjectReference, Observation, WorkloadObservation,
};
use serde_json::json;

pub use crate::client::connection::{
    Connection, ConnectionError, ConnectionSource, REQUEST_TIMEOUT, REQUESTS_PER_SECOND,
};
pub use crate::client::error::{FieldConflict, RequestError};
pub use crate::client::review::{KnownUser, Permit, known_user, may_on_rollout, review};
pub use crate::read::emergency::{Emergency, emergencies};
pub use crate::read::live::{LiveObjects, live_objects};
pub use crate::read::node_upgrade::node_upgrades;
pub use crate::read::pull_logins::{PullContent, PullLogin, PullLogins};
pub use crate::upgrades::{ClusterTurn, UpgradeController, definitions as in_place_definitions};
pub use crate::watch::watched::ManagementWatches;
pub use crate::watch::{ChangeScope, Changes};
pub use crate::write::apply::{ApplyConflict, ApplyError};
pub use crate::write::backup::{
    Backup, BackupError, BackupHeader, BackupIdentity, BackupPlace, BackupRecipient, BackupRegistry, DumpMoment,
    SavedCluster, SavedFile, WrittenDump, kept_dump, newest_whole, read_backup, read_dump_file, read_pulled,
};
pub use crate::write::certificate::{CertificateError, CertificateSecret, ServedCertificate};
pub use crate::write::cluster_act::end_expired as end_expired_of_clusters;
pub use crate::write::leadership::Leadership;
pub use crate::write::lease::{Holder, Lease};
pub use crate::write::machine_order::end_expired as end_expired_marks;
pub use crate::write::pause::{Paused, end_expired};
pub use crate::write::restore::{
    ComparedObject, Comparison, Restore, RestoreError, RestoreOptions, Restored, SavedState, with_certificates_of,
};
pub use crate::write::rollout_resource::{Projection, RolloutView, rollout_definition};

use crate::client::concurrent::concurrently;
use crate::client::identity;
use crate::client::kind::KUSTOMIZATION;
pub use crate::objects::PauseLease;
use crate::read::api_requests::ApiCounters;
use crate::read::dump;
use crate::read::found;
use crate::read::observe;
use crate::read::pull_logins;
use crate::read::workload::Own;
use crate::watch::watched::Watched;
use crate::write::apply;
use crate::write::backup;
use crate::write::cluster_act;
use crate::write::etcd;
use crate::write::force::{self, ForceRequest};
use crate::write::machine_order;
use crate::write::pause;
use crate::write::restart;
use crate::write::rollout_resource;
use crate::{
    ApplyReport, ApplyRequest, ApplyServer, ApplySet, BackupRequest, Cluster, ClusterError, ClusterReference,
    DumpRequest, FoundObjects, Freshness, KeptDump, ManagementReference, NotedCommit, ObserveRequest,
};

/// The annotation by which Flux is asked to reconcile at once.
const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// The namespace of this program's own objects.
pub const SYSTEM_NAMESPACE: &str = "stepgate-system";

/// A cluster behind an API server.
///
/// Cluster API and Flux objects are read from the management cluster; nodes, workloads, definitions and everything else from
/// the cluster itself, which for a management cluster is the same. A workload cluster's own server is reached with the
/// kubeconfig in the Secret that Cluster API keeps, read anew each time so that a rotated certificate is no outage.
#[derive(Debug)]
pub struct KubernetesCluster {
    pub(crate) management: Connection,
    /// The cluster that the operator says this connection leads to.
    pub(crate) named: Option<String>,
    pub(crate) reference: ClusterReference,
    pub(crate) own: Own,
    pub(crate) backups: BackupPlace,
    pub(crate) memory: Arc<Memory>,
    pub(crate) watched: Option<Arc<Watched>>,
}

/// What was done to a cluster, and is to be seen in its readings.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) applied: Mutex<BTreeMap<FluxReference, Applied>>,
    pub(crate) backup: Mutex<KnownBackup>,
    pub(crate) api_counters: ApiCounters,
}

/// What is known of backups.
#[derive(Debug, Default)]
pub(crate) struct KnownBackup {
    pub(crate) newest: Option<BackupReport>,
    pub(crate) failure: Option<BackupFailure>,
}

/// What was last applied without Flux in place of a Kustomization.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    pub(crate) commit: CommitId,
    pub(crate) at: Timestamp,
    pub(crate) problem: Option<String>,
}

impl KubernetesCluster {
    /// A management cluster: whoever connects says that it is this one. Backups go to a folder for each rollout below `backups`.
    #[must_use]
    pub fn management(connection: Connection, backups: impl Into<BackupPlace>) -> Self {
        let name = String::from("management");
        let reference = ClusterReference {
            name: name.clone(),
            namespace: String::new(),
            management: ManagementReference::Itself { is_presumed: false },
            recorded: None,
        };
        Self::new(connection, reference, Some(name), backups)
    }

    /// A workload cluster: the Cluster API `Cluster` of this namespace and name in the management cluster.
    #[must_use]
    pub fn workload(management: Connection, namespace: &str, name: &str, backups: impl Into<BackupPlace>) -> Self {
        let reference = ClusterReference {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            management: ManagementReference::Undeclared,
            recorded: None,
        };
        Self::new(management, reference, None, backups)
    }

    /// The cluster of a fleet that is meant, where `named` is the one that the operator says this connection leads to.
    #[must_use]
    pub fn new(
        management: Connection,
        reference: ClusterReference,
        named: Option<String>,
        backups: impl Into<BackupPlace>,
    ) -> Self {
        let backups = backups.into();
        let is_named = named.as_ref() == Some(&reference.name);
        let own = match reference.management {
            ManagementReference::Itself { .. } => Own::Management,
            ManagementReference::Undeclared | ManagementReference::By(_) if is_named => Own::Management,
            ManagementReference::Undeclared | ManagementReference::By(_) => {
                Own::workload(&reference.namespace, &reference.name)
            }
        };
        Self { management, named, reference, own, backups, memory: Arc::default(), watched: None }
    }

    /// The cluster that is meant.
    #[must_use]
    pub fn reference(&self) -> &ClusterReference {
        &self.reference
    }

    /// Address of the management cluster's API server, without credentials.
    #[must_use]
    pub fn server(&self) -> &str {
        self.management.server()
    }

    /// The same cluster, of which more or something else is recorded by now. What it remembers, it goes on remembering.
    #[must_use]
    pub fn known_as(&self, reference: ClusterReference) -> Self {
        let (memory, watched) = (Arc::clone(&self.memory), self.watched.clone());
        let known = Self::new(self.management.clone(), reference, self.named.clone(), self.backups.clone());
        Self { memory, watched, ..known }
    }

    /// The same cluster, that tells of changes under this name.
    #[must_use]
    pub fn watched(mut self, name: &str, watches: &Arc<ManagementWatches>) -> Self {
        self.watched = Some(Arc::new(Watched::new(name, Arc::clone(watches))));
        self
    }

    /// Nothing that changes there is told any more.
    pub fn unwatched(&self) {
        if let Some(watched) = &self.watched {
            watched.end();
        }
    }

    /// The sets of each server, in their order.
    pub(crate) fn by_server<'a>(&self, request: &'a ApplyRequest) -> Vec<(ApplyServer, Vec<&'a ApplySet>)> {
        if matches!(self.own, Own::Management) {
            return vec![(ApplyServer::Management, request.sets.iter().collect())];
        }
        let of = |server| (server, request.sets.iter().filter(|set| set.server == server).collect::<Vec<_>>());
        [of(ApplyServer::Management), of(ApplyServer::Own)].into_iter().filter(|(_, sets)| !sets.is_empty()).collect()
    }

    pub(crate) fn remember_applied(
        &self,
        request: &ApplyRequest,
        sets: &[&ApplySet],
        results: &[Option<Result<(), String>>],
        at: Timestamp,
    ) {
        let mut known = self.memory.applied.lock().unwrap_or_else(PoisonError::into_inner);
        for (set, result) in sets.iter().zip(results) {
            let Some(result) = result else { continue };
            let applied = Applied { commit: request.commit.clone(), at, problem: result.as_ref().err().cloned() };
            known.insert(set.kustomization.clone(), applied);
        }
    }

    /// Of what a backup is taken.
    pub(crate) async fn subject(&self) -> Result<backup::Subject, BackupError> {
        let cluster = SavedCluster {
            name: self.reference.name.clone(),
            namespace: self.reference.namespace.clone(),
            uid: None,
            identity: self.reference.recorded.clone(),
            manages_itself: matches!(self.own, Own::Management),
        };
        Ok(backup::Subject { cluster, management: self.management.identity().await? })
    }

    /// The dump of a rollout at a moment, taken where there is none yet.
    async fn kept(&self, request: &DumpRequest<'_>) -> Result<KeptDump, ClusterError> {
        let DumpRequest { rollout, moment, before, rules, at } = request;
        let (place, name) = (&self.backups, self.reference.name.as_str());
        let known = moment.noted(place, rollout);
        let (digest, dump) = match known.map(|digest| (kept_dump(place, name, &digest), digest)) {
            Some((Ok(dump), digest)) => (digest, dump),
            Some((Err(_), _)) | None => {
                let dump = self.dump(rules, *at).await?;
                let unwritten =
                    |error: serde_json::Error| BackupError::File { path: place.folder.clone(), source: error.into() };
                let written = WrittenDump::of(&dump).map_err(unwritten)?;
                written.keep(place, name)?;
                moment.write_note(place, rollout, &written.digest)?;
                (written.digest, dump)
            }
        };
        let of_before = before.map(str::to_owned).or_else(|| DumpMoment::Before.noted(place, rollout));
        let comparison = match (moment, of_before) {
            (DumpMoment::After, Some(before)) => Some(compare(&kept_dump(place, name, &before)?, &dump)),
            (DumpMoment::After, None) | (DumpMoment::Before, _) => None,
        };
        Ok(KeptDump { digest, comparison })
    }

    async fn saved(&self, request: &BackupRequest) -> Result<BackupReport, BackupError> {
        backup::back_up(&self.management, &self.backups, self.subject().await?, request).await
    }

    /// The newest backup that is there, and why the last one failed, if it did.
    pub(crate) fn backup_state(&self) -> (Option<BackupReport>, Option<BackupFailure>) {
        let mut known = self.memory.backup.lock().unwrap_or_else(PoisonError::into_inner);
        known.newest.take_if(|report| !backup::is_there(report));
        if known.newest.is_none() {
            // After a restart the folder remembers.
            known.newest = backup::newest(&self.backups.folder);
        }
        (known.newest.clone(), known.failure.clone())
    }
}

impl Cluster for KubernetesCluster {
    fn identify(&self) -> BoxFuture<'_, Identification> {
        Box::pin(async move {
            let own = self.own.connect(&self.management).await;
            let identity = self.identified(own.as_ref(), Freshness::Fresh).await;
            identity.map_or_else(Identification::from, |identity| Identification::Proven { identity })
        })
    }

    fn observe<'a>(&'a self, request: &'a ObserveRequest) -> BoxFuture<'a, Observation> {
        Box::pin(observe::observe(self, request))
    }

    fn found<'a>(&'a self, objects: &'a [ObjectReference]) -> BoxFuture<'a, Result<FoundObjects, ClusterError>> {
        Box::pin(async move { Ok(found::found(&self.management, objects).await?) })
    }

    fn follow<'a>(&'a self, request: &'a ObserveRequest, gate: &'a [Expectation]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(watched) = &self.watched {
                let (mut request, mut of_gate) = (request.clone(), request.clone());
                request.expectations.retain(|expectation| !gate.contains(expectation));
                (of_gate.expectations, of_gate.kustomizations) = (gate.to_vec(), Vec::new());
                watched.follow(self, &request, &of_gate).await;
            }
        })
    }

    fn noted_commits<'a>(&'a self, cluster: &'a str) -> BoxFuture<'a, Result<Vec<NotedCommit>, ClusterError>> {
        Box::pin(async move {
            let mut noted = observe::noted_by_flux(&self.management, cluster).await?;
            noted.extend(rollout_resource::noted_commit(&self.management, SYSTEM_NAMESPACE, cluster).await?);
            Ok(noted)
        })
    }

    fn pause<'a>(
        &'a self,
        kustomizations: &'a [FluxReference],
        lease: &'a PauseLease,
    ) -> BoxFuture<'a, Result<Vec<(FluxReference, Paused)>, ClusterError>> {
        Box::pin(async move {
            self.may_be_paused("pause what Flux applies").await?;
            Ok(pause::pause(&self.management, kustomizations, lease).await?)
        })
    }

    fn resume<'a>(
        &'a self,
        kustomizations: &'a [FluxReference],
    ) -> BoxFuture<'a, Result<Vec<FluxReference>, ClusterError>> {
        Box::pin(async move {
            self.may_be_paused("resume what Flux applies").await?;
            Ok(pause::resume(&self.management, kustomizations).await?)
        })
    }

    fn order_machines<'a>(
        &'a self,
        changes: &'a [MarkChange],
        _: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            self.may_be_paused("mark machines").await?;
            Ok(machine_order::mark(&self.management, changes).await?)
        })
    }

    fn restart<'a>(
        &'a self,
        workload: &'a FargateWorkload,
        rollout: &'a RolloutId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            self.may_be_written("restart what runs on Fargate").await?;
            let own = self.own.connect(&self.management).await?.connection;
            Ok(restart::restart(&own, workload, rollout, at).await?)
        })
    }

    fn force<'a>(&'a self, request: &'a ForceRequest<'a>) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            self.may_be_written("delete a pod past its budget").await?;
            let own = self.own.connect(&self.management).await?.connection;
            Ok(force::force(&own, request).await?)
        })
    }

    fn told_of_flux(&self, request: &ObserveRequest) -> Option<FluxObservation> {
        // What was applied without Flux stands in the place of its Kustomizations, which may still be there and are behind then.
        let is_applied = !self.memory.applied.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        self.watched.as_ref().filter(|_| !is_applied)?.told_of_flux(request)
    }

    fn told_of_workloads(&self, request: &ObserveRequest) -> Option<WorkloadObservation> {
        self.watched.as_ref()?.told_of_workloads(self, request)
    }

    fn rest(&self, kustomizations: &[FluxReference]) {
        if let Some(watched) = &self.watched {
            watched.rest(&self.management, kustomizations);
        }
    }

    fn dump<'a>(&'a self, rules: &'a [InjectionRule], at: Timestamp) -> BoxFuture<'a, Result<Dump, ClusterError>> {
        Box::pin(async move {
            let identity = self.identify().await.proven().cloned();
            let own = self.own.connect(&self.management).await?.connection;
            let subject = dump::Subject { cluster: self.reference.name.clone(), identity, at };
            Ok(dump::take(&own, subject, rules).await?)
        })
    }

    fn pull_logins<'a>(
        &'a self,
        sources: &'a BTreeSet<LoginSource>,
        namespaces: &'a [String],
    ) -> BoxFuture<'a, Result<PullLogins, ClusterError>> {
        Box::pin(async move {
            let own = self.own.connect(&self.management).await?.connection;
            Ok(pull_logins::read(&self.management, &own, sources, namespaces).await)
        })
    }

    fn keep_dump<'a>(&'a self, request: &'a DumpRequest<'a>) -> BoxFuture<'a, Result<KeptDump, ClusterError>> {
        Box::pin(self.kept(request))
    }

    fn back_up<'a>(&'a self, request: &'a BackupRequest) -> BoxFuture<'a, Result<BackupReport, ClusterError>> {
        Box::pin(async move {
            self.prove_management_of_it()
                .await
                .map_err(|not| identity::not_proven("back up Cluster API objects", not))?;
            let backed_up = self.saved(request).await;
            let mut known = self.memory.backup.lock().unwrap_or_else(PoisonError::into_inner);
            match &backed_up {
                Ok(report) => *known = KnownBackup { newest: Some(report.clone()), failure: None },
                Err(error) => {
                    known.failure = Some(BackupFailure {
                        rollout: request.rollout.clone(),
                        at: request.at,
                        volume_full: error.is_full(),
                        message: error.to_string(),
                    });
                }
            }
            Ok(backed_up?)
        })
    }

    fn act_on_etcd<'a>(&'a self, act: &'a EtcdAct, _: Timestamp) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            self.may_be_paused("act on an external etcd").await?;
            Ok(etcd::act(&self.management, act).await?)
        })
    }

    fn act<'a>(&'a self, act: &'a ClusterAct, _: Timestamp) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            self.may_be_paused("make machines anew").await?;
            Ok(cluster_act::act(&self.management, act).await?)
        })
    }

    fn nudge<'a>(
        &'a self,
        kustomizations: &'a [FluxReference],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            self.prove_management_of_it().await.map_err(|not| identity::not_proven("tell Flux of the commit", not))?;
            let served = self.management.served_versions().await?;
            let Some(version) = served.version_of(&KUSTOMIZATION) else { return Ok(()) };
            let patch = json!({"metadata": {"annotations": {REQUESTED_AT: at.to_string()}}});
            let resource = KUSTOMIZATION.resource(version);
            let get = |known: &'a FluxReference| self.management.get(&resource, Some(&known.namespace), &known.name);
            let mut sources = BTreeMap::new();
            for found in concurrently(kustomizations.iter().map(get).collect()).await {
                sources.extend(found?.and_then(|object| observe::source_of(&object)));
            }
            for (source, kind) in sources {
                let Some(kind) = observe::kind_of(&kind) else { continue };
                let Some(version) = served.version_of(kind) else { continue };
                let resource = kind.resource(version);
                self.management.merge(&resource, Some(&source.namespace), &source.name, &patch, false).await?;
            }
            Ok(())
        })
    }

    fn apply<'a>(
        &'a self,
        request: &'a ApplyRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<ApplyReport, ClusterError>> {
        Box::pin(async move {
            self.may_be_written("apply manifests").await?;
            let mut report = ApplyReport::default();
            for (server, sets) in self.by_server(request) {
                let connection = match server {
                    ApplyServer::Management => self.management.clone(),
                    ApplyServer::Own => self.own.connect(&self.management).await?.connection,
                };
                let applying = apply::apply(&connection, request, &sets).await;
                report.extend(applying.report);
                self.remember_applied(request, &sets, &applying.results, at);
                if let Some(error) = applying.error {
                    return Err(error.into());
                }
            }
            Ok(report)
        })
    }
}
