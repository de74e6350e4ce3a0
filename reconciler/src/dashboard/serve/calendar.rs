//! Windows and freezes as a calendar that others subscribe to (RFC 5545).

use jiff::Timestamp;
use ring::digest::{SHA256, digest};

use crate::dashboard::detail::{SpanReport, WindowsReport};

/// The longest line in octets, its end apart (RFC 5545, 3.1).
const LONGEST_LINE: usize = 75;

/// The calendar: one event for each time a window is open, and one for each freeze.
pub(super) fn calendar(windows: &WindowsReport, now: Timestamp) -> String {
    let mut text = String::new();
    for line in
        ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Stepgate//windows//EN", "NAME:Stepgate", "X-WR-CALNAME:Stepgate"]
    {
        fold(&mut text, line);
    }
    for group in &windows.groups {
        let clusters = named(&group.clusters);
        let windows = group.spans.iter().map(|span| ("Window", span));
        let freezes = group.freezes.iter().map(|span| ("Freeze", span));
        for (kind, span) in windows.chain(freezes) {
            event(&mut text, kind, &clusters, span, now);
        }
    }
    fold(&mut text, "END:VCALENDAR");
    text
}

fn event(text: &mut String, kind: &str, clusters: &str, span: &SpanReport, now: Timestamp) {
    let (Some(from), Some(to), Some(stamp)) = (basic(&span.from), basic(&span.to), basic(&now.to_string())) else {
        return;
    };
    let named = digest(&SHA256, format!("{kind}\n{clusters}\n{from}\n{to}\n{}", span.what).as_bytes());
    let uid: String = named.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    fold(text, "BEGIN:VEVENT");
    fold(text, &format!("UID:{uid}@stepgate"));
    fold(text, &format!("DTSTAMP:{stamp}"));
    fold(text, &format!("DTSTART:{from}"));
    fold(text, &format!("DTEND:{to}"));
    fold(text, &format!("SUMMARY:{}", escaped(&format!("{kind}: {clusters}"))));
    fold(text, &format!("DESCRIPTION:{}", escaped(&span.what)));
    // A window takes nobody's time.
    fold(text, "TRANSP:TRANSPARENT");
    fold(text, "END:VEVENT");
}

/// The clusters, a few of them by name.
fn named(clusters: &[String]) -> String {
    match clusters {
        [] => "no cluster".to_owned(),
        [one] => one.clone(),
        [first, second] => format!("{first}, {second}"),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

/// `20261125T120000Z`.
fn basic(time: &str) -> Option<String> {
    let time: Timestamp = time.parse().ok()?;
    Some(time.strftime("%Y%m%dT%H%M%SZ").to_string())
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | ';' | ',' => escaped.extend(['\\', character]),
            '\n' => escaped.push_str("\\n"),
            '\r' => {}
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Writes a line: what is too long goes on in the next one, behind a space, and no character is cut in two.
fn fold(text: &mut String, line: &str) {
    let mut octets = 0;
    for character in line.chars() {
        if octets + character.len_utf8() > LONGEST_LINE {
            text.push_str("\r\n ");
            octets = 1;
        }
        text.push(character);
        octets += character.len_utf8();
    }
    text.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::detail::WindowReport;

    fn windows(what: &str) -> WindowsReport {
        let span = SpanReport {
            what: what.to_owned(),
            from: "2026-11-28T22:00:00Z".to_owned(),
            to: "2026-11-29T04:00:00Z".to_owned(),
        };
        let group = WindowReport {
            clusters: vec!["prod-1".to_owned(), "prod-2".to_owned(), "prod-3".to_owned()],
            open: false,
            closed: None,
            next_open: None,
            windows: Vec::new(),
            spans: vec![span],
            freezes: Vec::new(),
        };
        WindowsReport { groups: vec![group] }
    }

    #[test]
    fn each_opening_is_an_event_that_keeps_its_name() {
        let now = "2026-11-25T12:00:00Z".parse().unwrap();
        let text = calendar(&windows("saturday 22:00 to 04:00"), now);
        assert!(text.contains("\r\nDTSTART:20261128T220000Z\r\nDTEND:20261129T040000Z\r\n"), "{text}");
        assert!(text.contains("\r\nSUMMARY:Window: prod-1 and 2 more\r\n"), "{text}");
        let later = calendar(&windows("saturday 22:00 to 04:00"), "2026-11-26T12:00:00Z".parse().unwrap());
        let uid = |text: &str| text.lines().find(|line| line.starts_with("UID:")).map(str::to_owned);
        assert_eq!(uid(&text), uid(&later));
    }

    #[test]
    fn lines_are_folded_and_signs_of_the_format_escaped() {
        let text = calendar(&windows(&format!("{}; a, b\\c\nBEGIN:VEVENT", "ü".repeat(80))), Timestamp::UNIX_EPOCH);
        assert!(text.split("\r\n").all(|line| line.len() <= LONGEST_LINE), "{text}");
        let unfolded = text.replace("\r\n ", "");
        assert!(unfolded.contains("ü\\; a\\, b\\\\c\\nBEGIN:VEVENT\r\n"), "{unfolded}");
        assert_eq!(text.lines().filter(|line| *line == "BEGIN:VEVENT").count(), 1);
    }
}
