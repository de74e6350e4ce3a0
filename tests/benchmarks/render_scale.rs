//! P3: one kustomization with many objects, and how the time and memory of a build grow.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use kustomize_rs::{MemoryFileSystem, build};

use crate::Environment;
use crate::measure::{Sample, go_peer, ours, peer, quoted};
use crate::render::{ONE_VERB, options, read_folder, verb};
use crate::report::{Report, median};

/// Objects in the kustomizations of the curve, with our builds in one round of each.
const CURVE: [(usize, u32); 5] = [(500, 40), (1_000, 20), (4_000, 5), (8_000, 3), (16_000, 2)];
/// The peer's time grows with the square.
const PEER: usize = 4_000;

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let scratch = environment.scratch.path().join("render-scale");
    let mut report =
        Report { work: format!("build one kustomization of {PEER} and more objects"), ..Report::default() };
    let mut trees: Vec<(usize, u32, MemoryFileSystem, Vec<Sample>)> = Vec::new();
    // As people run it, and as the peer is measured: a process for each build, its start included.
    let mut programs: Vec<(usize, Vec<Sample>)> = [PEER, 4 * PEER].map(|objects| (objects, Vec::new())).into();
    for (objects, repeats) in CURVE {
        let folder = scratch.join(objects.to_string());
        write(&folder, objects)?;
        trees.push((objects, repeats, read_folder(&folder)?, Vec::new()));
    }
    let folder = scratch.join(PEER.to_string());
    let program = go_peer(&environment.peers, "kustomizeloop");
    let script = program.as_ref().map(|program| format!("{} {} .", quoted(program), quoted(&folder)));
    let mut theirs = Vec::new();
    for round in 0..environment.rounds {
        // Three rounds of seconds are enough.
        if let (Ok(script), 0..3) = (&script, round) {
            let (sample, output) = peer(&folder, script)?;
            theirs.push(sample);
            if let (0, Some((.., files, _))) = (round, trees.iter().find(|(objects, ..)| *objects == PEER)) {
                let same = build(files, "", &options())?.to_yaml() == output;
                report.compare(format!("{} bytes against kustomize's library (Go)", output.len()), same);
            }
        }
        for (_, repeats, files, samples) in &mut trees {
            let work = |repeats: u32| {
                (0..repeats).try_for_each(|_| {
                    std::hint::black_box(build(files, "", &options())?.to_yaml());
                    anyhow::Ok(())
                })
            };
            // The allocator gives memory back while it has nothing to do: each size finds as much as it needs, not only the smaller ones.
            work(1)?;
            let (sample, ()) = ours(|| work(*repeats))?;
            samples.push(Sample { cpu: sample.cpu / *repeats, wall: sample.wall / *repeats });
        }
        for (objects, samples) in &mut programs {
            let (folder, out) = (scratch.join(objects.to_string()), scratch.join("out"));
            samples.push(peer(&scratch, &verb(ONE_VERB, &[&folder, Path::new(""), &out])?)?.0);
        }
    }
    let time = |objects: usize| {
        let samples = trees.iter().find(|(known, ..)| *known == objects).map(|(.., samples)| samples);
        samples.map(|samples| median(samples, |sample| sample.cpu)).unwrap_or_default()
    };
    let (small, large) = (time(PEER), time(4 * PEER));
    report.at_most(&format!("{PEER} objects"), small, Duration::from_millis(40));
    // Again and again in one process, the smaller build stays in the processor's caches and the larger one does not: that is no goal.
    let growth = large.as_secs_f64() / small.as_secs_f64().max(f64::MIN_POSITIVE);
    report.notes.push(format!("{} objects take {growth:.2} × the time of {PEER} in one process", 4 * PEER));
    if let [(_, small), (_, large)] = programs.as_slice() {
        let [small, large] = [small, large].map(|samples| median(samples, |sample| sample.cpu));
        report.at_most(
            &format!("{} objects against 4.6 × {PEER}, as the peer runs", 4 * PEER),
            large,
            small.mul_f64(4.6),
        );
    }
    match program {
        Ok(_) => report.ratio("over the Go library", small, median(&theirs, |sample| sample.cpu), 150.0),
        Err(reason) => report.notes.push(format!("no Go peer: {reason}")),
    }
    for (objects, _, _, samples) in trees {
        let (folder, out) = (scratch.join(objects.to_string()), scratch.join("out"));
        let (_, peak) = peer(&scratch, &verb(ONE_VERB, &[&folder, Path::new(""), &out])?)?;
        let size = fs::metadata(&out)?.len();
        let peak: f64 = peak.trim().parse::<f64>()? * 1024.0;
        #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = peak / size as f64;
        report.row(format!("stepgate: {objects} objects, {} kB out, peak {ratio:.1} × that", size / 1000), samples);
    }
    for (objects, samples) in programs {
        report.row(format!("stepgate: {objects} objects, process start included"), samples);
    }
    report.row(format!("Go library: {PEER} objects, process start included"), theirs);
    Ok(report)
}

fn write(folder: &Path, objects: usize) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let mut text = String::new();
    for number in 0..objects {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings-{number}\n  namespace: team\ndata:\n  level: info\n  number: \"{number}\"\n"
        );
    }
    fs::write(folder.join("all.yaml"), text)?;
    Ok(fs::write(folder.join("kustomization.yaml"), "resources:\n- all.yaml\nnamePrefix: a-\n")?)
}
