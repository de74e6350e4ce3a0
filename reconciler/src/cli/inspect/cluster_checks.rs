//! `stepgate check --cluster NAME`: what the checks say of a running cluster.

use cluster::{Freshness, ObserveRequest};
use jiff::Timestamp;
use rollout::check::{self, CheckFinding, CheckOutcome};
use rollout::{ChecksExpectation, Expectation, Observation, Reachability, StageName};
use serde::Serialize;

use crate::cli::ClusterArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet::Opened;
use crate::cli::common::output::{Report, Table};
use crate::cli::run::verb::runtime;
use crate::reconcile::observe::{eks, images};
use crate::reconcile::planner::ClusterView;

/// What the checks say of one cluster.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCheckReport {
    /// The cluster.
    pub cluster: String,
    /// When it was read, RFC 3339.
    pub read_at: String,
    /// One entry a check, in the order of the registry.
    pub checks: Vec<CheckReport>,
}

/// What one check says.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// Its name, by which waivers name it.
    pub name: String,
    /// `pass`, `warn`, `unknown` or `fail`.
    pub status: String,
    /// `blocking`: a failure holds a rollout, and what is unknown makes it wait; `advisory`: it is told only.
    pub severity: String,
    /// What it looks at.
    pub looks_at: String,
    /// Where the documentation tells more.
    pub documentation: String,
    /// What counts, the worst first.
    pub findings: Vec<FindingReport>,
    /// What would count without a waiver.
    pub waived: Vec<WaivedReport>,
}

/// One thing that a check finds.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingReport {
    /// `warn`, `unknown` or `fail`.
    pub status: String,
    /// The object, as `Kind namespace/name`; null where it is about no single one.
    pub object: Option<String>,
    /// What is seen.
    pub message: String,
    /// What helps.
    pub remedy: Option<String>,
    /// Whether it holds nothing, although it is unknown and its check is blocking.
    pub is_advisory: bool,
}

/// A finding that the team lives with.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaivedReport {
    /// What is found.
    #[serde(flatten)]
    pub finding: FindingReport,
    /// Why it may stay.
    pub reason: String,
    /// Who answers for it.
    pub owner: Option<String>,
    /// The last day on which the waiver counts.
    pub expires: String,
}

impl From<&CheckFinding> for FindingReport {
    fn from(finding: &CheckFinding) -> Self {
        Self {
            status: finding.status.to_string(),
            object: finding.object.as_ref().map(ToString::to_string),
            message: finding.message.clone(),
            remedy: finding.remedy.clone(),
            is_advisory: finding.is_advisory,
        }
    }
}

impl From<&CheckOutcome> for CheckReport {
    fn from(outcome: &CheckOutcome) -> Self {
        let known = check::CHECKS.iter().find(|known| known.name == outcome.check);
        let waived = outcome.waived.iter().map(|(finding, waiver)| WaivedReport {
            finding: finding.into(),
            reason: waiver.reason.clone(),
            owner: waiver.owner.clone(),
            expires: waiver.expires.to_string(),
        });
        Self {
            name: outcome.check.to_string(),
            status: outcome.status.to_string(),
            severity: outcome.severity.as_str().to_owned(),
            looks_at: known.map(|known| known.looks_at.to_owned()).unwrap_or_default(),
            documentation: known.map(check::Check::documentation).unwrap_or_default(),
            findings: outcome.findings.iter().map(FindingReport::from).collect(),
            waived: waived.collect(),
        }
    }
}

impl Report for ClusterCheckReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table = Table { headers: vec!["CHECK", "STATUS", "SEVERITY", "FOUND"], ..Table::default() };
        for check in &self.checks {
            let found = match (check.findings.len(), check.waived.len()) {
                (0, 0) => String::new(),
                (found, 0) => found.to_string(),
                (found, waived) => format!("{found}, {waived} waived"),
            };
            table.rows.push(vec![check.name.clone(), check.status.clone(), check.severity.clone(), found]);
            for finding in &check.findings {
                table.notes.push(format!("{} ({}): {}", finding.status, check.name, finding.line()));
                table.notes.extend(finding.remedy.iter().map(|remedy| format!("  to do: {remedy}")));
            }
            table.notes.extend(check.waived.iter().map(|waived| {
                let owner = waived.owner.iter().map(|owner| format!(" by {owner}")).collect::<String>();
                let (line, WaivedReport { expires, reason, .. }) = (waived.finding.line(), waived);
                format!("waived ({}) until {expires}{owner}: {line}: {reason}", check.name)
            }));
        }
        vec![(None, table)]
    }
}

impl FindingReport {
    fn line(&self) -> String {
        self.object.iter().map(|object| format!("{object}: ")).collect::<String>() + &self.message
    }
}

/// Reads the cluster and asks every check. Nothing is committed and nothing is changed in the cluster.
pub fn report(
    opened: &Opened,
    name: &str,
    access: &ClusterArguments,
) -> Result<(ClusterCheckReport, Exit), CommandError> {
    opened.clusters(Some(name))?;
    let view = opened.view(name)?;
    let preflight = view.plan.stage(&StageName::Preflight.into());
    let expectations = preflight.map(|stage| stage.expectations.clone()).unwrap_or_default();
    let observation = observe(opened, &view, access, expectations)?;
    let outcomes = check::outcomes(&expectation(&view), &observation);
    let report = ClusterCheckReport {
        cluster: name.to_owned(),
        read_at: observation.read_at.to_string(),
        checks: outcomes.iter().map(CheckReport::from).collect(),
    };
    let exit = if outcomes.iter().any(CheckOutcome::holds) {
        Exit::Blocked
    } else if outcomes.iter().any(CheckOutcome::waits) {
        Exit::Waiting
    } else {
        Exit::Success
    };
    Ok((report, exit))
}

/// What the preflight gate of the cluster asks of checks.
fn expectation(view: &ClusterView) -> ChecksExpectation {
    let preflight = view.plan.stage(&StageName::Preflight.into());
    let expectations = preflight.into_iter().flat_map(|stage| &stage.expectations);
    let mut asked = expectations.filter_map(|expectation| match expectation {
        Expectation::Checks(expectation) => Some(expectation.clone()),
        _ => None,
    });
    asked.next().unwrap_or_default()
}

/// A reading of the very cluster that is meant.
pub(super) fn observe(
    opened: &Opened,
    view: &ClusterView,
    access: &ClusterArguments,
    expectations: Vec<Expectation>,
) -> Result<Observation, CommandError> {
    let cluster = opened.cluster(view, access)?;
    let request = ObserveRequest {
        expectations,
        kustomizations: Vec::new(),
        deployed: std::sync::Arc::clone(&view.deployed),
        freshness: Freshness::Fresh,
        at: Timestamp::now(),
    };
    let programs = access.eksctl.open()?;
    let policy = &opened.reading.fleet.policy;
    let observation = runtime()?.block_on(async {
        let ask = eks::ask(Some(&programs), policy, view, &request);
        let (read, eks) = tokio::join!(images::observe_patiently(cluster.as_ref(), view, &request), ask);
        Observation { eks, ..read }
    });
    if let Reachability::Unreachable { reason } = &observation.reachable {
        let error = CommandError::new(format!("cluster {} cannot be reached: {reason}", view.name));
        return Err(error.hint("name a kubeconfig of its management cluster: --kubeconfig FILE"));
    }
    let recorded = view.directory.ledger().and_then(|ledger| ledger.identity.as_ref());
    match observation.identity.of(view.name.as_str(), recorded) {
        Ok(_) => Ok(observation),
        Err(reason) => {
            let error = CommandError::new(format!("cluster {} was not checked: {}", view.name, reason.message));
            Err(reason.help.into_iter().fold(error, CommandError::hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use rollout::check::CheckStatus;

    use super::*;

    fn finding(status: &str, object: Option<&str>) -> FindingReport {
        FindingReport {
            status: status.to_owned(),
            object: object.map(str::to_owned),
            message: "is cordoned".to_owned(),
            remedy: Some("kubectl uncordon a".to_owned()),
            is_advisory: false,
        }
    }

    #[test]
    fn a_table_names_each_finding_with_what_helps_and_each_waiver() {
        let check = |name: &str, findings, waived| CheckReport {
            name: name.to_owned(),
            status: CheckStatus::Warn.to_string(),
            severity: "blocking".to_owned(),
            looks_at: String::new(),
            documentation: String::new(),
            findings,
            waived,
        };
        let waived = WaivedReport {
            finding: finding("fail", None),
            reason: "r".to_owned(),
            owner: Some("o".to_owned()),
            expires: "2026-12-31".to_owned(),
        };
        let report = ClusterCheckReport {
            cluster: "prod".to_owned(),
            read_at: String::new(),
            checks: vec![
                check("nodes", vec![finding("warn", Some("Node a"))], vec![waived]),
                check("webhooks", Vec::new(), Vec::new()),
            ],
        };
        let table = report.tables().remove(0).1;
        assert_eq!(table.rows[0], ["nodes", "warn", "blocking", "1, 1 waived"]);
        assert_eq!(table.rows[1], ["webhooks", "warn", "blocking", ""]);
        let notes = [
            "warn (nodes): Node a: is cordoned",
            "  to do: kubectl uncordon a",
            "waived (nodes) until 2026-12-31 by o: is cordoned: r",
        ];
        assert_eq!(table.notes, notes);
    }
}
