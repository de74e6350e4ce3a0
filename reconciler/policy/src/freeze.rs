//! Freezes: days on which nothing begins, whatever windows are open.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};

use crate::TimeZone;

/// Days on which no stage begins. It is denied whatever is allowed elsewhere; what has begun goes on to the end of its stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Freeze {
    /// Which days.
    #[serde(flatten)]
    pub days: FreezeDays,
    /// Whose days.
    pub time_zone: TimeZone,
    /// Why.
    pub reason: String,
    /// What begins all the same: stages by name, `workers` for every group, `rollback` for stages that go back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
}

/// The first and the last day of a freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FreezeDays {
    /// Of one year, or over the end of it.
    Once {
        /// The first day.
        from: Date,
        /// The last day.
        to: Date,
    },
    /// Of every year. A last day that is earlier in the year than the first one is in the next year.
    Yearly {
        /// The first day.
        from: YearDay,
        /// The last day.
        to: YearDay,
    },
}

/// A day of every year, written as `12-20`. The 29th of February is the 28th in years without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct YearDay {
    month: i8,
    day: i8,
}

/// A text that names no day of a year.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a day of a year; write it as 12-20")]
pub struct YearDayError(String);

impl YearDay {
    fn of(self, year: i16) -> Option<Date> {
        let first = Date::new(year, self.month, 1).ok()?;
        Date::new(year, self.month, self.day.min(first.days_in_month())).ok()
    }
}

impl FromStr for YearDay {
    type Err = YearDayError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A leap year has every day.
        let date = format!("2024-{text}").parse::<Date>().ok();
        let day = date.map(|date| Self { month: date.month(), day: date.day() });
        day.filter(|day| day.to_string() == text).ok_or_else(|| YearDayError(text.to_owned()))
    }
}

impl fmt::Display for YearDay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:02}-{:02}", self.month, self.day)
    }
}

impl TryFrom<String> for YearDay {
    type Error = YearDayError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<YearDay> for String {
    fn from(day: YearDay) -> Self {
        day.to_string()
    }
}

impl FreezeDays {
    /// Whether no day is left on which anything could begin, or none on which it is on.
    #[must_use]
    pub fn is_always_or_never(self) -> bool {
        match self {
            Self::Once { from, to } => to < from,
            Self::Yearly { from, to } => {
                let after = to.of(2023).and_then(|last| last.checked_add(1.day()).ok());
                after.is_some_and(|after| YearDay { month: after.month(), day: after.day() } == from)
            }
        }
    }

    /// The first and the last day of the freeze that begins in that year.
    fn of(self, year: i16) -> Option<(Date, Date)> {
        match self {
            Self::Once { from, to } => (from.year() == year).then_some((from, to)),
            Self::Yearly { from, to } => {
                Some((from.of(year)?, to.of(if to < from { year.checked_add(1)? } else { year })?))
            }
        }
    }
}

impl Freeze {
    /// What `except` calls stages that go back.
    pub const ROLLBACK: &'static str = "rollback";

    /// When it begins and ends, where it is on at `now`, or else the next time; none where it is over for good.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let this = self.time_zone.date_of(now).year();
        let years = match self.days {
            FreezeDays::Once { from, .. } => from.year()..=from.year(),
            FreezeDays::Yearly { .. } => this.saturating_sub(1)..=this.saturating_add(1),
        };
        let mut spans = years.filter_map(|year| {
            let (first, last) = self.days.of(year)?;
            let begins = self.time_zone.begin_of(first)?;
            Some((begins, self.time_zone.begin_of(last.checked_add(1.day()).ok()?)?))
        });
        spans.find(|(_, ends)| now < *ends)
    }

    /// When it ends, if it is on at `now`.
    #[must_use]
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        self.next(now).filter(|(begins, _)| *begins <= now).map(|(_, ends)| ends)
    }

    /// Whether something begins all the same.
    #[must_use]
    pub fn excepts(&self, stage: &str, goes_back: bool) -> bool {
        let name = stage.split('@').next().unwrap_or(stage);
        let group = name.split_once('/').map_or(name, |(group, _)| group);
        self.except.iter().any(|it| it == name || it == group || goes_back && it == Self::ROLLBACK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yearly(from: &str, to: &str) -> Freeze {
        Freeze {
            days: FreezeDays::Yearly { from: from.parse().unwrap(), to: to.parse().unwrap() },
            time_zone: "Europe/Berlin".parse().unwrap(),
            reason: "year end".to_owned(),
            except: Vec::new(),
        }
    }

    fn told(freeze: &Freeze, now: &str) -> (String, bool) {
        let now = now.parse().unwrap();
        let (begins, ends) = freeze.next(now).unwrap();
        (format!("{begins} {ends}"), freeze.until(now).is_some())
    }

    #[test]
    fn a_yearly_freeze_comes_back_and_goes_over_the_end_of_the_year() {
        let freeze = yearly("12-20", "01-06");
        let (this, next) = ("2026-12-19T23:00:00Z 2027-01-06T23:00:00Z", "2027-12-19T23:00:00Z 2028-01-06T23:00:00Z");
        for (now, span, is_on) in [
            ("2026-07-01T00:00:00Z", this, false),
            ("2026-12-19T22:59:59Z", this, false),
            ("2026-12-19T23:00:00Z", this, true),
            ("2027-01-06T22:59:59Z", this, true),
            ("2027-01-06T23:00:00Z", next, false),
        ] {
            assert_eq!(told(&freeze, now), (span.to_owned(), is_on), "{now}");
        }
    }

    #[test]
    fn a_leap_day_is_the_day_before_in_other_years() {
        let freeze = yearly("02-29", "02-29");
        assert_eq!(told(&freeze, "2027-01-01T00:00:00Z").0, "2027-02-27T23:00:00Z 2027-02-28T23:00:00Z");
        assert_eq!(told(&freeze, "2028-01-01T00:00:00Z").0, "2028-02-28T23:00:00Z 2028-02-29T23:00:00Z");
    }

    #[test]
    fn a_freeze_of_the_whole_year_is_known() {
        let is_whole = |from, to| yearly(from, to).days.is_always_or_never();
        assert!(is_whole("01-01", "12-31") && is_whole("03-01", "02-28"));
        assert!(!is_whole("01-01", "12-30") && !is_whole("12-20", "01-06") && !is_whole("05-01", "05-01"));
    }

    #[test]
    fn days_are_read_back_as_they_were_written() {
        let text = r#"{"from":"12-20","to":"01-06","timeZone":"Europe/Berlin","reason":"year end"}"#;
        let freeze: Freeze = serde_json::from_str(text).unwrap();
        assert_eq!(freeze, yearly("12-20", "01-06"));
        assert_eq!(serde_json::to_string(&freeze).unwrap(), text);
        let text = r#"{"from":"2026-12-20","to":"2027-01-06","timeZone":"UTC","reason":"x"}"#;
        let freeze: Freeze = serde_json::from_str(text).unwrap();
        assert!(matches!(freeze.days, FreezeDays::Once { .. }));
        assert_eq!(serde_json::to_string(&freeze).unwrap(), text);
        for wrong in ["1-2", "13-01", "02-30", "2026-12-20", ""] {
            assert!(wrong.parse::<YearDay>().is_err(), "{wrong}");
        }
    }
}
