//! The largest published overlays, in process, and the memory of a process that builds one.

use std::fs;
use std::path::Path;

use kustomize_rs::build;

use crate::Environment;
use crate::measure::{Sample, go_peer, ours, peer, quoted};
use crate::render::{ONE_VERB, options, published, read_folder, verb};
use crate::report::{Report, median};

/// Our rounds, and builds in each.
const ROUNDS: usize = 3;
const REPEATS: u32 = 5;
/// The peer's builds; each takes up to some seconds.
const PEER_REPEATS: u32 = 2;

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let scratch = environment.scratch.path().join("render-published");
    fs::create_dir_all(&scratch)?;
    let mut report = Report { work: "build the largest published overlays".to_owned(), ..Report::default() };
    let cases = published(&scratch)?;
    if cases.is_empty() {
        report.notes.push("skipped: shared data not present".to_owned());
    }
    let program = go_peer(&environment.peers, "kustomizeloop");
    if let Err(reason) = &program {
        report.notes.push(format!("no Go peer: {reason}"));
    }
    for (name, root, directory) in cases {
        let files = read_folder(&root)?;
        let expected = build(&files, &directory, &options())?.to_yaml();
        let script = |rounds: u32| {
            let program = program.as_ref().ok()?;
            Some(format!("{} -rounds {rounds} {} {directory}", quoted(program), quoted(&root)))
        };
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        if let (Some(many), Some(one)) = (script(PEER_REPEATS + 1), script(1)) {
            // What its start and its first build cost is left out, as it is on our side.
            let (one, output) = peer(&scratch, &one)?;
            report.compare(format!("{} bytes of {name}", expected.len()), output == expected);
            let (many, _) = peer(&scratch, &many)?;
            theirs.push(Sample {
                cpu: many.cpu.saturating_sub(one.cpu) / PEER_REPEATS,
                wall: many.wall.saturating_sub(one.wall) / PEER_REPEATS,
            });
        }
        for _ in 0..environment.rounds.min(ROUNDS) {
            let work = || {
                (0..REPEATS).try_for_each(|_| {
                    std::hint::black_box(build(&files, &directory, &options())?.to_yaml());
                    anyhow::Ok(())
                })
            };
            let (sample, ()) = ours(work)?;
            mine.push(Sample { cpu: sample.cpu / REPEATS, wall: sample.wall / REPEATS });
        }
        let out = scratch.join("out");
        let (_, peak) = peer(&scratch, &verb(ONE_VERB, &[&root, Path::new(&directory), &out])?)?;
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = peak.trim().parse::<f64>()? * 1024.0 / expected.len() as f64;
        let cpu = median(&mine, |sample| sample.cpu);
        if !theirs.is_empty() {
            report.ratio(&format!("{name}, over the Go library"), cpu, median(&theirs, |sample| sample.cpu), 20.0);
        }
        report.goals.push((format!("{name}, peak memory {ratio:.1} × its output (goal ≤ 12×)"), ratio <= 12.0));
        report.row(format!("stepgate: {name}"), mine);
        report.row(format!("Go: {name}"), theirs);
    }
    Ok(report)
}
