//! Random kustomizations through kustomize-rs and through kustomize itself: the first byte that differs is an error.
//!
//! `differential --peer LOOP [--cases N] [--start S] [--step K] [--keep-going] [--limit N] [--save FOLDER]` runs N cases from
//! seed S on, every Kth; `--seed S [--show]` one, `--folder DIR` the files of a folder. LOOP is the program of
//! `tests/servers/kustomize`, with kustomize itself and helm beside it (`./tests/run --differential N` builds them). A case
//! depends on its seed alone; the first difference ends the run, or the first `--limit` of them are told with
//! `--keep-going`. What is told is made smaller first, and saved below FOLDER.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test program: indices come from the lists themselves, and its report is its output"
)]

mod case;
mod generate;
mod outcome;
mod peer;
mod shrink;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use case::Case;
use outcome::{Outcome, Verdict, compare, ours};
use peer::Peer;

struct Arguments {
    peer: PathBuf,
    seeds: std::ops::Range<u64>,
    step: usize,
    keep_going: bool,
    save: PathBuf,
    show: bool,
    limit: usize,
    folder: Option<PathBuf>,
}

fn arguments() -> anyhow::Result<Arguments> {
    let (mut cases, mut seed, mut start) = (1000, None, 0);
    let (mut peer, mut keep_going, mut show, mut folder) = (None, false, false, None);
    let (mut limit, mut step) = (20, 1);
    let mut save = PathBuf::from("target/differential");
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--peer" => peer = Some(PathBuf::from(value()?)),
            "--cases" => cases = value()?.parse().context("read --cases")?,
            "--seed" => seed = Some(value()?.parse().context("read --seed")?),
            "--start" => start = value()?.parse().context("read --start")?,
            "--step" => step = value()?.parse().context("read --step")?,
            "--save" => save = PathBuf::from(value()?),
            "--folder" => folder = Some(PathBuf::from(value()?)),
            "--limit" => limit = value()?.parse().context("read --limit")?,
            "--keep-going" => keep_going = true,
            "--show" => show = true,
            other => bail!("unknown argument {other}"),
        }
    }
    anyhow::ensure!(step > 0, "--step is at least 1");
    let seeds = seed.map_or(start..start + cases * step as u64, |seed| seed..seed + 1);
    Ok(Arguments { peer: peer.context("--peer LOOP is needed")?, seeds, step, keep_going, save, show, limit, folder })
}

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            println!("differential: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<usize> {
    let arguments = arguments()?;
    let mut peer = Peer::start(&arguments.peer)?;
    // A panic of ours is an outcome; its message would only hide the report.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(folder) = &arguments.folder {
        let case = Case::load(folder, "", false)?;
        return one(&case, &mut peer, "folder", &arguments);
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut different = 0;
    for seed in arguments.seeds.clone().step_by(arguments.step) {
        let case = generate::case(seed);
        if arguments.show {
            println!("{}", described(&case));
        }
        let theirs = peer.build(&case)?;
        let own = ours(&case, peer.charts());
        let verdict = compare(&case, &own, &theirs, &mut peer)?;
        if arguments.show
            && let Outcome::Refused(error) = &theirs
        {
            println!("# kustomize refuses: {error}");
        }
        *counts.entry(format!("{verdict:?}")).or_default() += 1;
        if matches!(verdict, Verdict::Different(_)) {
            different += 1;
            if different <= arguments.limit {
                report(&case, &verdict, &mut peer, &format!("seed-{seed}"), &arguments.save)?;
            }
            if !arguments.keep_going {
                break;
            }
        }
    }
    for (verdict, count) in counts {
        println!("{count:>7} {verdict}");
    }
    Ok(different)
}

fn one(case: &Case, peer: &mut Peer, name: &str, arguments: &Arguments) -> anyhow::Result<usize> {
    let theirs = peer.build(case)?;
    let own = ours(case, peer.charts());
    let verdict = compare(case, &own, &theirs, peer)?;
    println!("{verdict:?}\n--- ours\n{}\n--- kustomize\n{}", told(&own), told(&theirs));
    if matches!(verdict, Verdict::Different(_)) {
        report(case, &verdict, peer, name, &arguments.save)?;
        return Ok(1);
    }
    Ok(0)
}

fn report(case: &Case, verdict: &Verdict, peer: &mut Peer, name: &str, save: &Path) -> anyhow::Result<()> {
    let shrunk = shrink::shrink(case, verdict, peer)?;
    let folder = save.join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("clear {}", folder.display()))?;
    }
    shrunk.save(&folder.join("input"))?;
    let (own, theirs) = (ours(&shrunk, peer.charts()), peer.build(&shrunk)?);
    println!("=== {name}: {verdict:?}, saved in {}", folder.display());
    println!("{}\n--- ours\n{}\n--- kustomize\n{}", described(&shrunk), told(&own), told(&theirs));
    Ok(())
}

fn described(case: &Case) -> String {
    let place = if case.directory.is_empty() { "." } else { &case.directory };
    let (order, helm) =
        (if case.unsorted { " --reorder none" } else { "" }, if case.charts { " --enable-helm" } else { "" });
    let mut text = format!("build {place}{order}{helm}\n");
    for (name, content) in &case.files {
        text.push_str(&format!("# --- {name}\n{content}"));
    }
    for (name, content) in &case.binaries {
        text.push_str(&format!("# --- {name}\n{content:?}\n"));
    }
    text
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Built { text, warnings } => {
            format!("{}{text}", warnings.iter().map(|line| format!("{line}\n")).collect::<String>())
        }
        Outcome::Refused(error) => format!("refused: {error}"),
        Outcome::Broken(error) => format!("broken: {}", error.lines().next().unwrap_or_default()),
    }
}
