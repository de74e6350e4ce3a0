//! P1: one overlay after the other in one process.

use std::time::Duration;

use kustomize_rs::{Cache, Outside, build, build_cached};

use crate::Environment;
use crate::measure::{Sample, go_peer, ours, peer, quoted};
use crate::render::{cluster, corpus_files, options};
use crate::report::{Report, median};

/// Overlays in one of our rounds, and in one of the peer's.
const OVERLAYS: u32 = 200;
const PEER_OVERLAYS: u32 = 40;

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let folder = environment.scratch.path().join("render-loop");
    let files = corpus_files(&folder)?;
    let mut report = Report {
        work: "build one overlay of 6 bases, 36 objects, again and again in one process".to_owned(),
        ..Report::default()
    };
    let directories: Vec<String> = (0..OVERLAYS as usize).map(cluster).collect();
    let cache = Cache::new(64 << 20);
    let plain = |directory: &String| anyhow::Ok(build(&files, directory, &options())?.to_yaml());
    let cached = |directory: &String| {
        anyhow::Ok(build_cached(&files, directory, &options(), Outside::default(), &cache)?.to_yaml())
    };
    let expected = directories.iter().take(PEER_OVERLAYS as usize).map(plain).collect::<anyhow::Result<String>>()?;
    let again = directories.iter().take(PEER_OVERLAYS as usize).map(cached).collect::<anyhow::Result<String>>()?;
    report.compare("with a cache and without", again == expected);
    let program = go_peer(&environment.peers, "kustomizeloop");
    let script = |count: u32| {
        let names: Vec<&str> = directories.iter().take(count as usize).map(String::as_str).collect();
        program.as_ref().map(|program| format!("{} {} {}", quoted(program), quoted(&folder), names.join(" ")))
    };
    if let Ok(script) = script(PEER_OVERLAYS) {
        let (_, output) = peer(&folder, &script)?;
        report.compare(format!("{} bytes against kustomize's library (Go)", expected.len()), output == expected);
    }
    let (mut uncached, mut warm, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let each = |sample: Sample, count: u32| Sample { cpu: sample.cpu / count, wall: sample.wall / count };
    for _ in 0..environment.rounds {
        let (sample, ()) = ours(|| directories.iter().try_for_each(|directory| plain(directory).map(drop)))?;
        uncached.push(each(sample, OVERLAYS));
        let (sample, ()) = ours(|| directories.iter().try_for_each(|directory| cached(directory).map(drop)))?;
        warm.push(each(sample, OVERLAYS));
        if let (Ok(many), Ok(one)) = (script(PEER_OVERLAYS), script(1)) {
            // What its start and its first build cost is left out, as it is on our side.
            let (many, one) = (peer(&folder, &many)?.0, peer(&folder, &one)?.0);
            let sample = Sample { cpu: many.cpu.saturating_sub(one.cpu), wall: many.wall.saturating_sub(one.wall) };
            theirs.push(each(sample, PEER_OVERLAYS - 1));
        }
    }
    let cpu = median(&warm, |sample| sample.cpu);
    let without = median(&uncached, |sample| sample.cpu);
    report.row("stepgate: one overlay, its bases in the cache", warm);
    report.row("stepgate: one overlay, without a cache", uncached);
    report.at_most("processor time", cpu, Duration::from_micros(300));
    match program {
        Ok(_) => {
            let peer = median(&theirs, |sample| sample.cpu);
            report.ratio("over kustomize 5.8.1 as a library", cpu, peer, 100.0);
            report.ratio("the same without our cache", without, peer, 60.0);
            report.row("sigs.k8s.io/kustomize/api v0.21.1 (Go), in one process", theirs);
        }
        Err(reason) => report.notes.push(format!("no Go peer: {reason}")),
    }
    Ok(report)
}
