//! `stepgate hold`: stops a cluster for a while, by pausing what Flux applies of it.

use clap::Args;
use jiff::Timestamp;

use super::arguments::{Answer, AnswerArguments};
use crate::cli::ClusterArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;
use crate::reconcile::actions;
use cluster::kubernetes::Paused;

/// Arguments of `stepgate hold`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    answer: AnswerArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// Why, for those who ask.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// How long, such as 30m or 4h. It ends by itself then; holding again gives it another end.
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = policy::parse_duration)]
    duration: std::time::Duration,
}

/// Holds it, or says what would be held.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let Answer { opened, view, by } = arguments.answer.open()?;
    let until = Timestamp::now().checked_add(arguments.duration)?;
    let Some(by) = by else {
        let references = view.flux_references();
        let names: Vec<&str> = references.iter().map(|reference| reference.name.as_str()).collect();
        let text = format!("{}: would be held until {until}: {}; `--yes` does it\n", view.name, names.join(", "));
        output::print_text(&text)?;
        return Ok(Exit::Success);
    };
    let cluster = opened.cluster(&view, &arguments.access)?;
    let held = actions::hold(cluster.as_ref(), &view, &by, &arguments.reason, until);
    let outcomes = crate::cli::run::verb::runtime()?.block_on(held)?;
    for (reference, outcome) in outcomes {
        let object = format!("Kustomization {}/{}", reference.namespace, reference.name);
        output::print_text(&match outcome {
            Paused::Ours => format!("{object}: held until {until}\n"),
            Paused::Theirs { by: Some(by) } => format!("{object}: suspended by {by} already, and left so\n"),
            Paused::Theirs { by: None } => format!("{object}: suspended already, and left so\n"),
            Paused::Absent => format!("{object}: not there\n"),
        })?;
    }
    output::print_text(&format!("`stepgate resume {} --yes` ends it before\n", view.name))?;
    Ok(Exit::Success)
}
