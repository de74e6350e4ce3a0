//! Why a cluster stands where it stands.

use jiff::Timestamp;
use planning::eks_way_back;
use policy::Override;
use rollout::{ApprovalScope, Approved, Ledger, LedgerState};
use serde::Serialize;

use super::tanzu::TanzuStatus;
use crate::reconcile::observe::explain::{Explanation, State};
use crate::reconcile::planner::ClusterView;
use cluster::kubernetes::Emergency;

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
    /// Which rollout of how many it is on the way to what the source branch asks for; left out where it is the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
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
    /// How long its last upgrade can be taken back by EKS; null where it cannot, or is of another kind.
    pub way_back: Option<String>,
    /// Where a cluster of Tanzu stands; null of others, and where it was not read.
    pub tanzu: Option<TanzuStatus>,
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
    #[must_use]
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
            chain: view.chain().map(ToString::to_string),
            stage: explanation.stage.as_ref().map(ToString::to_string),
            reasons: explanation.reasons.iter().map(ToString::to_string).collect(),
            since: last.map(|record| record.committed_at.to_string()),
            until: until.as_ref().map(Timestamp::to_string),
            help: explanation.help.first().cloned(),
            advice: explanation.help.clone(),
            way_back: way_back(view),
            tanzu: explanation.tanzu.as_ref().map(TanzuStatus::from),
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

/// How long EKS takes the last upgrade back, as of now.
#[must_use]
pub fn way_back(view: &ClusterView) -> Option<String> {
    let way_back = eks_way_back(&view.cluster, view.directory.ledger()?, Timestamp::now())?;
    Some(way_back.to_string())
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
        let ticked: Vec<String> = approved.ticks.iter().map(|it| format!("{} by {}", it.name, it.who)).collect();
        let ticked = if ticked.is_empty() { String::new() } else { format!(", ticked: {}", ticked.join(", ")) };
        format!("{scope} by {people}{ticked}, plan {}", approved.plan)
    };
    ledger.approvals.iter().map(told).collect()
}
