//! The program is killed by the kernel at calls that change files, one after another over a whole rollout, and begun anew: it comes to the
//! same end each time, with the same commits, in a repository that git finds nothing wrong with.
//!
//! `STEPGATE_KILLS` says at how many of these calls (40).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::Fleet;

/// The calls that change files. A kill comes at the beginning of one, so that it has not happened.
const CALLS: [&str; 12] = [
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "mkdir",
    "write",
    "pwrite64",
];

/// Rolls the fleet out under `strace`, with one of its own options more; what it has recorded.
fn traced(fleet: &Fleet, record: &Path, option: &str) -> (bool, String) {
    let status = Command::new("strace")
        .args(["-f", "--seccomp-bpf", "-qq", "-e", option, "-e", "signal=none", "-o"])
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

/// Where the program opens a file to write to it.
fn written(trace: &str) -> BTreeSet<&str> {
    let lines = trace.lines().filter(|line| line.contains("O_WRONLY") || line.contains("O_RDWR"));
    lines.filter(|line| !line.contains("= -1 ")).filter_map(|line| line.split('"').nth(1)).collect()
}

#[test]
fn a_rollout_that_is_killed_at_any_call_comes_to_the_same_end() {
    if !skip::has_programs(&["strace"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("trace");
    let expected = {
        let fleet = Fleet::pending();
        let (is_done, trace) = traced(&fleet, &record, "trace=openat,openat2,open,creat");
        assert!(is_done, "{trace}");
        let own = fleet.folder().to_str().unwrap().to_owned();
        let elsewhere: Vec<&str> =
            written(&trace).into_iter().filter(|path| !path.starts_with(&own) && !path.starts_with("/dev/")).collect();
        assert_eq!(elsewhere, [""; 0], "written outside of its folders");
        end(&fleet)
    };
    // How often each call is made.
    let fleet = Fleet::pending();
    let (_, trace) = traced(&fleet, &record, &format!("trace={}", CALLS.join(",")));
    let mut points = Vec::new();
    for call in CALLS {
        let count = trace.lines().filter(|line| line.contains(&format!(" {call}("))).count();
        points.extend((1..=count).map(|number| (call, number)));
    }
    assert!(points.len() > 500, "{} calls", points.len());
    let kills: usize = std::env::var("STEPGATE_KILLS").map_or(40, |text| text.parse().unwrap());
    let step = points.len().div_ceil(kills).max(1);
    let mut killed = 0;
    for (call, number) in points.iter().step_by(step) {
        let place = format!("{call} {number}");
        let fleet = Fleet::pending();
        let (is_done, _) = traced(&fleet, &record, &format!("inject={call}:signal=KILL:when={number}"));
        killed += usize::from(!is_done);
        let again = fleet.demo();
        assert_eq!((again.code, &again.json()["complete"]), (0, &true.into()), "{place}: {}", again.text());
        assert_eq!(end(&fleet), expected, "{place}");
        is_sound(&fleet, &place);
    }
    println!("{killed} kills at {} calls, every {step}. of {}", points.len().div_ceil(step), points.len());
    // How often a call is made differs by the order of threads: a few of the last are not reached.
    assert!(killed * 10 >= points.len().div_ceil(step) * 9, "{killed} kills");
}
