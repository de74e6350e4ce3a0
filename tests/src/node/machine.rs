//! One node: its root, its processes, its power.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::network;
use crate::waiting;

const BOOT: &str = include_str!("configuration/boot");

const HIERARCHIES: [&str; 10] =
    ["cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd", "unified"];

/// What `systemd-nspawn` ends with when the machine in it asks for a reboot.
const REBOOT: i32 = 133;

/// A node.
pub struct Machine {
    name: String,
    number: u8,
    root: PathBuf,
    group: String,
    process: Mutex<Option<Child>>,
}

impl Machine {
    /// A node whose root is there, switched off.
    #[must_use]
    pub fn new(name: &str, number: u8, root: PathBuf) -> Self {
        // Groups are of the whole machine, unlike processes and networks of a test.
        let unique = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
        let group = format!("stepgate-node-{name}-{}", unique.get(..8).unwrap_or_default());
        Self { name: name.to_owned(), number, root, group, process: Mutex::default() }
    }

    /// Of its Node too.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Of the network of the nodes.
    #[must_use]
    pub fn address(&self) -> String {
        network::address(self.number)
    }

    /// The root of the node, as it lies on this machine.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A place of the node.
    #[must_use]
    pub fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Switches it on, and waits until systemd is up.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn boot(&self) -> anyhow::Result<()> {
        // Groups and network of a machine do not outlive its power.
        self.leave_groups();
        network::attach(&self.name, self.number)?;
        let console = fs::File::options().create(true).append(true).open(self.console())?;
        let mut command = Command::new("sh");
        command.args(["-c", BOOT, "boot", &self.name]).arg(&self.root).arg(&self.group);
        command.stdin(Stdio::null()).stdout(console.try_clone()?).stderr(console);
        *self.process() = Some(command.spawn().context("could not start systemd-nspawn")?);
        let what = format!("systemd of {} is up; {} tells more", self.name, self.console().display());
        waiting::until(&what, async || {
            if !self.is_on()? {
                bail!("{} did not start: {}", self.name, fs::read_to_string(self.console()).unwrap_or_default());
            }
            let state = self.command("systemctl", &["is-system-running"]).and_then(|mut command| Ok(command.output()?));
            let state = state.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
            Ok(matches!(state.as_deref(), Ok("running" | "degraded")).then_some(()))
        })
        .await
    }

    fn console(&self) -> PathBuf {
        self.root.with_extension("console")
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has power.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn is_on(&self) -> anyhow::Result<bool> {
        let mut process = self.process();
        let Some(child) = process.as_mut() else { return Ok(false) };
        let ended = child.try_wait()?;
        if ended.is_some() {
            *process = None;
        }
        Ok(ended.is_none())
    }

    /// The node's first process, as seen from here.
    fn leader(&self) -> anyhow::Result<i32> {
        let nspawn = self.process().as_ref().map(Child::id).with_context(|| format!("{} is off", self.name))?;
        let children = fs::read_to_string(format!("/proc/{nspawn}/task/{nspawn}/children"))?;
        let first = children.split_whitespace().next().and_then(|process| process.parse().ok());
        first.with_context(|| format!("{} is off", self.name))
    }

    /// A program of the node, in all namespaces of its first process.
    ///
    /// # Errors
    /// When the node is off.
    pub fn command(&self, program: &str, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.leader()?.to_string()]);
        command.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd", "--"]);
        command.args(["/usr/bin/env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]);
        command.args(["HOME=/root", "KUBECONFIG=/etc/kubernetes/admin.conf", program]).args(arguments);
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Runs a program of the node. Returns what it printed.
    ///
    /// # Errors
    /// When it fails; with what it said.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = self.command(program, arguments)?;
        let output: Output = tokio::task::spawn_blocking(move || command.output()).await??;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(told);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {program} {} ended with {}: {told}{errors}", self.name, arguments.join(" "), output.status)
    }

    /// Loss of power: nothing on the node gets to say anything.
    ///
    /// # Errors
    /// When it is off already.
    pub async fn power_cut(&self) -> anyhow::Result<()> {
        let first = Pid::from_raw(self.leader()?).context("process 0")?;
        kill_process(first, Signal::KILL)?;
        self.wait_until_off().await.map(drop)
    }

    /// Switches it off as an administrator does.
    ///
    /// # Errors
    /// When it stays on.
    pub async fn power_off(&self) -> anyhow::Result<()> {
        self.run("systemctl", &["poweroff"]).await?;
        self.wait_until_off().await.map(drop)
    }

    /// Restarts it as an administrator does.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn reboot(&self) -> anyhow::Result<()> {
        self.run("systemctl", &["reboot"]).await?;
        match self.wait_until_off().await? {
            Some(REBOOT) => self.boot().await,
            code => bail!("{} went off with {code:?}, and did not reboot", self.name),
        }
    }

    async fn wait_until_off(&self) -> anyhow::Result<Option<i32>> {
        waiting::until(&format!("{} is off", self.name), async || {
            let mut process = self.process();
            let Some(child) = process.as_mut() else { return Ok(Some(None)) };
            let ended = child.try_wait()?;
            if ended.is_some() {
                *process = None;
            }
            Ok(ended.map(|status| status.code()))
        })
        .await
    }

    /// Ends processes of the node by the name of their program, without a word. Returns how many that were.
    ///
    /// # Errors
    /// When the node is off.
    pub fn kill(&self, name: &str) -> anyhow::Result<usize> {
        let output = self.command("pkill", &["--signal", "KILL", "--count", "--exact", name])?.output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or_default())
    }

    fn leave_groups(&self) {
        for hierarchy in HIERARCHIES {
            let folder = Path::new("/sys/fs/cgroup").join(hierarchy).join(&self.group);
            remove_group(&folder);
        }
    }
}

/// Groups inside first: with stale ones of Pods, kubelet takes a minute more to start.
fn remove_group(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&entry.path());
        }
    }
    let _has_processes = fs::remove_dir(folder);
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Ok(Some(first)) = self.leader().map(Pid::from_raw) {
            let _ended_meanwhile = kill_process(first, Signal::KILL);
        }
        if let Some(child) = self.process().as_mut() {
            let _ended = child.wait();
        }
        self.leave_groups();
        network::detach(&self.name);
    }
}
