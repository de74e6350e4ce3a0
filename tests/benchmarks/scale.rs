//! P12: what a fleet costs by its size: 100, 1,000 and 10,000 clusters, each size in a process of its own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::Environment;
use crate::fleet::{Fleet, is_done};
use crate::measure::{Sample, whole_process};
use crate::memory::{Resident, forget_peak, memory};
use crate::report::{Report, median};

/// The hidden verb by which this program measures one size, so that its memory is its own.
pub const SIZE_VERB: &str = "scale-size";

/// Sizes of the fleet. `STEPGATE_CLUSTERS` names others.
const SIZES: [usize; 3] = [100, 1_000, 10_000];

/// How many times as long the largest fleet may take as one of a tenth of its clusters.
const STEEPNESS: f64 = 11.0;
const LONGEST: Duration = Duration::from_secs(7);
const LARGEST_MIB: u64 = 900;

/// What was measured of one size, in seconds and MiB.
struct Size {
    clusters: usize,
    /// A pass with its processor time and its time on the clock.
    rows: Vec<(String, f64, f64)>,
    peak: u64,
    /// Whether what is remembered gives the plans that are made from nothing.
    is_equal: bool,
}

const ALL_CHANGED: &str = "every cluster changed: detect, plan, render all";

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let mut report = Report {
        work: "a push in fleets of rising size: first pass, idle pass, one changed, restart, all changed".to_owned(),
        ..Report::default()
    };
    let mut sizes = Vec::new();
    for clusters in crate::sizes(&SIZES)? {
        let folder = environment.scratch.path().join(format!("scale-{clusters}"));
        let output = Command::new(std::env::current_exe()?)
            .arg(SIZE_VERB)
            .arg(clusters.to_string())
            .arg(&folder)
            .output()
            .context("run this program again")?;
        ensure!(output.status.success(), "{clusters} clusters: {}", String::from_utf8_lossy(&output.stderr));
        let size = measured(clusters, &output.stdout).context("read what it measured")?;
        report.compare(format!("{clusters} clusters: plans with and without what is remembered"), size.is_equal);
        fs::remove_dir_all(&folder)?;
        sizes.push(size);
    }
    for size in &sizes {
        for (name, cpu, wall) in &size.rows {
            let sample = Sample { cpu: Duration::from_secs_f64(*cpu), wall: Duration::from_secs_f64(*wall) };
            report.row(format!("{:>6}  {name}", size.clusters), vec![sample]);
        }
        report.notes.push(format!("{} clusters: peak memory of the controller {} MiB", size.clusters, size.peak));
    }
    let wall = |size: &Size| size.rows.iter().find(|(name, ..)| name == ALL_CHANGED).map(|(.., wall)| *wall);
    if let [.., smaller, largest] = sizes.as_slice() {
        let ratio = wall(largest).zip(wall(smaller)).map_or(f64::INFINITY, |(one, other)| one / other);
        report.goals.push((
            format!(
                "every cluster changed: {} clusters take {ratio:.1} times as long as {} (goal ≤ {STEEPNESS})",
                largest.clusters, smaller.clusters
            ),
            ratio <= STEEPNESS,
        ));
        let longest = Duration::from_secs_f64(wall(largest).unwrap_or_default());
        report.at_most("every cluster changed, the largest fleet, on the clock", longest, LONGEST);
        let goal = format!("peak memory of the controller {} MiB (goal ≤ {LARGEST_MIB} MiB)", largest.peak);
        report.goals.push((goal, largest.peak <= LARGEST_MIB));
    }
    report.notes.push("no peer: nothing else goes from a bundle to a stage's commit".to_owned());
    Ok(report)
}

fn measured(clusters: usize, printed: &[u8]) -> Option<Size> {
    let told: Value = serde_json::from_slice(printed).ok()?;
    let row = |row: &Value| {
        let [name, cpu, wall] = row.as_array()?.as_slice() else { return None };
        Some((name.as_str()?.to_owned(), cpu.as_f64()?, wall.as_f64()?))
    };
    let rows = told.get("rows")?.as_array()?.iter().map(row).collect::<Option<Vec<_>>>()?;
    let is_equal = told.get("isEqual")?.as_bool()?;
    Some(Size { clusters, rows, peak: told.get("peak")?.as_u64()?, is_equal })
}

/// Measures one size and prints it.
pub fn size(arguments: &[String]) -> anyhow::Result<()> {
    let [clusters, folder] = arguments else { bail!("{SIZE_VERB} CLUSTERS FOLDER") };
    let clusters: usize = clusters.parse()?;
    let folder = Path::new(folder);
    fs::create_dir_all(folder)?;
    let fleet = Fleet::new(folder, clusters)?;
    // The scene takes memory as well, above all the simulated clusters.
    let scene = memory(Resident::Now)?;
    forget_peak()?;
    let mut rows = Vec::new();
    let mut row = |name: &str, sample: Sample| {
        rows.push((name.to_owned(), sample.cpu.as_secs_f64(), sample.wall.as_secs_f64()));
    };
    let controller = fleet.controller()?;
    let (first, pass) = whole_process(|| Fleet::pass(&controller))?;
    ensure!(pass.clusters.len() == clusters && is_done(&pass), "the fleet is not settled");
    row("first pass of a new process", first);
    let idle = (0..5).map(|_| Ok(whole_process(|| Fleet::pass(&controller))?.0));
    let idle = idle.collect::<anyhow::Result<Vec<Sample>>>()?;
    row("pass in which nothing changed", middle(&idle));
    // Each round ends with the whole rollout, in which every cluster of the fleet is looked at again and again; in the largest fleets the change is
    // taken back instead.
    let rounds = if clusters > 1_000 { 1 } else { 5 };
    let (mut changed, mut is_equal, mut peak) = (Vec::new(), true, 0);
    for round in 0..rounds {
        let number = 1 + round * (clusters / 7);
        fleet.change_one(number, 5)?;
        let (sample, pass) = whole_process(|| Fleet::pass(&controller))?;
        let undone = pass.clusters.iter().filter(|cluster| cluster.cluster == crate::fleet::name(number)).count();
        ensure!(undone == 1 && !is_done(&pass), "the change of {number} was not noticed");
        changed.push(sample);
        if round == 0 {
            peak = peak.max(memory(Resident::Peak)?);
            is_equal &= fleet.plans_are_remembered_rightly(&controller, clusters)?;
            // What the comparison has taken is none of the controller's.
            forget_peak()?;
        }
        if clusters > 1_000 {
            fleet.change_one(number, 3)?;
            let pass = Fleet::pass(&controller)?;
            ensure!(is_done(&pass), "the change of {number} was not taken back");
        } else {
            fleet.settle(&controller)?;
        }
    }
    row("one cluster changed: detect, plan, render", middle(&changed));
    drop(controller);
    let controller = fleet.controller()?;
    let (again, pass) = whole_process(|| Fleet::pass(&controller))?;
    ensure!(is_done(&pass), "the fleet is not settled after a restart");
    row("first pass after a restart", again);
    fleet.bump()?;
    let (all, pass) = whole_process(|| Fleet::pass(&controller))?;
    ensure!(pass.clusters.len() == clusters && !is_done(&pass), "the bump was not noticed");
    row(ALL_CHANGED, all);
    let peak = peak.max(memory(Resident::Peak)?).saturating_sub(scene) >> 10;
    is_equal &= fleet.plans_are_remembered_rightly(&controller, clusters)?;
    crate::report::line(&json!({"rows": rows, "peak": peak, "isEqual": is_equal}).to_string());
    Ok(())
}

fn middle(samples: &[Sample]) -> Sample {
    Sample { cpu: median(samples, |sample| sample.cpu), wall: median(samples, |sample| sample.wall) }
}
