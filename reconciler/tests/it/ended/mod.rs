//! Rollouts that end in the middle, because the program is killed or the machine loses its power, and what is left of them.

mod disk;
mod killed;
mod power;
mod trace;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::Fleet;

/// Rolls the fleet out under `strace`, with some of its own options more; whether it came to its end, and what was recorded.
fn traced(fleet: &Fleet, record: &Path, options: &[&str]) -> (bool, String) {
    let status = Command::new("strace")
        .args(["-f", "-qq", "-e", "signal=none"])
        .args(options)
        .arg("-o")
        .arg(record)
        .arg(env!("CARGO_BIN_EXE_stepgate"))
        .args(["demo", "--dir", fleet.folder().to_str().unwrap()])
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .env("HOME", fleet.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    (status.success(), String::from_utf8_lossy(&std::fs::read(record).unwrap()).into_owned())
}

/// What is left of a rollout: the commits of each cluster in order, and the files without the times in ledgers.
#[derive(Debug, PartialEq)]
struct End {
    commits: BTreeMap<String, Vec<String>>,
    files: BTreeMap<String, String>,
}

fn git(fleet: &Fleet, arguments: &[&str]) -> String {
    let output = Command::new("git").args(["-C", &fleet.place()]).args(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {told}");
    format!("{}{told}", String::from_utf8_lossy(&output.stdout))
}

fn end(fleet: &Fleet) -> End {
    let mut commits: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for subject in git(fleet, &["log", "--reverse", "--format=%s", "deploy"]).lines() {
        let (cluster, told) = subject.split_once(": ").unwrap();
        // The id of a rollout is that of its plan, which names when it was made.
        let told = told.split(", rollout").next().unwrap();
        commits.entry(cluster.to_owned()).or_default().push(told.to_owned());
    }
    let listed = git(fleet, &["ls-tree", "-r", "deploy"]);
    let files = listed.lines().filter(|line| !line.ends_with("/rollout.yaml")).map(|line| {
        let (entry, path) = line.split_once('\t').unwrap();
        (path.to_owned(), entry.to_owned())
    });
    End { commits, files: files.collect() }
}

/// Begun anew, the program comes to the end that it comes to when nothing happens.
fn comes_to_its_end(fleet: &Fleet, expected: &End, place: &str) {
    let again = fleet.demo();
    assert_eq!(again.code, 0, "{place}: {}", again.text());
    assert_eq!(again.json()["complete"], true, "{place}: {}", again.text());
    assert_eq!(&end(fleet), expected, "{place}");
    is_sound(fleet, place);
}

/// Nothing in the repository keeps git or Stepgate from going on.
fn is_sound(fleet: &Fleet, place: &str) {
    let said = git(fleet, &["fsck", "--strict", "--full", "--no-dangling"]);
    assert!(!said.contains("error") && !said.contains("warning") && !said.contains("missing"), "{place}: {said}");
    // Every reference can be changed, and all that is there can be packed.
    for branch in ["main", "deploy"] {
        git(fleet, &["update-ref", &format!("refs/heads/{branch}"), branch]);
    }
    git(fleet, &["config", "stepgate.test", "true"]);
    git(fleet, &["gc", "--quiet", "--prune=now"]);
}

/// How often something is tried: what a variable says, or a number that a check of every change has time for.
fn number_of(variable: &str, usual: usize) -> usize {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap())
}
