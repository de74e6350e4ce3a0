//! What verbs print about the demonstration's fleet, whole, as people read it. `INSTA_UPDATE=always` records it anew.

use regex::Regex;

use crate::approvals::asked;
use crate::support::{Fleet, Run, stepgate};

/// What differs from run to run, and what stands for it.
const DIFFERS: [(&str, &str); 7] = [
    (r"\b[0-9a-f]{64}\b", "DIGEST"),
    (r"\b[0-9a-f]{40}\b", "COMMIT"),
    (r"\b[0-9a-f]{12}\b", "ID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "TIME"),
    (r"(\bin \d+ [a-z]+( \d+ [a-z]+)?|\b\d+ [a-z]+( \d+ [a-z]+)? ago) \([-0-9: ]+\)", "WHEN"),
    // A column is as wide as its widest cell: ten seconds are wider than nine.
    (r"\bWHEN +", "WHEN  "),
    (r"/[^\s`']*/fleet\.git", "FLEET"),
];

fn same(run: &Run) -> String {
    let text = format!("exit {}\n{}", run.code, run.text());
    DIFFERS
        .iter()
        .fold(text, |text, (differs, same)| Regex::new(differs).unwrap().replace_all(&text, *same).into_owned())
}

fn check(name: &str, run: &Run) {
    insta::assert_snapshot!(name, same(run));
}

#[test]
fn verbs_about_a_fleet_with_something_to_do() {
    let fleet = Fleet::pending();
    for (name, arguments) in [
        ("plan", &["plan"][..]),
        ("plan-verbose", &["plan", "--verbose", "--cluster", "team-a"]),
        ("plan-markdown", &["plan", "--cluster", "team-a", "-o", "markdown"]),
        ("diff-names", &["diff", "--name-only"]),
        ("diff", &["diff", "--cluster", "mgmt", "--stage", "cert-manager"]),
        ("status", &["status"]),
        ("why", &["why", "mgmt"]),
        ("check", &["check"]),
        ("approve-nothing", &["approve", "mgmt"]),
        ("retry-nothing", &["retry", "mgmt"]),
        ("wrong-cluster", &["why", "mgmd"]),
    ] {
        check(name, &fleet.run(arguments));
    }
}

#[test]
fn verbs_about_a_fleet_that_is_done() {
    let fleet = Fleet::settled();
    for (name, arguments) in [
        ("done-plan", &["plan"][..]),
        ("done-status", &["status"]),
        ("done-why", &["why", "mgmt"]),
        ("history", &["history", "mgmt"]),
        ("events", &["events", "mgmt"]),
        ("wait", &["wait", "mgmt"]),
        ("rollback-barred", &["rollback", "mgmt"]),
    ] {
        check(name, &fleet.run(arguments));
    }
}

#[test]
fn verbs_about_a_fleet_that_asks_people() {
    let fleet = asked();
    for (name, arguments) in [
        ("asked-status", &["status"][..]),
        ("asked-why", &["why", "mgmt"]),
        ("approve", &["approve", "mgmt"]),
        ("reject", &["reject", "mgmt", "--reason", "not today"]),
        ("hold", &["hold", "mgmt", "--reason", "not today"]),
        ("resume", &["resume", "mgmt"]),
    ] {
        check(name, &fleet.run(arguments));
    }
}

#[test]
fn help_of_the_program() {
    check("help", &stepgate(&["--help"]));
    check("mistyped", &stepgate(&["statsu"]));
}

#[test]
fn demonstrations_tell_their_story_on_one_screen() {
    for (name, arguments) in [("demo", &[][..]), ("demo-break", &["--break", "cert-manager"])] {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().to_str().unwrap();
        let run = stepgate(&[&["demo", "--dir", kept][..], arguments].concat());
        let told = run.stdout.replace(kept, "/FOLDER");
        // Its first line says how long it took.
        let story = told.split_once("of virtual time").unwrap().1.split_once('\n').unwrap().1;
        assert!(story.lines().count() <= 40, "{story}");
        check(name, &Run { code: run.code, stdout: story.to_owned(), stderr: String::new() });
    }
}
