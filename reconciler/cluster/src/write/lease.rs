//! A Lease: which of several processes works.
//!
//! For what is committed it saves work and nothing else: two processes that both believe to hold it do no harm, since the deploy branch moves by
//! compare-and-swap. What is written to clusters (`apply: direct`) is fenced by it: whoever may have lost it writes nothing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::leadership::Leadership;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::LEASE;

/// Who holds a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// This process.
    Us,
    /// Another one, by its identity.
    Other(String),
}

/// A Lease that processes of one fleet compete for.
#[derive(Debug)]
pub struct Lease {
    connection: Connection,
    namespace: String,
    name: String,
    identity: String,
    duration: Duration,
    leadership: Leadership,
    /// The other holder's state, and since when it has been the same by our clock: theirs is not believed.
    seen: Mutex<Option<(String, Instant)>>,
}

impl Lease {
    /// The Lease of this name. `identity` is this process' own; a holder that does not renew within `duration` has lost it.
    #[must_use]
    pub fn new(connection: Connection, namespace: &str, name: &str, identity: &str, duration: Duration) -> Self {
        Self {
            connection,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration,
            leadership: Leadership::default(),
            seen: Mutex::default(),
        }
    }

    /// How often [`Lease::hold`] is to be called.
    #[must_use]
    pub fn pace(&self) -> Duration {
        self.duration / 3
    }

    /// Until when this process leads by it.
    #[must_use]
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Takes the Lease where nobody holds it, renews it where this process does, and says who holds it then.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn hold(&self, now: Timestamp) -> Result<Holder, RequestError> {
        // Whenever the server has written it, that was later: nobody else may take it before. A fifth is left to what is under way, and to other clocks.
        let until = Instant::now() + self.duration - self.duration / 5;
        let holder = self.compete(now).await;
        match &holder {
            Ok(Holder::Us) => self.leadership.grant(until),
            Ok(Holder::Other(_)) => self.leadership.end(),
            // It may have been renewed, and may not: what was granted before runs out.
            Err(_) => {}
        }
        holder
    }

    async fn compete(&self, now: Timestamp) -> Result<Holder, RequestError> {
        let resource = LEASE.resource("v1");
        let Some(found) = self.connection.get(&resource, Some(&self.namespace), &self.name).await? else {
            let object = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self.name},
                "spec": self.spec(now, Some(0))});
            return match self.connection.create(&resource, Some(&self.namespace), &object).await {
                Ok(_) => Ok(Holder::Us),
                Err(RequestError::Conflict { .. }) => Ok(Holder::Other(String::from("another process, just now"))),
                Err(error) => Err(error),
            };
        };
        let spec = |name: &str| found.data.get("spec").and_then(|spec| spec.get(name));
        let holder = spec("holderIdentity").and_then(Value::as_str).unwrap_or_default().to_owned();
        let transitions = spec("leaseTransitions").and_then(Value::as_i64).unwrap_or_default();
        let transitions = if holder == self.identity {
            None
        } else if holder.is_empty() || self.has_expired(&found) {
            Some(transitions.saturating_add(1))
        } else {
            return Ok(Holder::Other(holder));
        };
        match self.write(&found, &self.spec(now, transitions)).await {
            Ok(()) => Ok(Holder::Us),
            // Somebody was faster.
            Err(RequestError::Conflict { .. }) => Ok(Holder::Other(holder)),
            Err(error) => Err(error),
        }
    }

    /// Lets go of the Lease, so that another process need not wait for it.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn release(&self) -> Result<(), RequestError> {
        self.leadership.end();
        let found = self.connection.get(&LEASE.resource("v1"), Some(&self.namespace), &self.name).await?;
        let ours = |found: &DynamicObject| {
            let holder = found.data.get("spec").and_then(|spec| spec.get("holderIdentity"));
            holder.and_then(Value::as_str) == Some(self.identity.as_str())
        };
        match found.filter(ours) {
            Some(found) => self.write(&found, &json!({"holderIdentity": ""})).await,
            None => Ok(()),
        }
    }

    async fn write(&self, found: &DynamicObject, spec: &Value) -> Result<(), RequestError> {
        let patch = json!({"metadata": {"resourceVersion": found.metadata.resource_version}, "spec": spec});
        self.connection.merge(&LEASE.resource("v1"), Some(&self.namespace), &self.name, &patch, false).await.map(drop)
    }

    fn spec(&self, now: Timestamp, transitions: Option<i64>) -> Value {
        // The API server wants microseconds, no more and no fewer.
        let now = format!("{now:.6}");
        let duration = self.duration.as_secs().max(1);
        match transitions {
            None => json!({"holderIdentity": self.identity, "renewTime": now, "leaseDurationSeconds": duration}),
            Some(transitions) => {
                json!({"holderIdentity": self.identity, "renewTime": now, "leaseDurationSeconds": duration,
                "leaseTransitions": transitions, "acquireTime": now})
            }
        }
    }

    /// Whether the other holder has not written for a whole duration of the Lease, by our own clock.
    fn has_expired(&self, found: &DynamicObject) -> bool {
        let version = found.metadata.resource_version.clone().unwrap_or_default();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.as_ref() {
            Some((known, since)) if *known == version => {
                let theirs = found.data.get("spec").and_then(|spec| spec.get("leaseDurationSeconds"));
                let theirs = theirs.and_then(Value::as_u64).map_or(self.duration, Duration::from_secs);
                since.elapsed() >= theirs
            }
            _ => {
                *seen = Some((version, Instant::now()));
                false
            }
        }
    }
}
