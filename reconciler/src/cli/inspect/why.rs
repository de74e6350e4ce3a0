//! `stepgate why`: what a cluster waits for, since when, until when, and what helps.

use clap::Args;
use jiff::Timestamp;
use policy::Override;
use rollout::{ApprovalScope, Approved, Ledger, LedgerState};
use serde::Serialize;

use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use crate::cli::common::when::Teller;
use crate::cli::{ClusterArguments, FleetArguments};
use crate::reconcile::main_loop::clock::SystemClock;
use crate::reconcile::observe::explain::{Explainer, Explanation, State};
use crate::reconcile::people::facts::overridden;
use crate::reconcile::planner::ClusterView;
use cluster::kubernetes::{Connection, Emergency, emergencies};

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
    /// `done`, `running` (a stage is on its way), `waiting` (for people, a time, another cluster), `held` or `blocked`.
    pub state: String,
    /// The rollout.
    pub rollout: Option<String>,
    /// The stage concerned.
    pub stage: Option<String>,
    /// Why, one reason each, the most telling first.
    pub reasons: Vec<String>,
    /// Since when: the last commit of the rollout, RFC 3339.
    pub since: Option<String>,
    /// Until when, RFC 3339: the wait ends by itself, or the stage times out.
    pub until: Option<String>,
    /// What helps most.
    pub help: Option<String>,
    /// Everything that helps, the most telling first.
    pub advice: Vec<String>,
    /// What people approved of the rollout so far, one line each: what, who, when, of which plan.
    pub approvals: Vec<String>,
    /// By whom the rules for approvals were set aside last, when, for which plan, and why.
    pub overridden: Option<String>,
    /// Objects of the cluster that the guard (`stepgate install --guard`) lets anybody change, since they carry `stepgate.dev/emergency`:
    /// which, why, by whom, when.
    pub emergencies: Vec<String>,
}

impl WhyReport {
    /// Tells where a cluster stands, and by whom rules for approvals were set aside.
    pub fn of(
        view: &ClusterView,
        explanation: &Explanation,
        overridden: Option<&Override>,
        emergencies: &[Emergency],
    ) -> Self {
        let ledger = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
        let last = ledger.and_then(|ledger| ledger.stages.last());
        let deadline = last.filter(|_| explanation.state == State::Running).and_then(|record| {
            let policy = &view.plan.stage(&record.stage)?.policy;
            record.committed_at.checked_add(policy.timeout).ok()
        });
        let until = explanation.until.or(deadline);
        Self {
            cluster: view.name.to_string(),
            state: explanation.state.word().to_owned(),
            rollout: ledger
                .map(|ledger| ledger.rollout.to_string())
                .or_else(|| view.plan.has_differences().then(|| view.plan.rollout_id.to_string())),
            stage: explanation.stage.as_ref().map(ToString::to_string),
            reasons: explanation.reasons.iter().map(ToString::to_string).collect(),
            since: last.map(|record| record.committed_at.to_string()),
            until: until.as_ref().map(Timestamp::to_string),
            help: explanation.help.first().cloned(),
            advice: explanation.help.clone(),
            approvals: ledger.map(approvals).unwrap_or_default(),
            overridden: overridden.map(|it| format!("{} at {}, plan {}: {}", it.who, it.at, it.plan, it.reason)),
            emergencies: emergencies
                .iter()
                .filter(|emergency| emergency.is_of(view.name.as_str()))
                .map(ToString::to_string)
                .collect(),
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
        vec![(None, Table { notes: self.lines(&Teller::here()), ..Table::default() })]
    }
}

impl WhyReport {
    /// One line each, times as people read them.
    fn lines(&self, teller: &Teller) -> Vec<String> {
        let when = |time: &String| time.parse().map_or_else(|_| time.clone(), |time| teller.when(time));
        let stage = self.stage.as_ref().map(|stage| format!(" at {stage}")).unwrap_or_default();
        let rollout = self.rollout.as_ref().map(|rollout| format!(" (rollout {rollout})")).unwrap_or_default();
        let mut lines = vec![format!("{} is {}{stage}{rollout}", self.cluster, self.state)];
        lines.extend(self.reasons.iter().map(|reason| format!("  why: {}", teller.told(reason))));
        lines.extend(self.since.iter().map(|since| format!("  since: {}", when(since))));
        lines.extend(self.until.iter().map(|until| format!("  until: {}", when(until))));
        lines.extend(self.approvals.iter().map(|approval| format!("  approved: {}", teller.told(approval))));
        lines.extend(self.overridden.iter().map(|by| format!("  rules set aside: {}", teller.told(by))));
        lines.extend(self.emergencies.iter().map(|line| format!("  open to anybody: {}", teller.told(line))));
        lines.extend(self.advice.iter().map(|help| format!("  what helps: {}", teller.told(help))));
        lines
    }
}

/// Prints why. Nothing is committed and nothing is changed in the cluster.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.remark();
    opened.clusters(Some(&arguments.cluster))?;
    let view = opened.view(&arguments.cluster)?;
    let access = arguments.access.open()?;
    let runtime = crate::cli::run::verb::runtime()?;
    let explainer = Explainer::new(&opened.planner, &opened.reading, access.as_ref(), &SystemClock);
    let connection = arguments.access.connect()?.ok();
    let (explanation, emergencies) =
        runtime.block_on(async { futures::join!(explainer.explain(&view), look(connection.as_ref())) });
    let explanation = explanation?;
    let aside = overridden(&opened.planner, &opened.reading, &view)?;
    output::print(arguments.output, &WhyReport::of(&view, &explanation, aside.as_ref(), &emergencies))?;
    Ok(exit(explanation.state))
}

/// What the guard lets anybody change. Of a server that does not answer, the reasons say so already.
async fn look(connection: Option<&Connection>) -> Vec<Emergency> {
    let Some(connection) = connection else { return Vec::new() };
    match emergencies(connection).await {
        Ok(found) => found,
        Err(error) => {
            if !error.is_unreachable() {
                output::note(&format!("note: whether something carries stepgate.dev/emergency is not known: {error}"));
            }
            Vec::new()
        }
    }
}

/// The exit code of a cluster that stands so.
pub(crate) fn exit(state: State) -> Exit {
    match state {
        State::Done => Exit::Success,
        State::Running | State::Waiting => Exit::Waiting,
        State::Held => Exit::Stopped,
        State::Blocked => Exit::Blocked,
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn each_reason_and_each_advice_has_a_line_of_its_own() {
        let report = WhyReport {
            cluster: "mgmt".to_owned(),
            state: "held".to_owned(),
            rollout: Some("a1".to_owned()),
            stage: Some("cilium".to_owned()),
            reasons: vec!["one".to_owned(), "it takes over at 2026-11-25T15:16:20Z".to_owned()],
            since: Some("2026-11-25T14:36:00Z".to_owned()),
            until: Some("2026-11-25T15:16:20Z".to_owned()),
            help: Some("first".to_owned()),
            advice: vec!["first".to_owned(), "second".to_owned()],
            approvals: Vec::new(),
            overridden: None,
            emergencies: vec!["KubeadmControlPlane fleet/mgmt: etcd is full".to_owned()],
        };
        let teller = Teller::new("2026-11-25T14:48:10Z".parse().unwrap(), TimeZone::UTC);
        let expected = [
            "mgmt is held at cilium (rollout a1)",
            "  why: one",
            "  why: it takes over in 28 min (15:16)",
            "  since: 12 min ago (14:36)",
            "  until: in 28 min (15:16)",
            "  open to anybody: KubeadmControlPlane fleet/mgmt: etcd is full",
            "  what helps: first",
            "  what helps: second",
        ];
        assert_eq!(report.lines(&teller), expected);
    }
}
