//! Maintenance windows of `stepgate.yaml`.

use domain::nearest;
use jiff::civil::Date;
use yaml::Node;

use crate::document::read::{DAYS, Reader, STAGES};
use crate::{Freeze, FreezeDays, MaintenanceWindow, TimeZone, Week, Weekday, WindowDay, YearDay};

/// A day of a freeze as it is written.
enum FreezeDay {
    Once(Date),
    Yearly(YearDay),
}

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

const WINDOW: [&str; 6] = ["days", "from", "to", "timeZone", "mustFit", "margin"];

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
    pub(in crate::document) fn windows(&mut self, node: &Node) -> Vec<MaintenanceWindow> {
        let mut windows = Vec::new();
        let Some(items) = node.as_sequence() else {
            if !node.is_null() {
                self.problem(node.span, "windows must be a list", None);
            }
            return windows;
        };
        for item in items {
            let mut window = MaintenanceWindow::daily(0, 0, TimeZone::utc());
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
                    "timeZone" => match self.time_zone(&entry.value, "windows.timeZone") {
                        Some(zone) => window.time_zone = zone,
                        None => is_usable = false,
                    },
                    // What cannot be read must not let more begin.
                    "mustFit" => window.must_fit = self.boolean(&entry.value, "windows.mustFit").unwrap_or(true),
                    "margin" => {
                        let margin = self.duration(&entry.value, "windows.margin").unwrap_or_default();
                        window.margin = u32::try_from(margin.as_secs().div_ceil(60)).unwrap_or(u32::MAX);
                    }
                    _ => self.unknown(entry, "windows", &WINDOW),
                }
            }
            if window.margin > 0 && !window.must_fit {
                let hint = "write `mustFit: true` beside it, or leave it out".to_owned();
                self.problem(item.span, "windows.margin says nothing without mustFit", Some(hint));
            }
            if window.must_fit && window.minutes() <= window.margin {
                let message = "windows.margin leaves nothing of the window: nothing could ever begin";
                self.problem(item.span, message, Some("write a shorter margin, or a longer window".to_owned()));
            }
            // In a zone that nobody knows it would open at the wrong time; its problem blocks whom it concerns.
            if is_usable {
                windows.push(window);
            }
        }
        windows
    }

    /// Days on which nothing begins.
    pub(in crate::document) fn freezes(&mut self, node: &Node) -> Vec<Freeze> {
        if !node.is_null() && node.as_sequence().is_none() {
            self.problem(node.span, "freezes must be a list", None);
        }
        let items = node.as_sequence().unwrap_or_default();
        items.iter().filter_map(|item| self.freeze(item)).collect()
    }

    fn freeze(&mut self, node: &Node) -> Option<Freeze> {
        let (mut from, mut to, mut reason) = (None, None, None);
        let (mut time_zone, mut except) = (Some(TimeZone::utc()), Vec::new());
        for entry in self.mapping(node, "freezes")? {
            let value = &entry.value;
            match entry.key.as_str() {
                "from" => from = self.freeze_day(value, "freezes.from"),
                "to" => to = self.freeze_day(value, "freezes.to"),
                "timeZone" => time_zone = self.time_zone(value, "freezes.timeZone"),
                "reason" => reason = self.text(value, "freezes.reason"),
                "except" => {
                    except = self.texts(value, "freezes.except");
                    let group = |name: &str| name.strip_prefix("workers/").is_some_and(|group| !group.is_empty());
                    let known = |name: &str| name == Freeze::ROLLBACK || STAGES.contains(&name) || group(name);
                    for name in except.iter().filter(|name| !known(name)) {
                        let hint = nearest(name, &STAGES).map(|name| format!("did you mean {name:?}?"));
                        self.problem(value.span, format!("freezes.except: {name:?} is not a stage"), hint);
                    }
                }
                _ => self.unknown(entry, "freezes", &["from", "to", "timeZone", "reason", "except"]),
            }
        }
        for (is_there, name, help) in [
            (from.is_some(), "from", "write its first day: `from: 2026-12-20`, or of every year `from: 12-20`"),
            (to.is_some(), "to", "write its last day: `to: 2027-01-06`, or of every year `to: 01-06`"),
            (reason.is_some(), "reason", "say why: everybody who waits for its end is told"),
        ] {
            if !is_there && node.get(name).is_none() {
                self.problem(node.span, format!("an entry of freezes has no {name}"), Some(help.to_owned()));
            }
        }
        let days = match (from?, to?) {
            (FreezeDay::Once(from), FreezeDay::Once(to)) => FreezeDays::Once { from, to },
            (FreezeDay::Yearly(from), FreezeDay::Yearly(to)) => FreezeDays::Yearly { from, to },
            (FreezeDay::Once(_), FreezeDay::Yearly(_)) | (FreezeDay::Yearly(_), FreezeDay::Once(_)) => {
                let hint = "write both days with their year, or both without".to_owned();
                self.problem(node.span, "a freeze has one day with a year and one without", Some(hint));
                return None;
            }
        };
        if days.is_always_or_never() {
            let (message, help) = match days {
                FreezeDays::Once { from, to } => {
                    (format!("a freeze that begins on {from} cannot end on {to}"), "write the earlier day as `from`")
                }
                FreezeDays::Yearly { from, to } => (
                    format!("a freeze from {from} to {to} of every year never ends"),
                    "write `paused` where nothing is to begin until somebody says so",
                ),
            };
            self.problem(node.span, message, Some(help.to_owned()));
            return None;
        }
        Some(Freeze { days, time_zone: time_zone?, reason: reason.unwrap_or_default(), except })
    }

    fn freeze_day(&mut self, node: &Node, place: &str) -> Option<FreezeDay> {
        let is_yearly = node.as_str().is_some_and(|text| text.len() == "12-20".len());
        if !is_yearly {
            return self.day(node, place).map(FreezeDay::Once);
        }
        let day = self.text(node, place)?.parse::<YearDay>();
        day.map_err(|error| self.problem(node.span, format!("{place}: {error}"), None)).ok().map(FreezeDay::Yearly)
    }

    fn time_zone(&mut self, node: &Node, place: &str) -> Option<TimeZone> {
        let text = self.text(node, place)?;
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

    pub(in crate::document) fn time_of_day(&mut self, node: &Node, place: &str) -> Option<u16> {
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
