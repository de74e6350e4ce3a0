//! What `check` says of a policy that was pushed and does not count, or not alone, yet.

use domain::RepoPath;
use policy::policy_place;

use super::problems::ProblemReport;
use crate::reconcile::planner::{FleetReading, Planner};
use git::GitSnapshot;
use planning::policies::Change;

const POLICY: &str = "stepgate.yaml";

/// How many clusters a remark names.
const NAMED: usize = 5;

/// Each field that says something else than the policy which a cluster was last committed with, and the way out.
pub(super) fn policy_changes(planner: &Planner, reading: &FleetReading) -> Vec<ProblemReport> {
    let mut found: Vec<(Change, Vec<String>)> = Vec::new();
    for cluster in &reading.fleet.clusters {
        // What cannot be read of a cluster is told by whoever plans it.
        let Ok(changes) = planner.policy_changes(reading, &cluster.name) else { continue };
        for change in changes {
            match found.iter_mut().find(|(known, _)| *known == change) {
                Some((_, clusters)) => clusters.push(cluster.name.clone()),
                None => found.push((change, vec![cluster.name.clone()])),
            }
        }
    }
    let snapshot = reading.source.files.snapshot();
    let bytes = text(snapshot).unwrap_or_default();
    let report = |(change, clusters): (Change, Vec<String>)| {
        let place = policy_place(&bytes, change.field.name());
        let more = clusters.len().saturating_sub(NAMED);
        let mut names = clusters.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        if more > 0 {
            names.push_str(&format!(" and {more} more"));
        }
        ProblemReport {
            severity: if change.values.is_some() { "warning" } else { "note" }.to_owned(),
            code: "policy-change".to_owned(),
            cluster: if let [one] = clusters.as_slice() { Some(one.clone()) } else { None },
            path: Some(POLICY.to_owned()),
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
            message: change.message(&names),
            hint: Some(change.help(snapshot.commit())),
        }
    };
    found.into_iter().map(report).collect()
}

fn text(snapshot: &GitSnapshot) -> Option<std::sync::Arc<[u8]>> {
    snapshot.read(&RepoPath::new(POLICY).ok()?).ok()
}
