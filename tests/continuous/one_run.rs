//! One run: a process of the test binary, with a time limit, and what became of it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use ::tests::continuous::progress::Progress;
use ::tests::continuous::record::{Ended, Outcome, Record, Run};
use ::tests::continuous::{CELL, PROGRESS, SEED};
use anyhow::{Context as _, ensure};
use tokio::process::Command;

/// The test that is a run.
const TEST: &str = "continuous::one_upgrade";

/// Lines of output that are looked at where a run does not say why it ended.
const LINES: usize = 20;

/// What all runs of a night have in common.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The test binary.
    pub tests: PathBuf,
    /// How long a run may take.
    pub limit: Duration,
    /// Where logs go, and what runs leave.
    pub folder: PathBuf,
}

/// Runs it. What it leaves on the disk goes, unless the upgrade failed and its state is to be kept.
pub async fn run(setting: &Setting, run: Run, keeps_state: bool) -> anyhow::Result<Record> {
    let name = format!("{}-{}", run.session.replace(':', ""), run.number);
    let [log, state] = ["logs", "state"].map(|folder| setting.folder.join(folder));
    let (log, state) = (log.join(format!("{name}.log")), state.join(&name));
    let told = state.join("progress.jsonl");
    for folder in [log.parent().unwrap_or(&log), &state] {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let begun = Instant::now();
    let ended = ended(setting, &run, [&log, &state, &told]).await?;
    let seconds = begun.elapsed().as_secs_f64();

    let said = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    let progress = Progress::read(&std::fs::read_to_string(&told).unwrap_or_default());
    let skipped = said.lines().find(|line| line.starts_with("skipped: ")).unwrap_or("it did not begin");
    ensure!(!(progress.is_empty() && ended == Ended::Well), "{TEST} has run nothing: {skipped}");
    let mut record = Record::of(run, &progress, ended, &end_of(&said), seconds);
    if record.outcome == Outcome::Passed {
        remove(&log);
    } else {
        record.log = Some(log.display().to_string());
    }
    if record.outcome != Outcome::Failed || !keeps_state {
        remove(&state);
    }
    Ok(record)
}

/// How its process ended. Everything that it has started ends with it.
async fn ended(setting: &Setting, run: &Run, [log, state, told]: [&Path; 3]) -> anyhow::Result<Ended> {
    let file = File::create(log).with_context(|| log.display().to_string())?;
    let mut command = Command::new("setpriv");
    command
        // Whoever is killed ends nothing himself: the kernel has to.
        .args(["--pdeathsig", "KILL"])
        .arg(&setting.tests)
        .args(["--exact", TEST, "--nocapture", "--test-threads", "1"])
        .env(CELL, &run.cell)
        .env(SEED, run.seed.to_string())
        .env(PROGRESS, told)
        .env("TMPDIR", state)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .kill_on_drop(true);
    let mut child = command.spawn().context("could not run setpriv (of util-linux)")?;
    match tokio::time::timeout(setting.limit, child.wait()).await {
        Ok(status) => Ok(if status?.success() { Ended::Well } else { Ended::Badly }),
        Err(_) => {
            child.kill().await?;
            Ok(Ended::OutOfTime(setting.limit.as_secs()))
        }
    }
}

/// The lines before the last ones of the test's own program, which say nothing of why.
fn end_of(said: &str) -> String {
    let is_own =
        |line: &&str| !line.trim().is_empty() && !line.starts_with("running 1 test") && !line.starts_with("test ");
    let lines: Vec<&str> = said.lines().filter(is_own).collect();
    let panicked = lines.iter().rposition(|line| line.contains("panicked at") && !line.contains("isolation.rs"));
    let from = panicked.map_or(lines.len().saturating_sub(LINES), |place| place + 1);
    let shown: Vec<&str> = lines.iter().skip(from).take(LINES).copied().collect();
    if shown.is_empty() { "its process was ended from outside".to_owned() } else { shown.join("\n") }
}

fn remove(path: &Path) {
    // What is still being written by programs that end just now is left to the next who cleans up.
    let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_panic_of_the_test_itself_is_told() {
        let said = "1.0 s: begun\nthread 'x' panicked at tests/servers/continuous/mod.rs:3:\nit broke\nmore\n\
                    thread 'y' panicked at tests/src/servers/isolation.rs:9:\nit failed in its namespaces\n";
        assert!(end_of(said).starts_with("it broke\nmore\n"), "{}", end_of(said));
        assert_eq!(end_of("one\n\ntwo\n"), "one\ntwo");
        assert_eq!(end_of("\nrunning 1 test\ntest x ... "), "its process was ended from outside");
    }
}
