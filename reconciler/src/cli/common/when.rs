//! Times as people read them: how far away, and what the clock on the wall says then.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Tells times as seen from one moment, in one time zone.
#[derive(Clone, Debug)]
pub struct Teller {
    now: Timestamp,
    zone: TimeZone,
}

impl Teller {
    /// From now, in the time zone of this machine.
    pub fn here() -> Self {
        Self::new(Timestamp::now(), zone())
    }

    /// From this moment, in this time zone.
    pub fn new(now: Timestamp, zone: TimeZone) -> Self {
        Self { now, zone }
    }

    /// `in 28 min (15:16)`, or `12 min ago (14:36)`.
    pub fn when(&self, time: Timestamp) -> String {
        format!("{} ({})", self.away(time), self.clock(time))
    }

    /// How far away.
    fn away(&self, time: Timestamp) -> String {
        let away = time.duration_since(self.now);
        // Whoever reads it wants the end of a wait not earlier than it is.
        let seconds = away.abs().as_secs();
        let (minutes, hours, days) = (seconds.div_euclid(60), seconds.div_euclid(3600), seconds.div_euclid(86400));
        let amount = match (days, hours, minutes) {
            (0, 0, 0) => format!("{seconds} s"),
            (0, 0, _) => format!("{minutes} min"),
            (0, _, _) => format!("{hours} h {} min", minutes % 60),
            _ => format!("{days} d {} h", hours % 24),
        };
        if away > SignedDuration::ZERO { format!("in {amount}") } else { format!("{amount} ago") }
    }

    /// The time of the day; with the day where that is another one.
    fn clock(&self, time: Timestamp) -> String {
        let (now, time) = (self.now.to_zoned(self.zone.clone()), time.to_zoned(self.zone.clone()));
        let form = if now.date() == time.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
        time.strftime(form).to_string()
    }

    /// A text in which each time is told so.
    pub fn told(&self, text: &str) -> String {
        let mut told: Vec<String> = Vec::new();
        for word in text.split(' ') {
            let bare = word.trim_end_matches([',', ';', ':', '.', ')']);
            let (open, bare) = bare.strip_prefix('(').map_or(("", bare), |bare| ("(", bare));
            let Some(time) = bare.parse::<Timestamp>().ok().filter(|_| bare.contains('T')) else {
                told.push(word.to_owned());
                continue;
            };
            let rest = word.get(open.len() + bare.len()..).unwrap_or_default();
            let text = if told.last().is_some_and(|before| before == "at") {
                told.pop();
                self.when(time)
            } else {
                format!("{} ({})", self.clock(time), self.away(time))
            };
            told.push(format!("{open}{text}{rest}"));
        }
        told.join(" ")
    }
}

/// The time zone of this machine, as far as it is named; else UTC. The library's own way is a feature that nothing else of it needs.
fn zone() -> TimeZone {
    let named = |name: &str| TimeZone::get(name.trim_start_matches(':')).ok();
    let variable = || named(&std::env::var("TZ").ok().filter(|name| !name.is_empty())?);
    let link = || {
        let link = std::fs::read_link("/etc/localtime").ok()?;
        named(link.to_str()?.split_once("zoneinfo/")?.1)
    };
    variable().or_else(link).unwrap_or(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn teller() -> Teller {
        Teller::new("2026-11-25T14:48:10Z".parse().unwrap(), TimeZone::UTC)
    }

    #[test]
    fn a_time_is_told_by_how_far_away_it_is_and_by_the_clock() {
        for (time, expected) in [
            ("2026-11-25T15:16:20Z", "in 28 min (15:16)"),
            ("2026-11-25T14:48:50Z", "in 40 s (14:48)"),
            ("2026-11-25T14:36:00Z", "12 min ago (14:36)"),
            ("2026-11-25T18:00:00Z", "in 3 h 11 min (18:00)"),
            ("2026-11-26T01:00:00Z", "in 10 h 11 min (2026-11-26 01:00)"),
            ("2026-11-28T22:00:00Z", "in 3 d 7 h (2026-11-28 22:00)"),
            ("2026-11-25T14:48:10Z", "0 s ago (14:48)"),
        ] {
            assert_eq!(teller().when(time.parse().unwrap()), expected);
        }
    }

    #[test]
    fn times_in_a_text_are_told_so_and_nothing_else_of_it_is_changed() {
        for (text, expected) in [
            ("it takes over at 2026-11-25T15:16:20Z unless", "it takes over in 28 min (15:16) unless"),
            ("held by Ann until 2026-11-25T15:16:20Z: audit", "held by Ann until 15:16 (in 28 min): audit"),
            ("merged (2026-11-25T14:36:00Z), late", "merged (14:36 (12 min ago)), late"),
            ("v1.34.1 at  10.0.0.1:6443, 2026-11-25", "v1.34.1 at  10.0.0.1:6443, 2026-11-25"),
        ] {
            assert_eq!(teller().told(text), expected);
        }
    }
}
