//! Maintenance windows of `stepgate.yaml`.

use std::sync::LazyLock;

use jiff::tz::TimeZoneDatabase;
use kustomize_rs::yaml::Node;
use serde::Serialize;

use super::read::{DAYS, Reader};
use crate::nearest::nearest;

/// Which of a month's days with one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
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

/// A day on which a window opens: `monday`, `last sunday`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowDay {
    /// Which of the month's.
    pub week: Week,
    /// ISO number of the day, Monday = 1 to Sunday = 7.
    pub weekday: u8,
}

/// A time in which stages may begin. Outside of every window of its level a stage waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Days on which it opens; every day when empty.
    pub days: Vec<WindowDay>,
    /// Begin, in minutes since midnight.
    pub from: u16,
    /// End, in minutes since midnight; at or before `from` means on the next day.
    pub to: u16,
    /// Time zone of the IANA database, such as `Europe/Berlin`.
    pub time_zone: String,
}

/// The zones of the IANA database, as compiled in: what the machine knows does not count.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const WEEKS: [(&str, Week); 6] = [
    ("every", Week::Every),
    ("first", Week::First),
    ("second", Week::Second),
    ("third", Week::Third),
    ("fourth", Week::Fourth),
    ("last", Week::Last),
];

/// `monday`, `Last Sunday`.
fn day(text: &str) -> Option<WindowDay> {
    let text = text.to_ascii_lowercase();
    let mut words = text.split_whitespace();
    let (week, name) = match (words.next()?, words.next(), words.next()) {
        (name, None, _) => (Week::Every, name),
        (week, Some(name), None) => (WEEKS.iter().find(|(known, _)| *known == week)?.1, name),
        _ => return None,
    };
    let (_, weekday) = DAYS.iter().zip(1u8..).find(|(known, _)| **known == name)?;
    Some(WindowDay { week, weekday })
}

impl Reader<'_> {
    pub(super) fn windows(&mut self, node: &Node) -> Vec<Window> {
        let mut windows = Vec::new();
        let Some(items) = node.as_sequence() else {
            if !node.is_null() {
                self.problem(node.span, "windows must be a list", None);
            }
            return windows;
        };
        for item in items {
            let mut window = Window { days: Vec::new(), from: 0, to: 0, time_zone: "UTC".to_owned() };
            for entry in self.mapping(item, "windows").into_iter().flatten() {
                match entry.key.as_str() {
                    "days" => {
                        for text in self.texts(&entry.value, "windows.days") {
                            match day(&text) {
                                Some(day) => window.days.push(day),
                                None => self.problem(
                                    entry.value.span,
                                    format!("{text:?} is no day"),
                                    Some(format!("days are {}, or one of the month: \"last sunday\"", DAYS.join(", "))),
                                ),
                            }
                        }
                    }
                    "from" => window.from = self.time_of_day(&entry.value, "windows.from").unwrap_or(window.from),
                    "to" => window.to = self.time_of_day(&entry.value, "windows.to").unwrap_or(window.to),
                    "timeZone" => window.time_zone = self.time_zone(&entry.value).unwrap_or(window.time_zone),
                    _ => self.unknown(entry, "windows", &["days", "from", "to", "timeZone"]),
                }
            }
            windows.push(window);
        }
        windows
    }

    /// A window in a zone that nobody knows would open at the wrong time.
    fn time_zone(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node, "windows.timeZone")?;
        if ZONES.get(&text).is_err() {
            let known: Vec<String> = ZONES.available().map(|name| name.to_string()).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint = match nearest(&text, &known) {
                Some(name) => format!("did you mean {name:?}?"),
                None => "write a name of the IANA database, such as Europe/Berlin or UTC".to_owned(),
            };
            self.problem(node.span, format!("{text:?} is no time zone"), Some(hint));
        }
        Some(text)
    }

    pub(super) fn time_of_day(&mut self, node: &Node, place: &str) -> Option<u16> {
        let text = self.text(node, place)?;
        let minutes = text.split_once(':').and_then(|(hours, minutes)| {
            let two_digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            (two_digits(hours) && two_digits(minutes)).then_some(())?;
            let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
            (hours < 24 && minutes < 60 || (hours, minutes) == (24, 0)).then_some(hours * 60 + minutes)
        });
        if minutes.is_none() {
            let hint = "quote it, as in \"22:00\"".to_owned();
            self.problem(node.span, format!("{place} must be a time of day such as \"22:00\""), Some(hint));
        }
        minutes
    }
}
