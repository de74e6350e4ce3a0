//! One running program: its log, its signals, its end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::waiting::{PATIENCE, until_within};

/// How programs written in Go run: they collect garbage less often, up to a bound, and on one processor. Most of them run for a minute, and
/// collecting is a good part of what their start costs; with some twenty of them at once, threads that look for work only cost time.
const GO: [(&str, &str); 3] = [("GOGC", "400"), ("GOMEMLIMIT", "1GiB"), ("GOMAXPROCS", "1")];

/// Lines of a log that are shown when something goes wrong.
const SHOWN: usize = 20;

/// Names and logs of the programs that run now, by process id.
static RUNNING: Mutex<BTreeMap<u32, (String, PathBuf)>> = Mutex::new(BTreeMap::new());

fn running() -> MutexGuard<'static, BTreeMap<u32, (String, PathBuf)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of each program that runs its state and the end of its log.
#[must_use]
pub(crate) fn states() -> String {
    let mut told = String::new();
    for (pid, (name, log)) in running().iter() {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("gone").trim();
        let end = end_of_log(log).replace('\n', "\n  ");
        // A text takes whatever is written.
        let _ = writeln!(told, "{name} (process {pid}): {state}\n  {end}");
    }
    told
}

fn end_of_log(log: &Path) -> String {
    let text = std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(SHOWN)..).unwrap_or_default().join("\n")
}

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
        command.envs(GO).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("could not start {name}"))?;
        running().insert(child.id(), (name.to_owned(), log.clone()));
        Ok(Self { name: name.to_owned(), log, command, child })
    }

    /// Waits until `ready` holds.
    ///
    /// # Errors
    /// When the program ends before, or does not become ready; with the end of its log.
    pub async fn wait_until(&mut self, mut ready: impl AsyncFnMut() -> bool) -> anyhow::Result<()> {
        let what = format!("{} is ready", self.name);
        let is_ready = async || Ok(ready().await.then_some(()));
        self.until_within(&what, PATIENCE, is_ready).await
    }

    /// Waits until `holds` gives a value while the program runs, for `limit` at most.
    ///
    /// # Errors
    /// When the program ends before, or `holds` fails or gives no value for so long; with the end of the program's log.
    pub async fn until_within<T>(
        &self,
        what: &str,
        limit: Duration,
        mut holds: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let held = until_within(what, limit, async || {
            // Asked before its end is looked for: somebody else may answer in place of a program that has ended.
            let held = holds().await?;
            if self.has_ended()? {
                bail!("{} ended before: {what}", self.name);
            }
            Ok(held)
        });
        held.await.with_context(|| self.last_lines())
    }

    /// Whether it has ended by itself; how stays to be asked for.
    fn has_ended(&self) -> anyhow::Result<bool> {
        let looked = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.pid()?), looked)?.is_some())
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.with_context(|| format!("{} has no process id", self.name))
    }

    /// Kills it as a power cut does.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)?;
        self.child.wait()?;
        running().remove(&self.child.id());
        Ok(())
    }

    /// Starts it again after [`Process::kill`], with the same arguments.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.child = self.command.spawn().with_context(|| format!("could not start {} again", self.name))?;
        running().insert(self.child.id(), (self.name.clone(), self.log.clone()));
        Ok(())
    }

    /// Starts it again where it has ended by itself, as a kubelet does, and says whether it had.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn revive(&mut self) -> anyhow::Result<bool> {
        let has_ended = self.has_ended()?;
        if has_ended {
            self.child.wait()?;
            running().remove(&self.child.id());
            self.restart()?;
        }
        Ok(has_ended)
    }

    /// Its name, as its log has it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
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
        end_of_log(&self.log)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(self.pid()?, signal).with_context(|| format!("could not signal {}", self.name))
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
        running().remove(&self.child.id());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(folder: &Path, script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(folder, "program", command).unwrap()
    }

    #[tokio::test]
    async fn nobody_waits_for_a_program_that_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let process = started(folder.path(), "echo it broke; exit 3");
        let never = process.until_within("the moon", PATIENCE, async || Ok(None::<()>)).await.unwrap_err();
        assert_eq!(format!("{never:#}"), "it broke: program ended before: the moon");
        let process = started(folder.path(), "exec sleep 3600");
        assert_eq!(process.until_within("a word", PATIENCE, async || Ok(Some("yes"))).await.unwrap(), "yes");
    }

    #[tokio::test]
    async fn only_what_has_ended_by_itself_is_revived() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = started(folder.path(), "echo again; exit 3");
        let revived = async || Ok(process.revive().unwrap().then_some(()));
        until_within("it has ended", PATIENCE, revived).await.unwrap();
        let again = async || Ok((process.last_lines() == "again\nagain").then_some(()));
        until_within("it runs again", PATIENCE, again).await.unwrap();
        let mut process = started(folder.path(), "exec sleep 3600");
        assert!(!process.revive().unwrap());
        assert_eq!(process.name(), "program");
    }

    #[tokio::test]
    async fn programs_are_told_with_state_and_log_while_they_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = started(folder.path(), "echo it hangs; exec sleep 3600");
        let id = format!("program (process {}): ", process.child.id());
        let told = async || {
            let states = states();
            let own = states.split_once(&id).map(|(_, own)| own.to_owned());
            Ok(own.filter(|own| own.starts_with('S') && own.contains("\n  it hangs\n")))
        };
        until_within("its state and its log", PATIENCE, told).await.unwrap();
        process.kill().unwrap();
        assert!(!states().contains(&id));
    }
}
