//! The controller as a process that goes on.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::support::Fleet;

/// How long anything may take that is waited for. On an idle machine it takes a second.
const PATIENCE: Duration = Duration::from_secs(300);

/// So long a controller with nothing to do is watched.
const WATCHED: Duration = Duration::from_secs(3);

/// A running controller, and what it logs.
struct Running {
    process: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(fleet: &Fleet) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_stepgate"))
            // Nothing but a change in git wakes it.
            .args(["run", "--log-level", "info", "--listen", "off", "--interval", "3600", "--repo", &fleet.place()])
            .arg("--mirror")
            .arg(fleet.folder().join("mirror"))
            .env("KUBECONFIG", "/nonexistent/kubeconfig")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let log = BufReader::new(process.stderr.take().unwrap());
        std::thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { process, lines }
    }

    /// Waits for a line that holds all of these.
    fn says(&self, wanted: &[&str]) {
        let end = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if wanted.iter().all(|wanted| line.contains(wanted)) {
                return;
            }
            said.push(line);
        }
        panic!("it never said {wanted:?}:\n{}", said.join("\n"));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_push_wakes_a_controller_that_has_nothing_to_do() {
    let fleet = Fleet::settled();
    let running = Running::start(&fleet);
    running.says(&["`team-b` is done"]);
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    running.says(&["`mgmt` is waiting", "cannot be reached"]);
}

#[test]
fn the_deploy_branch_is_watched_where_the_fleet_could_not_be_read_at_first() {
    let fleet = Fleet::settled();
    let main = fleet.head("main").unwrap().to_string();
    let update = |arguments: &[&str]| {
        let updated = Command::new("git").arg("-C").arg(fleet.place()).arg("update-ref").args(arguments).status();
        assert!(updated.unwrap().success());
    };
    update(&["-d", "refs/heads/main"]);
    let running = Running::start(&fleet);
    running.says(&["the fleet could not be read"]);
    update(&["refs/heads/main", &main]);
    running.says(&["`team-b` is done"]);
    fleet.write("deploy", "clusters/team-b/bundle/note.txt", b"I was here.\n");
    running.says(&["team-b", "Stepgate did not make that commit"]);
}

#[test]
fn a_controller_with_nothing_to_do_rests() {
    let fleet = Fleet::settled();
    let running = Running::start(&fleet);
    running.says(&["`team-b` is done"]);
    let spent = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.process.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let end = Instant::now() + PATIENCE;
    loop {
        let before = spent();
        // What it would log while it rests is what is waited for: nothing.
        let line = running.lines.recv_timeout(WATCHED);
        let took = spent() - before;
        if line.is_err() && took < 30 {
            return;
        }
        // What it did before it came to rest may take its time.
        assert!(Instant::now() < end, "it never rests: {took} hundredths of a second in {WATCHED:?}, {line:?}");
    }
}
