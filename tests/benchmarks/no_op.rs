//! P8: reconciling when nothing changed.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::fleet::{Fleet, is_done};
use crate::measure::{Sample, ours, peer, quoted, run as command};
use crate::report::{Report, median};
use crate::{Environment, corpus};

/// Reconciles of one round.
const RECONCILES: u32 = 100_000;

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let scratch = environment.scratch.path().join("no-op");
    fs::create_dir_all(&scratch)?;
    let fleet = Fleet::new(&scratch, corpus::CLUSTERS)?;
    let folder = scratch.join("fleet.git");
    let controller = fleet.controller()?;
    let first = Fleet::pass(&controller)?;

    let mut report = Report {
        work: format!(
            "{RECONCILES} passes of the controller over a fleet of {} clusters in which nothing changed",
            corpus::CLUSTERS
        ),
        ..Report::default()
    };
    command(&scratch, "git", &["clone", "-q", &format!("file://{}", folder.display()), "clone"])?;
    let clone = scratch.join("clone");
    let script = "git fetch -q origin && git diff --quiet HEAD origin/main && echo unchanged";
    let (_, said) = peer(&clone, script)?;
    report.compare("both sides find nothing to do", said == "unchanged\n" && is_done(&first));

    // In this order: the system adds what ended children wrote to what we wrote.
    let files = listing(&scratch)?;
    let (written, asked) = (bytes_written()?, fleet.asked());
    let (mut mine, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..environment.rounds {
        let (sample, ()) = ours(|| {
            for _ in 0..RECONCILES {
                if !Arc::ptr_eq(&Fleet::pass(&controller)?, &first) {
                    bail!("something changed");
                }
            }
            Ok(())
        })?;
        mine.push(Sample { cpu: sample.cpu / RECONCILES, wall: sample.wall / RECONCILES });
    }
    report.compare("0 bytes written by 0 system calls", bytes_written()? == written);
    report.compare("no file of the repository changed", listing(&scratch)? == files);
    report.compare("no cluster was asked for anything", fleet.asked() == asked);
    for _ in 0..environment.rounds {
        peers.push(peer(&clone, script)?.0);
    }
    let cpu = median(&mine, |sample| sample.cpu);
    report.row("stepgate: one pass", mine);
    report.at_most("processor time", cpu, Duration::from_micros(40));
    report.ratio("over git fetch and git diff", cpu, median(&peers, |sample| sample.cpu), 500.0);
    report.row("git fetch and git diff", peers);
    Ok(report)
}

/// Bytes that this process has handed to write calls.
fn bytes_written() -> anyhow::Result<String> {
    let text = fs::read_to_string("/proc/self/io").context("read /proc/self/io")?;
    let line = text.lines().find(|line| line.starts_with("wchar")).context("wchar")?;
    Ok(line.to_owned())
}

/// Names, sizes and times of every file below the folder.
fn listing(folder: &std::path::Path) -> anyhow::Result<String> {
    command(
        folder,
        "sh",
        &["-c", &format!("find {} -path '*/clone' -prune -o -printf '%p %s %T@\\n' | sort", quoted(folder))],
    )
}
