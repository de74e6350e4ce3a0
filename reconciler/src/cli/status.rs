//! `stepgate status`: where every cluster stands, as far as git tells.

use clap::Args;
use rollout::{LedgerState, Override};
use serde::Serialize;

use super::ReportArguments;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{self, Report, Table};
use crate::controller::people::facts::overridden;
use crate::controller::planner::ClusterView;

/// Arguments of `stepgate status`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    report: ReportArguments,
    /// Exit with 3 when a cluster is blocked, 4 when one has stages left, 5 when one is held.
    #[arg(long)]
    exit_code: bool,
}

/// Where the clusters stand.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct StatusReport {
    /// One a cluster.
    pub clusters: Vec<ClusterStatus>,
}

/// Where one cluster stands.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The cluster.
    pub cluster: String,
    /// `done`, `pending` (nothing committed yet), `running`, `blocked`, `held` or `failed`.
    pub state: String,
    /// The rollout that the ledger records, or that the plan would begin.
    pub rollout: Option<String>,
    /// The last committed stage of it.
    pub committed: Option<String>,
    /// The next stage with a difference.
    pub next: Option<String>,
    /// One line: what it stands at.
    pub message: String,
}

impl ClusterStatus {
    /// What git alone says of a cluster, and by whom rules for approvals were set aside.
    pub fn of(view: &ClusterView, overridden: Option<&Override>) -> Self {
        let ledger = view.directory.ledger();
        let running = ledger.filter(|ledger| ledger.state == LedgerState::Running);
        let next = view.plan.next_stage().map(|stage| stage.stage.to_string());
        let (state, message) = if let Some(foreign) = &view.foreign {
            ("held", format!("somebody else changed the deploy branch: {}", foreign.paths.join(", ")))
        } else if let Some(block) = view.plan.blocked.first() {
            ("blocked", block.message.clone())
        } else if running.is_some() {
            let aside = overridden.map(|it| format!("; rules for approvals set aside by {}: {}", it.who, it.reason));
            let message = "the gate of the last stage decides; `stepgate why` says what it waits for";
            ("running", format!("{message}{}", aside.unwrap_or_default()))
        } else if let Some(next) = &next {
            ("pending", format!("{next} is the first stage with a difference"))
        } else {
            ("done", "deploy equals target".to_owned())
        };
        Self {
            cluster: view.name.to_string(),
            state: state.to_owned(),
            rollout: running
                .map(|ledger| ledger.rollout.to_string())
                .or_else(|| next.as_ref().map(|_| view.plan.rollout_id.to_string())),
            committed: running.and_then(|ledger| ledger.stages.last()).map(|record| record.stage.to_string()),
            next,
            message,
        }
    }
}

impl Report for StatusReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table =
            Table { headers: vec!["CLUSTER", "STATE", "ROLLOUT", "COMMITTED", "NEXT", "MESSAGE"], ..Table::default() };
        for cluster in &self.clusters {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            table.rows.push(vec![
                cluster.cluster.clone(),
                cluster.state.clone(),
                text(&cluster.rollout),
                text(&cluster.committed),
                text(&cluster.next),
                cluster.message.clone(),
            ]);
        }
        vec![(None, table)]
    }
}

/// Prints where the clusters stand.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let (opened, names) = arguments.report.open()?;
    opened.remark();
    let mut clusters = Vec::new();
    for name in names {
        clusters.push(match opened.view(&name) {
            Ok(view) => ClusterStatus::of(&view, overridden(&opened.planner, &opened.reading, &view)?.as_ref()),
            Err(error) => ClusterStatus {
                cluster: name,
                state: "failed".to_owned(),
                rollout: None,
                committed: None,
                next: None,
                message: error.to_string(),
            },
        });
    }
    let report = StatusReport { clusters };
    output::print(arguments.report.output, &report)?;
    let any = |state: &str| report.clusters.iter().any(|cluster| cluster.state == state);
    Ok(match () {
        () if any("failed") => Exit::Error,
        () if !arguments.exit_code => Exit::Success,
        () if any("held") => Exit::Stopped,
        () if any("blocked") => Exit::Blocked,
        () if any("running") || any("pending") => Exit::Waiting,
        () => Exit::Success,
    })
}
