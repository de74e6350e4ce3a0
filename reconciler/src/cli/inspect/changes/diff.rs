//! `stepgate diff`: what the stages change, object by object or file by file.

use std::sync::Arc;

use clap::Args;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use super::object_text;
use super::range::{Range, RangeArguments};
use crate::cli::ReportArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet::Opened;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use crate::reconcile::planner::{FleetReading, VIEWS};
use crate::report::{DiffReport, changed_files, changed_objects};
use planning::stage_tree::StageTree;

/// Arguments of `stepgate diff`. Its `table` is told object by object.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    report: ReportArguments,
    #[command(flatten)]
    range: RangeArguments,
    /// Only this stage, such as `cert-manager` or `workers/md-0`.
    #[arg(long, value_name = "STAGE", add = crate::cli::common::names::stages())]
    stage: Option<String>,
    /// Only name the files.
    #[arg(long)]
    name_only: bool,
    /// Show every line, those of new objects and of long changes included.
    #[arg(long)]
    verbose: bool,
    /// Show files instead of objects, as `patch` and other programs read them.
    #[arg(long, conflicts_with_all = ["name_only", "verbose"])]
    unified: bool,
}

impl Report for DiffReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table = Table { headers: vec!["CLUSTER", "STAGE", "CHANGE", "PATH"], ..Table::default() };
        for file in &self.files {
            table.rows.push(vec![file.cluster.clone(), file.stage.clone(), file.change.clone(), file.path.clone()]);
        }
        if self.files.is_empty() {
            table.notes.push("no differences".to_owned());
        }
        vec![(None, table)]
    }
}

/// Prints the differences.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let Range { opened, names, from } = arguments.range.open(&arguments.report)?;
    opened.remark();
    let by_object = arguments.report.output == Format::Table && !arguments.name_only && !arguments.unified;
    let mut files = Vec::new();
    let mut text = String::new();
    let mut broken: Option<CommandError> = None;
    let rendered = names.chunks(VIEWS).flat_map(|names| {
        let parts: Vec<_> = names.par_iter().map(|name| parts(&opened, from.as_ref(), name)).collect();
        names.iter().zip(parts)
    });
    for (name, parts) in rendered {
        let parts = match parts {
            Ok(parts) => parts,
            // One cluster's bad input does not hide what the others differ in.
            Err(error) => {
                let error = error.context(format!("cluster {name} has no plan"));
                if let Some(earlier) = broken.replace(error.hint("`stepgate check` lists what to repair")) {
                    earlier.report();
                }
                continue;
            }
        };
        let wanted = |part: &&StageTree| arguments.stage.as_ref().is_none_or(|stage| *stage == part.stage.to_string());
        for part in parts.iter().filter(wanted) {
            files.extend(changed_files(name, part, arguments.name_only || by_object));
            if by_object {
                let changes = changed_objects(part);
                text.push_str(&object_text::stage(name, &part.stage.to_string(), &changes, arguments.verbose));
            }
        }
    }
    let report = DiffReport { files };
    if report.files.is_empty() || arguments.name_only || arguments.report.output != Format::Table {
        output::print(arguments.report.output, &report)?;
    } else if arguments.unified {
        for file in &report.files {
            output::print_text(file.diff.as_deref().unwrap_or_default())?;
        }
    } else {
        output::print_text(&text)?;
    }
    if let Some(error) = broken {
        return Err(error);
    }
    Ok(if report.files.is_empty() { Exit::Success } else { Exit::Differences })
}

/// The parts of a cluster that its stages commit.
fn parts(opened: &Opened, from: Option<&FleetReading>, name: &str) -> Result<Arc<[StageTree]>, CommandError> {
    match from {
        None => Ok(opened.view(name)?.parts),
        Some(from) => Ok(opened.planner.between(from, &opened.reading, name)?.planned.1),
    }
}
