//! `stepgate version` and `stepgate support-bundle`: which version this is, what it reads, and what it tells whoever helps.

use serde_json::Value;

use crate::support::{Fleet, stepgate, support_bundle};

const LEDGER: &str = "clusters/team-a/rollout.yaml";

#[test]
fn every_ledger_of_the_deploy_branch_is_read_those_before_included() {
    let fleet = Fleet::settled();
    let run = fleet.run(&["version", "--check-ledger", "-o", "json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let report = run.json();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let ledgers = report["ledgers"].as_array().unwrap();
    let commits = fleet.run(&["history", "-o", "json"]).json()["commits"].as_array().unwrap().len();
    assert_eq!(ledgers.len(), commits);
    // Those of chained upgrades have the second one, and the others stay readable for older versions.
    assert_eq!(report["ledgerFormat"], 2);
    assert!(ledgers.iter().all(|ledger| ledger["format"] == 1), "{report}");
    // What wrote no format has the first one.
    let before = fleet.text("deploy", LEDGER);
    assert!(before.contains("format: 1\n"), "{before}");
    fleet.write("deploy", LEDGER, before.replace("format: 1\n", "").as_bytes());
    assert_eq!(fleet.run(&["version", "--check-ledger"]).code, 0);
}

#[test]
fn a_ledger_of_a_newer_version_is_named_and_nothing_is_done_with_it() {
    let fleet = Fleet::settled();
    let newer = fleet.text("deploy", LEDGER).replace("format: 1\n", "format: 3\n");
    fleet.write("deploy", LEDGER, newer.as_bytes());
    let run = fleet.run(&["version", "--check-ledger"]);
    assert_eq!(run.code, 3, "{}", run.text());
    assert!(
        run.stdout.contains("team-a") && run.stdout.contains("format 3 is not known to this version"),
        "{}",
        run.stdout
    );
    let why = fleet.run(&["why", "team-a"]);
    assert!(why.stdout.contains("run the version of Stepgate that wrote it"), "{}", why.text());
    let head = fleet.head("deploy");
    fleet.run(&["run", "--once"]);
    assert_eq!(fleet.head("deploy"), head);
}

#[test]
fn without_a_repository_the_version_is_said_alone() {
    let run = stepgate(&["version"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains(concat!("stepgate ", env!("CARGO_PKG_VERSION"))), "{}", run.stdout);
}

#[test]
fn a_support_bundle_holds_the_reports_of_every_cluster() {
    let fleet = Fleet::pending();
    let files = support_bundle(|arguments| fleet.run(arguments));
    let json = |path: &str| serde_json::from_str::<Value>(&files[path]).unwrap();
    let plan = fleet.run(&["plan", "--cluster", "team-a", "-o", "json"]).json();
    assert_eq!(json("clusters/team-a/plan.json"), plan["clusters"][0]);
    assert_eq!(json("clusters/team-a/history.json"), fleet.run(&["history", "team-a", "-o", "json"]).json());
    assert_eq!(json("fleet.json")["clusters"].as_array().unwrap().len(), 3);
    assert_eq!(json("program.json")["version"], env!("CARGO_PKG_VERSION"));
    // Nothing is overwritten.
    let there = fleet.folder().join("there.tar.gz");
    std::fs::write(&there, "mine").unwrap();
    let run = fleet.run(&["support-bundle", "--to", there.to_str().unwrap()]);
    assert!(run.code == 2 && run.stderr.contains("there.tar.gz") && run.stderr.contains("hint: "), "{}", run.text());
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "mine");
}
