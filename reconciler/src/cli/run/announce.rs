//! What a running controller tells whoever reads its log: what it works on, and each change of state.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cluster::kubernetes::Connection;
use domain::Problem;

use super::on_terminal::OnTerminal;
use crate::reconcile::{ClusterOutcome, ClusterPass, Controller, ReconcileReport};

/// So many clusters are named with their states; of more only the numbers are told.
const NAMED: usize = 12;

/// What has been told.
#[derive(Debug, Default)]
pub struct Announcements {
    last: Option<Arc<ReconcileReport>>,
    unreachable: bool,
    errors: Vec<Problem>,
    on_terminal: OnTerminal,
}

impl Announcements {
    /// Tells what a pass came to, as far as it is new.
    pub fn tell(&mut self, controller: &Controller, pass: &Arc<ReconcileReport>) {
        if self.last.is_none() {
            tell_fleet(controller, pass);
        }
        tell_changes(self.last.as_deref().unwrap_or(&ReconcileReport::default()), pass);
        self.last = Some(Arc::clone(pass));
        let errors = controller.errors();
        for problem in errors.iter().filter(|problem| !self.errors.contains(problem)) {
            tracing::error!("nothing new begins in any cluster before this is repaired: {problem}");
        }
        if errors.is_empty() && !self.errors.is_empty() {
            tracing::info!("the errors that concerned every cluster are repaired");
        }
        self.errors = errors;
        let reason = controller.unreachable();
        if std::mem::replace(&mut self.unreachable, reason.is_some()) != reason.is_some() {
            match reason {
                Some(reason) => {
                    tracing::warn!(%reason, "no cluster that is at work can be reached: gates wait until one can");
                }
                None => tracing::info!("clusters can be reached again"),
            }
        }
        self.on_terminal.show(controller, pass);
    }
}

/// Tells whether the management cluster's API server answers.
pub async fn tell_server(connection: Result<Connection, String>) {
    match connection {
        Err(reason) => tracing::warn!(%reason, "there is no API server to ask: gates wait"),
        Ok(connection) => match connection.version().await {
            Ok(version) => tracing::info!("API server {} answers, Kubernetes {version}", connection.server()),
            Err(error) => {
                tracing::warn!(%error, "API server {} does not answer: no cluster can be reached", connection.server());
            }
        },
    }
}

fn tell_fleet(controller: &Controller, pass: &ReconcileReport) {
    let planner = controller.planner();
    let (repository, source) = (planner.repository().location(), planner.source_branch());
    let deploy = controller.branches().into_iter().find(|branch| branch != source);
    match deploy {
        Some(deploy) => {
            tracing::info!("fleet repository {repository}: people write `{source}`, Stepgate writes `{deploy}`");
        }
        None => tracing::info!("fleet repository {repository}: people and Stepgate write `{source}`"),
    }
    tracing::info!("{}", states(pass));
}

/// The clusters with their states.
fn states(pass: &ReconcileReport) -> String {
    let word = |cluster: &ClusterPass| cluster.outcome.word();
    let told = if pass.clusters.len() <= NAMED {
        pass.clusters.iter().map(|cluster| format!("{} {}", cluster.cluster, word(cluster))).collect::<Vec<_>>()
    } else {
        let mut counts = BTreeMap::<&str, usize>::new();
        pass.clusters.iter().for_each(|cluster| *counts.entry(word(cluster)).or_default() += 1);
        counts.into_iter().map(|(state, count)| format!("{count} {state}")).collect()
    };
    match pass.clusters.len() {
        0 => "no clusters: the source branch names none".to_owned(),
        1 => format!("1 cluster: {}", told.join(", ")),
        count => format!("{count} clusters: {}", told.join(", ")),
    }
}

/// Transitions only: a wait that goes on is not told again, and what it waits for only to whoever looks closely.
fn tell_changes(last: &ReconcileReport, pass: &ReconcileReport) {
    let known: HashMap<&str, &ClusterPass> =
        last.clusters.iter().map(|cluster| (cluster.cluster.as_str(), cluster)).collect();
    for cluster in &pass.clusters {
        let before = known.get(cluster.cluster.as_str());
        let told = before.is_some_and(|known| {
            known.outcome.word() == cluster.outcome.word() && known.outcome.stage() == cluster.outcome.stage()
        });
        let (name, state) = (&cluster.cluster, cluster.outcome.word());
        let message = cluster.outcome.message();
        if told {
            if before.is_some_and(|known| known.outcome.message() != message) {
                tracing::debug!(cluster.name = %name, cluster.state = state, reason = %message, "cluster `{name}` is still {state}");
            }
            continue;
        }
        match cluster.outcome {
            ClusterOutcome::Held { .. } | ClusterOutcome::Blocked { .. } | ClusterOutcome::Failed { .. } => {
                tracing::warn!(cluster.name = %name, cluster.state = state, reason = %message, "cluster `{name}` is {state}");
            }
            ClusterOutcome::Done | ClusterOutcome::Waiting { .. } => {
                tracing::info!(cluster.name = %name, cluster.state = state, reason = %message, "cluster `{name}` is {state}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_clusters_are_named_and_many_are_counted() {
        let cluster = |name: &str| ClusterPass::new(name, ClusterOutcome::Done);
        let of = |count: usize| ReconcileReport {
            clusters: (0..count).map(|number| cluster(&format!("c{number}"))).collect(),
            ..ReconcileReport::default()
        };
        assert_eq!(states(&of(0)), "no clusters: the source branch names none");
        assert_eq!(states(&of(2)), "2 clusters: c0 done, c1 done");
        assert_eq!(states(&of(400)), "400 clusters: 400 done");
    }
}
