//! How many requests an API server has answered, and how many of them with an error, as it counts them itself.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What was read of the counters of an API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiReading {
    /// The newest ones; none where the server has no such counters, or they may not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<ApiRequests>,
    /// Those of the same server, some minutes before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<ApiRequests>,
    /// Why they could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// The counters of one API server since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiRequests {
    /// When it was started, by which it is told from others behind the same address; none where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it was asked.
    pub at: Timestamp,
    /// Requests.
    pub answered: u64,
    /// Those of them that were answered with an error, by its code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<u16, u64>,
}

impl ApiRequests {
    /// How many were answered with an error.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.failed.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// What was counted since; none where these are not earlier counters of the same server.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let is_same = self.started_at == earlier.started_at && earlier.at < self.at;
        let answered = self.answered.checked_sub(earlier.answered).filter(|_| is_same)?;
        let failed = self
            .failed
            .iter()
            .map(|(code, count)| (*code, count.saturating_sub(earlier.failed.get(code).copied().unwrap_or(0))));
        let failed = failed.filter(|(_, count)| *count > 0).collect();
        Some(Self { started_at: self.started_at, at: self.at, answered, failed })
    }
}
