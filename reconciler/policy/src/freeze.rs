//! Freezes: days on which nothing begins, whatever windows are open.

use jiff::civil::Date;
use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};

use crate::TimeZone;

/// Days on which no stage begins. It is denied whatever is allowed elsewhere; what has begun goes on to the end of its stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Freeze {
    /// The first day.
    pub from: Date,
    /// The last day.
    pub to: Date,
    /// Whose days.
    pub time_zone: TimeZone,
    /// Why.
    pub reason: String,
    /// What begins all the same: stages by name, `workers` for every group, `rollback` for stages that go back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
}

impl Freeze {
    /// What `except` calls stages that go back.
    pub const ROLLBACK: &'static str = "rollback";

    /// When it begins and ends.
    #[must_use]
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let begins = self.time_zone.begin_of(self.from)?;
        let ends = self.time_zone.begin_of(self.to.checked_add(1.day()).ok()?)?;
        Some((begins, ends))
    }

    /// When it ends, if it is on at `now`.
    #[must_use]
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        self.span().filter(|(begins, ends)| *begins <= now && now < *ends).map(|(_, ends)| ends)
    }

    /// Whether something begins all the same.
    #[must_use]
    pub fn excepts(&self, stage: &str, goes_back: bool) -> bool {
        let name = stage.split('@').next().unwrap_or(stage);
        let group = name.split_once('/').map_or(name, |(group, _)| group);
        self.except.iter().any(|it| it == name || it == group || goes_back && it == Self::ROLLBACK)
    }
}
