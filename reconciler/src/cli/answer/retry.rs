//! `stepgate retry`: lets a stage that was reverted be committed once more.

use clap::Args;

use super::approve::{PersonArguments, explain};
use crate::cli::FleetArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::{fleet, output};
use crate::reconcile::proposal::retry;

/// Arguments of `stepgate retry`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    person: PersonArguments,
    /// The cluster.
    cluster: String,
}

/// Notes it on the deploy branch, or says what would be noted.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.clusters(Some(&arguments.cluster))?;
    let by = arguments.person.identity(opened.planner.repository())?;
    let view = opened.view(&arguments.cluster)?;
    let done = retry(&opened.planner, &opened.reading, &view, by.as_ref(), None, jiff::Timestamp::now());
    let retried = done.map_err(explain)?;
    output::print_text(&match &retried.commit {
        Some(commit) => {
            format!("{}: attempt {} at stage {}, commit {commit}\n", view.name, retried.attempt, retried.stage)
        }
        None => format!("{}: stage {} would be tried again; `--yes` does it\n", view.name, retried.stage),
    })?;
    Ok(Exit::Success)
}
