//! What a simulation cannot know, in words.

use super::found::FoundReport;
use super::pace::{PaceReport, PaceSource};

/// How many names are spelled out.
const NAMED: usize = 3;

/// What is not known of this rollout, the most telling first.
pub(super) fn told(found: &FoundReport, paces: &[PaceReport], others: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    if found.dumped_at.is_none() {
        lines.push(
            "what runs in the cluster: it is filled from the deploy branch alone (name a kubeconfig, or `--dump`)"
                .to_owned(),
        );
    }
    let assumed: Vec<&str> =
        paces.iter().filter(|pace| pace.known_by == PaceSource::Assumed).map(|pace| pace.stage.as_str()).collect();
    if !assumed.is_empty() {
        lines.push(format!(
            "how long machines really take to start and to be drained at {}: no past rollout tells, and no `estimate`",
            listed(&assumed)
        ));
    }
    if !found.new_images.is_empty() {
        let images: Vec<&str> = found.new_images.iter().map(String::as_str).collect();
        lines.push(format!(
            "whether {} new images can be pulled ({}): `stepgate check` asks registries",
            images.len(),
            listed(&images)
        ));
    } else if found.dumped_at.is_none() {
        lines.push("whether images can be pulled: `stepgate check` asks registries".to_owned());
    }
    if !found.refusing_budgets.is_empty() {
        let budgets: Vec<&str> = found.refusing_budgets.iter().map(String::as_str).collect();
        lines.push(format!(
            "how long drains wait for budgets that allow no eviction now ({}): `--fault STAGE=drain-blocked` shows it",
            listed(&budgets)
        ));
    }
    if !found.unready_nodes.is_empty() {
        let nodes: Vec<&str> = found.unready_nodes.iter().map(String::as_str).collect();
        lines.push(format!(
            "what becomes of nodes that are not ready now ({}): every node is rehearsed as ready",
            listed(&nodes)
        ));
    }
    if !others.is_empty() {
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        lines.push(format!("when {} will be done, which come first: they are rehearsed as done", listed(&others)));
    }
    lines.extend([
        "how long people take to approve: the rehearsal approves at once".to_owned(),
        "workloads of teams: only what the deploy branch holds is simulated, its pods start within seconds".to_owned(),
        "admission webhooks and policies of others that refuse or change objects".to_owned(),
        "quotas, capacity and addresses of the infrastructure".to_owned(),
        "what else changes in the cluster or in the repository while it goes on".to_owned(),
    ]);
    lines
}

/// The first of them, and how many more there are.
fn listed(names: &[&str]) -> String {
    let first = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> FoundReport {
        FoundReport {
            dumped_at: Some("2026-01-05T09:00:00Z".to_owned()),
            control_plane: 3,
            etcd: 0,
            groups: Vec::new(),
            new_images: Vec::new(),
            refusing_budgets: Vec::new(),
            unready_nodes: Vec::new(),
            differences: Vec::new(),
        }
    }

    #[test]
    fn what_a_dump_and_a_ledger_tell_is_not_said_to_be_unknown() {
        let pace = PaceReport {
            stage: "control-plane".to_owned(),
            shortest: 1,
            longest: 2,
            known_by: PaceSource::Past,
            rollouts: 2,
        };
        let known = told(&found(), std::slice::from_ref(&pace), &[]);
        assert!(known.iter().all(|line| !line.contains("control-plane") && !line.contains("--dump")), "{known:?}");
        let images = (0..5).map(|number| format!("r/image:{number}")).collect();
        let found = FoundReport { dumped_at: None, new_images: images, ..found() };
        let lines = told(&found, &[PaceReport { known_by: PaceSource::Assumed, ..pace }], &["mgmt".to_owned()]);
        assert!(lines[0].contains("`--dump`") && lines[1].contains("at control-plane"), "{lines:?}");
        assert!(lines[2].contains("5 new images can be pulled (r/image:0, r/image:1, r/image:2 and 2 more)"));
        assert!(lines.iter().any(|line| line.starts_with("when mgmt will be done")));
    }
}
