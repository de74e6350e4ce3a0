//! Maintenance windows: when stages may be committed, by the clock on the wall of the people who look after them.
//!
//! The rules of the time zones are compiled in. The machine's own zone and its zone files are never read, so every controller opens and
//! closes a window at the same moment.

mod time_zone;
mod weekday;

use std::fmt;
use std::ops::RangeInclusive;

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};

pub use time_zone::{TimeZone, UnknownTimeZone};
pub use weekday::{Week, Weekday, WindowDay};

use crate::Freeze;

const MINUTES_OF_A_DAY: u16 = 24 * 60;

/// A day on which a window opens is met at least this often: the last Monday of one month and of the next are five weeks apart at most.
const LONGEST_PAUSE: i64 = 40;

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
    /// Whether a stage begins only where it is over before the window closes, by what it took before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_fit: bool,
    /// How long before the window closes it has to be over, in minutes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub margin: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl MaintenanceWindow {
    /// A window between two times of every day, in minutes since midnight.
    #[must_use]
    pub fn daily(from: u16, to: u16, time_zone: TimeZone) -> Self {
        Self { days: Vec::new(), from, to, time_zone, must_fit: false, margin: 0 }
    }

    /// How long it is by the wall, in minutes.
    #[must_use]
    pub fn minutes(&self) -> u32 {
        let day = u32::from(MINUTES_OF_A_DAY);
        let (from, to) = (u32::from(self.from), u32::from(self.to));
        if to > from { to - from } else { day - from + to }
    }

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

    /// When it opens and closes, from `now` on for so many days; one that is open at `now` is the first.
    pub fn openings(&self, now: Timestamp, days: i64) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        self.spans(now, -2..=days).filter(move |(_, closes)| now < *closes)
    }

    /// When the window that is open at `now` closes.
    fn closes(&self, now: Timestamp) -> Option<Timestamp> {
        let open = self.spans(now, -2..=1).filter(|(opens, closes)| *opens <= now && now < *closes);
        open.map(|(_, closes)| closes).max()
    }

    /// The last moment at which something that takes so long may begin, of a window that is open from `opens` until `closes`.
    fn latest_begin(&self, opens: Timestamp, closes: Timestamp, takes: Option<SignedDuration>) -> Option<Timestamp> {
        if !self.must_fit {
            return Some(closes);
        }
        let end = closes.checked_sub(SignedDuration::from_mins(i64::from(self.margin))).ok()?;
        match takes {
            Some(takes) => end.checked_sub(takes).ok(),
            // Nobody knows how long it takes: not near the end.
            None => opens.checked_add(end.duration_since(opens) / 2).ok(),
        }
    }

    /// Whether something that takes so long may begin at `now`.
    fn takes_in(&self, now: Timestamp, takes: Option<SignedDuration>) -> bool {
        self.spans(now, -2..=1).any(|(opens, closes)| {
            opens <= now
                && now < closes
                && self.latest_begin(opens, closes, takes).is_some_and(|latest| {
                    // At the latest moment itself it still fits.
                    if self.must_fit { now <= latest } else { now < latest }
                })
        })
    }

    /// When it opens next after `now` and takes in something that takes so long; none where no window is that long.
    fn next_that_takes_in(&self, now: Timestamp, takes: Option<SignedDuration>) -> Option<Timestamp> {
        let mut spans = self.spans(now, -1..=LONGEST_PAUSE).filter(|(opens, _)| *opens > now);
        let fits = |(opens, closes): &(Timestamp, Timestamp)| {
            self.latest_begin(*opens, *closes, takes).is_some_and(|latest| *opens <= latest)
        };
        spans.find(fits).map(|(opens, _)| opens)
    }

    /// The windows that open on the days around today, in order.
    fn spans(&self, now: Timestamp, days: RangeInclusive<i64>) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let today = self.time_zone.date_of(now);
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

/// As people say it: `saturday, sunday 22:00 to 04:00 (Europe/Berlin)`.
impl fmt::Display for MaintenanceWindow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.days.is_empty() {
            formatter.write_str("every day")?;
        }
        for (index, day) in self.days.iter().enumerate() {
            write!(formatter, "{}{day}", if index > 0 { ", " } else { "" })?;
        }
        let [from, to] = [self.from, self.to].map(|minute| format!("{:02}:{:02}", minute / 60, minute % 60));
        write!(formatter, " {from} to {to} ({})", self.time_zone)
    }
}

/// Maintenance windows by every policy that counts: each one's list is open while any window of it is, and all lists have to be. Freezes close
/// them all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "WindowsForm", into = "WindowsForm")]
pub struct Windows {
    lists: Vec<Vec<MaintenanceWindow>>,
    freezes: Vec<Freeze>,
}

/// As windows are written down: without freezes they are a plain list of lists.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum WindowsForm {
    Lists(Vec<Vec<MaintenanceWindow>>),
    Frozen { lists: Vec<Vec<MaintenanceWindow>>, freezes: Vec<Freeze> },
}

impl From<WindowsForm> for Windows {
    fn from(form: WindowsForm) -> Self {
        match form {
            WindowsForm::Lists(lists) => Self { lists, freezes: Vec::new() },
            WindowsForm::Frozen { lists, freezes } => Self { lists, freezes },
        }
    }
}

impl From<Windows> for WindowsForm {
    fn from(Windows { lists, freezes }: Windows) -> Self {
        if freezes.is_empty() { Self::Lists(lists) } else { Self::Frozen { lists, freezes } }
    }
}

/// What is to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin<'a> {
    /// The stage.
    pub stage: &'a str,
    /// Whether it goes back to what was before.
    pub goes_back: bool,
    /// How long it takes, where that is known.
    pub takes: Option<SignedDuration>,
}

/// Why something may not begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// No window is open.
    Outside,
    /// There is a freeze, for this reason, until then.
    Frozen(String, Timestamp),
    /// The window is open and closes then, before it would be over.
    TooLate(Timestamp),
}

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
        Self { lists: all, freezes: Vec::new() }
    }

    /// The same, with the freezes of any policy.
    #[must_use]
    pub fn frozen(mut self, freezes: impl IntoIterator<Item = Freeze>) -> Self {
        for freeze in freezes {
            if !self.freezes.contains(&freeze) {
                self.freezes.push(freeze);
            }
        }
        self
    }

    /// Whether there are none, so that it is open always.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty() && self.freezes.is_empty()
    }

    /// Whether any of them asks how long something takes.
    #[must_use]
    pub fn ask_how_long(&self) -> bool {
        self.lists.iter().flatten().any(|window| window.must_fit)
    }

    /// Whether `now` lies inside of a window of each list, whatever begins; freezes aside.
    #[must_use]
    pub fn contains(&self, now: Timestamp) -> bool {
        self.lists.iter().all(|list| list.iter().any(|window| window.contains(now)))
    }

    /// When all lists are open next, `now` included, whatever begins; none where that is not in sight. Freezes aside.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.next_by(now, |window, time| window.contains(time), MaintenanceWindow::next)
    }

    fn next_by(
        &self,
        now: Timestamp,
        is_open: impl Fn(&MaintenanceWindow, Timestamp) -> bool,
        next: impl Fn(&MaintenanceWindow, Timestamp) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        let mut time = now;
        for _ in 0..Self::MOST {
            let closed = self.lists.iter().filter(|list| !list.iter().any(|window| is_open(window, time)));
            let opens = closed.map(|list| list.iter().filter_map(|window| next(window, time)).min());
            // Until the last of those that are closed has opened there is no time at which all are open.
            match opens.max_by_key(|opens| opens.map_or(Timestamp::MAX, |opens| opens)) {
                None => return Some(time),
                Some(opens) => time = opens?,
            }
        }
        None
    }

    /// Why something may not begin at `now`; none where it may.
    #[must_use]
    pub fn closed(&self, now: Timestamp, begin: Begin<'_>) -> Option<Closed> {
        if let Some((reason, until)) = self.freeze(now, begin) {
            return Some(Closed::Frozen(reason, until));
        }
        if !self.contains(now) {
            return Some(Closed::Outside);
        }
        let too_late = |list: &&Vec<MaintenanceWindow>| !list.iter().any(|window| window.takes_in(now, begin.takes));
        let list = self.lists.iter().find(too_late)?;
        list.iter().filter_map(|window| window.closes(now)).max().map(Closed::TooLate)
    }

    /// When something may begin next, `now` included; none where that is not in sight: also where it takes longer than every window.
    #[must_use]
    pub fn next_begin(&self, now: Timestamp, begin: Begin<'_>) -> Option<Timestamp> {
        let mut time = now;
        for _ in 0..Self::MOST {
            time = self.next_by(
                time,
                |window, time| window.takes_in(time, begin.takes),
                |window, time| window.next_that_takes_in(time, begin.takes),
            )?;
            match self.freeze(time, begin) {
                None => return Some(time),
                Some((_, until)) => time = until,
            }
        }
        None
    }

    /// The freeze that keeps something from beginning: why, and until when.
    fn freeze(&self, now: Timestamp, begin: Begin<'_>) -> Option<(String, Timestamp)> {
        let concerned = self.freezes.iter().filter(|freeze| !freeze.excepts(begin.stage, begin.goes_back));
        let on = concerned.filter_map(|freeze| Some((freeze.reason.clone(), freeze.until(now)?)));
        on.max_by_key(|(_, until)| *until)
    }
}

impl From<Vec<MaintenanceWindow>> for Windows {
    fn from(list: Vec<MaintenanceWindow>) -> Self {
        Self::of([list])
    }
}

#[cfg(test)]
mod tests;
