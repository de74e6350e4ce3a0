//! `stepgate adopt`: records running clusters as they are.

use std::collections::BTreeSet;

use clap::Args;
use overlays::ProblemCode;

use super::error::CommandError;
use super::exit::Exit;
use super::{FleetArguments, fleet, output};
use crate::controller::adopt::{Adoption, Unrendered, adopt};

/// Arguments of `stepgate adopt`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    /// The clusters; all that have no record yet, when left out.
    clusters: Vec<String>,
    /// Write the record. Without it, only what would be written is said.
    #[arg(long)]
    yes: bool,
}

/// Records the clusters, one commit each.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    let mut names = Vec::new();
    if arguments.clusters.is_empty() {
        names = opened.clusters(None)?;
    }
    for name in &arguments.clusters {
        names.extend(opened.clusters(Some(name))?);
    }
    // What comes next is to point Flux to the deploy branch.
    for problem in opened.fleet().problems.iter().filter(|problem| problem.code == ProblemCode::FluxPrunes) {
        output::note(&format!("warning: {problem}"));
    }
    for name in names {
        // Read anew for each: the record before moved the deploy branch.
        let reading = opened.planner.read().map_err(fleet::explain)?;
        let adoption =
            adopt(&opened.planner, &reading, &name, jiff::Timestamp::now(), !arguments.yes).map_err(explain)?;
        let line = match adoption {
            Adoption::Already => format!("{name}: has a ledger already\n"),
            Adoption::Recorded { commit: Some(commit), files } => {
                format!("{name}: recorded, {files} files, commit {commit}\n")
            }
            Adoption::Recorded { commit: None, files } => {
                format!("{name}: would be recorded with {files} files; `--yes` does it\n")
            }
        };
        output::print_text(&line)?;
    }
    Ok(Exit::Success)
}

/// What helps against each of the reasons, once.
fn explain(error: anyhow::Error) -> CommandError {
    let failures = error.downcast_ref::<Unrendered>().map(|unrendered| unrendered.failures.as_slice());
    let hints: BTreeSet<String> = failures.into_iter().flatten().map(|(_, failure)| failure.help.clone()).collect();
    hints.into_iter().fold(error.into(), CommandError::hint)
}
