//! What the running program listens on, and what strangers can do to it there.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::support::Fleet;

/// How long is waited for something that is to come.
const LONG: Duration = Duration::from_secs(60);

/// A controller that may open few files, and what it logs.
pub struct Running {
    process: Child,
    lines: Receiver<String>,
}

impl Running {
    pub fn start(fleet: &Fleet, arguments: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_stepgate")]);
        command.args(["run", "--interval", "3600", "--repo", &fleet.place(), "--mirror"]);
        command.arg(fleet.folder().join("mirror")).args(arguments);
        command.env("KUBECONFIG", "/nonexistent/kubeconfig").stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (sender, lines) = channel();
        let log = BufReader::new(process.stderr.take().unwrap());
        std::thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { process, lines }
    }

    /// The next line that holds this.
    pub fn says(&self, wanted: &str) -> String {
        let end = Instant::now() + LONG;
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if line.contains(wanted) {
                return line;
            }
            said.push(line);
        }
        panic!("it never said {wanted:?}:\n{}", said.join("\n"));
    }

    /// Where the endpoint of this name is.
    fn address(&self, name: &str) -> SocketAddr {
        let line = self.says(&format!("{name} at http"));
        line.rsplit("//").next().unwrap().trim().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn send(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect_timeout(&address, LONG).unwrap();
    // One that was cut off already is as good.
    let _ = stream.write_all(text.as_bytes());
    stream
}

/// The status line and the rest of the answer.
pub fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = send(address, &format!("GET {path} HTTP/1.1\r\nHost: stepgate\r\n\r\n"));
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn half_open_requests_leave_health_and_loop_alive() {
    let fleet = Fleet::settled();
    let secret = fleet.folder().join("secret");
    std::fs::write(&secret, "s3cret\n").unwrap();
    let free = "127.0.0.1:0";
    let secret = secret.to_str().unwrap();
    let named =
        ["--health-address", free, "--listen", free, "--webhook-address", free, "--webhook-secret-file", secret];
    let running = Running::start(&fleet, &named);
    let [webhook, health, metrics] = ["webhook", "health", "metrics"].map(|name| running.address(name));
    running.says("`team-b` is done");
    // Nothing, half a header, half a body.
    let halves = ["", "GET /healthz HTTP/1.1\r\nHost:", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nfour"];
    for address in [webhook, metrics, health] {
        let half: Vec<TcpStream> = (0..300).map(|number| send(address, halves[number % halves.len()])).collect();
        assert!(get(health, "/healthz").starts_with("HTTP/1.1 200"));
        assert!(get(metrics, "/metrics").contains("stepgate_passes_total"));
        drop(half);
    }
    let _half: Vec<TcpStream> = (0..300).map(|number| send(webhook, halves[number % halves.len()])).collect();
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    running.says("`mgmt` is waiting");
    assert!(get(health, "/readyz").starts_with("HTTP/1.1 200"));
}

#[test]
fn metrics_are_shown_on_loopback_unless_somebody_says_otherwise() {
    let fleet = Fleet::settled();
    for (arguments, expected) in [
        (&["--listen", "0.0.0.0:0"][..], "HTTP/1.1 403"),
        (&["--listen", "0.0.0.0:0", "--metrics-authentication", "none"], "HTTP/1.1 200"),
        (&["--listen", "127.0.0.1:0"], "HTTP/1.1 200"),
    ] {
        let running = Running::start(&fleet, &[arguments, &["--health-address", "off"]].concat());
        let address = SocketAddr::from(([127, 0, 0, 1], running.address("metrics").port()));
        assert!(get(address, "/metrics").starts_with(expected), "{arguments:?}");
        assert!(get(address, "/healthz").starts_with("HTTP/1.1 200"), "{arguments:?}");
    }
}

#[test]
fn webhooks_without_a_secret_are_refused_before_anything_is_done() {
    let fleet = Fleet::pending();
    let head = fleet.head("deploy");
    let empty = fleet.folder().join("empty");
    std::fs::write(&empty, "\n").unwrap();
    for arguments in [
        &["--webhook-address", "127.0.0.1:0"][..],
        &["--webhook-address", "127.0.0.1:0", "--webhook-secret-file", empty.to_str().unwrap()],
        &["--webhook-address", "127.0.0.1:0", "--webhook-secret-file", fleet.folder().to_str().unwrap()],
    ] {
        for once in [&["--once"][..], &[]] {
            let run = fleet.run(&[&["run"], once, arguments].concat());
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?} {once:?}");
            assert!(run.stderr.contains("secret") || run.stderr.contains("plain file"), "{}", run.stderr);
        }
    }
    assert_eq!(fleet.head("deploy"), head);
}

#[test]
fn a_controller_says_at_its_start_what_it_works_on() {
    let fleet = Fleet::settled();
    let running = Running::start(&fleet, &["--listen", "off", "--health-address", "off"]);
    let said = |wanted: &[&str]| {
        let line = running.says(wanted[0]);
        assert!(wanted.iter().all(|wanted| line.contains(wanted)), "{wanted:?} in {line}");
    };
    said(&["no API server", "/nonexistent/kubeconfig"]);
    said(&["fleet repository", &fleet.place(), "`main`", "`deploy`"]);
    said(&["3 clusters", "mgmt done", "team-a done", "team-b done"]);
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    said(&["`mgmt` is waiting"]);
    said(&["no cluster that is at work can be reached", "/nonexistent/kubeconfig"]);
}
