//! Notices when a branch of the fleet repository moves.
//!
//! Three things make the watch look: file events of a local repository, a webhook of a forge, and a poll with jitter that
//! makes up for events that were lost. None of them is believed: what counts is the reference that is then read, so a
//! forged or repeated event costs one look and decides nothing.

mod files;
mod webhook;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use domain::CommitId;
use tokio::sync::{Notify, mpsc, watch as state};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use domain::BranchName;
use files::FolderWatch;
use git::{GitError, Repository, RepositoryLocation};
pub use webhook::{WebhookError, WebhookSecret, WebhookSettings, webhook};

/// A branch holds another commit than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadChanged {
    /// The branch.
    pub branch: BranchName,
    /// What it held when it was last looked at; none when it was absent, or at the first look.
    pub before: Option<CommitId>,
    /// What it holds; none when it was deleted.
    pub after: Option<CommitId>,
    /// What made the watch look.
    pub noticed: Noticed,
}

/// What made the watch look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// The watch began, or another branch to be watched was named.
    Start,
    /// A file event of a local repository.
    FileEvent,
    /// A webhook.
    Webhook,
    /// Time had passed.
    Poll,
}

impl fmt::Display for Noticed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Start => "start",
            Self::FileEvent => "file-event",
            Self::Webhook => "webhook",
            Self::Poll => "poll",
        })
    }
}

/// What is watched and how often.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// The branches that are watched from the start.
    pub branches: Vec<BranchName>,
    /// Time between two looks when no event says otherwise; between 90 % and 110 % of it is taken at random, so that
    /// many fleets do not ask one server at once. After an error it doubles, up to ten times.
    pub interval: Duration,
    /// How long events are gathered before the references are read. A push touches several files.
    pub debounce: Duration,
}

impl WatchSettings {
    /// Watches these branches every 30 seconds, gathering events for 20 milliseconds.
    pub fn new(branches: impl IntoIterator<Item = BranchName>) -> Self {
        Self {
            branches: branches.into_iter().collect(),
            interval: Duration::from_secs(30),
            debounce: Duration::from_millis(20),
        }
    }
}

/// Makes the watch look now. Cheap to clone; several wishes before a look become one.
#[derive(Clone, Debug)]
pub struct Nudge {
    sender: mpsc::Sender<Noticed>,
}

impl Nudge {
    /// Asks for a look.
    pub fn look(&self, noticed: Noticed) {
        // A full queue means that a look is due anyway.
        let _ = self.sender.try_send(noticed);
    }
}

/// A running watch. It ends when it is dropped.
#[derive(Debug)]
pub struct Watch {
    changes: mpsc::Receiver<HeadChanged>,
    branches: state::Sender<Vec<BranchName>>,
    nudge: Nudge,
    failure: state::Receiver<Option<Arc<GitError>>>,
    told: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Watch {
    /// Starts watching. Must be called inside a tokio runtime.
    ///
    /// The first notices say what the branches hold at the start; branches that are absent then have none. A remote
    /// repository is asked with `git ls-remote`; fetching is up to the receiver.
    pub fn start(repository: Repository, settings: WatchSettings) -> Self {
        let WatchSettings { branches, interval, debounce } = settings;
        let (branches, named) = state::channel(branches);
        let (changed, changes) = mpsc::channel(64);
        let (sender, wishes) = mpsc::channel(4);
        let (failed, failure) = state::channel(None);
        let nudge = Nudge { sender };
        let folder = match repository.location() {
            RepositoryLocation::Local(_) => Some(FolderWatch::new(repository.folder(), nudge.clone())),
            RepositoryLocation::Remote(_) => None,
        };
        let told = Arc::new(Notify::new());
        let looker = Looker {
            repository,
            branches: named,
            interval,
            debounce,
            folder,
            known: BTreeMap::new(),
            changed,
            failed,
            told: Arc::clone(&told),
        };
        let task = tokio::spawn(looker.run(wishes));
        Self { changes, branches, nudge, failure, told, task }
    }

    /// Watches these branches from now on and no others. What a branch holds that was not watched before is told as at the start.
    pub fn follow(&self, branches: Vec<BranchName>) {
        self.branches.send_if_modified(|followed| {
            let differs = *followed != branches;
            *followed = branches;
            differs
        });
    }

    /// The next change, in the order in which changes were seen. None when the watch has ended.
    pub async fn changed(&mut self) -> Option<HeadChanged> {
        self.changes.recv().await
    }

    /// A handle that makes this watch look, for example for [`webhook`].
    pub fn nudge(&self) -> Nudge {
        self.nudge.clone()
    }

    /// Notified after each look that a webhook led to, whatever it found: reviews, comments and closed pull requests move no branch.
    pub fn told(&self) -> Arc<Notify> {
        Arc::clone(&self.told)
    }

    /// Why the last look failed, or none. Changes whenever looking begins or ceases to fail.
    pub fn failure(&self) -> state::Receiver<Option<Arc<GitError>>> {
        self.failure.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Looker {
    repository: Repository,
    branches: state::Receiver<Vec<BranchName>>,
    interval: Duration,
    debounce: Duration,
    folder: Option<FolderWatch>,
    known: BTreeMap<BranchName, CommitId>,
    changed: mpsc::Sender<HeadChanged>,
    failed: state::Sender<Option<Arc<GitError>>>,
    told: Arc<Notify>,
}

impl Looker {
    async fn run(mut self, mut wishes: mpsc::Receiver<Noticed>) {
        let mut noticed = Noticed::Start;
        let mut failures = 0_u32;
        loop {
            if let Some(folder) = &mut self.folder {
                folder.renew();
            }
            match self.look(noticed).await {
                Ok(true) => failures = 0,
                Ok(false) => return,
                Err(error) => {
                    failures = failures.saturating_add(1);
                    if self.failed.borrow().is_none() {
                        tracing::warn!(repository = %self.repository.location(), %error, "cannot look at the repository");
                    }
                    self.failed.send_replace(Some(Arc::new(error)));
                }
            }
            let due = Instant::now() + self.pause(failures);
            noticed = tokio::select! {
                () = sleep_until(due) => Noticed::Poll,
                named = self.branches.changed() => match named {
                    Ok(()) => Noticed::Start,
                    Err(_) => return,
                },
                wish = wishes.recv() => match wish {
                    Some(wish) => self.gather(wish, &mut wishes).await,
                    None => return,
                },
            };
        }
    }

    /// Waits until no event has come for the debounce time, at most ten times that long.
    async fn gather(&self, first: Noticed, wishes: &mut mpsc::Receiver<Noticed>) -> Noticed {
        let last = Instant::now() + self.debounce * 10;
        let mut quiet = Instant::now() + self.debounce;
        loop {
            tokio::select! {
                () = sleep_until(quiet.min(last)) => return first,
                wish = wishes.recv() => match wish {
                    Some(_) => quiet = Instant::now() + self.debounce,
                    None => return first,
                },
            }
            if Instant::now() >= last {
                return first;
            }
        }
    }

    /// Reads the references and reports what differs; false when nobody listens any more.
    async fn look(&mut self, noticed: Noticed) -> Result<bool, GitError> {
        let (repository, branches) = (self.repository.clone(), self.branches.borrow_and_update().clone());
        let read = tokio::task::spawn_blocking(move || repository.heads(&branches)).await;
        let heads = read
            .map_err(|error| GitError::Library { action: "read the heads".to_owned(), message: error.to_string() })??;
        self.failed.send_if_modified(|failure| failure.take().is_some());
        self.known.retain(|branch, _| heads.contains_key(branch));
        for (branch, after) in heads {
            let before = match &after {
                Some(commit) => self.known.insert(branch.clone(), commit.clone()),
                None => self.known.remove(&branch),
            };
            if before != after && self.changed.send(HeadChanged { branch, before, after, noticed }).await.is_err() {
                return Ok(false);
            }
        }
        if noticed == Noticed::Webhook {
            self.told.notify_one();
        }
        Ok(true)
    }

    fn pause(&self, failures: u32) -> Duration {
        let interval = match &self.folder {
            // Without events the poll is all there is.
            Some(folder) if !folder.has_events() => self.interval.min(Duration::from_secs(2)),
            _ => self.interval,
        };
        // 2^4 is already above the factor of ten.
        let factor = 2_u32.saturating_pow(failures.min(4)).min(10);
        jitter(interval * factor, RandomState::new().hash_one(()))
    }
}

/// Between 90 % and 110 % of `interval`, chosen by `random`.
fn jitter(interval: Duration, random: u64) -> Duration {
    let share = (random % 201) as u32;
    interval * 9 / 10 + interval * share / 1000
}

#[cfg(test)]
mod tests;
