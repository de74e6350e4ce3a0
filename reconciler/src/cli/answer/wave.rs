//! Answers about a whole wave: `--wave` of `stepgate approve` and `stepgate reject`.

use super::arguments::WaveAnswer;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;
use crate::reconcile::waves::{AnsweredWave, Said, WaveError, answer_wave};
use rollout::WaveQuestion;

/// Says it, or what would be said.
pub(super) fn run(asked: &WaveAnswer, said: Said<'_>) -> Result<Exit, CommandError> {
    let WaveAnswer { opened, wave, by } = asked;
    let now = jiff::Timestamp::now();
    let answered = answer_wave(&opened.planner, &opened.reading, wave, by.as_ref(), said, now).map_err(explain)?;
    output::print_text(&told(&answered, said))?;
    Ok(Exit::Success)
}

fn told(answered: &AnsweredWave, said: Said<'_>) -> String {
    let AnsweredWave { wave, question, plans, commit, missing, unplanned } = answered;
    let what = match question {
        WaveQuestion::Before => format!("wave {wave}"),
        WaveQuestion::After => format!("the result of wave {wave}"),
    };
    let done = match said {
        Said::Yes => "approved",
        Said::No(_) => "rejected",
    };
    let mut text = match commit {
        Some(commit) if missing.is_empty() => format!("{what}: {done}, commit {commit}\n"),
        Some(commit) => format!("{what}: noted your approval, commit {commit}\n"),
        None => format!("{what} would be {done}, as these plans say; `--yes` does it\n"),
    };
    for (cluster, plan) in plans {
        let command = if commit.is_none() { format!("  (`stepgate plan --cluster {cluster}`)") } else { String::new() };
        text.push_str(&format!("  {cluster}: {plan}{command}\n"));
    }
    for (cluster, why) in unplanned {
        text.push_str(&format!("  {cluster}: not asked about, since it has no plan: {why}\n"));
    }
    text.extend(missing.iter().map(|line| format!("  missing: {line}\n")));
    text
}

fn explain(error: WaveError) -> CommandError {
    let hint = error.hint();
    let error = CommandError::from(error);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
