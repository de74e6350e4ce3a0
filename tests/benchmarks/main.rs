//! Benchmarks: our work beside a peer's, in the same run, on outputs that are compared first.
//!
//! `benchmarks [P4 P5 …]` runs all or the named ones. Each prints what was measured, also where it falls short of its
//! goal; a benchmark whose outputs differ prints `DIFFERENT` instead of a number and the program ends with status 1.
//! Processor time is user and system time of the whole process tree; rounds alternate between the two sides.

mod before;
mod corpus;
mod detect;
mod end_to_end;
mod fleet;
mod growth;
mod manifests;
mod measure;
mod memory;
mod next_commit;
mod no_op;
mod orchestration;
mod render;
mod render_fleet;
mod render_loop;
mod render_published;
mod render_scale;
mod report;
mod scale;
mod stage_commit;
mod watched;
mod waves;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use report::Report;

/// As `stepgate` itself has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Where benchmarks keep what they build, and how often they measure.
struct Environment {
    /// A folder that goes away at the end.
    scratch: tempfile::TempDir,
    /// Programs of peers, built on demand and kept.
    peers: PathBuf,
    /// Measured rounds of each side.
    rounds: usize,
}

type Benchmark = fn(&Environment) -> anyhow::Result<Report>;

/// What the program does when a benchmark runs it as a process of its own.
type Hidden = fn(&[String]) -> anyhow::Result<()>;

const BENCHMARKS: &[(&str, Benchmark)] = &[
    ("P1", render_loop::run),
    ("P2", render_fleet::run),
    ("P3", render_scale::run),
    ("published", render_published::run),
    ("P4", detect::run),
    ("P5", manifests::run),
    ("P6", stage_commit::run),
    ("P7", end_to_end::run),
    ("P8", no_op::run),
    ("P9", next_commit::run),
    ("P10", watched::run),
    ("P11", before::run),
    ("P12", scale::run),
    ("waves", waves::run),
    ("growth", growth::run),
    ("orchestration", orchestration::run),
];

/// Sizes of a fleet: those that `STEPGATE_CLUSTERS` names, or these.
fn sizes(usual: &[usize]) -> anyhow::Result<Vec<usize>> {
    let Ok(text) = std::env::var("STEPGATE_CLUSTERS") else { return Ok(usual.to_vec()) };
    text.split(',').map(|size| size.trim().parse().with_context(|| format!("STEPGATE_CLUSTERS={text}"))).collect()
}

fn main() -> ExitCode {
    match try_main() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            report::line(&format!("benchmarks: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn try_main() -> anyhow::Result<bool> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, arguments @ ..] = wanted.as_slice() {
        let hidden: Option<Hidden> = match verb.as_str() {
            stage_commit::PUSH_VERB => Some(stage_commit::push_once),
            render::FLEET_VERB => Some(render::fleet),
            render::ONE_VERB => Some(render::one),
            next_commit::PROGRAM_VERB => Some(next_commit::program),
            before::PROGRAM_VERB => Some(before::program),
            scale::SIZE_VERB => Some(scale::size),
            orchestration::INSIDE_VERB => Some(orchestration::measure),
            watched::WATCH_VERB => Some(watched::watch),
            watched::STORE_VERB => Some(watched::store),
            _ => None,
        };
        if let Some(run) = hidden {
            return run(arguments).map(|()| true);
        }
    }
    if let Some(unknown) = wanted.iter().find(|name| !BENCHMARKS.iter().any(|(known, _)| known == name)) {
        let known: Vec<&str> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        bail!("no benchmark {unknown}; there are {}", known.join(", "));
    }
    let environment = Environment {
        scratch: tempfile::tempdir().context("make a temporary folder")?,
        peers: std::env::var_os("STEPGATE_SERVERS").map_or_else(|| PathBuf::from("target/servers"), PathBuf::from),
        rounds: std::env::var("STEPGATE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(7),
    };
    if let Ok(limit) = std::env::var("STEPGATE_MEMORY_LIMIT") {
        host::memory::set(limit.parse().map_err(anyhow::Error::msg)?);
    }
    report::machine();
    let mut equal = true;
    for (name, run) in BENCHMARKS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            let report = run(&environment).with_context(|| format!("benchmark {name}"))?;
            equal &= report.print(name);
        }
    }
    Ok(equal)
}
