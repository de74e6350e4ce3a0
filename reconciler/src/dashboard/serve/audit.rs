//! What people did on the dashboard, and tried to do, on record: in the log, and as an event of the cluster's `Rollout`.
//!
//! What changes git is on record there besides, in the commit.

use cluster::kubernetes::{Connection, Projection};
use domain::PlanDigest;
use jiff::Timestamp;

use crate::dashboard::access::Person;
use crate::reconcile::actions::{ActionError, Done, Verb};

/// Where it is recorded.
#[derive(Clone, Default)]
pub struct Audit {
    events: Option<(Connection, String)>,
}

impl Audit {
    /// A record with events in this namespace of the management cluster.
    #[must_use]
    pub fn with_events(connection: Connection, namespace: &str) -> Self {
        Self { events: Some((connection, namespace.to_owned())) }
    }

    /// Records what came of it. Nobody waits for the event.
    pub(super) fn record(
        &self,
        (person, verb, cluster): (&Person, Verb, &str),
        plan: &PlanDigest,
        outcome: &Result<Done, ActionError>,
        now: Timestamp,
    ) {
        let (user, place, action) = (person.identity.to_string(), &person.place, verb.word());
        let (is_done, came_of_it) = match outcome {
            Ok(Done { commit: Some(commit), told }) => (true, format!("{}, commit {commit}", told.join("; "))),
            Ok(Done { commit: None, told }) => (true, told.join("; ")),
            Err(error) => (false, format!("refused: {error}")),
        };
        tracing::info!(
            reason = "WebAction", cluster.name = %cluster, user.name = %user, user.place = %place, action, plan = %plan,
            is_done, "{user} wanted `{action}` of cluster `{cluster}`: {came_of_it}"
        );
        let Some((connection, namespace)) = self.events.clone() else { return };
        let (cluster, message) = (cluster.to_owned(), format!("{user} ({place}): {action}: {came_of_it}"));
        tokio::spawn(async move {
            let projection = Projection::new(connection, &namespace);
            if let Err(error) = projection.tell_of_action(&cluster, &message, is_done, now).await {
                tracing::warn!(cluster.name = %cluster, %error, "an action could not be told as an event");
            }
        });
    }
}
