//! The program, with what it took of memory and processor, children included.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Fleet, Run};

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The most memory that the program and what it started held at once, in MiB: the sum of each one's most.
    pub memory: u64,
    /// Processor time, in seconds.
    pub processor: f64,
}

/// The programs that a process has started, and theirs, itself first.
fn family(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    std::iter::once(pid).chain(children.flat_map(family)).collect()
}

/// The most memory that a process has held so far, in KiB.
fn most_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Processor time of a process and of its children that have ended, in hundredths of a second.
fn processor(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

/// Runs a verb on a fleet's repository, by its place, and watches it. A program that has not ended after two minutes is ended.
pub fn run(fleet: &Fleet, place: &str, arguments: &[&str]) -> (Run, Taken) {
    run_in(fleet.folder(), place, arguments)
}

/// The same with the mirror in this folder.
pub fn run_in(folder: &Path, place: &str, arguments: &[&str]) -> (Run, Taken) {
    let outputs = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::File::create(outputs.path().join(name)).unwrap();
    let mirror = folder.join("mirror");
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate"));
    command.args(arguments).args(["--repo", place, "--mirror", mirror.to_str().unwrap()]);
    command.env("KUBECONFIG", "/nonexistent/kubeconfig").env("XDG_CACHE_HOME", outputs.path());
    command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
    let mut child = command.spawn().unwrap();
    let (begun, mut most, mut time) = (Instant::now(), std::collections::BTreeMap::new(), 0);
    let status = loop {
        for pid in family(child.id()) {
            let seen = most.entry(pid).or_insert(0);
            *seen = most_memory(pid).unwrap_or_default().max(*seen);
        }
        time = processor(child.id()).unwrap_or_default().max(time);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    let text = |name: &str| String::from_utf8_lossy(&fs::read(outputs.path().join(name)).unwrap()).into_owned();
    let run = Run { code: status.code().unwrap_or(-1), stdout: text("stdout"), stderr: text("stderr") };
    let own = most.get(&child.id()).copied().unwrap_or_default();
    let others = most.iter().filter(|(pid, _)| **pid != child.id()).map(|(_, kib)| *kib).max().unwrap_or_default();
    (run, Taken { memory: (own + others) / 1024, processor: time as f64 / 100.0 })
}
