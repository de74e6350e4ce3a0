//! `stepgate reject`: says no to what is proposed for a cluster, or to a wave.

use clap::Args;

use super::approve::{explain, would};
use super::arguments::{Answer, Answered, AnsweredArguments};
use super::wave;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;
use crate::reconcile::proposal::reject;
use crate::reconcile::waves::Said;

/// Arguments of `stepgate reject`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    answer: AnsweredArguments,
    /// Why, for those who asked.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Rejects it, or says what would be rejected.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let Answer { opened, view, by } = match arguments.answer.open()? {
        Answered::Cluster(answer) => *answer,
        Answered::Wave(asked) => return wave::run(&asked, Said::No(&arguments.reason)),
    };
    let now = jiff::Timestamp::now();
    let answer = reject(&opened.planner, &opened.reading, &view, by.as_ref(), &arguments.reason, now);
    let rejected = answer.map_err(explain)?;
    output::print_text(&match &rejected.commit {
        Some(commit) => format!("{}: rejected stage {}, commit {commit}\n", view.name, rejected.stage),
        None => would(&view.name, "rejected", &rejected),
    })?;
    Ok(Exit::Success)
}
