//! What a team decides about stages: soak, timeout, approval, failure, windows.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Who has to agree before a stage is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approval {
    /// Nobody: gates alone decide.
    #[default]
    None,
    /// One approval for the whole plan.
    Rollout,
    /// One approval for each stage.
    Stage,
}

/// What happens when the gate of a committed stage fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// Nothing more is committed until the gate passes or a person acts.
    #[default]
    Hold,
    /// The stage's previous tree is committed back, where that is safe; a one-way stage is held instead.
    Revert,
}

/// The policy in force for one stage of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StagePolicy {
    /// How long the gate must hold without a break.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub soak: Duration,
    /// How long after its commit a stage may take before its gate fails.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub timeout: Duration,
    /// Who has to agree before the stage is committed.
    pub approval: Approval,
    /// What happens when its gate fails.
    pub on_failure: OnFailure,
    /// How often a reverted stage is committed again.
    pub retries: u32,
    /// How many consecutive reads must pass; never counted as fewer than two.
    pub minimum_reads: u32,
    /// An observation older than this decides nothing, and a longer gap between two reads breaks a soak.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub maximum_age: Duration,
    /// When the stage may be committed; always, when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<MaintenanceWindow>,
}

impl Default for StagePolicy {
    fn default() -> Self {
        Self {
            soak: Duration::from_secs(30),
            timeout: Duration::from_secs(60 * 60),
            approval: Approval::None,
            on_failure: OnFailure::Hold,
            retries: 0,
            minimum_reads: 2,
            maximum_age: Duration::from_secs(120),
            windows: Vec::new(),
        }
    }
}

/// The part of the policy that concerns a plan as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanPolicy {
    /// Whether components may go to an earlier version.
    pub allow_downgrade: bool,
}

/// A day of the week, as written in the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Weekday {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl Weekday {
    fn from_civil(day: jiff::civil::Weekday) -> Self {
        match day {
            jiff::civil::Weekday::Monday => Self::Monday,
            jiff::civil::Weekday::Tuesday => Self::Tuesday,
            jiff::civil::Weekday::Wednesday => Self::Wednesday,
            jiff::civil::Weekday::Thursday => Self::Thursday,
            jiff::civil::Weekday::Friday => Self::Friday,
            jiff::civil::Weekday::Saturday => Self::Saturday,
            jiff::civil::Weekday::Sunday => Self::Sunday,
        }
    }
}

/// A span of time, repeated weekly, in which stages may be committed.
///
/// The offset from UTC is fixed: a zone's rules are data that this package does not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// Days on which the window opens; every day, when empty.
    #[serde(default)]
    pub days: Vec<Weekday>,
    /// Local minute of the day at which it opens, 0 to 1439.
    pub start_minute: u16,
    /// How long it stays open, in minutes; it may run past midnight.
    pub minutes: u32,
    /// Local time minus UTC, in minutes.
    #[serde(default)]
    pub offset_minutes: i16,
}

impl MaintenanceWindow {
    /// Whether `now` lies inside the window.
    #[must_use]
    pub fn contains(&self, now: Timestamp) -> bool {
        self.openings(now).any(|opens| opens <= now && now < opens + SignedDuration::from_mins(i64::from(self.minutes)))
    }

    /// When the window opens next after `now`; none if it names no day it could open on.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.openings(now).filter(|opens| *opens > now).min()
    }

    /// Openings around `now`: from eight days before to eight days after, so that every weekday is met on both sides.
    fn openings(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> {
        let offset = SignedDuration::from_mins(i64::from(self.offset_minutes));
        let local = now.saturating_add(offset).unwrap_or(now);
        let day_seconds = 24 * 60 * 60;
        let midnight = local.as_second().div_euclid(day_seconds) * day_seconds;
        (-8..=8i64).filter_map(move |day| {
            let start = midnight + day * day_seconds;
            let weekday = Timestamp::from_second(start).ok()?.to_zoned(jiff::tz::TimeZone::UTC).weekday();
            if !self.days.is_empty() && !self.days.contains(&Weekday::from_civil(weekday)) {
                return None;
            }
            let seconds = start + i64::from(self.start_minute) * 60 - i64::from(self.offset_minutes) * 60;
            Timestamp::from_second(seconds).ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn durations_are_written_in_words() {
        let text = serde_json::to_string(&StagePolicy::default()).unwrap();
        assert!(text.contains("\"soak\":\"30s\""), "{text}");
        assert_eq!(serde_json::from_str::<StagePolicy>(&text).unwrap(), StagePolicy::default());
        assert_eq!(
            serde_json::from_str::<StagePolicy>("{\"timeout\":\"1h 30m\"}").unwrap().timeout,
            Duration::from_secs(5400)
        );
    }

    #[test]
    fn windows_open_on_their_days_and_run_past_midnight() {
        // 2026-11-20 is a Friday.
        let window =
            MaintenanceWindow { days: vec![Weekday::Friday], start_minute: 23 * 60, minutes: 120, offset_minutes: 60 };
        for (now, open) in [
            ("2026-11-20T21:59:59Z", false),
            ("2026-11-20T22:00:00Z", true),
            ("2026-11-20T23:59:59Z", true),
            ("2026-11-21T00:00:00Z", false),
            ("2026-11-19T22:30:00Z", false),
        ] {
            assert_eq!(window.contains(at(now)), open, "{now}");
        }
        assert_eq!(window.next(at("2026-11-20T22:00:00Z")), Some(at("2026-11-27T22:00:00Z")));
    }
}
