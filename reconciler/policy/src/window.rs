//! Maintenance windows: when stages may be committed, by the clock on the wall of the people who look after them.
//!
//! The rules of the time zones are compiled in. The machine's own zone and its zone files are never read, so every controller opens and
//! closes a window at the same moment.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::LazyLock;

use jiff::civil::Date;
use jiff::tz::TimeZoneDatabase;
use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};

/// The zones of the IANA database, as compiled in.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const MINUTES_OF_A_DAY: u16 = 24 * 60;

/// A day on which a window opens is met at least this often: the last Monday of one month and of the next are five weeks apart at most.
const LONGEST_PAUSE: i64 = 40;

/// A text that names no time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid time zone of the IANA database; write a name such as \"Europe/Berlin\" or \"UTC\"")]
pub struct UnknownTimeZone(String);

/// A time zone by its IANA name, such as `Europe/Berlin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeZone {
    name: String,
    rules: jiff::tz::TimeZone,
}

impl TimeZone {
    /// Coordinated Universal Time, which a window is in that names no zone.
    #[must_use]
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), rules: jiff::tz::TimeZone::UTC }
    }

    /// The names of all zones that are known.
    #[must_use]
    pub fn names() -> Vec<String> {
        ZONES.available().map(|name| name.to_string()).collect()
    }
}

impl FromStr for TimeZone {
    type Err = UnknownTimeZone;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rules = ZONES.get(text).map_err(|_| UnknownTimeZone(text.to_owned()))?;
        Ok(Self { name: rules.iana_name().unwrap_or(text).to_owned(), rules })
    }
}

impl TryFrom<String> for TimeZone {
    type Error = UnknownTimeZone;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TimeZone> for String {
    fn from(zone: TimeZone) -> Self {
        zone.name
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
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
    fn is_of(self, date: Date) -> bool {
        let own = match self {
            Self::Monday => jiff::civil::Weekday::Monday,
            Self::Tuesday => jiff::civil::Weekday::Tuesday,
            Self::Wednesday => jiff::civil::Weekday::Wednesday,
            Self::Thursday => jiff::civil::Weekday::Thursday,
            Self::Friday => jiff::civil::Weekday::Friday,
            Self::Saturday => jiff::civil::Weekday::Saturday,
            Self::Sunday => jiff::civil::Weekday::Sunday,
        };
        date.weekday() == own
    }
}

/// Which of a month's days with one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Week {
    /// All of them.
    #[default]
    Every,
    /// The one of the days 1 to 7.
    First,
    /// The one of the days 8 to 14.
    Second,
    /// The one of the days 15 to 21.
    Third,
    /// The one of the days 22 to 28.
    Fourth,
    /// The fourth or the fifth, whichever is the last of the month.
    Last,
}

impl Week {
    fn is_of(self, date: Date) -> bool {
        // Days from 1: the first seven hold each weekday once, and so on.
        let nth = (date.day() - 1) / 7;
        match self {
            Self::Every => true,
            Self::First => nth == 0,
            Self::Second => nth == 1,
            Self::Third => nth == 2,
            Self::Fourth => nth == 3,
            Self::Last => date.day() + 7 > date.days_in_month(),
        }
    }
}

/// A day on which a window opens: `monday`, `last sunday`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowDay {
    /// Which of the month's.
    #[serde(default)]
    pub week: Week,
    /// The day.
    pub weekday: Weekday,
}

/// A span of time in which stages may be committed, day by day.
///
/// Both ends are times on the wall. One that is skipped when clocks go forward is the same time after the change (02:30 is 03:30); of one
/// that comes twice when they go back, the first counts, so a window is never longer than it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// Days on which it opens; every day, when empty.
    #[serde(default)]
    pub days: Vec<WindowDay>,
    /// When it opens, in minutes since midnight.
    pub from: u16,
    /// When it closes, in minutes since midnight, up to 1440; at or before `from` means on the next day.
    pub to: u16,
    /// Whose wall.
    pub time_zone: TimeZone,
}

impl MaintenanceWindow {
    /// Whether `now` lies inside the window.
    #[must_use]
    pub fn contains(&self, now: Timestamp) -> bool {
        self.spans(now, -2..=1).any(|(opens, closes)| opens <= now && now < closes)
    }

    /// When the window opens next after `now`; none only where the calendar ends.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.spans(now, -1..=LONGEST_PAUSE).map(|(opens, _)| opens).find(|opens| *opens > now)
    }

    /// The windows that open on the days around today, in order.
    fn spans(&self, now: Timestamp, days: RangeInclusive<i64>) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let today = self.time_zone.rules.to_datetime(now).date();
        days.filter_map(move |offset| {
            let date = today.checked_add(offset.days()).ok().filter(|date| self.opens_on(*date))?;
            let closes_on = if self.to > self.from { date } else { date.tomorrow().ok()? };
            let (opens, closes) = (self.moment(date, self.from)?, self.moment(closes_on, self.to)?);
            // A change of the clocks may leave nothing of a short window.
            (opens < closes).then_some((opens, closes))
        })
    }

    fn opens_on(&self, date: Date) -> bool {
        self.days.is_empty() || self.days.iter().any(|day| day.weekday.is_of(date) && day.week.is_of(date))
    }

    fn moment(&self, date: Date, minute: u16) -> Option<Timestamp> {
        let (date, minute) = match minute.checked_sub(MINUTES_OF_A_DAY) {
            Some(rest) => (date.tomorrow().ok()?, rest),
            None => (date, minute),
        };
        let (hour, minute) = (i8::try_from(minute / 60).ok()?, i8::try_from(minute % 60).ok()?);
        let wall = date.to_datetime(jiff::civil::Time::new(hour, minute, 0, 0).ok()?);
        self.time_zone.rules.to_ambiguous_timestamp(wall).compatible().ok()
    }
}

/// Maintenance windows by every policy that counts: each one's list is open while any window of it is, and all lists have to be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Windows(Vec<Vec<MaintenanceWindow>>);

impl Windows {
    /// How often the next opening of one list is looked up before lists count as never open together.
    const MOST: usize = 100;

    /// The windows of these policies. One that has none is always open.
    #[must_use]
    pub fn of(lists: impl IntoIterator<Item = Vec<MaintenanceWindow>>) -> Self {
        let mut all: Vec<Vec<MaintenanceWindow>> = Vec::new();
        for list in lists {
            if !list.is_empty() && !all.contains(&list) {
                all.push(list);
            }
        }
        Self(all)
    }

    /// Whether there are none, so that it is open always.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `now` lies inside of a window of each list.
    #[must_use]
    pub fn contains(&self, now: Timestamp) -> bool {
        self.0.iter().all(|list| list.iter().any(|window| window.contains(now)))
    }

    /// When all lists are open next, `now` included; none where that is not in sight.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let mut time = now;
        for _ in 0..Self::MOST {
            let closed = self.0.iter().filter(|list| !list.iter().any(|window| window.contains(time)));
            let opens = closed.map(|list| list.iter().filter_map(|window| window.next(time)).min());
            // Until the last of those that are closed has opened there is no time at which all are open.
            match opens.max_by_key(|opens| opens.map_or(Timestamp::MAX, |opens| opens)) {
                None => return Some(time),
                Some(opens) => time = opens?,
            }
        }
        None
    }
}

impl From<Vec<MaintenanceWindow>> for Windows {
    fn from(list: Vec<MaintenanceWindow>) -> Self {
        Self::of([list])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn window(days: &[(Week, Weekday)], from: u16, to: u16, zone: &str) -> MaintenanceWindow {
        let days = days.iter().map(|(week, weekday)| WindowDay { week: *week, weekday: *weekday }).collect();
        MaintenanceWindow { days, from, to, time_zone: zone.parse().unwrap() }
    }

    const HOUR: u16 = 60;

    #[track_caller]
    fn check(window: &MaintenanceWindow, moments: &[(&str, bool)]) {
        for (now, open) in moments {
            assert_eq!(window.contains(at(now)), *open, "{now}");
        }
    }

    #[test]
    fn windows_open_on_their_days_and_run_past_midnight() {
        // 2026-11-20 is a Friday; Berlin is an hour ahead of UTC then.
        let friday = window(&[(Week::Every, Weekday::Friday)], 23 * HOUR, HOUR, "Europe/Berlin");
        check(
            &friday,
            &[
                ("2026-11-20T21:59:59Z", false),
                ("2026-11-20T22:00:00Z", true),
                ("2026-11-20T23:59:59Z", true),
                ("2026-11-21T00:00:00Z", false),
                ("2026-11-19T22:30:00Z", false),
            ],
        );
        assert_eq!(friday.next(at("2026-11-20T22:00:00Z")), Some(at("2026-11-27T22:00:00Z")));
    }

    #[test]
    fn a_window_keeps_its_hours_on_the_wall_when_the_clocks_change() {
        let nightly = window(&[], 22 * HOUR, 4 * HOUR, "Europe/Berlin");
        for (now, next) in [
            // Central European summer time ends on 2026-10-25 at 01:00 UTC and begins on 2027-03-28 at 01:00 UTC.
            ("2026-10-23T20:00:00Z", "2026-10-24T20:00:00Z"),
            ("2026-10-24T20:00:00Z", "2026-10-25T21:00:00Z"),
            ("2027-03-27T21:00:00Z", "2027-03-28T20:00:00Z"),
        ] {
            assert!(nightly.contains(at(now)), "{now}");
            assert_eq!(nightly.next(at(now)), Some(at(next)), "{now}");
        }
        // The night in which clocks go back has an hour more, the one in which they go forward an hour less.
        check(&nightly, &[("2026-10-25T02:59:59Z", true), ("2026-10-25T03:00:00Z", false)]);
        check(&nightly, &[("2027-03-28T01:59:59Z", true), ("2027-03-28T02:00:00Z", false)]);
    }

    #[test]
    fn times_that_are_skipped_or_come_twice_have_one_meaning() {
        // New York skips 02:00 to 03:00 on 2026-03-08 and repeats 01:00 to 02:00 on 2026-11-01.
        let skipped = window(&[], 2 * HOUR + 15, 2 * HOUR + 45, "America/New_York");
        check(
            &skipped,
            &[
                ("2026-03-07T07:15:00Z", true),
                ("2026-03-08T06:59:59Z", false),
                ("2026-03-08T07:15:00Z", true),
                ("2026-03-08T07:45:00Z", false),
            ],
        );
        let repeated = window(&[], HOUR + 15, HOUR + 45, "America/New_York");
        check(&repeated, &[("2026-11-01T05:30:00Z", true), ("2026-11-01T06:30:00Z", false)]);
        // It would close before it opened: that night it stays shut.
        let across = window(&[], 2 * HOUR + 30, 3 * HOUR, "America/New_York");
        check(&across, &[("2026-03-08T06:30:00Z", false), ("2026-03-08T07:30:00Z", false)]);
        assert_eq!(across.next(at("2026-03-07T12:00:00Z")), Some(at("2026-03-09T06:30:00Z")));
    }

    #[test]
    fn days_of_the_month_are_counted_by_the_calendar_of_the_zone() {
        let last = window(&[(Week::Last, Weekday::Sunday)], 9 * HOUR, 17 * HOUR, "Pacific/Auckland");
        // 2026-01-25 and 2026-02-22 are last Sundays; Auckland is thirteen hours ahead then.
        check(
            &last,
            &[("2026-01-24T20:00:00Z", true), ("2026-01-17T20:00:00Z", false), ("2026-02-21T20:00:00Z", true)],
        );
        assert_eq!(last.next(at("2026-01-25T12:00:00Z")), Some(at("2026-02-21T20:00:00Z")));
        let first = window(&[(Week::First, Weekday::Tuesday)], 0, 24 * HOUR, "UTC");
        check(
            &first,
            &[("2026-12-01T00:00:00Z", true), ("2026-12-01T23:59:59Z", true), ("2026-12-02T00:00:00Z", false)],
        );
        assert_eq!(first.next(at("2026-12-01T00:00:00Z")), Some(at("2027-01-05T00:00:00Z")));
        let months: Vec<Option<Timestamp>> = [Week::Second, Week::Third, Week::Fourth]
            .map(|week| window(&[(week, Weekday::Monday)], 0, HOUR, "UTC").next(at("2026-11-01T00:00:00Z")))
            .to_vec();
        let expected = ["2026-11-09T00:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"];
        assert_eq!(months, expected.map(|text| Some(at(text))));
    }

    #[test]
    fn windows_of_two_policies_are_open_where_both_are() {
        let nights = window(&[], 22 * HOUR, 4 * HOUR, "UTC");
        let sunday = window(&[(Week::Every, Weekday::Sunday)], 0, 24 * HOUR, "UTC");
        let morning = window(&[], 3 * HOUR, 9 * HOUR, "UTC");
        let both = Windows::of([vec![nights.clone()], Vec::new(), vec![sunday, morning], vec![nights.clone()]]);
        // 2026-11-22 is a Sunday.
        for (now, open) in [
            ("2026-11-20T23:00:00Z", false),
            ("2026-11-21T03:30:00Z", true),
            ("2026-11-21T05:00:00Z", false),
            ("2026-11-22T01:00:00Z", true),
            ("2026-11-22T12:00:00Z", false),
        ] {
            assert_eq!(both.contains(at(now)), open, "{now}");
        }
        assert_eq!(both.next(at("2026-11-20T12:00:00Z")), Some(at("2026-11-21T03:00:00Z")));
        assert_eq!(both.next(at("2026-11-21T12:00:00Z")), Some(at("2026-11-22T00:00:00Z")));
        let never = Windows::of([vec![nights], vec![window(&[], 12 * HOUR, 13 * HOUR, "UTC")]]);
        assert!(!never.contains(at("2026-11-20T12:30:00Z")) && never.next(at("2026-11-20T12:30:00Z")).is_none());
        assert!(Windows::default().is_empty() && Windows::default().contains(at("2026-11-20T12:30:00Z")));
    }

    #[test]
    fn a_window_without_length_is_a_whole_day() {
        let whole = window(&[(Week::Every, Weekday::Monday)], 6 * HOUR, 6 * HOUR, "Asia/Kolkata");
        // Half an hour off the full hour; 2026-11-23 is a Monday.
        check(
            &whole,
            &[("2026-11-23T00:29:59Z", false), ("2026-11-23T00:30:00Z", true), ("2026-11-24T00:29:59Z", true)],
        );
    }

    #[test]
    fn zones_are_those_of_the_database_and_read_back_by_name() {
        for text in ["Europe/Berlin", "UTC", "America/Argentina/Buenos_Aires"] {
            let zone: TimeZone = text.parse().unwrap();
            assert_eq!(zone.to_string(), text);
            let json = serde_json::to_string(&zone).unwrap();
            assert_eq!(serde_json::from_str::<TimeZone>(&json).unwrap(), zone);
        }
        for text in ["", "Europe/Atlantis", "local", "/etc/localtime", "../UTC", "CET-1CEST"] {
            assert!(text.parse::<TimeZone>().is_err(), "{text:?}");
        }
    }
}
