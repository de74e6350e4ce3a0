//! Watches: which clusters have changed since they were read last.
//!
//! No gate passes on what a watch says. It tells that a fresh reading is worth its cost now, so what is kept of an object is the digest of
//! the fields that gates read: a heartbeat or an annotation of a leader is no change. Of Flux and of workloads the last words are kept too, which
//! tell whether there is anything to wait for.

mod digest;
mod flux;
mod interest;
pub(crate) mod watched;
mod word;
mod workload;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::utils::Backoff as _;
use kube::runtime::watcher::{self, Event};
use rollout::{FluxObservation, WorkloadObservation};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub(crate) use self::interest::{Filter, Interest};
use self::interest::{Interests, topic};
use self::word::{Success, Word};
pub(crate) use self::workload::Workloads;
use crate::client::connection::Connection;
use host::memory::{Account, Charge, SERVERS};
use rollout::FluxReference;

/// How long one watch lasts before the server is asked anew, in seconds; the next one goes on where it ended.
const WATCH_SECONDS: u32 = 290;

/// How long a server is left alone that refuses to go on where a watch ended.
const EXPIRED: Duration = Duration::from_secs(1);

/// So often in a row a server says that it does not serve a resource before that is believed.
const REFUSALS: u32 = 5;

/// The longest pause before a watch that failed is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Objects on one page of the first list, where the server cannot send them through the watch.
const PAGE: u32 = 500;

/// What has changed of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeScope {
    /// That Flux fails at something, at which it did not, or the other way round.
    Failure,
    /// What Flux says of its sources and Kustomizations, and nothing else.
    Flux,
    /// That, or what the running gate looks at and nothing else does.
    Gate,
    /// Something else, of which a release of Helm is.
    More,
}

/// The clusters in which something that gates read has changed.
#[derive(Debug, Default)]
pub struct Changes {
    changed: Mutex<BTreeMap<String, ChangeScope>>,
    notify: Notify,
}

impl Changes {
    /// Something has changed of a cluster.
    pub fn note(&self, cluster: &str, extent: ChangeScope) {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = changed.entry(cluster.to_owned()).or_insert(extent);
        *known = extent.max(*known);
        self.notify.notify_one();
    }

    /// What has changed of a cluster since [`Self::take`] was called last.
    #[must_use]
    pub fn of(&self, cluster: &str) -> Option<ChangeScope> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).get(cluster).copied()
    }

    /// The clusters that have changed since this was called last.
    #[must_use]
    pub fn take(&self) -> BTreeMap<String, ChangeScope> {
        std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns when a cluster has changed that was not taken yet.
    pub async fn changed(&self) {
        while self.changed.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            self.notify.notified().await;
        }
    }
}

/// The watches on one API server, shared by all clusters that read from it. They end when dropped.
#[derive(Debug)]
pub(crate) struct Watches {
    changes: Arc<Changes>,
    state: Arc<Mutex<State>>,
    tasks: Mutex<HashMap<String, JoinHandle<()>>>,
}

/// What is watched for whom, and what was seen.
#[derive(Debug)]
struct State {
    interests: Interests,
    seen: Seen,
    /// Resources of which this server's events cannot be read: trying again would not help.
    unreadable: HashSet<String>,
    memory: Arc<Account>,
}

impl Default for State {
    fn default() -> Self {
        let (interests, seen, unreadable) = (Interests::default(), Seen::default(), HashSet::new());
        Self { interests, seen, unreadable, memory: Arc::clone(&SERVERS) }
    }
}

/// By resource, then by namespace and name.
type Seen = HashMap<String, HashMap<ObjectKey, SeenObject>>;

/// What is kept of an object, and the memory that it takes.
#[derive(Debug)]
struct SeenObject {
    /// Of what gates read.
    digest: u64,
    /// Of an object of Flux, of a workload or of a pod that somebody looks at.
    word: Option<Box<Word>>,
    /// How Flux got on with it, as far as that is certain: while it tries again, what it said before counts.
    success: Option<Success>,
    _charge: Charge,
}

/// Namespace and name.
type ObjectKey = (Box<str>, Box<str>);

/// What an object takes in the table of those that were seen, besides its key and its word, in bytes.
const OBJECT: usize = 2 * (size_of::<ObjectKey>() + size_of::<SeenObject>()) + 32;

impl Watches {
    pub(crate) fn new(changes: Arc<Changes>) -> Self {
        Self { changes, state: Arc::default(), tasks: Mutex::default() }
    }

    /// From now on `cluster` is told of changes of these objects. What is watched already goes on.
    pub(crate) fn follow(&self, connection: &Connection, cluster: &str, interest: Interest) {
        let resources: Vec<ApiResource> = interest.resources().cloned().collect();
        let unreadable = {
            let mut state = self.state();
            state.interests.set(cluster, interest);
            state.unreadable.clone()
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        for resource in resources {
            let topic = topic(&resource);
            if unreadable.contains(&topic) || tasks.get(&topic).is_some_and(|task| !task.is_finished()) {
                continue;
            }
            let watching = watch(connection.clone(), resource, Arc::clone(&self.state), Arc::clone(&self.changes));
            tasks.insert(topic, tokio::spawn(watching));
        }
    }

    /// `cluster` needs nothing any more; what nobody else watches ends.
    pub(crate) fn forget(&self, cluster: &str) {
        self.state().interests.remove(cluster);
        self.end_unwanted();
    }

    /// What nobody watches any more ends.
    pub(crate) fn end_unwanted(&self) {
        let mut state = self.state();
        let wanted = state.interests.topics();
        state.seen.retain(|topic, _| wanted.contains(topic));
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|topic, task| {
            let is_wanted = wanted.contains(topic);
            if !is_wanted {
                task.abort();
            }
            is_wanted
        });
    }

    /// What was told of these Kustomizations and of their sources; none where something of it was not.
    pub(crate) fn told_of_flux(&self, kustomizations: &BTreeSet<FluxReference>) -> Option<FluxObservation> {
        flux::told(&self.state().seen, kustomizations)
    }

    /// What was told of these workloads and of their pods; none where something of it was not.
    pub(crate) fn told_of_workloads(&self, workloads: &Workloads<'_>) -> Option<WorkloadObservation> {
        workload::told(&self.state().seen, workloads)
    }

    /// How many objects are known of.
    pub(crate) fn objects(&self) -> usize {
        self.state().seen.values().map(HashMap::len).sum()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).values() {
            task.abort();
        }
    }
}

/// Follows one resource for as long as it is served. Errors are retried with growing pauses: what was missed meanwhile is found by the
/// list that a watch begins with, and until then by the controller's own readings.
async fn watch(connection: Connection, resource: ApiResource, state: Arc<Mutex<State>>, changes: Arc<Changes>) {
    let api: Api<DynamicObject> = Api::all_with(connection.client.clone(), &resource);
    let topic = topic(&resource);
    let config = watcher::Config::default().any_semantic().timeout(WATCH_SECONDS);
    let mut streaming = true;
    let mut told = false;
    let mut refusals = 0;
    loop {
        let config = if streaming { config.clone().streaming_lists() } else { config.clone().page_size(PAGE) };
        let mut stream = std::pin::pin!(watcher::watcher(api.clone(), config));
        let mut pauses = watcher::DefaultBackoff::default();
        let mut listed: Option<HashSet<ObjectKey>> = None;
        let mut suspect = std::pin::pin!(connection.connections_are_suspect());
        loop {
            let event = tokio::select! {
                event = stream.next() => event,
                // Begun anew: this one may be silent for ever.
                () = &mut suspect => break,
            };
            let Some(event) = event else { break };
            let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
            if event.is_ok() {
                pauses.reset();
                refusals = 0;
            }
            match event {
                Ok(Event::Init) => listed = Some(HashSet::new()),
                Ok(Event::InitApply(object)) => {
                    if let Some(listed) = &mut listed {
                        listed.insert(key(&object));
                    }
                    lock().applied(&topic, &resource, &object, &changes);
                }
                Ok(Event::InitDone) => {
                    if let Some(listed) = listed.take() {
                        lock().listed(&topic, &listed, &changes);
                    }
                    told = false;
                }
                Ok(Event::Apply(object)) => lock().applied(&topic, &resource, &object, &changes),
                Ok(Event::Delete(object)) => lock().deleted(&topic, &object, &changes),
                Err(error) if streaming && cannot_stream(&error) => {
                    streaming = false;
                    break;
                }
                // A server that has just begun does not serve everything yet.
                Err(error) if is_gone(&error) => {
                    refusals += 1;
                    if refusals > REFUSALS {
                        return;
                    }
                    // A server that has just begun serves the kind a moment later.
                    tokio::time::sleep(EXPIRED).await;
                }
                Err(error) if is_expired(&error) => {
                    // Told within a watch, it is begun anew; of a request that was refused it would be asked for the same for ever.
                    tokio::time::sleep(EXPIRED).await;
                    break;
                }
                Err(error) if is_unreadable(&error) => {
                    tracing::warn!(
                        kubernetes.server = connection.server(),
                        %error,
                        "this server does not send the events of {} as one JSON object a line, as API servers do; changes are found by readings",
                        resource.plural
                    );
                    lock().unreadable.insert(topic);
                    return;
                }
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(
                            kubernetes.server = connection.server(),
                            %error,
                            "could not watch {}; changes are found by readings until it works again",
                            resource.plural
                        );
                    }
                    // Whoever finds that the server answers again ends the pause. A server that has just begun answers some
                    // requests and refuses to be watched for a moment: it is asked again soon, and not after the pause before.
                    let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
                    if tokio::time::timeout(pause, connection.answers_again()).await.is_ok() {
                        pauses.reset();
                    }
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Servers before watch-list refuse `sendInitialEvents` as invalid or forbidden by their feature gates.
fn cannot_stream(error: &watcher::Error) -> bool {
    code(error).is_some_and(|code| matches!(code, 400 | 422))
}

/// What was sent is no event. Cluster API's servers in memory spread each over several lines.
fn is_unreadable(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchFailed(kube::Error::SerdeError(_)))
}

/// The server has forgotten what happened since a watch ended, and says so before the next one begins.
fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(_)) && code(error) == Some(410)
}

/// The resource is served no more.
fn is_gone(error: &watcher::Error) -> bool {
    code(error) == Some(404)
}

fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status.code),
        watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

fn key(object: &DynamicObject) -> ObjectKey {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
    (text(&object.metadata.namespace), text(&object.metadata.name))
}

impl State {
    fn applied(&mut self, topic: &str, resource: &ApiResource, object: &DynamicObject, changes: &Changes) {
        // What nobody looks at is kept too: whoever comes to look at it is then told when it goes, and of no heartbeat.
        let digest = digest::of(resource, object);
        let clusters = self.interests.in_object(topic, object);
        let word = Word::of(resource, object).filter(|_| !clusters.is_empty()).map(Box::new);
        let (seen, key) = (self.seen.entry(topic.to_owned()).or_default(), key(object));
        let before = seen.get(&key).map(|known| (known.digest, known.success));
        let said_before = before.and_then(|(_, success)| success);
        let success = word.as_deref().and_then(Word::success).or(said_before);
        // Without its last word an object is asked for; without its digest nobody would be told that it has changed.
        let bytes = OBJECT + key.0.len() + key.1.len();
        let charge = word.as_ref().and_then(|word| self.memory.take(bytes + word.bytes()));
        let word = word.filter(|_| charge.is_some());
        let _charge = charge.unwrap_or_else(|| self.memory.claim(bytes));
        seen.insert(key, SeenObject { digest, word, success, _charge });
        let has_changed = before.is_none_or(|(before, _)| before != digest);
        for (cluster, extent) in clusters {
            if if extent == ChangeScope::Failure { success != said_before } else { has_changed } {
                changes.note(cluster, extent);
            }
        }
    }

    fn deleted(&mut self, topic: &str, object: &DynamicObject, changes: &Changes) {
        let known = self.seen.get_mut(topic).and_then(|seen| seen.remove(&key(object)));
        if known.is_some() {
            let clusters = self.interests.in_object(topic, object);
            clusters.into_iter().for_each(|(cluster, extent)| changes.note(cluster, extent));
        }
    }

    /// Of objects that went while nobody watched only the key is left: whoever follows the resource is told.
    fn listed(&mut self, topic: &str, listed: &HashSet<ObjectKey>, changes: &Changes) {
        let Some(seen) = self.seen.get_mut(topic) else { return };
        let before = seen.len();
        seen.retain(|key, _| listed.contains(key));
        if seen.len() != before {
            let clusters = self.interests.in_topic(topic);
            clusters.into_iter().for_each(|(cluster, extent)| changes.note(cluster, extent));
        }
    }
}
