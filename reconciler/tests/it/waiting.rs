//! `wait`, `show` and `status --watch`: what scripts and people follow a rollout with.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::support::{Fleet, stepgate};

#[test]
fn wait_comes_back_with_what_came_of_it() {
    let fleet = Fleet::settled();
    let done = fleet.run(&["wait", "mgmt"]);
    assert!(done.code == 0 && done.stdout.starts_with("mgmt is done"), "{}", done.text());
    let stage = fleet.run(&["wait", "mgmt", "--for", "stage=capi", "--timeout", "1s"]);
    assert_eq!(stage.code, 0, "it is committed: {}", stage.text());
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    let over = fleet.run(&["wait", "mgmt", "--timeout", "1s"]);
    assert!(over.code == 4 && over.stderr.contains("the time is over"), "{} {}", over.code, over.text());
    assert!(over.stderr.contains("stepgate why mgmt"), "{}", over.stderr);
}

#[test]
fn wait_sees_a_commit_that_comes_meanwhile() {
    let fleet = Fleet::pending();
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate"));
    command.args(["wait", "mgmt", "--for", "stage=cert-manager", "--interval", "3600", "--repo", &fleet.place()]);
    command.arg("--mirror").arg(fleet.folder().join("mirror")).env("KUBECONFIG", "/nonexistent/kubeconfig");
    let mut waiting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(waiting.stderr.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    assert!(first.starts_with("mgmt is waiting"), "{first}");
    std::thread::spawn(move || said.for_each(drop));
    assert_eq!(fleet.demo().code, 0);
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}

#[test]
fn wait_says_at_once_what_can_never_come() {
    let fleet = Fleet::settled();
    for (arguments, wanted) in [
        (&["wait", "mgmt", "--for", "state=done"][..], "stage=control-plane"),
        (&["wait", "mgmd"], "clusters are: mgmt"),
    ] {
        let run = fleet.run(arguments);
        assert!(run.code == 2 && run.stderr.contains(wanted), "{}", run.text());
    }
}

#[test]
fn show_tells_one_rollout_commit_by_commit() {
    let fleet = Fleet::settled();
    let history = fleet.run(&["history", "mgmt", "-o", "json"]).json();
    let rollout = history["commits"][0]["rollout"].as_str().unwrap().to_owned();
    let shown = fleet.run(&["show", &rollout[..6], "-o", "json"]).json();
    assert_eq!((&shown["rollout"], &shown["cluster"]), (&rollout.as_str().into(), &"mgmt".into()), "{shown}");
    let commits = shown["commits"].as_array().unwrap();
    let stages: Vec<&str> = commits.iter().filter_map(|commit| commit["stage"].as_str()).collect();
    assert_eq!((stages.first(), stages.last()), (Some(&"cert-manager"), Some(&"verify")));
    let text = fleet.run(&["show", &rollout]);
    assert!(text.stdout.contains("more facts)") && text.stdout.lines().all(|line| line.chars().count() <= 102));
    let verbose = fleet.run(&["show", &rollout, "--verbose"]);
    assert!(verbose.stdout.lines().count() > text.stdout.lines().count(), "{}", verbose.stdout);
    let wrong = fleet.run(&["show", "000000000000"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("stepgate history"), "{}", wrong.text());
}

/// A program that is ended with the test, whatever comes of that.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn status_is_shown_again_below_where_there_is_no_terminal() {
    let fleet = Fleet::settled();
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate"));
    command.args(["status", "--watch", "--interval", "3600", "--cluster", "mgmt", "--repo", &fleet.place()]);
    command.arg("--mirror").arg(fleet.folder().join("mirror")).env("KUBECONFIG", "/nonexistent/kubeconfig");
    let mut watching = Ended(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let first = lines.find(|line| line.starts_with("mgmt")).unwrap();
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    let next = lines.find(|line| line.starts_with("mgmt")).unwrap();
    assert!(next != first && next.contains("cert-manager"), "{first}\n{next}");
    assert!(!next.contains('\u{1b}'), "{next}");
}

#[test]
fn a_verb_or_flag_that_is_mistyped_is_answered_with_the_nearest() {
    for (arguments, wanted) in [
        (&["statsu"][..], "'status'"),
        (&["plan", "--verbos"], "'--verbose'"),
        (&["wait", "mgmt", "--timout", "1s"], "'--timeout'"),
    ] {
        let run = stepgate(arguments);
        assert!(run.code == 2 && run.stderr.contains(wanted), "{}", run.text());
    }
}
