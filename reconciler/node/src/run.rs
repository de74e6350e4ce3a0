//! One call: order, target, attempts and time limits; all of it follows from the journal.

use std::fmt;
use std::time::{Duration, Instant};

use crate::api::Api;
use crate::files::Files;
use crate::files::file_system::FileSystem;
use crate::files::machine::MachineFile;
use crate::files::manifest::{Component, Source};
use crate::files::root::Root;
use crate::host::lock::Lock;
use crate::host::programs::Programs;
use crate::journal::{Journal, Record, Role, State};
use crate::step::{MOST_ATTEMPTS, Step};
use crate::steps::{self, copy, rollback};
use crate::version::KubernetesVersion;
use crate::work::{Choices, Host, Work, now};

/// How long a call waits for the one before.
const LOCK: Duration = Duration::from_secs(600);

/// How long the way back may take.
const ROLLBACK: Duration = Duration::from_secs(1800);

/// The node, and what this call can do with it.
pub struct Node<'a> {
    /// Where it is.
    pub root: &'a Root,
    /// What changes its files.
    pub disk: &'a dyn FileSystem,
    /// What runs its programs.
    pub programs: &'a dyn Programs,
    /// Its cluster.
    pub api: Option<&'a Api>,
    /// What the caller chose.
    pub choices: &'a Choices,
    /// Another limit than that of the step.
    pub time_limit: Option<Duration>,
    /// Attempts are counted from none again.
    pub is_anew: bool,
}

/// A call that did not do what it was called for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Nothing was begun.
    Refused(String),
    /// This attempt failed; calling again tries once more.
    Failed(String),
    /// No attempt is left.
    Terminal(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(formatter, "refused, and nothing was begun: {why}"),
            Self::Failed(why) => write!(formatter, "failed, and may be called again: {why}"),
            Self::Terminal(why) => write!(formatter, "failed, and is not tried again (--anew does): {why}"),
        }
    }
}

fn refused(error: impl fmt::Display) -> Ended {
    Ended::Refused(format!("{error:#}"))
}

impl Node<'_> {
    fn work(&self, journal: Journal, limit: Duration) -> Work<'_> {
        Work { host: self.host(limit), api: self.api, choices: self.choices, journal }
    }

    fn host(&self, limit: Duration) -> Host<'_> {
        let deadline = Instant::now() + self.time_limit.unwrap_or(limit);
        Host { root: self.root, disk: self.disk, programs: self.programs, deadline }
    }

    /// Brings a release to the node, and begins an upgrade to it.
    ///
    /// # Errors
    /// Whatever forbids it, or went wrong.
    pub fn copy(&self, source: &Source, files: &[MachineFile], node: String, role: Role) -> Result<String, Ended> {
        let _lock = Lock::take(self.root, LOCK).map_err(refused)?;
        let old = Journal::load(self.root).map_err(refused)?;
        let same = |old: &Journal| {
            old.target.manifest == source.sha256 && old.target.kubernetes_version == source.manifest.kubernetes_version
        };
        let leads_to = |old: &Journal, file: &MachineFile| {
            old.files.iter().any(|known| known.path == file.path && known.after == file.wanted)
        };
        let mut kept = None;
        if let Some(mut old) = old {
            if old.has_changed_the_node() && !old.is_complete() && !old.is_rolled_back() {
                if !same(&old) || old.rollback.is_some() {
                    let target = &old.target.kubernetes_version;
                    return Err(refused(format!("the upgrade to {target} is not over: finish it, or roll it back")));
                }
                let limit = Step::Copy.time_limit();
                copy::take_up(&self.host(limit), &mut old, files).map_err(refused)?;
                return self.again(old, source, files);
            }
            let is_of_files = files.iter().all(|file| leads_to(&old, file));
            if old.is_complete() && same(&old) && is_of_files && self.is_as_installed(&old).map_err(refused)? {
                return Ok(format!("the node is at {} already", old.target.kubernetes_version));
            }
            if same(&old) && !old.is_rolled_back() && !old.is_complete() {
                kept = old.steps.get(&Step::Copy).cloned();
            }
        }
        let begin = copy::Begin { source, files, node, role };
        let mut journal = copy::survey(&self.host(Step::Copy.time_limit()), begin).map_err(refused)?;
        if let Some(record) = kept {
            let _none = journal.steps.insert(Step::Copy, record);
        }
        self.again(journal, source, files)
    }

    fn again(&self, journal: Journal, source: &Source, files: &[MachineFile]) -> Result<String, Ended> {
        let mut work = self.work(journal, Step::Copy.time_limit());
        self.attempt(&mut work, Step::Copy, |work| copy::perform(work, source, files))
    }

    fn is_as_installed(&self, journal: &Journal) -> anyhow::Result<bool> {
        let files = Files::new(self.root, self.disk);
        for file in &journal.files {
            if files.found(file.path.as_str())? != Some(file.after) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Any other step of the upgrade to `target`.
    ///
    /// # Errors
    /// Whatever forbids it, or went wrong.
    pub fn step(&self, step: Step, target: &KubernetesVersion) -> Result<String, Ended> {
        let _lock = Lock::take(self.root, LOCK).map_err(refused)?;
        let journal = self.journal_of(target)?;
        if journal.rollback.is_some() {
            return Err(refused(format!("the upgrade to {target} is being rolled back, or was")));
        }
        if let Some(before) = step.predecessor()
            && journal.record(before).state != State::Succeeded
        {
            return Err(refused(format!("{step} comes after {before}, which has not succeeded for {target}")));
        }
        let mut work = self.work(journal, step.time_limit());
        if let Some(done) = self.still_done(&work, step).map_err(refused)? {
            return Ok(done);
        }
        self.attempt(&mut work, step, |work| steps::perform(step, work))
    }

    /// What a step has done is looked at again, except where it would disturb a node that has gone on.
    fn still_done(&self, work: &Work<'_>, step: Step) -> anyhow::Result<Option<String>> {
        let record = work.journal.record(step);
        if record.state != State::Succeeded {
            return Ok(None);
        }
        let is_done = match step {
            Step::Copy | Step::Verify | Step::Uncordon => false,
            Step::Containerd => {
                work.is_installed(Component::Registries)? && work.is_installed(Component::Containerd)?
            }
            Step::CniPlugins => work.is_installed(Component::CniPlugins)?,
            // Once kubelet may have been replaced, Pods are on their way back, or are.
            Step::Drain => work.journal.record(Step::Kubelet).started.is_some(),
            Step::Kubeadm => work.is_installed(Component::Kubeadm)?,
            Step::Kubelet => work.is_installed(Component::Kubelet)?,
        };
        Ok(is_done.then(|| format!("done already: {}", record.message)))
    }

    /// The way back from the upgrade to `target`.
    ///
    /// # Errors
    /// Whatever forbids it, or went wrong.
    pub fn rollback(&self, target: &KubernetesVersion) -> Result<String, Ended> {
        let _lock = Lock::take(self.root, LOCK).map_err(refused)?;
        let journal = self.journal_of(target)?;
        if journal.is_rolled_back() {
            return Ok("rolled back already".to_owned());
        }
        if journal.is_complete() {
            return Err(refused(format!("the upgrade to {target} is over: the node is in use at it")));
        }
        let mut work = self.work(journal, ROLLBACK);
        let mut record = work.journal.rollback.clone().unwrap_or_default();
        self.begin(&mut record, "rollback")?;
        work.journal.rollback = Some(record.clone());
        work.save().map_err(refused)?;
        let result = rollback::perform(&mut work).map_err(|error| format!("{error:#}"));
        let result = result.map_err(|why| format!("{why}\nthe node is not undone, and stays cordoned"));
        let told = result.clone();
        let is_over = record.end(result, now());
        work.journal.rollback = Some(record);
        work.save().map_err(|error| Ended::Failed(format!("{error:#}")))?;
        told.map_err(|why| if is_over { Ended::Terminal(why) } else { Ended::Failed(why) })
    }

    fn journal_of(&self, target: &KubernetesVersion) -> Result<Journal, Ended> {
        match Journal::load(self.root).map_err(refused)? {
            None => Err(refused("no upgrade was begun on this node: `copy` comes first")),
            Some(journal) if journal.target.kubernetes_version != *target => {
                let other = &journal.target.kubernetes_version;
                Err(refused(format!("the journal of this node is of {other}, and counts for nothing for {target}")))
            }
            Some(journal) => Ok(journal),
        }
    }

    fn begin(&self, record: &mut Record, name: &str) -> Result<(), Ended> {
        if self.is_anew {
            record.attempts = 0;
        }
        if record.attempts >= MOST_ATTEMPTS {
            return Err(Ended::Terminal(format!("{name}: {}", record.message)));
        }
        record.begin(now());
        Ok(())
    }

    fn attempt(
        &self,
        work: &mut Work<'_>,
        step: Step,
        perform: impl FnOnce(&mut Work<'_>) -> anyhow::Result<String>,
    ) -> Result<String, Ended> {
        let mut record = work.journal.record(step);
        self.begin(&mut record, step.as_str())?;
        let _old = work.journal.steps.insert(step, record.clone());
        work.save().map_err(refused)?;
        let result = perform(work).map_err(|error| format!("{error:#}"));
        let told = result.clone();
        let is_over = record.end(result, now());
        let _running = work.journal.steps.insert(step, record);
        work.save().map_err(|error| Ended::Failed(format!("{error:#}")))?;
        told.map_err(|why| if is_over { Ended::Terminal(why) } else { Ended::Failed(why) })
    }
}
