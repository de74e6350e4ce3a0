//! Requests that the API server answers with an error: not more of them than before the rollout.
//!
//! Some are always there (objects that are looked for, conflicts), so their share is compared, and what is but a little
//! larger is none. Counters are of one API server: another one, or one that was started since, is taken by what it has
//! counted from its start on.

use jiff::Timestamp;

use crate::before::Before;
use crate::gate::findings::Findings;
use crate::observation::{ApiRequests, Observation};
use crate::verdict::Reason;

const SUBJECT: &str = "API server";

/// Fewer errors tell nothing.
const FEW: u64 = 20;

/// By how many of a thousand requests the share may be larger than twice what it was.
const TOLERATED: u64 = 10;

/// How many codes are named.
const NAMED: usize = 4;

/// Waits while more requests fail than before.
pub(in crate::gate) fn check(before: &Before, observation: &Observation, findings: &mut Findings) {
    let Some(reading) = &observation.api_requests else { return };
    if let Some(reason) = &reading.unread {
        let message = format!("how many requests it answers with an error is not known: {reason}");
        return findings.wait(Reason::on(SUBJECT, message).help("let Stepgate get /metrics there (nonResourceURLs)"));
    }
    let Some(now) = &reading.now else { return };
    let Some(was) = &before.api_requests else {
        return findings.fact("API errors", "how many there were before the rollout is not known");
    };
    let earlier = reading.earlier.as_ref().into_iter().chain([was]);
    let counted = { earlier }.find_map(|earlier| Some((now.since(earlier)?, earlier.at)));
    let is_new = now.started_at.filter(|started| *started > before.observed_at);
    let Some((counted, since)) = counted.or_else(|| Some((now.clone(), is_new?))) else {
        return findings
            .fact("API errors", "another API server answers than before the rollout: they are not compared");
    };
    let told = format!("{}; before the rollout {}", in_words(&counted, since), share(was));
    if is_more(was, &counted) {
        let help = "`kubectl get --raw /metrics` names verbs and resources (apiserver_request_total); audit logs name who asks";
        findings.failing(Reason::on(SUBJECT, told).field("apiserver_request_total").help(help));
    } else {
        findings.fact("API errors", told);
    }
}

fn thousandths(requests: &ApiRequests) -> u64 {
    requests.errors().saturating_mul(1000).checked_div(requests.answered).unwrap_or(0)
}

fn is_more(was: &ApiRequests, now: &ApiRequests) -> bool {
    now.errors() >= FEW && thousandths(now) > thousandths(was).saturating_mul(2).saturating_add(TOLERATED)
}

fn share(requests: &ApiRequests) -> String {
    let thousandths = thousandths(requests);
    format!("{}.{} % of {} requests failed", thousandths / 10, thousandths % 10, requests.answered)
}

fn in_words(requests: &ApiRequests, since: Timestamp) -> String {
    let mut codes: Vec<(&u16, &u64)> = requests.failed.iter().collect();
    codes.sort_by_key(|(code, count)| (std::cmp::Reverse(**count), **code));
    let codes: Vec<String> = codes.into_iter().take(NAMED).map(|(code, count)| format!("{code}: {count}")).collect();
    let codes = if codes.is_empty() { String::new() } else { format!(" ({})", codes.join(", ")) };
    format!("{}{codes} since {since}", share(requests))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{ApiReading, Survey};
    use crate::verdict::GateVerdict;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn requests(started: i64, second: i64, answered: u64, failed: &[(u16, u64)]) -> ApiRequests {
        ApiRequests {
            started_at: Some(at(started)),
            at: at(second),
            answered,
            failed: failed.iter().copied().collect(),
        }
    }

    fn said(was: Option<ApiRequests>, reading: ApiReading) -> String {
        let observation = Observation { survey: Some(Survey::default()), ..Observation::empty(at(1000)) };
        let before = Before { api_requests: was, ..Before::of(&observation).unwrap() };
        let mut findings = Findings::default();
        check(&before, &Observation { api_requests: Some(reading), ..observation }, &mut findings);
        match findings.into_verdict().map_err(|verdict| *verdict) {
            Ok((facts, _)) => facts.into_iter().map(|fact| fact.seen).collect(),
            Err(GateVerdict::Wait { reason, .. }) => format!("waits: {reason}"),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_larger_share_of_errors_than_before_is_waited_for() {
        let was = || Some(requests(0, 900, 10_000, &[(404, 100)]));
        let now = |reading: ApiRequests| ApiReading { now: Some(reading), ..ApiReading::default() };
        // The same server: what it has counted since.
        let same = said(was(), now(requests(0, 2000, 11_000, &[(404, 110)])));
        assert_eq!(
            same,
            "1.0 % of 1000 requests failed (404: 10) since 1970-01-01T00:15:00Z; before the rollout 1.0 % of 10000 requests failed"
        );
        let more = said(was(), now(requests(0, 2000, 11_000, &[(404, 110), (429, 90)])));
        assert!(
            more.starts_with(
                "waits: API server: apiserver_request_total: 10.0 % of 1000 requests failed (429: 90, 404: 10)"
            ),
            "{more}"
        );
        // Long ago it was worse, and it is well now.
        let earlier = requests(0, 1900, 11_000, &[(404, 110), (429, 500)]);
        let reading =
            ApiReading { earlier: Some(earlier), ..now(requests(0, 2000, 12_000, &[(404, 120), (429, 500)])) };
        assert!(said(was(), reading).starts_with("1.0 % of 1000 requests"));
        // One that was started since, and one that was there before.
        let new = said(was(), now(requests(1500, 2000, 1000, &[(503, 40)])));
        assert!(new.starts_with("waits: ") && new.contains("4.0 % of 1000 requests failed (503: 40)"), "{new}");
        let other = said(was(), now(requests(500, 2000, 1000, &[(503, 40)])));
        assert!(other.contains("they are not compared"), "{other}");
        assert!(said(was(), now(requests(1500, 2000, 100, &[(503, 19)]))).starts_with("19.0 %"), "few tell nothing");
    }

    #[test]
    fn counters_that_may_not_be_read_are_waited_for() {
        let unread = ApiReading { unread: Some("forbidden".to_owned()), ..ApiReading::default() };
        assert!(said(None, unread).starts_with("waits: API server: how many requests"));
        let now = ApiReading { now: Some(requests(0, 2000, 10, &[])), ..ApiReading::default() };
        assert!(said(None, now).contains("is not known"), "a ledger of before says nothing of it");
        assert_eq!(said(None, ApiReading::default()), "", "a server without counters tells nothing");
    }
}
