//! Updates of a running controller: looked for beside the passes, while this process leads.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::watch::Receiver;

use super::serve::Turn;
use crate::cli::FleetArguments;
use crate::cli::common::fleet;
use crate::reconcile::main_loop::clock::{Clock as _, SystemClock};
use crate::reconcile::planner::Planner;
use crate::reconcile::updates::{Update, UpdateState, Updater};

/// Who may be asked for new versions.
#[derive(Clone, Debug, Args)]
pub struct UpdateHosts {
    /// A host, or `host/path`, that new versions may be asked of: the releases manifest that `updates` in stepgate.yaml names, Bundles, and the
    /// manifests and charts that these name. `fetch.allow` does not count here. May be given several times.
    #[arg(long = "update-host", env = "STEPGATE_UPDATE_HOSTS", value_delimiter = ',', value_name = "HOST")]
    hosts: Vec<String>,
}

impl UpdateHosts {
    /// Who proposes updates.
    pub(crate) fn updater(&self, arguments: &FleetArguments, planner: Planner) -> Updater {
        let sources = Arc::new(fleet::sources(arguments));
        let private_hosts = arguments.private_hosts().to_vec();
        Updater::new(planner, sources, arguments.mirrors().to_vec(), self.hosts.clone(), private_hosts)
    }

    /// Whether anybody may be asked.
    pub(crate) fn are_named(&self) -> bool {
        !self.hosts.is_empty()
    }
}

/// Updates of a process that goes on.
pub struct Updates {
    /// Who proposes them.
    pub updater: Updater,
    /// The time between two looks.
    pub interval: Duration,
}

/// Looks for updates while this process leads. What is found is told when it is new.
pub(super) async fn propose(updates: Updates, mut turn: Receiver<Turn>) {
    let mut told: Vec<Update> = Vec::new();
    loop {
        if turn.wait_for(|turn| *turn == Turn::Ours).await.is_err() && *turn.borrow() != Turn::Ours {
            return;
        }
        match updates.updater.run(SystemClock.now()).await {
            Ok(found) => {
                let found = found.unwrap_or_default();
                for update in found.iter().filter(|update| !told.contains(update)) {
                    tell(update);
                }
                told = found;
            }
            Err(error) => tracing::warn!("updates could not be looked for: {error:#}"),
        }
        tokio::time::sleep(updates.interval).await;
    }
}

fn tell(update: &Update) {
    let Update { kind, version, state, place, message, automatic: _ } = update;
    let place = place.as_deref().unwrap_or("-");
    match state {
        UpdateState::Failed => tracing::warn!(kind, version, place, "update {}: {message}", state.word()),
        UpdateState::Proposed | UpdateState::Refused => {
            tracing::info!(kind, version, place, "update {}: {message}", state.word());
        }
        UpdateState::Current | UpdateState::Due | UpdateState::Declined | UpdateState::PassedOver => {
            tracing::debug!(kind, version, place, "update {}: {message}", state.word());
        }
    }
}
