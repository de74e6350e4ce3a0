//! Days on which windows open.

use std::fmt;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// A day of the week, as written in the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is a day by its name")]
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
    pub(super) fn is_of(self, date: Date) -> bool {
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
    pub(super) fn is_of(self, date: Date) -> bool {
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

impl fmt::Display for WindowDay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let week = match self.week {
            Week::Every => "",
            Week::First => "first ",
            Week::Second => "second ",
            Week::Third => "third ",
            Week::Fourth => "fourth ",
            Week::Last => "last ",
        };
        let day = match self.weekday {
            Weekday::Monday => "monday",
            Weekday::Tuesday => "tuesday",
            Weekday::Wednesday => "wednesday",
            Weekday::Thursday => "thursday",
            Weekday::Friday => "friday",
            Weekday::Saturday => "saturday",
            Weekday::Sunday => "sunday",
        };
        write!(formatter, "{week}{day}")
    }
}
