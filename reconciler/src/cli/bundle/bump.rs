//! `stepgate bundle bump`: proposes the versions that `updates` in `stepgate.yaml` asks for.

use clap::Args;
use serde::Serialize;

use crate::cli::common::fleet;
use crate::cli::common::output;
use crate::cli::run::updates::UpdateHosts;
use crate::cli::run::verb::runtime;
use crate::cli::{CommandError, Exit, FleetArguments, Format, Report, Table};
use crate::reconcile::main_loop::clock::{Clock as _, SystemClock};
use crate::reconcile::updates::{Update, UpdateState};

/// Arguments of `stepgate bundle bump`.
#[derive(Debug, Args)]
pub struct BumpArguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    hosts: UpdateHosts,
    /// Propose what is due.
    #[arg(long)]
    yes: bool,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What was found of later versions.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct BundleBumpReport {
    /// One for each version that there is something to say of.
    updates: Vec<UpdateReport>,
}

/// One version.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UpdateReport {
    /// What it is of: `eksa`, `kubernetes` (clusters of EKS Anywhere), `eks` (clusters of eksctl), `all`.
    kind: &'static str,
    /// The version.
    version: String,
    /// `current`, `due`, `proposed`, `declined`, `passed-over`, `refused` or `failed`.
    state: &'static str,
    /// The pull request, or the branch.
    place: Option<String>,
    /// Whether nobody is asked once it is merged (`approval: none`); absent where no plan was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    automatic: Option<bool>,
    /// What there is to say.
    message: String,
}

impl From<&Update> for UpdateReport {
    fn from(update: &Update) -> Self {
        Self {
            kind: update.kind,
            version: update.version.clone(),
            state: update.state.word(),
            place: update.place.clone(),
            automatic: update.automatic,
            message: update.message.clone(),
        }
    }
}

impl Report for BundleBumpReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let row = |update: &UpdateReport| {
            let place = update.place.clone().unwrap_or_else(|| "-".to_owned());
            let version = if update.version.is_empty() { "-" } else { &update.version };
            vec![update.kind.to_owned(), version.to_owned(), update.state.to_owned(), place, update.message.clone()]
        };
        let headers = vec!["OF", "VERSION", "STATE", "WHERE", "MESSAGE"];
        vec![(None, Table { headers, rows: self.updates.iter().map(row).collect(), notes: Vec::new(), width: None })]
    }
}

/// Looks for later versions, and proposes them with `--yes`.
pub fn run(arguments: &BumpArguments) -> Result<Exit, CommandError> {
    let updater = arguments.hosts.updater(&arguments.fleet, fleet::planner(&arguments.fleet)?).dry(!arguments.yes);
    let found = runtime()?.block_on(updater.run(SystemClock.now()));
    let updates = found.map_err(|error| CommandError::new(format!("{error:#}")))?.ok_or_else(|| {
        let error = CommandError::new("stepgate.yaml has no `updates`, so that nothing is proposed");
        error.hint("`stepgate init --stdout` shows what can stand there")
    })?;
    output::print(arguments.output, &BundleBumpReport { updates: updates.iter().map(UpdateReport::from).collect() })?;
    let any = |state| updates.iter().any(|update| update.state == state);
    Ok(match () {
        () if any(UpdateState::Failed) => Exit::Error,
        () if any(UpdateState::Refused) => Exit::Blocked,
        () if any(UpdateState::Due) => Exit::Differences,
        () => Exit::Success,
    })
}
