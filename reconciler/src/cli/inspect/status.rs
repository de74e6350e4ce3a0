//! `stepgate status`: where every cluster stands.

use clap::Args;
use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use policy::Override;
use rollout::LedgerState;
use serde::Serialize;

use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet::Opened;
use crate::cli::common::output;
use crate::cli::common::output::{Report, Table};
use crate::cli::common::when::Teller;
use crate::cli::{ClusterArguments, ReportArguments};
use crate::reconcile::main_loop::clock::SystemClock;
use crate::reconcile::observe::explain::{Explainer, Explanation};
use crate::reconcile::people::facts::overridden;
use crate::reconcile::planner::{ClusterView, PlanError};

/// How many clusters are read at once.
const AT_ONCE: usize = 8;

/// Arguments of `stepgate status`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    report: ReportArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// Exit with 3 when a cluster is blocked, 4 when one is running or waits, 5 when one is held.
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
    /// `done`, `running` (a stage is on its way), `waiting` (for people, a time, another cluster), `held`, `blocked` or `failed`.
    pub state: String,
    /// The rollout that the ledger records, or that the plan would begin.
    pub rollout: Option<String>,
    /// The last committed stage of it.
    pub committed: Option<String>,
    /// The next stage with a difference.
    pub next: Option<String>,
    /// One line: what it stands at.
    pub message: String,
    /// Why, one reason each, the most telling first.
    pub reasons: Vec<String>,
    /// What helps, the most telling first.
    pub advice: Vec<String>,
    /// When the wait ends by itself, RFC 3339.
    pub until: Option<String>,
    /// Until when `stepgate rollback` can put it back to where its last rollout began; null where it was at nothing else.
    pub rollback: Option<String>,
}

impl ClusterStatus {
    /// Where it stands, and by whom rules for approvals were set aside.
    pub fn of(view: &ClusterView, explanation: &Explanation, overridden: Option<&Override>) -> Self {
        let running = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
        let next = view.plan.next_stage().map(|stage| stage.stage.to_string());
        let reasons: Vec<String> = explanation.reasons.iter().map(ToString::to_string).collect();
        let aside = overridden.map(|it| format!("; rules for approvals set aside by {}: {}", it.who, it.reason));
        let message = reasons.first().cloned().unwrap_or_default();
        Self {
            cluster: view.name.to_string(),
            state: explanation.state.word().to_owned(),
            rollout: running
                .map(|ledger| ledger.rollout.to_string())
                .or_else(|| next.as_ref().map(|_| view.plan.rollout_id.to_string())),
            committed: running.and_then(|ledger| ledger.stages.last()).map(|record| record.stage.to_string()),
            next,
            message: format!("{message}{}", aside.unwrap_or_default()),
            reasons,
            advice: explanation.help.clone(),
            until: explanation.until.as_ref().map(Timestamp::to_string),
            rollback: None,
        }
    }

    fn failed(cluster: String, message: String) -> Self {
        Self {
            cluster,
            state: "failed".to_owned(),
            rollout: None,
            committed: None,
            next: None,
            reasons: vec![message.clone()],
            message,
            advice: vec!["`stepgate check` lists what to repair".to_owned()],
            until: None,
            rollback: None,
        }
    }
}

impl Report for StatusReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table =
            Table { headers: vec!["CLUSTER", "STATE", "ROLLOUT", "COMMITTED", "NEXT", "MESSAGE"], ..Table::default() };
        let teller = Teller::here();
        for cluster in &self.clusters {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            table.rows.push(vec![
                cluster.cluster.clone(),
                cluster.state.clone(),
                text(&cluster.rollout),
                text(&cluster.committed),
                text(&cluster.next),
                teller.told(&cluster.message),
            ]);
            table.notes.extend(cluster.rollback.iter().map(|told| format!("rollback ({}): {told}", cluster.cluster)));
        }
        vec![(None, table)]
    }
}

/// Prints where the clusters stand.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let (opened, names) = arguments.report.open()?;
    opened.remark();
    let access = arguments.access.open()?;
    let explainer = Explainer::new(&opened.planner, &opened.reading, access.as_ref(), &SystemClock);
    let (opened, explainer) = (&opened, &explainer);
    let clusters = stream::iter(names).map(|name| async move {
        status(opened, explainer, &name).await.unwrap_or_else(|error| ClusterStatus::failed(name, error.to_string()))
    });
    let clusters = crate::cli::run::verb::runtime()?.block_on(clusters.buffered(AT_ONCE).collect());
    let report = StatusReport { clusters };
    output::print(arguments.report.output, &report)?;
    let any = |state: &str| report.clusters.iter().any(|cluster| cluster.state == state);
    Ok(match () {
        () if any("failed") => Exit::Error,
        () if !arguments.exit_code => Exit::Success,
        () if any("held") => Exit::Stopped,
        () if any("blocked") => Exit::Blocked,
        () if any("running") || any("waiting") => Exit::Waiting,
        () => Exit::Success,
    })
}

async fn status(opened: &Opened, explainer: &Explainer<'_>, name: &str) -> Result<ClusterStatus, PlanError> {
    let view = opened.view(name)?;
    let explanation = explainer.explain(&view).await?;
    let aside = overridden(&opened.planner, &opened.reading, &view)?;
    let outlook = opened.planner.outlook(&opened.reading, &view, Timestamp::now())?;
    let rollback = outlook.told(&view.name);
    Ok(ClusterStatus { rollback, ..ClusterStatus::of(&view, &explanation, aside.as_ref()) })
}
