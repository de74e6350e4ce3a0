//! `stepgate retry`: lets a stage that was reverted be committed once more, or machines that did not come up be tried again.

use clap::Args;

use super::approve::explain;
use super::arguments::{Answer, AnswerArguments};
use crate::cli::ClusterArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;
use crate::reconcile::proposal::{asks_the_cluster, failed_attempts, retry};

/// Arguments of `stepgate retry`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    answer: AnswerArguments,
    #[command(flatten)]
    access: ClusterArguments,
}

/// Notes it on the deploy branch, or says what would be noted.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let Answer { opened, view, by } = arguments.answer.open()?;
    let now = jiff::Timestamp::now();
    let failed = if asks_the_cluster(&view) {
        let cluster = opened.cluster(&view, &arguments.access)?;
        let read = failed_attempts(cluster.as_ref(), &view, now);
        crate::cli::run::verb::runtime()?.block_on(read).map_err(explain)?
    } else {
        None
    };
    let done = retry(&opened.planner, &opened.reading, &view, (by.as_ref(), None), failed, now);
    let retried = done.map_err(explain)?;
    output::print_text(&match &retried.commit {
        Some(commit) => {
            format!("{}: attempt {} at stage {}, commit {commit}\n", view.name, retried.attempt, retried.stage)
        }
        None => format!("{}: stage {} would be tried again; `--yes` does it\n", view.name, retried.stage),
    })?;
    Ok(Exit::Success)
}
