//! `stepgate rehearse`: the plan of one cluster, carried through a simulation of it.

mod text;

use std::num::NonZero;

use clap::Args;
use jiff::Timestamp;
use rollout::dump::Dump;
use simulator::Break;

use super::common::error::CommandError;
use super::common::exit::Exit;
use super::common::fleet::{self, Opened};
use super::common::output::{self, Format, Report, Table};
use super::inspect::{compare, dump};
use super::run::verb::runtime;
use super::{ClusterArguments, FleetArguments};
use crate::reconcile::planner::ClusterView;
use crate::rehearsal::{RehearsalError, RehearsalReport, RehearsalSettings, rehearse};

/// How many rehearsals there may be.
const MOST: i64 = 1000;

/// Arguments of `stepgate rehearse`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// The cluster.
    #[arg(add = crate::cli::common::names::clusters())]
    cluster: String,
    /// Fill the simulation from a dump instead of the running cluster: its file, a folder of dumps (the newest one of the cluster counts),
    /// or its digest below --backups.
    #[arg(long, value_name = "FILE|DIR|DIGEST")]
    dump: Option<String>,
    /// Break a stage, such as `cert-manager` or `workers/md-0=machine-stuck`, in a rehearsal of its own: which gate stops, after how long,
    /// and what `why` would say. May be given several times.
    #[arg(long = "fault", value_name = "STAGE[=FAULT]")]
    faults: Vec<Break>,
    /// What everything random follows from: the same number, the same rehearsal.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// How many rehearsals the estimate is made of, each with a seed of its own.
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=MOST))]
    rehearsals: u16,
    /// When the rollout is to begin, for windows and freezes, as `2026-01-31T22:00:00Z`. Left out, it is now.
    #[arg(long, value_name = "TIME")]
    begin: Option<Timestamp>,
    /// The form of the report.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Report for RehearsalReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        text::tables(self)
    }

    fn names(&self) -> Vec<String> {
        self.stages.iter().map(|stage| stage.stage.clone()).collect()
    }
}

/// Rehearses and prints the report. Nothing is committed and nothing is changed in the cluster.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.remark();
    opened.clusters(Some(&arguments.cluster))?;
    let view = opened.view(&arguments.cluster)?;
    let settings = RehearsalSettings {
        begins: arguments.begin.unwrap_or_else(Timestamp::now),
        seed: arguments.seed,
        rehearsals: usize::from(arguments.rehearsals),
        at_once: std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN),
        faults: arguments.faults.clone(),
        dump: found(arguments, &opened, &view)?,
    };
    let rehearsed = runtime()?.block_on(rehearse(&opened.planner, &opened.reading, &view, &settings));
    let report = rehearsed.map_err(explain)?;
    output::print(arguments.output, &report)?;
    Ok(match report.state.as_str() {
        "done" | "nothing-to-do" => Exit::Success,
        "blocked" => Exit::Blocked,
        "waiting" => Exit::Waiting,
        _ => Exit::Stopped,
    })
}

/// What the cluster is like: by the dump that was named, or as it runs; none where it cannot be reached and nobody has said how.
fn found(arguments: &Arguments, opened: &Opened, view: &ClusterView) -> Result<Option<Dump>, CommandError> {
    if let Some(named) = &arguments.dump {
        let place = arguments.access.place().of_cluster(&arguments.cluster);
        let dump = compare::named_dump(named, view, &place)?;
        compare::is_of(&dump, opened, view)?;
        return Ok(Some(dump));
    }
    if view.plan.next_stage().is_none() {
        return Ok(None);
    }
    match dump::take(opened, view, &arguments.access) {
        Ok(dump) => Ok(Some(dump)),
        Err(error) if arguments.access.is_explicit() => {
            Err(error.hint("without a cluster: name a dump by --dump, or leave the flags of the connection out"))
        }
        Err(error) => {
            output::note(&format!("note: the simulation is filled from the deploy branch alone: {error}"));
            Ok(None)
        }
    }
}

fn explain(error: RehearsalError) -> CommandError {
    let hint = error.hint();
    let error = CommandError::from(error);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
