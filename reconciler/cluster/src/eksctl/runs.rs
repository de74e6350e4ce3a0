//! Runs of eksctl: what is noted down of each, so that the next process goes on where this one ends.
//!
//! A run writes to the log of its cluster and holds the log's lock as long as it lives: the program inherits the file. So
//! another process sees that it is at work, and one that has lost it sees that it is not.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::ClusterName;
use jiff::{SignedDuration, Timestamp};
use rollout::eksctl::{EksctlStep, EksctlVerb};
use rollout::{EksctlOutcome, EksctlRun};
use tokio::process::Child;

use super::EksctlTarget;
use super::arguments::arguments;
use super::output::last_lines;
use super::program::{EksctlError, PinnedProgram, ProgramKind, shown};
use crate::watch::{ChangeScope, Changes};

/// How much of the end of a log is looked at.
const TAIL: i64 = 64 << 10;

/// Between two looks at a run that another process has begun.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// What is begun.
pub(super) struct Start<'a> {
    pub target: &'a EksctlTarget,
    pub step: &'a EksctlStep,
    pub verb: EksctlVerb,
    pub attempt: u32,
    /// The `ClusterConfig` that it gets.
    pub config: String,
    pub at: Timestamp,
    /// The newest run when this was decided.
    pub last: Option<&'a EksctlRun>,
}

/// The runs of all clusters.
#[derive(Debug)]
pub(super) struct Runs {
    folder: PathBuf,
    limit: Duration,
    /// The clusters whose run this process waits for.
    watched: Arc<Mutex<Vec<ClusterName>>>,
    /// Who is told of the end of a run.
    told: Option<Arc<Changes>>,
    /// The clusters whose run another process has begun, and of whose end this one tells.
    foreign: Arc<Mutex<BTreeSet<ClusterName>>>,
}

impl Runs {
    pub(super) fn new(folder: PathBuf, limit: Duration) -> Self {
        Self { folder, limit, watched: Arc::default(), told: None, foreign: Arc::default() }
    }

    pub(super) fn telling(self, changes: Arc<Changes>) -> Self {
        Self { told: Some(changes), ..self }
    }

    fn file(&self, cluster: &ClusterName, kind: &str) -> PathBuf {
        self.folder.join(format!("{cluster}.{kind}"))
    }

    /// The newest run of a cluster, as it is now; none where there was none.
    pub(super) fn last(&self, cluster: &ClusterName) -> Result<Option<EksctlRun>, EksctlError> {
        // Asked before the record is read: it is written before the run is no longer watched.
        let is_watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner).contains(cluster);
        let path = self.file(cluster, "json");
        let record = |source| EksctlError::Record { path: path.clone(), source };
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(record(error)),
        };
        let mut run: EksctlRun =
            serde_json::from_slice(&text).map_err(|error| record(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        if run.outcome != EksctlOutcome::Running {
            return Ok(Some(run));
        }
        let log = self.file(cluster, "log");
        let read = |source| EksctlError::Record { path: log.clone(), source };
        run.output = tail(&log).map_err(read)?;
        if !is_watched {
            if is_locked(&log).map_err(read)? {
                self.tell_of_foreign(cluster, log);
            } else {
                run.outcome = EksctlOutcome::Unwatched;
            }
        }
        Ok(Some(run))
    }

    /// The end of a run that another process has begun is told as well; that is seen by its lock.
    fn tell_of_foreign(&self, cluster: &ClusterName, log: PathBuf) {
        let Some(changes) = self.told.clone() else { return };
        if !self.foreign.lock().unwrap_or_else(PoisonError::into_inner).insert(cluster.clone()) {
            return;
        }
        let (foreign, cluster) = (Arc::clone(&self.foreign), cluster.clone());
        tokio::spawn(async move {
            while is_locked(&log).unwrap_or(false) {
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
            foreign.lock().unwrap_or_else(PoisonError::into_inner).remove(&cluster);
            changes.note(cluster.as_str(), ChangeScope::More);
        });
    }

    /// Begins a run, unless one is at work, was begun meanwhile, or the branch has moved; says whether it did.
    pub(super) fn begin(
        &self,
        program: &PinnedProgram,
        start: Start<'_>,
        is_newest: &dyn Fn() -> bool,
    ) -> Result<bool, EksctlError> {
        let cluster = &start.target.cluster;
        let (log, config) = (self.file(cluster, "log"), self.file(cluster, "yaml"));
        let record = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| EksctlError::Record { path, source }
        };
        std::fs::create_dir_all(&self.folder).map_err(record(&self.folder))?;
        let file = File::options().create(true).append(true).open(&log).map_err(record(&log))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(record(&log)(error)),
        }
        // Whoever held the lock a moment ago has changed what this was decided by.
        let is_another = match (self.last(cluster)?, start.last) {
            (Some(now), Some(before)) => (now.started_at, now.attempt) != (before.started_at, before.attempt),
            (now, before) => now.is_some() != before.is_some(),
        };
        if is_another || !is_newest() {
            return Ok(false);
        }
        file.set_len(0).map_err(record(&log))?;
        std::fs::write(&config, &start.config).map_err(record(&config))?;
        let minutes = (self.limit.as_secs() / 60).max(1);
        let words = arguments(&start.verb, start.target, &config.to_string_lossy(), minutes);
        let EksctlStep { rollout, commit, part, .. } = start.step.clone();
        let run = EksctlRun {
            rollout,
            commit,
            part,
            verb: start.verb,
            command: shown(ProgramKind::Eksctl, &words).replace(&*config.to_string_lossy(), &format!("{cluster}.yaml")),
            attempt: start.attempt,
            started_at: start.at,
            outcome: EksctlOutcome::Running,
            output: Vec::new(),
        };
        let path = self.file(cluster, "json");
        write(&path, &run).map_err(record(&path))?;
        let mut command = program.command();
        let output = file.try_clone().map_err(record(&log))?;
        command.args(&words).stdin(Stdio::null()).stdout(Stdio::from(output)).stderr(Stdio::from(file));
        let child = match command.spawn() {
            Ok(child) => child,
            Err(source) => {
                let status = "it could not be started".to_owned();
                let outcome = EksctlOutcome::Failed { ended_at: start.at, status };
                write(&path, &EksctlRun { outcome, ..run }).map_err(record(&path))?;
                return Err(EksctlError::Program { program: program.path().to_owned(), source });
            }
        };
        tracing::info!(cluster.name = %cluster, git.commit = %run.commit, "started `{}`", run.command);
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).push(cluster.clone());
        let (watched, told) = (Arc::clone(&self.watched), self.told.clone());
        let watch = Watch { path, log, limit: self.limit, watched, told, cluster: cluster.clone() };
        tokio::spawn(watch.until_the_end(child, run));
        Ok(true)
    }
}

/// A run that this process waits for.
struct Watch {
    path: PathBuf,
    log: PathBuf,
    limit: Duration,
    watched: Arc<Mutex<Vec<ClusterName>>>,
    told: Option<Arc<Changes>>,
    cluster: ClusterName,
}

impl Watch {
    async fn until_the_end(self, mut child: Child, run: EksctlRun) {
        let began = Instant::now();
        let ended = tokio::time::timeout(self.limit, child.wait()).await;
        let is_late = ended.is_err();
        if is_late {
            // What CloudFormation has begun goes on by itself.
            if let Err(error) = child.kill().await {
                tracing::warn!(cluster.name = %self.cluster, %error, "could not end `{}`", run.command);
            }
        }
        let elapsed = SignedDuration::try_from(began.elapsed()).unwrap_or(SignedDuration::ZERO);
        let ended_at = run.started_at.saturating_add(elapsed).unwrap_or(Timestamp::MAX);
        let outcome = match ended {
            Err(_) => EksctlOutcome::TimedOut { ended_at },
            Ok(Ok(status)) if status.success() => EksctlOutcome::Succeeded { ended_at },
            Ok(Ok(status)) => EksctlOutcome::Failed { ended_at, status: status.to_string() },
            Ok(Err(error)) => EksctlOutcome::Failed { ended_at, status: error.to_string() },
        };
        tracing::info!(cluster.name = %self.cluster, ?outcome, "`{}` has ended", run.command);
        let output = tail(&self.log).unwrap_or_default();
        if let Err(error) = write(&self.path, &EksctlRun { outcome, output, ..run }) {
            // It is asked for again then, by what AWS says.
            tracing::warn!(cluster.name = %self.cluster, %error, "could not note down how a run of eksctl ended");
        }
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| *known != self.cluster);
        if let Some(changes) = self.told {
            changes.note(self.cluster.as_str(), ChangeScope::More);
        }
    }
}

/// Whether a run writes to a log.
fn is_locked(log: &Path) -> io::Result<bool> {
    let file = match File::open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn tail(log: &Path) -> io::Result<Vec<String>> {
    let mut file = match File::open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let length = i64::try_from(file.metadata()?.len()).unwrap_or(i64::MAX);
    file.seek(SeekFrom::End(-length.min(TAIL)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(last_lines(&bytes))
}

/// The whole record, or the one before.
fn write(path: &Path, run: &EksctlRun) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(run).map_err(io::Error::other)?;
    let new = path.with_extension("json.new");
    let mut file = File::create(&new)?;
    file.write_all(&text)?;
    file.sync_all()?;
    std::fs::rename(new, path)
}
