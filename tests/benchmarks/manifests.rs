//! P5: every component whose version, address or digest differs between two published Bundles.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use bundles::{Locks, parse_bundles};

use crate::Environment;
use crate::measure::{Sample, go_peer, ours, peer, quoted};
use crate::report::{Report, median};

/// Comparisons in one round: the kernel counts the time of a thread at its ticks, so a single one says nothing.
const REPEATS: u32 = 50;

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let (old, new, real) = inputs();
    let (old_text, new_text) = (fs::read(&old).context("read Bundles")?, fs::read(&new).context("read Bundles")?);
    let mut report = Report {
        work: format!(
            "compare two {} Bundles of {} and {} kB",
            if real { "published" } else { "small made-up" },
            old_text.len() / 1000,
            new_text.len() / 1000
        ),
        ..Report::default()
    };
    if !real {
        report.notes.push("the published manifests are not here; the goals are meant for them".to_owned());
    }
    let expected = compare(&old_text, &new_text)?;
    let program = go_peer(&environment.peers, "bundlediff");
    let arguments = format!("{} {}", quoted(&old), quoted(&new));
    let folder = environment.scratch.path();
    if let Ok(program) = &program {
        let (_, output) = peer(folder, &format!("{} {arguments}", quoted(program)))?;
        report.compare(format!("{} lines against sigs.k8s.io/yaml (Go)", expected.lines().count()), output == expected);
    }
    let (mut mine, mut process, mut inside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..environment.rounds {
        let (sample, ()) = ours(|| (0..REPEATS).try_for_each(|_| compare(&old_text, &new_text).map(drop)))?;
        mine.push(Sample { cpu: sample.cpu / REPEATS, wall: sample.wall / REPEATS });
        if let Ok(program) = &program {
            process.push(peer(folder, &format!("{} {arguments}", quoted(program)))?.0);
            // Many times in one process: what start-up costs is left out, as it is on our side.
            let (sample, _) = peer(folder, &format!("{} -rounds {REPEATS} {arguments}", quoted(program)))?;
            inside.push(Sample { cpu: sample.cpu / REPEATS, wall: sample.wall / REPEATS });
        }
    }
    let cpu = median(&mine, |sample| sample.cpu);
    report.row("stepgate: bundles::parse twice and bundles::compare", mine);
    report.at_most("processor time", cpu, Duration::from_millis(4));
    match program {
        Ok(_) => {
            report.ratio("over the Go program without its start", cpu, median(&inside, |s| s.cpu), 5.0);
            report.row("sigs.k8s.io/yaml (Go), inside of one process", inside);
            report.row("sigs.k8s.io/yaml (Go), one process each", process);
        }
        Err(reason) => report.notes.push(format!("no Go peer: {reason}")),
    }
    Ok(report)
}

/// Two published Bundles where the data is at hand, else our own small ones.
fn inputs() -> (PathBuf, PathBuf, bool) {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = manifest.ancestors().map(|folder| folder.join("shared/data/eks-anywhere/bundles"));
    if let Some(folder) = shared.into_iter().find(|folder| folder.is_dir()) {
        return (folder.join("release-0.25.yaml"), folder.join("release-0.26.yaml"), true);
    }
    let folder = manifest.join("../fixtures/demo/bundles");
    (folder.join("bundles-80.yaml"), folder.join("bundles-81.yaml"), false)
}

/// A line for each component that differs, and one for each of its artifacts that does.
fn compare(old: &[u8], new: &[u8]) -> anyhow::Result<String> {
    let (old, new) = (parse_bundles("old", old)?, parse_bundles("new", new)?);
    let changes = bundles::compare(&old, &new, Locks::default());
    let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let mut lines = String::new();
    for change in &changes.changes {
        let artifacts: Vec<_> = change
            .artifacts
            .iter()
            .filter(|artifact| artifact.old_uri != artifact.new_uri || artifact.old_digest != artifact.new_digest)
            .collect();
        let present = matches!(change.class, bundles::ChangeClass::Added | bundles::ChangeClass::Removed);
        if artifacts.is_empty() && change.old_version == change.new_version && !present {
            continue;
        }
        let component = format!("{} {}", change.kubernetes_version, change.component);
        let _ = writeln!(lines, "{component} {} {}", shown(&change.old_version), shown(&change.new_version));
        for artifact in artifacts {
            let _ = writeln!(
                lines,
                "{component} {} {} {} {} {}",
                artifact.name,
                shown(&artifact.old_uri),
                shown(&artifact.new_uri),
                shown(&artifact.old_digest),
                shown(&artifact.new_digest)
            );
        }
    }
    Ok(lines)
}
