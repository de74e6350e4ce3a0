//! What counts for a while: why, until when, and who answers for it.

use jiff::{Timestamp, ToSpan as _};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use yaml::Node;

use crate::document::read::Reader;

/// An exception that ends by itself.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Lease {
    /// Why.
    pub reason: String,
    /// When it ends: a time such as `2026-12-31T18:00Z`; of a day such as `2026-12-31`, its end in UTC.
    #[schemars(with = "String", regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].+)?$"))]
    pub until: Timestamp,
    /// Who answers for it.
    pub by: String,
}

impl Lease {
    /// Whether it counts at `now`.
    #[must_use]
    pub fn is_on(&self, now: Timestamp) -> bool {
        now < self.until
    }
}

/// `until 2026-12-31T18:00:00Z by storage team: the racks move`.
impl std::fmt::Display for Lease {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "until {} by {}: {}", self.until, self.by, self.reason)
    }
}

/// Whether rollouts stand still.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Paused {
    /// They go on.
    #[default]
    No,
    /// They stand still until that is taken out again.
    Yes,
    /// They stand still for a while.
    Until(Lease),
}

impl Paused {
    /// Whether they stand still at `now`.
    #[must_use]
    pub fn is_on(&self, now: Timestamp) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::Until(lease) => lease.is_on(now),
        }
    }

    /// When it ends by itself; the end of time where it does not.
    #[must_use]
    pub fn ends(&self) -> Timestamp {
        match self {
            Self::No => Timestamp::MIN,
            Self::Yes => Timestamp::MAX,
            Self::Until(lease) => lease.until,
        }
    }
}

impl JsonSchema for Paused {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Paused".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "boolean"}, generator.subschema_for::<Lease>()]})
    }
}

pub(in crate::document) const LEASE: [&str; 3] = ["reason", "until", "by"];

/// The fields of a lease, as far as they have been read.
#[derive(Default)]
pub(in crate::document) struct ReadLease {
    reason: Option<String>,
    until: Option<Timestamp>,
    by: Option<String>,
}

impl Reader<'_> {
    /// `true`, `false`, or a lease. What cannot be read stands still: nothing more begins by a mistake.
    pub(in crate::document) fn paused(&mut self, node: &Node, place: &str) -> Paused {
        match node.as_bool() {
            Some(true) => return Paused::Yes,
            Some(false) => return Paused::No,
            None if node.as_mapping().is_none() => {
                let hint = "for a while: `{reason: …, until: 2026-12-31T18:00Z, by: …}`".to_owned();
                self.problem(node.span, format!("{place} must be true or false, or a lease"), Some(hint));
                return Paused::Yes;
            }
            None => {}
        }
        let mut lease = ReadLease::default();
        for entry in self.mapping(node, place).into_iter().flatten() {
            if !self.lease_field(entry, place, &mut lease) {
                self.unknown(entry, place, &LEASE);
            }
        }
        self.whole_lease(node, place, lease).map_or(Paused::Yes, Paused::Until)
    }

    /// One of [`LEASE`]; `false` when the entry is something else.
    pub(in crate::document) fn lease_field(&mut self, entry: &yaml::Entry, place: &str, lease: &mut ReadLease) -> bool {
        let (name, node) = (entry.key.as_str(), &entry.value);
        let field = format!("{place}.{name}");
        match name {
            "reason" => lease.reason = self.text(node, &field),
            "by" => lease.by = self.text(node, &field),
            "until" => lease.until = self.end_of_lease(node, &field),
            _ => return false,
        }
        true
    }

    /// The lease, where nothing of it is missing.
    pub(in crate::document) fn whole_lease(&mut self, node: &Node, place: &str, lease: ReadLease) -> Option<Lease> {
        for (name, help) in [
            ("reason", "say why: everybody who waits for its end is told"),
            ("until", "say when it ends by itself: `until: 2026-12-31T18:00Z`"),
            ("by", "say who answers for it: `by: platform team`"),
        ] {
            if node.get(name).is_none() {
                self.problem(node.span, format!("{place} has no {name}"), Some(help.to_owned()));
            }
        }
        Some(Lease { reason: lease.reason?, until: lease.until?, by: lease.by? })
    }

    fn end_of_lease(&mut self, node: &Node, place: &str) -> Option<Timestamp> {
        let text = self.text(node, place)?;
        let end_of_day = |day: jiff::civil::Date| {
            let next = day.checked_add(1.day()).ok()?;
            Some(next.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
        };
        let day: Option<jiff::civil::Date> =
            text.parse().ok().filter(|day: &jiff::civil::Date| day.to_string() == text);
        let until = match day {
            Some(day) => end_of_day(day),
            None => text.parse().ok(),
        };
        if until.is_none() {
            let message = format!("{place}: {text:?} is neither a time nor a day");
            let hint = "write `2026-12-31T18:00Z`, or `2026-12-31` for the end of that day in UTC".to_owned();
            self.problem(node.span, message, Some(hint));
        }
        until
    }
}

#[cfg(test)]
mod tests {
    use domain::RepoPath;
    use jiff::Timestamp;

    use crate::read_policy;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_pause_ends_by_itself_and_one_without_end_does_not() {
        let text = "environments:\n  prod:\n    clusters: [prod-*]\n    paused: {reason: audit, until: 2026-03-01T12:00Z, by: ops}\n\
             clusters: {edge: {paused: {reason: move, until: 2026-03-01, by: ops}}, old: {paused: true}}\n";
        let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        assert!(problems.is_empty(), "{problems:?}");
        for (cluster, now, is_paused) in [
            ("prod-1", "2026-03-01T11:59:59Z", true),
            ("prod-1", "2026-03-01T12:00:00Z", false),
            ("edge", "2026-03-01T23:59:59Z", true),
            ("edge", "2026-03-02T00:00:00Z", false),
            ("old", "2999-01-01T00:00:00Z", true),
            ("other", "2026-03-01T00:00:00Z", false),
        ] {
            assert_eq!(policy.is_paused(cluster, at(now)), is_paused, "{cluster} at {now}");
        }
    }

    #[test]
    fn a_pause_that_cannot_be_read_stands_still_and_says_why() {
        for (text, told) in [
            ("paused: {reason: audit, by: ops}", "paused has no until"),
            ("paused: {until: 2026-03-01, by: ops}", "paused has no reason"),
            ("paused: {until: 2026-03-01, reason: audit}", "paused has no by"),
            ("paused: {until: soon, reason: audit, by: ops}", "paused.until: \"soon\" is neither a time nor a day"),
            ("paused: {untill: 2026-03-01}", "unknown field \"untill\" in paused"),
            ("paused: later", "paused must be true or false, or a lease"),
        ] {
            let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
            assert!(problems.iter().any(|problem| problem.message.contains(told)), "{text}: {problems:?}");
            assert!(policy.is_paused("any", at("2999-01-01T00:00:00Z")), "{text}");
        }
    }
}
