//! Maintenance windows of `stepgate.yaml`.

use domain::nearest;
use yaml::Node;

use super::read::{DAYS, Reader};
use crate::{MaintenanceWindow, TimeZone, Week, Weekday, WindowDay};

/// By their numbers of ISO 8601.
const WEEKDAYS: [Weekday; 7] = [
    Weekday::Monday,
    Weekday::Tuesday,
    Weekday::Wednesday,
    Weekday::Thursday,
    Weekday::Friday,
    Weekday::Saturday,
    Weekday::Sunday,
];

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
    let (_, weekday) = DAYS.iter().zip(WEEKDAYS).find(|(known, _)| **known == name)?;
    Some(WindowDay { week, weekday })
}

impl Reader<'_> {
    pub(super) fn windows(&mut self, node: &Node) -> Vec<MaintenanceWindow> {
        let mut windows = Vec::new();
        let Some(items) = node.as_sequence() else {
            if !node.is_null() {
                self.problem(node.span, "windows must be a list", None);
            }
            return windows;
        };
        for item in items {
            let mut window = MaintenanceWindow { days: Vec::new(), from: 0, to: 0, time_zone: TimeZone::utc() };
            let mut is_usable = true;
            for entry in self.mapping(item, "windows").into_iter().flatten() {
                match entry.key.as_str() {
                    "days" => {
                        for text in self.texts(&entry.value, "windows.days") {
                            match day(&text) {
                                Some(day) => window.days.push(day),
                                None => self.problem(
                                    entry.value.span,
                                    format!("{text:?} is not a valid day"),
                                    Some(format!("days are {}, or one of the month: \"last sunday\"", DAYS.join(", "))),
                                ),
                            }
                        }
                    }
                    "from" => window.from = self.time_of_day(&entry.value, "windows.from").unwrap_or(window.from),
                    "to" => window.to = self.time_of_day(&entry.value, "windows.to").unwrap_or(window.to),
                    "timeZone" => match self.time_zone(&entry.value) {
                        Some(zone) => window.time_zone = zone,
                        None => is_usable = false,
                    },
                    _ => self.unknown(entry, "windows", &["days", "from", "to", "timeZone"]),
                }
            }
            // In a zone that nobody knows it would open at the wrong time; its problem blocks whom it concerns.
            if is_usable {
                windows.push(window);
            }
        }
        windows
    }

    fn time_zone(&mut self, node: &Node) -> Option<TimeZone> {
        let text = self.text(node, "windows.timeZone")?;
        let zone = text.parse::<TimeZone>();
        if zone.is_err() {
            let known = TimeZone::names();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint = match nearest(&text, &known) {
                Some(name) => format!("did you mean {name:?}?"),
                None => "write a name of the IANA database, such as Europe/Berlin or UTC".to_owned(),
            };
            self.problem(node.span, format!("{text:?} is not a valid time zone"), Some(hint));
        }
        zone.ok()
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
