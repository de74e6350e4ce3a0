//! The program is killed by the kernel at calls that change files, one after another over a whole rollout, and begun anew: it comes to the
//! same end each time, with the same commits, in a repository that git finds nothing wrong with.
//!
//! `STEPGATE_KILLS` says at how many of these calls (40).

use std::collections::BTreeSet;

use super::{comes_to_its_end, end, number_of, traced};
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
    let seccomp = "--seccomp-bpf";
    let expected = {
        let fleet = Fleet::pending();
        let (is_done, trace) = traced(&fleet, &record, &[seccomp, "-e", "trace=openat,openat2,open,creat"]);
        assert!(is_done, "{trace}");
        let own = fleet.folder().to_str().unwrap().to_owned();
        let elsewhere: Vec<&str> =
            written(&trace).into_iter().filter(|path| !path.starts_with(&own) && !path.starts_with("/dev/")).collect();
        assert_eq!(elsewhere, [""; 0], "written outside of its folders");
        end(&fleet)
    };
    // How often each call is made.
    let fleet = Fleet::pending();
    let (_, trace) = traced(&fleet, &record, &[seccomp, "-e", &format!("trace={}", CALLS.join(","))]);
    let mut points = Vec::new();
    for call in CALLS {
        let count = trace.lines().filter(|line| line.contains(&format!(" {call}("))).count();
        points.extend((1..=count).map(|number| (call, number)));
    }
    assert!(points.len() > 500, "{} calls", points.len());
    let step = points.len().div_ceil(number_of("STEPGATE_KILLS", 40)).max(1);
    let mut killed = 0;
    for (call, number) in points.iter().step_by(step) {
        let place = format!("{call} {number}");
        let fleet = Fleet::pending();
        let kill = format!("inject={call}:signal=KILL:when={number}");
        let (is_done, _) = traced(&fleet, &record, &[seccomp, "-e", &kill]);
        killed += usize::from(!is_done);
        comes_to_its_end(&fleet, &expected, &place);
    }
    println!("{killed} kills at {} calls, every {step}. of {}", points.len().div_ceil(step), points.len());
    // How often a call is made differs by the order of threads: a few of the last are not reached.
    assert!(killed * 10 >= points.len().div_ceil(step) * 9, "{killed} kills");
}
