//! What a step works with.

use std::ops::Deref;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;

use crate::api::Api;
use crate::files::file_system::FileSystem;
use crate::files::manifest::Component;
use crate::files::root::{NodePath, Root};
use crate::files::{Files, STATE};
use crate::host::programs::{Call, Programs};
use crate::journal::{FileRecord, Journal};
use crate::version::KubernetesVersion;

/// What the caller chooses, beside the target.
#[derive(Debug, Clone, Default)]
pub struct Choices {
    /// Data in `emptyDir` volumes may be lost.
    pub deletes_empty_dir_data: bool,
    /// kube-vip leaves this node while it is upgraded.
    pub leaves_virtual_address: bool,
    /// kubeadm's own copy of etcd's data is enough.
    pub trusts_kubeadm_for_etcd: bool,
    /// Checks of kubeadm that may fail.
    pub ignored_preflight_errors: Vec<String>,
    /// How kubeadm pulls images.
    pub image_pull_policy: String,
    /// How long everything has to hold.
    pub soak: Duration,
    /// The Pod this program runs in, `namespace/name`: it is not evicted.
    pub own_pod: Option<String>,
}

/// The machine, for as long as an attempt may take.
pub struct Host<'a> {
    /// Where the node is.
    pub root: &'a Root,
    /// What changes it.
    pub disk: &'a dyn FileSystem,
    /// What runs on it.
    pub programs: &'a dyn Programs,
    /// When the attempt is over.
    pub deadline: Instant,
}

/// One call on one node.
pub struct Work<'a> {
    /// Its machine.
    pub host: Host<'a>,
    /// Its cluster.
    pub api: Option<&'a Api>,
    /// What the caller chose.
    pub choices: &'a Choices,
    /// What was done.
    pub journal: Journal,
}

impl<'a> Deref for Work<'a> {
    type Target = Host<'a>;

    fn deref(&self) -> &Host<'a> {
        &self.host
    }
}

impl Host<'_> {
    /// The files of the node.
    #[must_use]
    pub fn files(&self) -> Files<'_> {
        Files::new(self.root, self.disk)
    }

    /// What is left of the attempt's time.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// What a program prints that ends well.
    ///
    /// # Errors
    /// Command, exit and last lines.
    pub fn run(&self, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let call = Call { program: program.to_owned(), arguments, limit: self.time_left() };
        let answer = self.programs.run(&call).with_context(|| format!("could not start `{call}`"))?;
        answer.success(&call).map_err(|error| anyhow!(error))
    }

    /// What a program says its version is.
    ///
    /// # Errors
    /// When it does not run or says something else.
    pub fn version_of(&self, program: &str, arguments: &[&str]) -> anyhow::Result<KubernetesVersion> {
        let said = self.run(program, arguments)?;
        let word = said.split_whitespace().last().unwrap_or_default();
        word.parse().map_err(|error: String| anyhow!("{program} of the node: {error}"))
    }
}

impl Work<'_> {
    /// Writes down what was done.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self) -> anyhow::Result<()> {
        self.journal.save(&self.files())
    }

    /// The cluster, which this step cannot do without.
    ///
    /// # Errors
    /// When the call was given no way to it.
    pub fn api(&self) -> anyhow::Result<&Api> {
        self.api.context("this step needs the API server: run it in a Pod, or give --kubeconfig")
    }

    /// The files of one component.
    #[must_use]
    pub fn component(&self, component: Component) -> Vec<FileRecord> {
        self.journal.files.iter().filter(|file| file.component == component).cloned().collect()
    }

    /// Whether all files of a component are those of the target.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn is_installed(&self, component: Component) -> anyhow::Result<bool> {
        for file in self.component(component) {
            if self.files().found(file.path.as_str())? != Some(file.after) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The program of this name, before the upgrade and now, for whoever asks later what was done.
    #[must_use]
    pub fn told_of_program(&self, component: Component, name: &str) -> String {
        let files = self.component(component);
        let Some(file) = files.iter().find(|file| file.path.name() == name) else { return String::new() };
        let before = file.before.map_or_else(|| "none".to_owned(), |found| found.sha256.to_string());
        format!("; {name} {before} to {}", file.after.sha256)
    }

    /// Puts the files of a component in their places. Returns how many were changed.
    ///
    /// # Errors
    /// When one cannot be replaced.
    pub fn install(&mut self, component: Component) -> anyhow::Result<usize> {
        let mut changed = 0;
        for file in self.component(component) {
            self.recognize(&file)?;
            let content = self.files().kept(file.after.sha256)?;
            changed += usize::from(self.files().put(file.path.as_str(), &content, file.after)?);
        }
        Ok(changed)
    }

    /// Somebody has replaced the file since the upgrade began, and before we did: the way back leads to theirs.
    fn recognize(&mut self, file: &FileRecord) -> anyhow::Result<()> {
        let found = self.files().found(file.path.as_str())?;
        let is_known = found == file.before || found.is_some_and(|found| found.sha256 == file.after.sha256);
        if is_known || file.before.is_some_and(|before| self.files().kept(before.sha256).is_ok()) {
            return Ok(());
        }
        for record in self.journal.files.iter_mut().filter(|record| record.path == file.path) {
            record.before = found;
        }
        self.save()
    }

    /// Puts back what was there before the upgrade began. Returns how many were changed.
    ///
    /// # Errors
    /// When an old version is not kept whole, or cannot be put back.
    pub fn put_back(&self, component: Component) -> anyhow::Result<usize> {
        let mut changed = 0;
        for file in self.component(component) {
            let is_changed = match file.before {
                None => self.files().take_away(file.path.as_str())?,
                Some(before) if self.files().found(file.path.as_str())? == Some(before) => false,
                Some(before) => self.files().put(file.path.as_str(), &self.files().kept(before.sha256)?, before)?,
            };
            changed += usize::from(is_changed);
        }
        Ok(changed)
    }
}

/// A path of our own below [`STATE`].
///
/// # Errors
/// Never for plain names.
pub fn own_path(name: &str) -> anyhow::Result<NodePath> {
    NodePath::try_from(format!("{STATE}/{name}")).map_err(anyhow::Error::msg)
}

/// The present.
#[must_use]
pub fn now() -> Timestamp {
    #[allow(clippy::disallowed_methods, reason = "the program on the node is the edge")]
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
