//! When windows and freezes let something begin.

use super::*;
use crate::FreezeDays;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn window(days: &[(Week, Weekday)], from: u16, to: u16, zone: &str) -> MaintenanceWindow {
    let days = days.iter().map(|(week, weekday)| WindowDay { week: *week, weekday: *weekday }).collect();
    MaintenanceWindow { days, ..MaintenanceWindow::daily(from, to, zone.parse().unwrap()) }
}

const HOUR: u16 = 60;

#[track_caller]
fn check(window: &MaintenanceWindow, moments: &[(&str, bool)]) {
    for (now, open) in moments {
        assert_eq!(window.contains(at(now)), *open, "{now}");
    }
}

#[test]
fn windows_open_on_their_days_and_run_past_midnight() {
    // 2026-11-20 is a Friday; Berlin is an hour ahead of UTC then.
    let friday = window(&[(Week::Every, Weekday::Friday)], 23 * HOUR, HOUR, "Europe/Berlin");
    check(
        &friday,
        &[
            ("2026-11-20T21:59:59Z", false),
            ("2026-11-20T22:00:00Z", true),
            ("2026-11-20T23:59:59Z", true),
            ("2026-11-21T00:00:00Z", false),
            ("2026-11-19T22:30:00Z", false),
        ],
    );
    assert_eq!(friday.next(at("2026-11-20T22:00:00Z")), Some(at("2026-11-27T22:00:00Z")));
}

#[test]
fn a_window_keeps_its_hours_on_the_wall_when_the_clocks_change() {
    let nightly = window(&[], 22 * HOUR, 4 * HOUR, "Europe/Berlin");
    for (now, next) in [
        // Central European summer time ends on 2026-10-25 at 01:00 UTC and begins on 2027-03-28 at 01:00 UTC.
        ("2026-10-23T20:00:00Z", "2026-10-24T20:00:00Z"),
        ("2026-10-24T20:00:00Z", "2026-10-25T21:00:00Z"),
        ("2027-03-27T21:00:00Z", "2027-03-28T20:00:00Z"),
    ] {
        assert!(nightly.contains(at(now)), "{now}");
        assert_eq!(nightly.next(at(now)), Some(at(next)), "{now}");
    }
    // The night in which clocks go back has an hour more, the one in which they go forward an hour less.
    check(&nightly, &[("2026-10-25T02:59:59Z", true), ("2026-10-25T03:00:00Z", false)]);
    check(&nightly, &[("2027-03-28T01:59:59Z", true), ("2027-03-28T02:00:00Z", false)]);
}

#[test]
fn times_that_are_skipped_or_come_twice_have_one_meaning() {
    // New York skips 02:00 to 03:00 on 2026-03-08 and repeats 01:00 to 02:00 on 2026-11-01.
    let skipped = window(&[], 2 * HOUR + 15, 2 * HOUR + 45, "America/New_York");
    check(
        &skipped,
        &[
            ("2026-03-07T07:15:00Z", true),
            ("2026-03-08T06:59:59Z", false),
            ("2026-03-08T07:15:00Z", true),
            ("2026-03-08T07:45:00Z", false),
        ],
    );
    let repeated = window(&[], HOUR + 15, HOUR + 45, "America/New_York");
    check(&repeated, &[("2026-11-01T05:30:00Z", true), ("2026-11-01T06:30:00Z", false)]);
    // It would close before it opened: that night it stays shut.
    let across = window(&[], 2 * HOUR + 30, 3 * HOUR, "America/New_York");
    check(&across, &[("2026-03-08T06:30:00Z", false), ("2026-03-08T07:30:00Z", false)]);
    assert_eq!(across.next(at("2026-03-07T12:00:00Z")), Some(at("2026-03-09T06:30:00Z")));
}

#[test]
fn days_of_the_month_are_counted_by_the_calendar_of_the_zone() {
    let last = window(&[(Week::Last, Weekday::Sunday)], 9 * HOUR, 17 * HOUR, "Pacific/Auckland");
    // 2026-01-25 and 2026-02-22 are last Sundays; Auckland is thirteen hours ahead then.
    check(&last, &[("2026-01-24T20:00:00Z", true), ("2026-01-17T20:00:00Z", false), ("2026-02-21T20:00:00Z", true)]);
    assert_eq!(last.next(at("2026-01-25T12:00:00Z")), Some(at("2026-02-21T20:00:00Z")));
    let first = window(&[(Week::First, Weekday::Tuesday)], 0, 24 * HOUR, "UTC");
    check(&first, &[("2026-12-01T00:00:00Z", true), ("2026-12-01T23:59:59Z", true), ("2026-12-02T00:00:00Z", false)]);
    assert_eq!(first.next(at("2026-12-01T00:00:00Z")), Some(at("2027-01-05T00:00:00Z")));
    let months: Vec<Option<Timestamp>> = [Week::Second, Week::Third, Week::Fourth]
        .map(|week| window(&[(week, Weekday::Monday)], 0, HOUR, "UTC").next(at("2026-11-01T00:00:00Z")))
        .to_vec();
    let expected = ["2026-11-09T00:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"];
    assert_eq!(months, expected.map(|text| Some(at(text))));
}

#[test]
fn windows_of_two_policies_are_open_where_both_are() {
    let nights = window(&[], 22 * HOUR, 4 * HOUR, "UTC");
    let sunday = window(&[(Week::Every, Weekday::Sunday)], 0, 24 * HOUR, "UTC");
    let morning = window(&[], 3 * HOUR, 9 * HOUR, "UTC");
    let both = Windows::of([vec![nights.clone()], Vec::new(), vec![sunday, morning], vec![nights.clone()]]);
    // 2026-11-22 is a Sunday.
    for (now, open) in [
        ("2026-11-20T23:00:00Z", false),
        ("2026-11-21T03:30:00Z", true),
        ("2026-11-21T05:00:00Z", false),
        ("2026-11-22T01:00:00Z", true),
        ("2026-11-22T12:00:00Z", false),
    ] {
        assert_eq!(both.contains(at(now)), open, "{now}");
    }
    assert_eq!(both.next(at("2026-11-20T12:00:00Z")), Some(at("2026-11-21T03:00:00Z")));
    assert_eq!(both.next(at("2026-11-21T12:00:00Z")), Some(at("2026-11-22T00:00:00Z")));
    let never = Windows::of([vec![nights], vec![window(&[], 12 * HOUR, 13 * HOUR, "UTC")]]);
    assert!(!never.contains(at("2026-11-20T12:30:00Z")) && never.next(at("2026-11-20T12:30:00Z")).is_none());
    assert!(Windows::default().is_empty() && Windows::default().contains(at("2026-11-20T12:30:00Z")));
}

#[test]
fn a_window_without_length_is_a_whole_day() {
    let whole = window(&[(Week::Every, Weekday::Monday)], 6 * HOUR, 6 * HOUR, "Asia/Kolkata");
    // Half an hour off the full hour; 2026-11-23 is a Monday.
    check(&whole, &[("2026-11-23T00:29:59Z", false), ("2026-11-23T00:30:00Z", true), ("2026-11-24T00:29:59Z", true)]);
}

#[test]
fn zones_are_those_of_the_database_and_read_back_by_name() {
    for text in ["Europe/Berlin", "UTC", "America/Argentina/Buenos_Aires"] {
        let zone: TimeZone = text.parse().unwrap();
        assert_eq!(zone.to_string(), text);
        let json = serde_json::to_string(&zone).unwrap();
        assert_eq!(serde_json::from_str::<TimeZone>(&json).unwrap(), zone);
    }
    for text in ["", "Europe/Atlantis", "local", "/etc/localtime", "../UTC", "CET-1CEST"] {
        assert!(text.parse::<TimeZone>().is_err(), "{text:?}");
    }
}

fn begin(takes: Option<i64>) -> Begin<'static> {
    Begin { stage: "workers/md-0", goes_back: false, takes: takes.map(SignedDuration::from_mins) }
}

fn afternoons() -> MaintenanceWindow {
    let time_zone = "Asia/Tokyo".parse().unwrap();
    MaintenanceWindow { must_fit: true, margin: 15, ..MaintenanceWindow::daily(14 * HOUR, 17 * HOUR, time_zone) }
}

#[test]
fn what_does_not_fit_before_the_end_waits_for_the_next_window() {
    let windows = Windows::from(vec![afternoons()]);
    // 14:00 in Tokyo is 05:00 UTC; 17:00 without the margin is 07:45 UTC.
    for (now, takes, closed, next) in [
        ("2026-11-20T05:00:00Z", Some(165), None, Some("2026-11-20T05:00:00Z")),
        ("2026-11-20T05:00:01Z", Some(165), Some(true), Some("2026-11-21T05:00:00Z")),
        ("2026-11-20T07:15:00Z", Some(30), None, Some("2026-11-20T07:15:00Z")),
        ("2026-11-20T07:16:00Z", Some(30), Some(true), Some("2026-11-21T05:00:00Z")),
        ("2026-11-20T04:59:00Z", Some(30), Some(false), Some("2026-11-20T05:00:00Z")),
        // Longer than every window: never, and that is said.
        ("2026-11-20T05:00:00Z", Some(166), Some(true), None),
        // Nobody knows how long it takes: only in the first half.
        ("2026-11-20T06:22:00Z", None, None, Some("2026-11-20T06:22:00Z")),
        ("2026-11-20T06:23:00Z", None, Some(true), Some("2026-11-21T05:00:00Z")),
    ] {
        let found = windows.closed(at(now), begin(takes));
        let expected =
            closed.map(|late| if late { Closed::TooLate(at("2026-11-20T08:00:00Z")) } else { Closed::Outside });
        assert_eq!(found, expected, "{now} {takes:?}");
        assert_eq!(windows.next_begin(at(now), begin(takes)), next.map(at), "{now} {takes:?}");
    }
    // A window that does not ask lets everything begin.
    let plain = Windows::from(vec![MaintenanceWindow { must_fit: false, ..afternoons() }]);
    assert_eq!(plain.closed(at("2026-11-20T07:59:00Z"), begin(Some(600))), None);
}

#[test]
fn a_freeze_closes_what_windows_open_except_for_what_it_names() {
    let freeze = Freeze {
        days: FreezeDays::Once { from: "2026-12-20".parse().unwrap(), to: "2026-12-31".parse().unwrap() },
        time_zone: "Europe/Berlin".parse().unwrap(),
        reason: "year end".to_owned(),
        except: vec!["cert-manager".to_owned(), Freeze::ROLLBACK.to_owned()],
    };
    let windows = Windows::from(vec![afternoons()]).frozen([freeze]);
    let (inside, ends) = (at("2026-12-24T05:30:00Z"), at("2026-12-31T23:00:00Z"));
    assert_eq!(windows.closed(inside, begin(Some(1))), Some(Closed::Frozen("year end".to_owned(), ends)));
    assert_eq!(windows.next_begin(inside, begin(Some(1))), Some(at("2027-01-01T05:00:00Z")));
    assert_eq!(windows.closed(inside, Begin { stage: "cert-manager", ..begin(Some(1)) }), None);
    assert_eq!(windows.closed(inside, Begin { goes_back: true, ..begin(Some(1)) }), None);
    assert_eq!(windows.closed(at("2026-12-19T05:30:00Z"), begin(Some(1))), None);
    let alone = Windows::default().frozen(windows.freezes);
    assert!(!alone.is_empty() && alone.closed(inside, begin(None)).is_some());
}

#[test]
fn windows_without_freezes_are_written_as_before() {
    let windows = Windows::from(vec![window(&[], 0, HOUR, "UTC")]);
    let text = serde_json::to_string(&windows).unwrap();
    assert_eq!(text, r#"[[{"days":[],"from":0,"to":60,"timeZone":"UTC"}]]"#);
    let day = "2026-12-20".parse().unwrap();
    let days = FreezeDays::Once { from: day, to: day };
    let freeze = Freeze { days, time_zone: TimeZone::utc(), reason: "x".to_owned(), except: Vec::new() };
    for windows in [windows.clone(), windows.frozen([freeze])] {
        let text = serde_json::to_string(&windows).unwrap();
        assert_eq!(serde_json::from_str::<Windows>(&text).unwrap(), windows);
    }
}

#[test]
fn openings_are_told_in_order_and_the_open_one_first() {
    let window = MaintenanceWindow {
        days: vec![WindowDay { week: Week::Last, weekday: Weekday::Saturday }],
        ..MaintenanceWindow::daily(22 * 60, 4 * 60, "Europe/Berlin".parse().unwrap())
    };
    assert_eq!(window.to_string(), "last saturday 22:00 to 04:00 (Europe/Berlin)");
    let openings = window.openings("2026-11-28T22:30:00Z".parse().unwrap(), 35);
    let openings: Vec<String> = openings.map(|(opens, closes)| format!("{opens} {closes}")).collect();
    assert_eq!(openings, ["2026-11-28T21:00:00Z 2026-11-29T03:00:00Z", "2026-12-26T21:00:00Z 2026-12-27T03:00:00Z"]);
}
