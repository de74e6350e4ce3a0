//! How many requests the API server has answered with an error, by its own counters.
//!
//! The list of its metrics is long, so it is asked for once a minute at most; what was counted some minutes ago is kept, so
//! that what is told is of now.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use rollout::{ApiReading, ApiRequests};

use super::metrics;
use crate::client::connection::Connection;
use crate::client::error::RequestError;

/// For so long counters count.
const FRESH: SignedDuration = SignedDuration::from_secs(60);

/// So far back the counters lie that new ones are compared with.
const BACK: SignedDuration = SignedDuration::from_secs(600);

/// Between counters that lie closer together too few requests were made.
const APART: SignedDuration = SignedDuration::from_secs(120);

const REQUESTS: &str = "apiserver_request_total{";

/// Counters that were read lately, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct ApiCounters(Mutex<VecDeque<ApiRequests>>);

impl ApiCounters {
    /// Reads them, unless that was done a moment ago.
    ///
    /// # Errors
    /// [`RequestError`] when the server cannot be reached.
    pub(crate) async fn read(&self, own: &Connection, at: Timestamp) -> Result<ApiReading, RequestError> {
        let newest = self.known(|known| known.back().cloned());
        let now = match newest.filter(|known| at.duration_since(known.at).abs() < FRESH) {
            Some(known) => known,
            None => match own.text("/metrics", "read metrics").await {
                Ok(text) => match counted(&text, at) {
                    Some(counted) => counted,
                    None => return Ok(ApiReading::default()),
                },
                Err(error) if error.is_unreachable() => return Err(error),
                // Servers that stand in for clusters count nothing.
                Err(error) if error.is_not_found() => return Ok(ApiReading::default()),
                Err(error) => return Ok(ApiReading { unread: Some(error.to_string()), ..ApiReading::default() }),
            },
        };
        let earlier = self.known(|known| {
            known.retain(|old| at.duration_since(old.at) <= BACK && old.at <= at);
            if known.back().is_none_or(|newest| newest.at != now.at) {
                known.push_back(now.clone());
            }
            let is_apart = |old: &&ApiRequests| now.at.duration_since(old.at) >= APART && now.since(old).is_some();
            known.iter().find(is_apart).cloned()
        });
        Ok(ApiReading { now: Some(now), earlier, unread: None })
    }

    fn known<T>(&self, look: impl FnOnce(&mut VecDeque<ApiRequests>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The counters of a list of metrics; none where they do not stand there.
fn counted(text: &str, at: Timestamp) -> Option<ApiRequests> {
    let (mut answered, mut failed) = (0_u64, BTreeMap::new());
    let mut is_there = false;
    for line in text.lines().filter_map(|line| line.strip_prefix(REQUESTS)) {
        let Some((labels, value)) = line.rsplit_once('}') else { continue };
        let Some(count) = metrics::number(value) else { continue };
        let code = labels.split_once("code=\"").and_then(|(_, rest)| rest.split_once('"'));
        let code: Option<u16> = code.and_then(|(code, _)| code.parse().ok());
        is_there = true;
        answered = answered.saturating_add(count);
        if let Some(code) = code.filter(|code| *code >= 400) {
            let known: &mut u64 = failed.entry(code).or_default();
            *known = known.saturating_add(count);
        }
    }
    let started = metrics::values(text, "process_start_time_seconds").next();
    let started_at = started.and_then(|second| Timestamp::from_second(i64::try_from(second).ok()?).ok());
    is_there.then_some(ApiRequests { started_at, at, answered, failed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::server::{Answer, ApiServer, Script};

    const METRICS: &str = "# TYPE apiserver_request_total counter\n\
        apiserver_request_total{code=\"200\",component=\"apiserver\",verb=\"GET\"} 90\n\
        apiserver_request_total{code=\"429\",verb=\"POST\"} 9\n\
        apiserver_request_total{code=\"0\",verb=\"WATCH\"} 1\n\
        process_start_time_seconds 1.7e+09\n";

    #[test]
    fn requests_are_counted_by_their_code() {
        let at = Timestamp::UNIX_EPOCH;
        let read = counted(METRICS, at).unwrap();
        assert_eq!((read.answered, read.errors(), read.started_at.unwrap().as_second()), (100, 9, 1_700_000_000));
        assert_eq!(counted("process_start_time_seconds 1\n", at), None);
    }

    #[tokio::test]
    async fn counters_are_asked_for_once_a_minute_and_compared_with_earlier_ones() {
        let server = ApiServer::start(Script::default().on("GET /metrics", Answer::Text(200, METRICS))).await;
        let counters = ApiCounters::default();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut earlier = Vec::new();
        for second in [0, 30, 59, 100, 200, 260, 900] {
            let reading = counters.read(&server.connection(), at(second)).await.unwrap();
            earlier.push((reading.now.unwrap().at.as_second(), reading.earlier.map(|it| it.at.as_second())));
        }
        let expected = [(0, None), (0, None), (0, None), (100, None), (200, Some(0)), (260, Some(0)), (900, None)];
        assert_eq!(earlier, expected);
        assert_eq!(server.asked().len(), 5);
    }
}
