//! What is wrong with a fleet repository.

use domain::{Problem, ProblemCode, Scope, Severity};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use planning::machines::kube_vip;
use planning::{signatures, support, waivers};
use serde::Serialize;

use super::policy_changes::policy_changes;
use crate::reconcile::planner::{FleetReading, Planner};

/// One problem.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemReport {
    /// `error` stops the clusters concerned, `warning` does not.
    pub severity: String,
    /// Stable name of the rule.
    pub code: String,
    /// The cluster concerned; null where the whole fleet is.
    pub cluster: Option<String>,
    /// The file; bytes that are not UTF-8 are escaped, as `caf\xE9.yaml`.
    pub path: Option<String>,
    /// Line, from 1.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl From<&Problem> for ProblemReport {
    fn from(problem: &Problem) -> Self {
        Self {
            severity: match problem.severity {
                Severity::Note => "note",
                Severity::Warning => "warning",
                Severity::Error => "error",
            }
            .to_owned(),
            code: problem.code.to_string(),
            cluster: match &problem.scope {
                Scope::Fleet => None,
                Scope::Cluster(name) => Some(name.clone()),
            },
            path: problem.path_text().map(str::to_owned),
            line: problem.line,
            column: problem.column,
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        }
    }
}

impl ProblemReport {
    /// `path:line:column`, as far as it is known.
    #[must_use]
    pub fn place(&self) -> String {
        let path = self.path.as_deref().unwrap_or("-");
        match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{path}:{line}:{column}"),
            (Some(line), None) => format!("{path}:{line}"),
            (None, _) => path.to_owned(),
        }
    }
}

/// What is wrong with the repository as far as nothing has to be rendered, the weightiest first.
pub fn found(planner: &Planner, reading: &FleetReading) -> Vec<ProblemReport> {
    let (mut problems, _) = of_repository(planner, reading);
    problems.sort_by_key(|problem| problem.severity != "error");
    problems
}

/// The same in the order in which it is looked for, and what of it is no problem of the fleet's reading.
pub fn of_repository(planner: &Planner, reading: &FleetReading) -> (Vec<ProblemReport>, Vec<Problem>) {
    let mut problems: Vec<ProblemReport> = reading.fleet.problems.iter().map(ProblemReport::from).collect();
    problems.extend(policy_changes(planner, reading));
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let mut own = support::problems(&reading.fleet, today);
    problems.extend(own.iter().map(ProblemReport::from));
    problems.extend(waivers::problems(&reading.fleet.policy, today).iter().map(ProblemReport::from));
    let unsigned = signatures::problems(&reading.fleet);
    problems.extend(unsigned.iter().map(ProblemReport::from));
    problems.extend(kube_vip::problems(&reading.fleet).iter().map(ProblemReport::from));
    let in_place = planning::plan::in_place_problems(&reading.fleet);
    problems.extend(in_place.iter().map(ProblemReport::from));
    // What cannot be read of a cluster's record is told by whoever plans it.
    let changes = |cluster| planner.immutable_changes(reading, cluster).unwrap_or_default();
    let immutable: Vec<Problem> = reading.fleet.clusters.iter().flat_map(changes).collect();
    problems.extend(immutable.iter().map(ProblemReport::from));
    problems.extend(abandoned(reading));
    own.extend(unsigned);
    own.extend(in_place);
    own.extend(immutable);
    (problems, own)
}

/// Clusters that are recorded and no longer specified: what is recorded of them stays applied.
fn abandoned(reading: &FleetReading) -> Vec<ProblemReport> {
    // What cannot be read of the deploy branch is told by whoever plans.
    let names = reading.abandoned().unwrap_or_default();
    let branch = &reading.layout.branch;
    let told = names.iter().map(|name| {
        let message = format!(
            "cluster {name} is recorded on branch {branch} and no longer specified: what is recorded stays applied"
        );
        let hint = format!(
            "put its specification back; where it is given up, delete it in its management cluster, then remove \
             clusters/{name} and flux/{name} from branch {branch}"
        );
        let problem = Problem::new(ProblemCode::MissingReference, message).cluster(name.as_str()).hint(hint);
        ProblemReport::from(&problem.severity(Severity::Warning))
    });
    told.collect()
}
