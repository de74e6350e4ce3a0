//! One running program: its log, its signals, its end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::waiting::until;

/// How programs written in Go collect garbage: less often, up to a bound. Most of them run for a minute, and collecting is a good part of what
/// their start costs.
const COLLECTION: [(&str, &str); 2] = [("GOGC", "400"), ("GOMEMLIMIT", "1GiB")];

/// Lines of a log that are shown when something goes wrong.
const SHOWN: usize = 20;

/// A program that was started and ends when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    command: Command,
    child: Child,
}

impl Process {
    /// Starts a program; what it says goes to `<folder>/<name>.log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(folder: &Path, name: &str, mut command: Command) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).with_context(|| log.display().to_string())?;
        command.envs(COLLECTION).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("could not start {name}"))?;
        Ok(Self { name: name.to_owned(), log, command, child })
    }

    /// Waits until `ready` holds.
    ///
    /// # Errors
    /// When the program ends before, or does not become ready; with the end of its log.
    pub async fn wait_until(&mut self, mut ready: impl AsyncFnMut() -> bool) -> anyhow::Result<()> {
        let what = format!("{} is ready", self.name);
        until(&what, async || {
            // Asked before its end is looked for: somebody else may answer in place of a program that has ended.
            let is_ready = ready().await;
            match self.child.try_wait()? {
                Some(status) => bail!("{} ended ({status})", self.name),
                None => Ok(is_ready.then_some(())),
            }
        })
        .await
        .with_context(|| self.last_lines())
    }

    /// Kills it as a power cut does.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again after [`Process::kill`], with the same arguments.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.child = self.command.spawn().with_context(|| format!("could not start {} again", self.name))?;
        Ok(())
    }

    /// Makes it stand still, as a stalled machine does.
    ///
    /// # Errors
    /// When it has ended.
    pub fn stall(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Process::stall`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// The end of its log.
    #[must_use]
    pub fn last_lines(&self) -> String {
        let text =
            std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines.get(lines.len().saturating_sub(SHOWN)..).unwrap_or_default().join("\n")
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{} has no process id", self.name))?;
        kill_process(pid, signal).with_context(|| format!("could not signal {}", self.name))
    }
}

/// Whether a server on loopback answers a plain request with success.
pub(super) async fn answers(port: u16, path: &str) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer.starts_with("HTTP/1.1 200"))
    };
    tokio::time::timeout(Duration::from_secs(1), ask).await.ok().flatten().unwrap_or_default()
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about a process that does not die.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
