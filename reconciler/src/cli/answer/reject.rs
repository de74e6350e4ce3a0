//! `stepgate reject`: says no to what is proposed for a cluster.

use clap::Args;

use super::approve::{explain, would};
use super::arguments::{Answer, AnswerArguments};
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;
use crate::reconcile::proposal::reject;

/// Arguments of `stepgate reject`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    answer: AnswerArguments,
    /// Why, for those who asked.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Rejects it, or says what would be rejected.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let Answer { opened, view, by } = arguments.answer.open()?;
    let now = jiff::Timestamp::now();
    let answer = reject(&opened.planner, &opened.reading, &view, by.as_ref(), &arguments.reason, now);
    let rejected = answer.map_err(explain)?;
    output::print_text(&match &rejected.commit {
        Some(commit) => format!("{}: rejected stage {}, commit {commit}\n", view.name, rejected.stage),
        None => would(&view.name, "rejected", &rejected),
    })?;
    Ok(Exit::Success)
}
