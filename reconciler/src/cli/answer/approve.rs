//! `stepgate approve`: merges what is proposed for a cluster into the deploy branch, or approves a wave.

use clap::Args;

use super::arguments::{Answer, Answered, AnsweredArguments};
use super::wave;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;
use crate::reconcile::proposal::{AnswerError, Approval, Consent, answer};
use crate::reconcile::waves::Said;

/// Arguments of `stepgate approve`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    answer: AnsweredArguments,
    /// Tick this box of the check list instead: you have looked at what it says. It approves nothing by itself.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["overriding", "wave"])]
    tick: Option<String>,
    /// Set the rules for approvals aside, in an emergency. Who did, when, why, and what was missing stays in git.
    #[arg(long = "override", requires = "reason", conflicts_with = "wave")]
    overriding: bool,
    /// Why they are set aside.
    #[arg(long, value_name = "TEXT", requires = "overriding")]
    reason: Option<String>,
}

/// Merges it, or says what would be merged.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let Answer { opened, view, by } = match arguments.answer.open()? {
        Answered::Cluster(answer) => *answer,
        Answered::Wave(asked) => return wave::run(&asked, Said::Yes),
    };
    let consent = match (arguments.tick.as_deref(), arguments.reason.as_deref()) {
        (Some(name), _) => Consent::Tick(name),
        (None, Some(reason)) => Consent::Override(reason),
        (None, None) => Consent::Word,
    };
    let now = jiff::Timestamp::now();
    let answer = answer(&opened.planner, &opened.reading, &view, by.as_ref(), &consent, now);
    let approval = answer.map_err(explain)?;
    let mut missing: String = approval.missing.iter().map(|line| format!("  missing: {line}\n")).collect();
    if let Some(not_yet) = &approval.not_yet {
        missing.push_str(&format!(
            "  it waits for its time: {not_yet}; `stepgate run` merges it then, `stepgate approve {} --override --reason TEXT --yes` merges it now\n",
            view.name
        ));
    }
    let done = match &arguments.tick {
        Some(name) => format!("noted that you ticked {name} of"),
        None => "noted your approval of".to_owned(),
    };
    let text = match &approval.commit {
        Some(commit) if missing.is_empty() && arguments.tick.is_none() => {
            format!("{}: approved stage {}, commit {commit}\n", view.name, approval.stage)
        }
        Some(commit) => {
            format!("{}: {done} stage {}, commit {commit}\n{missing}", view.name, approval.stage)
        }
        None => format!("{}{missing}", would(&view.name, "approved", &approval)),
    };
    output::print_text(&text)?;
    Ok(Exit::Success)
}

/// What a dry run says.
pub fn would(cluster: &domain::ClusterName, done: &str, approval: &Approval) -> String {
    format!(
        "{cluster}: stage {} would be {done}; `git show {}` shows it, `--yes` does it\n",
        approval.stage, approval.branch
    )
}

/// An answer that does not count, with what to do about it.
pub fn explain(error: AnswerError) -> CommandError {
    let hint = error.hint();
    let error = CommandError::from(error);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
