//! Services of systemd: restarted once for each change, and proven to run what was installed.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::files::digest::Digest;
use crate::files::root::Root;
use crate::journal::Restart;
use crate::work::Work;

/// A service that ends at once runs for a moment too.
const SETTLING: Duration = Duration::from_secs(5);

/// As long it may take to come up.
const PATIENCE: Duration = Duration::from_secs(90);

/// How a service runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// `active`, `activating`, `failed`.
    pub state: String,
    /// Of its main process; none when it has none.
    pub process: Option<u32>,
    /// When it was started, in microseconds since the boot.
    pub active_since: String,
}

/// Reads how `unit` runs.
///
/// # Errors
/// When systemd does not answer.
pub fn service(work: &Work<'_>, unit: &str) -> anyhow::Result<Service> {
    let properties = "--property=ActiveState,MainPID,ActiveEnterTimestampMonotonic";
    let said = work.run("systemctl", &["show", unit, properties])?;
    let value = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(str::to_owned).with_context(|| format!("systemctl says nothing of {name} of {unit}"))
    };
    Ok(Service {
        state: value("ActiveState")?,
        process: value("MainPID")?.parse().ok().filter(|process| *process != 0),
        active_since: value("ActiveEnterTimestampMonotonic")?,
    })
}

/// The boot of the machine.
///
/// # Errors
/// When the kernel does not tell.
pub fn boot_id(root: &Root) -> anyhow::Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(root.unfollowed(path)).with_context(|| format!("could not read {path}"))?;
    Ok(text.trim().to_owned())
}

/// What a process runs: the file that was started, whatever lies in its place now.
///
/// # Errors
/// When the process has ended.
pub fn digest_of_process(root: &Root, process: u32) -> anyhow::Result<Digest> {
    let path = format!("/proc/{process}/exe");
    let mut file = File::open(root.unfollowed(&path)).with_context(|| format!("could not read {path}"))?;
    Ok(Digest::of_content(&mut file)?)
}

/// Writes down that `unit` has to be restarted, before anything is changed that it reads.
///
/// # Errors
/// When that cannot be written.
pub fn owe_restart(work: &mut Work<'_>, unit: &str) -> anyhow::Result<()> {
    // A restart that was owed before may have been made, and does not count for what changes now.
    work.journal.restarts.retain(|owed| owed.unit != unit);
    work.journal.restarts.push(Restart { unit: unit.to_owned(), before: None });
    work.save()
}

/// Restarts `unit` if that is owed, and waits until it runs `program` steadily.
///
/// # Errors
/// When it does not come up.
pub fn settle(work: &mut Work<'_>, unit: &str, program: Option<Digest>) -> anyhow::Result<String> {
    let boot = boot_id(work.root)?;
    let mut is_restarted = false;
    if let Some(index) = work.journal.restarts.iter().position(|owed| owed.unit == unit) {
        let now = (boot, service(work, unit)?.active_since);
        let before = work.journal.restarts.get(index).and_then(|owed| owed.before.clone());
        // Only from here on are all files in place: a restart before does not count.
        if before.is_none() {
            if let Some(owed) = work.journal.restarts.get_mut(index) {
                owed.before = Some(now.clone());
            }
            work.save()?;
        }
        if before.is_none_or(|before| before == now) {
            restart(work, unit)?;
            is_restarted = true;
        }
    }
    if !is_restarted && !runs(work, unit, program)? {
        restart(work, unit)?;
        is_restarted = true;
    }
    steady(work, unit, program)?;
    work.journal.restarts.retain(|owed| owed.unit != unit);
    work.save()?;
    Ok(format!("{unit} {}", if is_restarted { "restarted" } else { "runs" }))
}

fn runs(work: &Work<'_>, unit: &str, program: Option<Digest>) -> anyhow::Result<bool> {
    let process = service(work, unit)?.process;
    let current = process.and_then(|process| digest_of_process(work.root, process).ok());
    Ok(current.is_some() && (program.is_none() || current == program))
}

fn restart(work: &Work<'_>, unit: &str) -> anyhow::Result<()> {
    work.run("systemctl", &["daemon-reload"])?;
    work.run("systemctl", &["restart", unit]).map(drop)
}

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(500);

/// Waits until `unit` runs `program`, and still does so after a while.
fn steady(work: &Work<'_>, unit: &str, program: Option<Digest>) -> anyhow::Result<()> {
    let patience = Instant::now() + PATIENCE.min(work.time_left());
    loop {
        let first = service(work, unit)?;
        let problem = match first.process {
            Some(process) if first.state == "active" => match (program, digest_of_process(work.root, process)) {
                (Some(wanted), Ok(current)) if current != wanted => {
                    Some(format!("{unit} runs {current}, and {wanted} is installed"))
                }
                (Some(_), Err(error)) => Some(format!("{unit}: {error:#}")),
                _ => {
                    std::thread::sleep(SETTLING.min(work.choices.soak));
                    let second = service(work, unit)?;
                    (second != first).then(|| format!("{unit} ended soon after its start"))
                }
            },
            _ => Some(format!("{unit} is {}, and not active", first.state)),
        };
        match problem {
            None => return Ok(()),
            // A question that the end of the time cuts short would only say that.
            Some(problem) if Instant::now() + 2 * PAUSE > patience => {
                bail!("{problem}; `systemctl status {unit}` and `journalctl -u {unit}` tell more")
            }
            Some(_) => std::thread::sleep(PAUSE),
        }
    }
}
