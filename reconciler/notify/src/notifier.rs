//! Hands messages to sinks: each sink by itself and in order, beside everything else.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{ClusterName, CommitId};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};

use crate::delivery::{Delivery, rest_after};
use crate::error::NotifyError;
use crate::journal::Journal;
use crate::message::{Outgoing, Route};
use crate::settings::Sinks;

/// The largest journal, in bytes.
const LARGEST: u64 = 64 << 20;

/// How long a disk that cannot be written to is left alone.
const DISK: Duration = Duration::from_secs(5);

/// What is to be told after a pass.
#[derive(Debug, Default)]
pub struct Happened {
    /// The head of the deploy branch up to which it is known what has happened.
    pub head: Option<CommitId>,
    /// What has happened, in order.
    pub told: Vec<Outgoing>,
    /// What stands so now, of each cluster of which that is known.
    pub standing: BTreeMap<ClusterName, Vec<Outgoing>>,
}

/// Counts what came of messages: the sink, and `told`, `later`, `refused` or `dropped`.
pub type Count = Arc<dyn Fn(&str, &'static str) + Send + Sync>;

/// Tells announcements.
pub struct Notifier {
    sinks: Sinks,
    journal: Journal,
    file: PathBuf,
    is_saved: bool,
    flights: FuturesUnordered<BoxFuture<'static, (String, Delivery)>>,
    states: BTreeMap<String, SinkState>,
    unknown: BTreeSet<String>,
    disk: Option<Instant>,
    count: Count,
}

#[derive(Debug, Default)]
struct SinkState {
    in_flight: bool,
    failures: u32,
    rests_until: Option<Instant>,
}

impl Notifier {
    /// Tells by these sinks what is still to be told by this file, and writes down there what comes.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a journal.
    pub fn open(sinks: Sinks, file: &Path, count: Count) -> Result<Self, NotifyError> {
        let mut journal = match host::disk::read(file, LARGEST) {
            Ok(bytes) => serde_json::from_slice::<Journal>(&bytes)
                .map_err(|error| NotifyError::Journal { file: file.to_owned(), message: error.to_string() })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Journal::default(),
            Err(error) => return Err(NotifyError::read(file)(error)),
        };
        let lost = journal.keep_only(|name| sinks.get(name).is_some());
        if lost > 0 {
            tracing::warn!("{lost} announcements are for sinks that --sinks does not have any more: they are not told");
        }
        let mut notifier = Self {
            sinks,
            journal,
            file: file.to_owned(),
            is_saved: false,
            flights: FuturesUnordered::new(),
            states: BTreeMap::new(),
            unknown: BTreeSet::new(),
            disk: None,
            count,
        };
        // Where nothing can be written, the operator hears of it at once.
        notifier.save()?;
        Ok(notifier)
    }

    /// The commit of the deploy branch up to which everything is written down; none before the first pass.
    #[must_use]
    pub fn head(&self) -> Option<&CommitId> {
        self.journal.head.as_ref()
    }

    /// How many messages are still to be told.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.journal.queued()
    }

    /// Writes down what is to be told. It is told by [`Notifier::deliver`].
    pub fn note(&mut self, happened: Happened, now: Timestamp) {
        let Happened { head, mut told, mut standing } = happened;
        for outgoing in told.iter_mut().chain(standing.values_mut().flatten()) {
            outgoing.routes.retain(|route| self.is_known(&route.to));
            self.route_spans(outgoing);
        }
        let in_flight = self.states.iter().filter(|(_, state)| state.in_flight).map(|(name, _)| name.clone()).collect();
        let noted = self.journal.note(head.as_ref(), told, standing, &in_flight, now);
        for (sink, dropped) in noted.dropped {
            tracing::warn!(sink, "{dropped} announcements are given up for newer ones: the sink takes none");
            (0..dropped).for_each(|_| (self.count)(&sink, "dropped"));
        }
        if noted.changed {
            self.is_saved = false;
        }
        self.try_to_save();
    }

    /// Tells what is to be told, until something has come of it. It may be left off at any point and called again.
    pub async fn deliver(&mut self) {
        loop {
            self.try_to_save();
            self.start_due();
            let disk = self.disk.filter(|_| !self.is_saved);
            let states = &self.states;
            let rests = self.journal.busy().filter_map(|sink| states.get(sink));
            let rests = rests.filter(|state| !state.in_flight).filter_map(|state| state.rests_until);
            let next = rests.chain(disk).min();
            tokio::select! {
                Some((sink, delivery)) = self.flights.next(), if !self.flights.is_empty() => {
                    self.landed(&sink, delivery);
                    self.try_to_save();
                    return;
                }
                () = until(next) => {}
            }
        }
    }

    /// Hands spans to every sink that takes them, and nothing else to these. Which rollouts are traced
    /// is up to whoever runs this, so no route of the policy has a say.
    fn route_spans(&self, outgoing: &mut Outgoing) {
        outgoing.routes.retain(|route| self.sinks.get(&route.to).is_none_or(|sink| !sink.takes_spans()));
        let Some(spans) = &outgoing.spans else { return };
        let route = |sink: &str| Route { to: sink.to_owned(), text: None, spans: Some(spans.clone()) };
        outgoing.routes.extend(self.sinks.traced().map(route));
    }

    fn is_known(&mut self, sink: &str) -> bool {
        let is_known = self.sinks.get(sink).is_some();
        if !is_known && self.unknown.insert(sink.to_owned()) {
            tracing::warn!(
                sink,
                "stepgate.yaml announces by sink `{sink}`, which --sinks does not have: nothing is told there"
            );
        }
        is_known
    }

    /// What is not on the disk is not sent.
    fn start_due(&mut self) {
        if !self.is_saved {
            return;
        }
        let now = Instant::now();
        let names: Vec<String> = self.journal.busy().map(str::to_owned).collect();
        for name in names {
            let Some(sink) = self.sinks.get(&name).map(Arc::clone) else { continue };
            let state = self.states.entry(name.clone()).or_default();
            if state.in_flight || state.rests_until.is_some_and(|until| now < until) {
                continue;
            }
            let Some((message, shown)) = self.journal.next(&name) else { continue };
            let (message, shown) = (message.clone(), shown.cloned());
            (state.in_flight, state.rests_until) = (true, None);
            self.flights.push(Box::pin(async move {
                let delivery = sink.tell(&message, shown.as_ref()).await;
                (name, delivery)
            }));
        }
    }

    fn landed(&mut self, sink: &str, delivery: Delivery) {
        let state = self.states.entry(sink.to_owned()).or_default();
        state.in_flight = false;
        match delivery {
            Delivery::Taken(handle) => {
                if std::mem::take(&mut state.failures) > 0 {
                    tracing::info!(sink, "sink `{sink}` takes announcements again");
                }
                self.journal.done(sink, handle);
                self.is_saved = false;
                (self.count)(sink, "told");
            }
            Delivery::Later { reason, rest } => {
                let rest = rest.unwrap_or_else(|| rest_after(state.failures));
                if state.failures == 0 {
                    tracing::warn!(sink, %reason, "sink `{sink}` takes no announcements now; they are kept, and it is tried again");
                }
                state.failures = state.failures.saturating_add(1);
                state.rests_until = Some(Instant::now() + rest);
                (self.count)(sink, "later");
            }
            Delivery::Refused(reason) => {
                let id = self.journal.next(sink).map(|(message, _)| message.id()).unwrap_or_default();
                tracing::error!(sink, %reason, "sink `{sink}` refuses announcement {id}: it is not told there");
                state.failures = 0;
                self.journal.done(sink, None);
                self.is_saved = false;
                (self.count)(sink, "refused");
            }
        }
    }

    fn try_to_save(&mut self) {
        if self.is_saved || self.disk.is_some_and(|until| Instant::now() < until) {
            return;
        }
        if let Err(error) = self.save() {
            if self.disk.is_none() {
                tracing::error!(%error, "announcements wait until they can be written down");
            }
            self.disk = Some(Instant::now() + DISK);
        } else {
            self.disk = None;
        }
    }

    /// The file has the journal of before or this one, whatever happens meanwhile.
    fn save(&mut self) -> Result<(), NotifyError> {
        let written = NotifyError::written;
        let bytes = serde_json::to_vec(&self.journal).map_err(std::io::Error::other).map_err(written(&self.file))?;
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(written(&self.file))?;
        file.write_all(&bytes).map_err(written(&self.file))?;
        file.as_file().sync_all().map_err(written(&self.file))?;
        file.persist(&self.file).map_err(|error| error.error).map_err(written(&self.file))?;
        std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(written(&self.file))?;
        self.is_saved = true;
        Ok(())
    }
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Notifier").field("file", &self.file).field("journal", &self.journal).finish()
    }
}

/// Ends then, or never.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
