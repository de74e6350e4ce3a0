//! The dashboard as a browser and a script see it.

mod acting;
mod issuer;
mod seen;
mod server;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use self::server::{Answer, Dashboard};
use crate::support::Fleet;

/// The largest page in bytes (issue 36, 1).
const LARGEST_PAGE: usize = 60_000;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Where Debian's package puts it, and what others call it.
const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// The pages, of the fleet and of one cluster.
const PAGES: [&str; 13] = [
    "/",
    "/approvals",
    "/history",
    "/windows",
    "/problems",
    "/about",
    "/clusters/team-a",
    "/clusters/team-a/rollout",
    "/clusters/team-a/plan",
    "/clusters/team-a/rehearsal",
    "/clusters/team-a/diff",
    "/clusters/team-a/history",
    "/clusters/team-a/actions",
];

#[test]
fn pages_say_what_the_command_line_says() {
    let fleet = Fleet::pending();
    let dashboard = Dashboard::of(&fleet, "web", &[]);
    let snapshot = dashboard.get("/fleet.json").json();
    let status = fleet.run(&["status", "-o", "json"]).json();
    for (row, told) in snapshot["clusters"].as_array().unwrap().iter().zip(status["clusters"].as_array().unwrap()) {
        for (field, value) in told.as_object().unwrap() {
            assert_eq!(&row[field], value, "{field}");
        }
    }
    let plan = fleet.run(&["plan", "--cluster", "team-a", "-o", "json"]).json();
    assert_eq!(dashboard.get("/clusters/team-a/plan.json").json(), plan["clusters"][0]);
    let diff = fleet.run(&["diff", "--cluster", "team-a", "-o", "json"]).json();
    assert_eq!(dashboard.get("/clusters/team-a/diff.json").json(), diff);
    let why = fleet.run(&["why", "team-a", "-o", "json"]).json();
    let told = dashboard.get("/clusters/team-a/why.json").json();
    for (field, value) in why.as_object().unwrap() {
        assert_eq!(&told[field], value, "{field}");
    }
    let reasons = why["reasons"].as_array().unwrap();
    let page = dashboard.get("/clusters/team-a").body;
    assert!(!reasons.is_empty() && page.contains("Why"), "{page}");
    let history = fleet.run(&["history", "team-a", "-o", "json"]).json();
    assert_eq!(dashboard.get("/clusters/team-a/history.json").json(), history);
    let problems = dashboard.get("/problems.json").json();
    let check = fleet.run(&["check", "-o", "json"]).json();
    let messages = |report: &Value| -> BTreeSet<String> {
        report["problems"].as_array().unwrap().iter().map(|problem| problem["message"].to_string()).collect()
    };
    assert!(messages(&problems).is_subset(&messages(&check)));
}

#[test]
fn each_page_is_small_whole_and_asks_for_nothing_from_elsewhere() {
    let fleet = Fleet::pending();
    let dashboard = Dashboard::of(&fleet, "web", &[]);
    let addresses = regex::Regex::new(r#"(?:href|src|action)="([^"]*)""#).unwrap();
    for path in PAGES {
        let page = dashboard.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        assert!(page.body.len() < LARGEST_PAGE, "{path} has {} bytes", page.body.len());
        let policy = page.head.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        for address in addresses.captures_iter(&page.body).map(|found| found[1].to_owned()) {
            assert!(address.starts_with('/') && !address.starts_with("//") || address == "#main", "{path}: {address}");
        }
        assert!(!page.body.contains(" style=") && !page.body.contains("onclick"), "{path}");
        for asset in addresses.captures_iter(&page.body).map(|found| found[1].to_owned()) {
            if asset.starts_with("/assets/") {
                let answer = dashboard.get(&asset);
                assert!(answer.status == 200 && answer.head.contains("immutable"), "{asset}");
            }
        }
    }
    assert!(dashboard.get("/calendar.ics").body.starts_with("BEGIN:VCALENDAR\r\n"));
}

#[test]
fn an_open_page_is_told_of_a_commit_at_once() {
    let fleet = Fleet::settled();
    // Nothing but the commit makes it look.
    let dashboard = Dashboard::of(&fleet, "web", &["--interval", "3600"]);
    let mut events = dashboard.events();
    let first = events.next().unwrap();
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    let second = events.next().unwrap();
    assert_ne!(first, second);
    let main = fleet.head("main").unwrap().to_string();
    let snapshot = dashboard.until("/fleet.json", |answer| answer.json()["source"] == main.as_str()).json();
    assert_eq!(snapshot["clusters"][0]["next"], "cert-manager", "{snapshot}");
    assert!(!first.contains("mgmt") && !second.contains("mgmt"), "nothing of the fleet goes over the stream");
}

#[test]
fn a_demonstration_is_shown_beside_it_until_it_is_stopped() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate"));
    command.args(["demo", "--web", "127.0.0.1:0"]).stdout(std::process::Stdio::null());
    let dashboard = Dashboard::spawn(command);
    let is_over = |answer: &Answer| {
        let rows = if answer.status == 200 { answer.json()["clusters"].clone() } else { Value::Null };
        let is_there = |row: &Value| row["kubernetes"] == "1.34" && row["next"].is_null();
        rows.as_array().is_some_and(|rows| rows.len() == 3 && rows.iter().all(is_there))
    };
    dashboard.until("/fleet.json", is_over);
    assert!(dashboard.told("until you stop it").contains("http://127.0.0.1:"));
}

#[test]
fn the_controller_shows_what_its_pass_has_decided() {
    let fleet = Fleet::pending();
    let dashboard = Dashboard::of(&fleet, "run", &["--listen", "off", "--health-address", "off"]);
    let is_of_controller = |answer: &Answer| {
        let report = answer.json();
        report["readBy"] == "controller" && report["clusters"].as_array().is_some_and(|rows| rows.len() == 3)
    };
    let report = dashboard.until("/fleet.json", is_of_controller).json();
    let row = &report["clusters"][0];
    assert_eq!((&row["cluster"], &row["state"]), (&"mgmt".into(), &"waiting".into()), "{report}");
    let page = dashboard.get("/clusters/mgmt").body;
    assert!(page.contains("cannot be reached"), "{page}");
}

#[test]
fn hostile_names_and_requests_are_answered_with_nothing_of_theirs_in_force() {
    let fleet = Fleet::settled();
    let dashboard = Dashboard::of(&fleet, "web", &[]);
    let page = dashboard.get("/clusters/%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    assert_eq!(page.status, 404);
    assert!(!page.body.contains("<script>alert"), "{}", page.body);
    let page = dashboard.get("/?name=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&page=99999999999999");
    assert!(page.status != 200 || !page.body.contains("<script>alert"), "{}", page.body);
    let page = dashboard.get("/?name=%22%3E%3Cscript%3Ealert(1)%3C/script%3E");
    assert!(page.status == 200 && !page.body.contains("<script>alert"), "{}", page.body);
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n", 421),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        ("POST /login HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 0\r\n\r\n", 403),
        ("GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("GET /assets/..%2F..%2Flib.rs HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    ] {
        assert_eq!(dashboard.ask(request).status, status, "{request}");
    }
}

#[test]
fn a_token_is_asked_for_where_the_operator_names_one() {
    let fleet = Fleet::settled();
    let file = fleet.folder().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    let dashboard = Dashboard::start(&fleet, "web", &["--web-token-file", file.to_str().unwrap()]);
    let ask = |path: &str, more: &str| dashboard.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"));
    for path in PAGES.into_iter().chain(["/fleet.json", "/events", "/calendar.ics"]) {
        assert_eq!(ask(path, "").status, 401, "{path}");
        assert_eq!(ask(path, "Accept: text/html\r\n").status, 303, "{path}");
    }
    let read = ask("/fleet.json", &format!("Authorization: Bearer {TOKEN}\r\n")).status;
    assert!([200, 503].contains(&read), "{read}");
    let log_in = |token: &str| dashboard.post("/login", "", &format!("token={token}"));
    assert_eq!(log_in("wrong").status, 403);
    let answer = log_in(TOKEN);
    let cookie = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains(TOKEN), "{cookie}");
    let session = cookie.split(';').next().unwrap();
    assert!([200, 503].contains(&ask("/", &format!("Cookie: {session}\r\n")).status));
}

#[test]
fn an_address_that_others_reach_is_refused_without_a_word_on_who_may_read() {
    let fleet = Fleet::settled();
    for (arguments, wanted) in [
        (&["--web-listen", "0.0.0.0:0"][..], "--web-token-file"),
        (&["--web-listen", "127.0.0.1:0", "--web-token-file", "/nowhere"], "/nowhere"),
    ] {
        let run = fleet.run(&[&["web"], arguments].concat());
        assert!(run.code == 2 && run.stderr.contains(wanted), "{}", run.stderr);
    }
}

/// The page after its script has run, and what the browser complained of.
fn browse(program: &PathBuf, url: &str, more: &[&str]) -> (String, Vec<String>) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["--kill-after=5", "300"])
        .arg(program)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--no-proxy-server", "--enable-logging=stderr", "--timeout=60000", "--window-size=1280,1600"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(more)
        .arg(url)
        .env("HOME", profile.path())
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let complaints = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), complaints)
}

#[test]
fn a_browser_shows_each_page_without_a_complaint() {
    let Some(program) = BROWSERS.into_iter().map(PathBuf::from).find(|program| program.exists()) else {
        return skip::missing("there is no browser (Debian: chromium)");
    };
    let fleet = Fleet::pending();
    let dashboard = Dashboard::of(&fleet, "web", &[]);
    for path in ["/", "/clusters/team-a", "/clusters/team-a/rollout", "/clusters/team-a/diff"] {
        let (page, complaints) = browse(&program, &dashboard.url(path), &["--dump-dom"]);
        assert!(complaints.is_empty(), "{path}: {complaints:?}");
        // The script has told the time by how far away it is.
        assert!(page.contains("</time>") && page.contains(" ago</time>"), "{path}: {page}");
        let shot =
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page{}.png", path.replace('/', "-")));
        let _ = std::fs::remove_file(&shot);
        let told = format!("--screenshot={}", shot.display());
        browse(&program, &dashboard.url(path), &[&told]);
        assert!(std::fs::read(&shot).is_ok_and(|bytes| bytes.starts_with(b"\x89PNG")), "{path}");
    }
}
