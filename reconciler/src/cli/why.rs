//! `stepgate why`: what a cluster waits for, since when, until when, and what helps.

use clap::Args;
use jiff::Timestamp;
use rollout::{ApprovalScope, Approved, Ledger, LedgerState, Override};
use serde::Serialize;

use super::error::CommandError;
use super::exit::Exit;
use super::output::{self, Format, Report, Table};
use super::{ClusterArguments, FleetArguments, fleet};
use crate::controller::people::facts::overridden;
use crate::controller::planner::ClusterView;
use crate::controller::{ClusterOutcome, Controller};

/// Arguments of `stepgate why`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// The cluster.
    cluster: String,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Why a cluster stands where it stands.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyReport {
    /// The cluster.
    pub cluster: String,
    /// `done`, `waiting`, `held`, `blocked` or `failed`.
    pub state: String,
    /// The rollout.
    pub rollout: Option<String>,
    /// The stage concerned.
    pub stage: Option<String>,
    /// Why, one reason each.
    pub reasons: Vec<String>,
    /// Since when: the last commit of the rollout, RFC 3339.
    pub since: Option<String>,
    /// Until when, RFC 3339: the wait ends by itself, or the stage times out.
    pub until: Option<String>,
    /// What helps.
    pub help: Option<String>,
    /// What people approved of the rollout so far, one line each: what, who, when, of which plan.
    pub approvals: Vec<String>,
    /// By whom the rules for approvals were set aside last, when, for which plan, and why.
    pub overridden: Option<String>,
}

impl WhyReport {
    /// Explains what a pass decided about a cluster, and by whom rules for approvals were set aside.
    pub fn of(view: &ClusterView, outcome: &ClusterOutcome, overridden: Option<&Override>) -> Self {
        let ledger = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
        let last = ledger.and_then(|ledger| ledger.stages.last());
        let deadline = last.and_then(|record| {
            let policy = &view.plan.stage(&record.stage)?.policy;
            record.committed_at.checked_add(policy.timeout).ok()
        });
        let until = match outcome {
            ClusterOutcome::Waiting { until: Some(until), .. } => Some(*until),
            ClusterOutcome::Waiting { .. } => deadline,
            _ => None,
        };
        let reasons = match outcome {
            ClusterOutcome::Held { reasons, .. } => reasons.iter().map(ToString::to_string).collect(),
            ClusterOutcome::Blocked { reasons } => reasons.iter().map(|block| block.message.clone()).collect(),
            other => vec![other.message()],
        };
        Self {
            cluster: view.name.to_string(),
            state: outcome.word().to_owned(),
            rollout: ledger
                .map(|ledger| ledger.rollout.to_string())
                .or_else(|| view.plan.has_differences().then(|| view.plan.rollout_id.to_string())),
            stage: outcome.stage().map(ToString::to_string),
            reasons,
            since: last.map(|record| record.committed_at.to_string()),
            until: until.as_ref().map(Timestamp::to_string),
            help: outcome.help(),
            approvals: ledger.map(approvals).unwrap_or_default(),
            overridden: overridden.map(|it| format!("{} at {}, plan {}: {}", it.who, it.at, it.plan, it.reason)),
        }
    }
}

/// What the ledger says of people.
fn approvals(ledger: &Ledger) -> Vec<String> {
    let told = |approved: &Approved| {
        let scope = match &approved.scope {
            ApprovalScope::Rollout => "the rollout".to_owned(),
            ApprovalScope::Stage(stage) => format!("stage {stage}"),
        };
        let given = approved.approvers.iter().map(|given| {
            let at = given.at.or(approved.at).map(|at| format!(" at {at}")).unwrap_or_default();
            format!("{}{at}", given.who)
        });
        let mut people: Vec<String> = given.collect();
        if people.is_empty() {
            let at = approved.at.map(|at| format!(" at {at}")).unwrap_or_default();
            people.extend(approved.by.as_ref().map(|by| format!("{by}{at}")));
        }
        let people = if people.is_empty() { "somebody".to_owned() } else { people.join(", ") };
        format!("{scope} by {people}, plan {}", approved.plan)
    };
    ledger.approvals.iter().map(told).collect()
}

impl Report for WhyReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let stage = self.stage.as_ref().map(|stage| format!(" at {stage}")).unwrap_or_default();
        let rollout = self.rollout.as_ref().map(|rollout| format!(" (rollout {rollout})")).unwrap_or_default();
        let mut notes = vec![format!("{} is {}{stage}{rollout}", self.cluster, self.state)];
        notes.extend(self.reasons.iter().map(|reason| format!("  why: {reason}")));
        notes.extend(self.since.iter().map(|since| format!("  since: {since}")));
        notes.extend(self.until.iter().map(|until| format!("  until: {until}")));
        notes.extend(self.approvals.iter().map(|approval| format!("  approved: {approval}")));
        notes.extend(self.overridden.iter().map(|by| format!("  rules set aside: {by}")));
        notes.extend(self.help.iter().map(|help| format!("  what helps: {help}")));
        vec![(None, Table { notes, ..Table::default() })]
    }
}

/// Prints why. Nothing is committed and nothing is changed in the cluster.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.remark();
    opened.clusters(Some(&arguments.cluster))?;
    let view = opened.view(&arguments.cluster)?;
    let access = arguments.access.open()?;
    let runtime = super::run::runtime()?;
    let outcome = runtime.block_on(Controller::explain(
        &opened.planner,
        &opened.reading,
        &view,
        access.as_ref(),
        Timestamp::now(),
    ))?;
    let aside = overridden(&opened.planner, &opened.reading, &view)?;
    output::print(arguments.output, &WhyReport::of(&view, &outcome, aside.as_ref()))?;
    Ok(match outcome {
        ClusterOutcome::Done => Exit::Success,
        ClusterOutcome::Waiting { .. } => Exit::Waiting,
        ClusterOutcome::Held { .. } => Exit::Stopped,
        ClusterOutcome::Blocked { .. } => Exit::Blocked,
        ClusterOutcome::Failed { .. } => Exit::Error,
    })
}
