//! P2: all 1,000 overlays by a new process, into files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Environment;
use crate::corpus::CLUSTERS;
use crate::measure::{Sample, go_tool, peer, quoted, run as command};
use crate::render::{FLEET_VERB, cluster, corpus_files, verb};
use crate::report::{Report, median};

/// Overlays that the peers build in one round; their time is scaled.
const SHARE: u32 = 20;

/// Where outputs of all sides go, if it is there.
const MEMORY: &str = "/dev/shm";

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let scratch = environment.scratch.path().join("render-fleet");
    let folder = scratch.join("fleet");
    corpus_files(&folder)?;
    // A file system on a busy disk takes longer to make a thousand files than their content takes to build.
    let outputs = tempfile::TempDir::new_in(MEMORY).or_else(|_| tempfile::TempDir::new())?;
    let out = emptied(outputs.path(), "ours")?;
    let mut report = Report {
        work: format!("build {CLUSTERS} overlays in a new process on two cores, into files"),
        ..Report::default()
    };
    report.notes.push(format!("outputs are in {}", outputs.path().parent().unwrap_or(outputs.path()).display()));
    let script = verb(FLEET_VERB, &[&folder, &out])?;
    peer(&folder, &script)?;
    let mut peers = Vec::new();
    let built = environment.peers.join("kubectl");
    let kubectl = if built.is_file() { fs::canonicalize(built)? } else { PathBuf::from("kubectl") };
    match command(&folder, &kubectl.to_string_lossy(), &["version", "--client"]) {
        Ok(version) => {
            peers.push((version.replace('\n', ", "), format!("{} kustomize", quoted(&kubectl)), 400.0));
        }
        Err(error) => report.notes.push(format!("no kubectl: {error:#}")),
    }
    match go_tool(&environment.peers, "kustomize", "sigs.k8s.io/kustomize/kustomize/v5") {
        Ok(program) => peers.push(("kustomize v5.8.1".to_owned(), format!("{} build", quoted(&program)), 0.0)),
        Err(reason) => report.notes.push(format!("no kustomize program: {reason}")),
    }
    let mut measured: Vec<Vec<Sample>> = vec![Vec::new(); peers.len()];
    let mut mine = Vec::new();
    for round in 0..environment.rounds {
        emptied(outputs.path(), "ours")?;
        mine.push(peer(&folder, &script)?.0);
        for ((name, program, _), samples) in peers.iter().zip(&mut measured) {
            let theirs = emptied(outputs.path(), "theirs")?;
            let each = format!("seq 0 {} | xargs -P2 -I N sh -c", SHARE - 1);
            let inner = format!("c=$(printf cluster-%04d N); {program} clusters/$c > {}/$c", theirs.display());
            let (sample, _) = peer(&folder, &format!("{each} {}", quoted(inner.as_ref())))?;
            let scale = u32::try_from(CLUSTERS)? / SHARE;
            samples.push(Sample { cpu: sample.cpu * scale, wall: sample.wall * scale });
            if round == 0 {
                let same = (0..SHARE as usize).all(|number| {
                    let cluster = cluster(number);
                    let name = cluster.trim_start_matches("clusters/");
                    let read = |folder: &Path| fs::read(folder.join(name)).ok();
                    read(&out).is_some() && read(&out) == read(&theirs)
                });
                report.compare(format!("{SHARE} files against {name}"), same);
            }
        }
    }
    let (cpu, wall) = (median(&mine, |sample| sample.cpu), median(&mine, |sample| sample.wall));
    report.row(format!("stepgate: {CLUSTERS} overlays, process start included"), mine);
    report.at_most("time on the clock", wall, Duration::from_millis(400));
    for ((name, _, goal), samples) in peers.into_iter().zip(measured) {
        report.ratio(&format!("processor time of {name}"), cpu, median(&samples, |sample| sample.cpu), goal);
        report.row(format!("{name}: {SHARE} overlays, scaled"), samples);
    }
    Ok(report)
}

/// A new folder in place of one that may be there: writing over a file costs another time than making it.
fn emptied(parent: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let folder = parent.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir(&folder)?;
    Ok(folder)
}
