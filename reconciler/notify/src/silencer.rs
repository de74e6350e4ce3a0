//! Holds silences of alerts while stages are rolled out.

use std::collections::{BTreeMap, BTreeSet};

use domain::ClusterName;
use jiff::Timestamp;
use rollout::StageId;

use crate::settings::Sinks;

/// Holds silences, in every Alertmanager that the operator has given.
#[derive(Debug)]
pub struct Silencer {
    sinks: Sinks,
    failing: BTreeSet<String>,
}

impl Silencer {
    /// One for these sinks; none where no Alertmanager is among them.
    #[must_use]
    pub fn of(sinks: &Sinks) -> Option<Self> {
        sinks.silencers().next()?;
        Some(Self { sinks: sinks.clone(), failing: BTreeSet::new() })
    }

    /// Silences what the operator has named for what is rolled out of each cluster, renews what would end soon, and ends the rest. Whether
    /// all of it could be done: it is to be called again soon where not.
    pub async fn hold(&mut self, rolled: &BTreeMap<ClusterName, Option<StageId>>, now: Timestamp) -> bool {
        let mut all = true;
        for (name, silencer) in self.sinks.silencers() {
            match silencer.hold(rolled, now).await {
                Ok(()) => {
                    if self.failing.remove(name) {
                        tracing::info!(sink = name, "silences are held in `{name}` again");
                    }
                }
                Err(reason) => {
                    all = false;
                    if self.failing.insert(name.to_owned()) {
                        tracing::warn!(sink = name, %reason, "silences could not be held in `{name}`: they end by themselves");
                    }
                }
            }
        }
        all
    }
}
