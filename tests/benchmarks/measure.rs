//! Processor time of our own thread and of a peer's processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// One measured round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// User and system time.
    pub cpu: Duration,
    /// Time on the clock.
    pub wall: Duration,
}

/// Measures work of this thread alone.
pub fn ours<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(Sample, T)> {
    let (cpu, wall) = (thread_time()?, Instant::now());
    let value = work()?;
    Ok((Sample { cpu: thread_time()?.saturating_sub(cpu), wall: wall.elapsed() }, value))
}

/// Measures work of this process on all its threads, to the hundredth of a second.
pub fn whole_process<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(Sample, T)> {
    let (cpu, wall) = (process_time()?, Instant::now());
    let value = work()?;
    Ok((Sample { cpu: process_time()?.saturating_sub(cpu), wall: wall.elapsed() }, value))
}

/// User and system time of this process (`proc_pid_stat(5)`, fields 14 and 15, in hundredths of a second).
fn process_time() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/self/stat").context("read the time of this process")?;
    let fields = text.rsplit_once(')').context("read the time of this process")?.1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}

/// Processor time of this thread, to the nanosecond. What the kernel tells in files is as old as its last tick.
fn thread_time() -> anyhow::Result<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).context("read the time of this thread")
}

/// Runs a shell script in `folder` and measures its whole process tree; returns what it printed.
pub fn peer(folder: &Path, script: &str) -> anyhow::Result<(Sample, String)> {
    let output = tempfile::NamedTempFile::new()?;
    let timed = format!("set -eu -o pipefail; ( {script} ) > {}; times", quoted(output.path()));
    let wall = Instant::now();
    let result = Command::new("bash")
        .args(["-c", &timed])
        .current_dir(folder)
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .context("run bash")?;
    let wall = wall.elapsed();
    if !result.status.success() {
        bail!("{script}: {}", String::from_utf8_lossy(&result.stderr));
    }
    let times = String::from_utf8_lossy(&result.stdout).into_owned();
    let cpu = times.split_whitespace().map(seconds).sum::<Option<f64>>().context("read the times of bash")?;
    Ok((Sample { cpu: Duration::from_secs_f64(cpu), wall }, fs::read_to_string(output.path())?))
}

/// `1m2.345s` as seconds.
fn seconds(text: &str) -> Option<f64> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
}

/// A path as one word of a shell.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

/// Runs a command that is not measured.
pub fn run(folder: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .with_context(|| format!("run {program}"))?;
    if !output.status.success() {
        bail!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Builds a peer's Go program from `peers/` unless it is built; none, with the reason, where that is not possible.
pub fn go_peer(kept: &Path, name: &str) -> Result<PathBuf, String> {
    go_build(kept, name, "", &format!("./{name}"), &["go.mod", "go.sum", &format!("{name}/main.go")])
}

/// The same for a program that is a module of its own, since what it needs would change the versions of the other peers.
pub fn go_module(kept: &Path, name: &str) -> Result<PathBuf, String> {
    go_build(kept, name, name, ".", &["go.mod", "go.sum", "main.go"])
}

/// Builds a published program that `peers/go.mod` names as a tool, unless it is built.
pub fn go_tool(kept: &Path, name: &str, package: &str) -> Result<PathBuf, String> {
    go_build(kept, name, "", package, &["go.mod", "go.sum"])
}

fn go_build(kept: &Path, name: &str, module: &str, package: &str, made_from: &[&str]) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benchmarks/peers").join(module);
    let newest = made_from.iter().filter_map(|file| fs::metadata(source.join(file)).ok()?.modified().ok()).max();
    fs::create_dir_all(kept).map_err(|error| error.to_string())?;
    let built = fs::canonicalize(kept).map_err(|error| error.to_string())?.join(format!("peer-{name}"));
    let fresh = fs::metadata(&built).and_then(|metadata| metadata.modified()).ok().is_some_and(|at| Some(at) > newest);
    if !fresh {
        let output = Command::new("go")
            .args(["build", "-trimpath", "-o"])
            .arg(&built)
            .arg(package)
            .current_dir(&source)
            .env("CGO_ENABLED", "0")
            .output()
            .map_err(|error| format!("go: {error}"))?;
        if !output.status.success() {
            return Err(format!("go build: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(built)
}
