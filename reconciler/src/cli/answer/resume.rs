//! `stepgate resume`: ends what `stepgate hold` began, before its time.

use clap::Args;

use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::{fleet, output};
use crate::cli::{ClusterArguments, FleetArguments};
use crate::reconcile::actions;

/// Arguments of `stepgate resume`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// The cluster.
    #[arg(add = crate::cli::common::names::clusters())]
    cluster: String,
    /// Do it. Without it, only what would be done is said.
    #[arg(long)]
    yes: bool,
}

/// Ends the pauses, or says whose would be ended. What a person has suspended otherwise stays suspended.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.clusters(Some(&arguments.cluster))?;
    let view = opened.view(&arguments.cluster)?;
    if !arguments.yes {
        output::print_text(&format!("{}: what `stepgate hold` paused would go on; `--yes` does it\n", view.name))?;
        return Ok(Exit::Success);
    }
    let cluster = opened.cluster(&view, &arguments.access)?;
    let ended = crate::cli::run::verb::runtime()?.block_on(actions::resume(cluster.as_ref(), &view))?;
    if ended.is_empty() {
        output::print_text(&format!("{}: nothing was held by `stepgate hold`\n", view.name))?;
    }
    for reference in ended {
        output::print_text(&format!("Kustomization {}/{}: goes on\n", reference.namespace, reference.name))?;
    }
    Ok(Exit::Success)
}
