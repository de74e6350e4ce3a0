//! Time zones by their names.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZoneDatabase;
use serde::{Deserialize, Serialize};

/// The zones of the IANA database, as compiled in.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A text that names no time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid time zone of the IANA database; write a name such as \"Europe/Berlin\" or \"UTC\"")]
pub struct UnknownTimeZone(String);

/// A time zone by its IANA name, such as `Europe/Berlin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeZone {
    name: String,
    pub(super) rules: jiff::tz::TimeZone,
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

impl TimeZone {
    /// Which day it is there.
    pub(crate) fn date_of(&self, now: Timestamp) -> Date {
        self.rules.to_datetime(now).date()
    }

    /// When a day begins there.
    pub(crate) fn begin_of(&self, date: Date) -> Option<Timestamp> {
        let midnight = date.to_datetime(jiff::civil::Time::midnight());
        self.rules.to_ambiguous_timestamp(midnight).compatible().ok()
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
