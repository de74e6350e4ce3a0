//! `stepgate rollback`: puts a cluster back to a state that was verified before, stage by stage.

use clap::Args;
use rollout::{Plan, Rollback, StagePlan, StageState, risk_groups};

use super::arguments::{Answer, AnswerArguments};
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet::Opened;
use crate::cli::common::output;
use crate::reconcile::actions::{ActionError, let_count, way_back};
use crate::reconcile::planner::ClusterView;

/// Arguments of `stepgate rollback`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    answer: AnswerArguments,
    /// What it goes back to: a rollout that ended, or the stage of the last rollout which is to be the last that stays. Left out, it is
    /// what the last rollout found.
    #[arg(long, value_name = "ROLLOUT|STAGE", conflicts_with = "end")]
    to: Option<String>,
    /// Why, for those who ask.
    #[arg(long, value_name = "TEXT", conflicts_with = "end")]
    reason: Option<String>,
    /// Let the source branch count again: what it asks for is rolled out, and no longer held back.
    #[arg(long)]
    end: bool,
}

/// Records it on the deploy branch, or says what would be done.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let Answer { opened, view, by } = arguments.answer.open()?;
    let by = by.map(|by| by.to_string());
    if arguments.end { end(&opened, &view, by.as_deref()) } else { back(arguments, &opened, &view, by.as_deref()) }
}

fn back(arguments: &Arguments, opened: &Opened, view: &ClusterView, by: Option<&str>) -> Result<Exit, CommandError> {
    let wanted = (by.unwrap_or_default(), jiff::Timestamp::now(), arguments.reason.as_deref());
    let back = way_back(&opened.planner, &opened.reading, view, arguments.to.as_deref(), wanted).map_err(explain)?;
    if !back.plan.blocked.is_empty() {
        refuse(view, &back.plan, &back.rollback);
        return Ok(Exit::Blocked);
    }
    let mut text = told(view, &back.plan, &back.rollback);
    text.push_str(&match by {
        Some(_) => {
            let commit = back.begin(&opened.planner, &opened.reading, view).map_err(explain)?;
            format!(
                "recorded, commit {commit}: `stepgate run` puts the stages back; what the source branch asks for is held back until \
                 it asks for something else, or `stepgate rollback {} --end --yes`\n",
                view.name
            )
        }
        None => "`--yes` records it; `stepgate run` then puts the stages back, each with its gate and its approval\n".to_owned(),
    });
    output::print_text(&text)?;
    Ok(Exit::Success)
}

fn end(opened: &Opened, view: &ClusterView, by: Option<&str>) -> Result<Exit, CommandError> {
    let Some(rollback) = view.directory.ledger().and_then(|ledger| ledger.rollback.as_ref()) else {
        return Err(explain(ActionError::NothingHeldBack(view.name.clone())));
    };
    output::print_text(&match by {
        Some(by) => {
            let now = jiff::Timestamp::now();
            let commit = let_count(&opened.planner, &opened.reading, view, by, now).map_err(explain)?;
            format!("{}: the source branch counts again, commit {commit}\n", view.name)
        }
        None => format!(
            "{}: the source branch would count again, which {} keeps at {rollback}; `--yes` does it\n",
            view.name, rollback.by
        ),
    })?;
    Ok(Exit::Success)
}

/// What keeps it from going back, by name, and what can be done instead.
fn refuse(view: &ClusterView, plan: &Plan, rollback: &Rollback) {
    output::note(&format!("error: cluster {} does not go back to {rollback}:", view.name));
    for block in &plan.blocked {
        let stage = block.stage.as_ref().map(|stage| format!("{stage}: ")).unwrap_or_default();
        output::note(&format!("  {stage}{} ({})", block.message, block.code));
        output::note(&format!("  hint: {}", block.help));
    }
}

/// What goes back, in the order in which it does.
fn told(view: &ClusterView, plan: &Plan, rollback: &Rollback) -> String {
    let goes = |stage: &&StagePlan| stage.state == StageState::Pending && !stage.stage.is_without_commit();
    let (commits, machines) = (plan.estimate.commits, plan.estimate.machines);
    let mut text = format!("{}: goes back to {rollback}: {commits} stages, {machines} machines\n", view.name);
    for stage in plan.stages.iter().filter(goes) {
        let none = || "-".to_owned();
        let changes = stage.changes.iter().map(|change| {
            let (old, new) = (change.old_version.clone(), change.new_version.clone());
            format!("{} {} to {}", change.component, old.unwrap_or_else(none), new.unwrap_or_else(none))
        });
        let changes: Vec<String> = changes.collect();
        let what = if changes.is_empty() { stage.reasons.join(", ") } else { changes.join(", ") };
        text.push_str(&format!("  {}: {what}\n", stage.stage));
    }
    text.extend(risk_groups(&plan.stages).iter().map(|group| format!("  risk: {}\n", group.line())));
    text
}

fn explain(error: ActionError) -> CommandError {
    let hint = error.hint();
    let error = CommandError::from(error);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
