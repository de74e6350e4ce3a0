//! Upgrades that run day and night, on the real servers of the suite: each a process of its own, each with a cell of the matrix and a seed.
//!
//! `tests/continuous/run` builds what it needs and starts it. It prints a line when a run has ended, appends it to `results.jsonl`, and writes
//! `page.md` anew. It ends with status 1 where an upgrade failed.
#![allow(clippy::print_stdout, reason = "a test program: its report is its output")]

mod arguments;
mod one_run;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Context as _;
use jiff::{Timestamp, Unit};
use tests::continuous::comparison::{of_session, rate};
use tests::continuous::matrix::{left_out, schedule, selected};
use tests::continuous::page::page;
use tests::continuous::record::{Outcome, Record, Run, read};
use tokio::task::JoinSet;

use arguments::{Arguments, Verb};
use one_run::Setting;

const RESULTS: &str = "results.jsonl";
const PAGE: &str = "page.md";

/// The states of so many failed runs are kept in a night: each takes some hundred megabytes.
const KEPT: usize = 8;

fn main() -> ExitCode {
    match act() {
        Ok(failed) => ExitCode::from(u8::from(failed > 0)),
        Err(error) => {
            println!("continuous: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Does what is asked for, and says how many upgrades failed.
fn act() -> anyhow::Result<usize> {
    let arguments = Arguments::read(std::env::args().skip(1))?;
    match arguments.verb {
        Verb::List => {
            list(&arguments.only)?;
            Ok(0)
        }
        Verb::Page => {
            write_page(&arguments.folder)?;
            Ok(0)
        }
        Verb::Run => {
            // Processes end with the thread that has started them: there is one.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(night(&arguments))
        }
    }
}

fn list(only: &str) -> anyhow::Result<()> {
    let cells = selected(only)?;
    cells.iter().for_each(|cell| println!("{cell}"));
    println!("{} cells", cells.len());
    for (reason, cells) in left_out() {
        println!("\nnot offered, {} cells: {reason}", cells.len());
        cells.iter().for_each(|cell| println!("  {cell}"));
    }
    Ok(())
}

async fn night(arguments: &Arguments) -> anyhow::Result<usize> {
    let cells = selected(&arguments.only)?;
    let session = Timestamp::now().round(Unit::Second)?.to_string();
    let revision = revision().unwrap_or_else(|| "unknown".to_owned());
    let most = arguments.runs.unwrap_or(if arguments.lasts.is_some() { usize::MAX } else { cells.len() });
    println!("{} cells, seed {}, results in {}", cells.len(), arguments.seed, arguments.folder.display());
    std::fs::create_dir_all(&arguments.folder)?;
    let folder = arguments.folder.canonicalize()?;
    let setting = Setting { tests: arguments.tests.canonicalize()?, limit: arguments.limit, folder };
    let mut next = schedule(cells, arguments.seed).zip(1..).take(most);
    let begun = Instant::now();
    let is_time = || arguments.lasts.is_none_or(|lasts| begun.elapsed() < lasts);
    let mut under_way = JoinSet::new();
    let mut failed = 0;
    loop {
        while under_way.len() < arguments.jobs && is_time() {
            let Some(((cell, seed), number)) = next.next() else { break };
            let (setting, keeps_state) = (setting.clone(), failed < KEPT);
            let run =
                Run { session: session.clone(), number, revision: revision.clone(), cell: cell.to_string(), seed };
            under_way.spawn(async move { one_run::run(&setting, run, keeps_state).await });
        }
        let Some(ended) = under_way.join_next().await else { break };
        let record = ended??;
        println!("{}", record.line());
        failed += usize::from(record.outcome == Outcome::Failed);
        append(&setting.folder, &record)?;
        write_page(&setting.folder)?;
    }
    let (records, _) = read(&std::fs::read_to_string(setting.folder.join(RESULTS)).unwrap_or_default());
    let now = of_session(&records, &session);
    let hours = begun.elapsed().as_secs_f64() / 3600.0;
    println!(
        "{} runs in {hours:.1} h, passed {}: {}",
        now.len(),
        rate(now).words(),
        setting.folder.join(PAGE).display()
    );
    Ok(failed)
}

/// The commit of this repository, and whether something is changed beside it.
fn revision() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if is_changed { format!("{head}+") } else { head })
}

fn append(folder: &Path, record: &Record) -> anyhow::Result<()> {
    let path = folder.join(RESULTS);
    let mut file = File::options().create(true).append(true).open(&path).with_context(|| path.display().to_string())?;
    let line = serde_json::to_string(record)? + "\n";
    file.write_all(line.as_bytes()).with_context(|| path.display().to_string())
}

fn write_page(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(RESULTS);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (records, unread) = read(&text);
    if unread > 0 {
        println!("{unread} lines of {} are no results", path.display());
    }
    let path = folder.join(PAGE);
    std::fs::write(&path, page(&records)).with_context(|| path.display().to_string())
}
