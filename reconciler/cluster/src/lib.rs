//! The cluster side: what is read from clusters and what is done to them.
//!
//! Architecture Invariant: whatever goes wrong while reading becomes an observation that says so. It is never an error that a caller could
//! drop, and never a missing object that a gate could take for a deleted one.
//!
//! Architecture Invariant: types of the Kubernetes client stay in this package.

mod client;
pub mod eksctl;
pub mod kubernetes;
mod objects;
mod read;
pub mod recording;
mod reference;
pub mod simulated;
#[cfg(test)]
mod tests;
mod upgrades;
mod watch;
mod write;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{ClusterName, CommitId, RepoPath, RolloutId};
use futures::future::BoxFuture;
use jiff::Timestamp;
use policy::{DataPattern, InjectionRule};
use rollout::dump::{Comparison, Dump};
use rollout::{
    BackupReport, Expectation, FargateWorkload, FluxObservation, FluxReference, Identification, LoginSource,
    MarkChange, ObjectReference, Observation, WorkloadObservation,
};
use serde_json::Value;

use self::kubernetes::{DumpMoment, PauseLease, Paused, PullLogins};
pub use crate::write::force::ForceRequest;
pub use reference::{ClusterReference, ManagementReference, Manager};

/// What a reading is for.
#[derive(Debug, Clone)]
pub struct ObserveRequest {
    /// What gates will ask: everything that these look at is read.
    pub expectations: Vec<Expectation>,
    /// Flux Kustomizations to read besides those that the expectations name.
    pub kustomizations: Vec<FluxReference>,
    /// What the deploy branch says of the cluster: a field of it that somebody else has taken over is told.
    pub deployed: Arc<DeployedObjects>,
    /// Where the answers may come from.
    pub freshness: Freshness,
    /// The time by the caller's clock, which becomes the time of the reading: nothing in it is older.
    pub at: Timestamp,
}

/// Where the answers of a reading may come from, and in which order they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// What a watch has told is good enough.
    WatchEvidence,
    /// From the cluster. What causes something is asked for before what it causes, so that whoever says "done" is followed by what was done.
    Fresh,
    /// From the cluster, a short while after a reading in which everything held. Who says "done" said it then, before anything that is asked
    /// for now: the order of these answers tells nothing, and there is none.
    Again,
}

/// What a dump is for.
#[derive(Debug, Clone)]
pub struct DumpRequest<'a> {
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// At which moment of it.
    pub moment: DumpMoment,
    /// Digest of the dump to compare it with.
    pub before: Option<&'a str>,
    /// Sidecars that are looked for besides those that are known.
    pub rules: &'a [InjectionRule],
    /// The time by the caller's clock.
    pub at: Timestamp,
}

/// A dump that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDump {
    /// Its digest, `sha256:…`.
    pub digest: String,
    /// What differs from the one before; none where there is none to compare it with.
    pub comparison: Option<Comparison>,
}

/// What a backup is for, and how many are to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupRequest {
    /// The rollout that its report names.
    pub rollout: RolloutId,
    /// The time by the caller's clock: nothing in it is older.
    pub at: Timestamp,
    /// How many of the cluster's backups stay, this one included.
    pub keep: u32,
    /// How old they may grow; the newest whole one stays in any case.
    pub keep_for: Option<Duration>,
}

/// The objects that the deploy branch holds for a cluster. They are parsed when one of them is looked at first.
#[derive(Default)]
pub struct DeployedObjects {
    files: Vec<(RepoPath, Arc<[u8]>)>,
    /// Their texts, once one was looked for: a tenth of what they take once they are read.
    objects: Mutex<Option<DeployedTexts>>,
}

/// Group, kind, namespace (empty where none is named) and name.
type DeployedKey = (String, String, String, String);

/// The text of each object, as JSON.
type DeployedTexts = Arc<HashMap<DeployedKey, Box<str>>>;

impl DeployedObjects {
    /// The objects of these YAML files.
    pub fn new(files: impl IntoIterator<Item = (RepoPath, Arc<[u8]>)>) -> Self {
        Self { files: files.into_iter().collect(), objects: Mutex::default() }
    }

    /// What the deploy branch says of this object; none where it says nothing. Definitions are left out: they are large, and who owns them
    /// tells nothing that their versions do not.
    fn find(&self, group: &str, kind: &str, namespace: Option<&str>, name: &str) -> Option<Value> {
        let objects = Arc::clone(
            self.objects()
                .get_or_insert_with(|| Arc::new(self.files.iter().flat_map(|(_, file)| keyed(file)).collect())),
        );
        let of = |namespace: &str| (group.to_owned(), kind.to_owned(), namespace.to_owned(), name.to_owned());
        let text = objects.get(&of(namespace.unwrap_or_default())).or_else(|| {
            // Where a manifest names no namespace, the object goes to this one.
            objects.get(&of("")).filter(|_| namespace == Some("default"))
        });
        serde_json::from_str(text?).ok()
    }

    /// What these files of it hold. Definitions are left out, as they are by [`Self::find`].
    fn of_files(&self, paths: &[String]) -> Vec<Value> {
        let wanted = self.files.iter().filter(|(path, _)| paths.iter().any(|known| known == path.as_str()));
        let texts = wanted.flat_map(|(_, file)| keyed(file));
        texts.filter_map(|(_, text)| serde_json::from_str(&text).ok()).collect()
    }

    fn objects(&self) -> MutexGuard<'_, Option<DeployedTexts>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// About how many bytes of memory the texts of objects take by now.
    pub fn bytes(&self) -> usize {
        let entry = |key: &DeployedKey, text: usize| {
            let (group, kind, namespace, name) = key;
            let allocations = [group.len(), kind.len(), namespace.len(), name.len(), text].map(|length| length + 16);
            2 * (size_of::<DeployedKey>() + size_of::<Box<str>>()) + allocations.iter().sum::<usize>()
        };
        self.objects().as_ref().map_or(0, |objects| objects.iter().map(|(key, text)| entry(key, text.len())).sum())
    }

    /// Lets the texts go: they are read again from the files when an object is looked for.
    pub fn forget(&self) {
        *self.objects() = None;
    }
}

impl fmt::Debug for DeployedObjects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DeployedObjects").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

fn keyed(file: &[u8]) -> Vec<(DeployedKey, Box<str>)> {
    let objects = overlays::objects_of(file);
    let object = |node| {
        let object = objects::from_yaml(node);
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let group = text("/apiVersion").split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
        let key = (group, text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        (key.1 != "CustomResourceDefinition").then(|| (key, object.to_string().into()))
    };
    objects.iter().filter_map(object).collect()
}

/// The directory of a cluster on the deploy branch, to apply without Flux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyRequest {
    /// The cluster.
    pub cluster: ClusterName,
    /// The commit that the manifests are from.
    pub commit: CommitId,
    /// In the order in which they are applied.
    pub sets: Vec<ApplySet>,
    /// What may be deleted although it holds data.
    pub delete_data: Vec<DataPattern>,
}

/// A directory that one Kustomization of Flux would apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplySet {
    /// The Kustomization that this stands for: the next observations report it as applied.
    pub kustomization: FluxReference,
    /// Where it goes.
    pub server: ApplyServer,
    /// Whether its objects are deleted when they leave git.
    pub prune: bool,
    /// The directory.
    pub folder: String,
    /// Path and content of each file in it, the folder being part of the path; none where there is no such directory now.
    pub files: Vec<(String, Arc<[u8]>)>,
}

/// Which API server manifests go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyServer {
    /// That of the management cluster.
    Management,
    /// That of the cluster itself.
    Own,
}

/// What was applied, and what became of objects that left git; each as `Kind namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplyReport {
    /// Applied, in this order.
    pub applied: Vec<String>,
    /// Deleted, in this order.
    pub deleted: Vec<String>,
    /// Not deleted.
    pub kept: Vec<KeptObject>,
}

impl ApplyReport {
    fn extend(&mut self, other: Self) {
        self.applied.extend(other.applied);
        self.deleted.extend(other.deleted);
        self.kept.extend(other.kept);
    }
}

/// An object that left git and stays in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptObject {
    /// `Kind namespace/name`.
    pub object: String,
    /// Why, and what to do.
    pub reason: String,
}

/// An act on a cluster that did not succeed: what was attempted, on which object, and what helps.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The cluster cannot be connected to.
    #[error(transparent)]
    Connection(#[from] kubernetes::ConnectionError),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] kubernetes::RequestError),
    /// A backup could not be made.
    #[error(transparent)]
    Backup(#[from] kubernetes::BackupError),
    /// Manifests could not be applied.
    #[error(transparent)]
    Apply(#[from] kubernetes::ApplyError),
    /// It is not proven that this is the cluster that is meant: nothing is written there.
    #[error("could not {attempt}: which cluster answers is not proven: {reason}; {help}")]
    Identity {
        /// What was attempted.
        attempt: &'static str,
        /// What is missing, or speaks against it.
        reason: String,
        /// What helps.
        help: String,
    },
    /// The cluster does not do this.
    #[error("could not {0}: this cluster is simulated")]
    Simulated(&'static str),
}

/// A commit that an object in a cluster names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedCommit {
    /// The commit.
    pub commit: CommitId,
    /// The branch that it was taken from; none where that is not said.
    pub branch: Option<String>,
    /// The object, as `Kind namespace/name`.
    pub by: String,
}

/// What there is in the management cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundObjects {
    /// The objects that were asked for: none for one that is not there, or why that is not known.
    pub objects: Vec<(ObjectReference, Result<Option<Value>, String>)>,
    /// The Kustomizations of Flux, or why they are not known.
    pub flux: Result<Vec<AppliedByFlux>, String>,
}

impl Default for FoundObjects {
    fn default() -> Self {
        Self { objects: Vec::new(), flux: Ok(Vec::new()) }
    }
}

/// A Kustomization of Flux, and what it has applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedByFlux {
    /// Which one.
    pub kustomization: FluxReference,
    /// The folder that it applies.
    pub path: String,
    /// Where that comes from, without credentials.
    pub source: String,
    /// What it has applied last; none before the first time.
    pub revision: Option<String>,
    /// Why it does not go on; none where it does.
    pub trouble: Option<String>,
    /// What it has applied.
    pub objects: Vec<AppliedObject>,
}

/// An object in the inventory of a Kustomization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedObject {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

/// One cluster, together with the cluster that manages it.
pub trait Cluster: Send + Sync {
    /// Which cluster answers, and whether that is proven to be the one that is meant.
    fn identify(&self) -> BoxFuture<'_, Identification> {
        Box::pin(std::future::ready(Identification::default()))
    }

    /// Reads everything that the request's expectations look at. What cannot be read is unreachable or unread, with the reason.
    fn observe<'a>(&'a self, request: &'a ObserveRequest) -> BoxFuture<'a, Observation>;

    /// What there is in the management cluster of these objects, and what Flux applies there. One
    /// that cannot tell finds nothing at all.
    fn found<'a>(&'a self, _objects: &'a [ObjectReference]) -> BoxFuture<'a, Result<FoundObjects, ClusterError>> {
        Box::pin(std::future::ready(Ok(FoundObjects::default())))
    }

    /// From now on changes of what this request looks at are told, as far as this cluster tells of any, and apart from others those of what only
    /// these of its expectations look at, which are the running gate's. A change is a reason to read, never one to decide.
    fn follow<'a>(&'a self, _: &'a ObserveRequest, _: &'a [Expectation]) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// What watches have told of the Kustomizations of this request and of their sources, without asking anybody; none where they have not told
    /// of all of them. It is as old as the slowest watch: a reason to wait or to read, never one to let a gate pass.
    fn told_of_flux(&self, _: &ObserveRequest) -> Option<FluxObservation> {
        None
    }

    /// The same of the Deployments and `DaemonSets` of this request and of their pods.
    fn told_of_workloads(&self, _: &ObserveRequest) -> Option<WorkloadObservation> {
        None
    }

    /// Nothing is waited for any more: of all changes, only that Flux fails at one of these Kustomizations, or no more, need be told.
    fn rest(&self, _kustomizations: &[FluxReference]) {}

    /// Takes a dump of the cluster itself: what it is like now, without anything secret. These sidecars are looked for
    /// besides those that are known.
    fn dump<'a>(&'a self, _: &'a [InjectionRule], _at: Timestamp) -> BoxFuture<'a, Result<Dump, ClusterError>> {
        Box::pin(std::future::ready(Err(ClusterError::Simulated("take a dump"))))
    }

    /// Reads the logins that nodes and pods have for registries, with Secrets of these namespaces alone.
    fn pull_logins<'a>(
        &'a self,
        _sources: &'a BTreeSet<LoginSource>,
        _namespaces: &'a [String],
    ) -> BoxFuture<'a, Result<PullLogins, ClusterError>> {
        Box::pin(std::future::ready(Err(ClusterError::Simulated("read the logins of pods"))))
    }

    /// Takes a dump for a rollout and keeps it beside the backups, once: whoever asks again is told of the same one. Of the
    /// one after a rollout, what differs from the dump of `before` is told, a line each.
    fn keep_dump<'a>(&'a self, _: &'a DumpRequest<'a>) -> BoxFuture<'a, Result<KeptDump, ClusterError>> {
        Box::pin(std::future::ready(Err(ClusterError::Simulated("keep a dump"))))
    }

    /// Saves the Cluster API objects of the cluster and reads them back. Later observations report it, or why it failed.
    fn back_up<'a>(&'a self, request: &'a BackupRequest) -> BoxFuture<'a, Result<BackupReport, ClusterError>>;

    /// Does this to the objects of an external etcd, where the cluster that they are in is proven
    /// to be the one that is meant. Done twice, it is as if done once.
    fn act_on_etcd<'a>(
        &'a self,
        _act: &'a rollout::EtcdAct,
        _at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(std::future::ready(Err(ClusterError::Simulated("act on an external etcd"))))
    }

    /// Does this to a Cluster of Cluster API, where the cluster that it is in is proven to be the one that is meant. Done twice, it is
    /// as if done once.
    fn act<'a>(&'a self, _act: &'a rollout::ClusterAct, _at: Timestamp) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(std::future::ready(Err(ClusterError::Simulated("act on a Cluster"))))
    }

    /// Commits that objects in the management cluster name of this cluster, whatever they are called: Flux' Kustomizations of its folder, and the
    /// note that Stepgate keeps for people. What cannot be read is an error: that nothing is there is not known then.
    fn noted_commits<'a>(&'a self, _cluster: &'a str) -> BoxFuture<'a, Result<Vec<NotedCommit>, ClusterError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Pauses these Kustomizations under this lease, where the cluster that they are in is proven to be the one that is meant.
    fn pause<'a>(
        &'a self,
        _kustomizations: &'a [FluxReference],
        _lease: &'a PauseLease,
    ) -> BoxFuture<'a, Result<Vec<(FluxReference, Paused)>, ClusterError>> {
        Box::pin(std::future::ready(Err(ClusterError::Simulated("pause what Flux applies"))))
    }

    /// Ends the pauses that we have on these Kustomizations, where the same is proven. Answers with those that had one.
    fn resume<'a>(
        &'a self,
        _kustomizations: &'a [FluxReference],
    ) -> BoxFuture<'a, Result<Vec<FluxReference>, ClusterError>> {
        Box::pin(std::future::ready(Err(ClusterError::Simulated("resume what Flux applies"))))
    }

    /// Sets marks of Machines that tell Cluster API when they go, and takes ours away, where the cluster that they are in is proven to be the one that
    /// is meant. A Machine that is gone by now needs none.
    fn order_machines<'a>(
        &'a self,
        _changes: &'a [MarkChange],
        _at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(std::future::ready(Err(ClusterError::Simulated("mark machines"))))
    }

    /// Makes the pods of a workload anew, as `kubectl rollout restart` does it, where the cluster is proven to be the one that is meant.
    fn restart<'a>(
        &'a self,
        _workload: &'a FargateWorkload,
        _rollout: &'a RolloutId,
        _at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(std::future::ready(Err(ClusterError::Simulated("restart workloads"))))
    }

    /// Deletes a pod past its budget, which counts it, where the cluster is proven to be the one that is meant.
    fn force<'a>(&'a self, _request: &'a ForceRequest<'a>) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(std::future::ready(Err(ClusterError::Simulated("delete pods"))))
    }

    /// Tells Flux to fetch the source of these Kustomizations now instead of at its next interval.
    fn nudge<'a>(
        &'a self,
        kustomizations: &'a [FluxReference],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>>;

    /// Applies manifests on the server's side, without Flux (`apply: direct`), and deletes what left git since the last time.
    fn apply<'a>(
        &'a self,
        request: &'a ApplyRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<ApplyReport, ClusterError>>;
}
