//! A dashboard that runs, and a client of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::support::Fleet;

/// How long is waited for something that is to come.
const LONG: Duration = Duration::from_secs(300);

/// A dashboard of a fleet, until it is dropped.
pub struct Dashboard {
    process: Child,
    pub address: SocketAddr,
    log: Mutex<Receiver<String>>,
}

impl Dashboard {
    pub fn start(fleet: &Fleet, verb: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate"));
        command.args([verb, "--web-listen", "127.0.0.1:0", "--repo", &fleet.place(), "--mirror"]);
        command.arg(fleet.folder().join("mirror")).args(arguments);
        Self::spawn(command)
    }

    /// The dashboard of any command of the program.
    pub fn spawn(mut command: Command) -> Self {
        command.env("KUBECONFIG", "/nonexistent/kubeconfig").env_remove("STEPGATE_LOG_LEVEL").stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = log.find(|line| line.contains("dashboard at http")).expect("it says where it is");
        let address = line.rsplit("//").next().unwrap().trim().parse().unwrap();
        let (sender, receiver) = channel();
        // Whoever reads no log loses nothing.
        std::thread::spawn(move || log.for_each(|line| drop(sender.send(line))));
        Self { process, address, log: Mutex::new(receiver) }
    }

    /// One that has read the fleet.
    pub fn of(fleet: &Fleet, verb: &str, arguments: &[&str]) -> Self {
        let dashboard = Self::start(fleet, verb, arguments);
        dashboard.until("/fleet.json", |answer| answer.status != 503);
        dashboard
    }

    pub fn ask(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect_timeout(&self.address, LONG).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/html\r\n\r\n", self.address))
    }

    /// The numbers of snapshots, as open pages are told of them; nothing more once nothing comes for long.
    pub fn events(&self) -> impl Iterator<Item = String> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        write!(stream, "GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).unwrap();
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.filter(|line| line.starts_with("data: "))
    }

    /// Asks at each snapshot until the answer is the one that is waited for.
    pub fn until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        self.events().map(|_| self.get(path)).find(wanted).expect("it comes to that")
    }

    /// The line of its log that holds this, once it is written.
    pub fn told(&self, part: &str) -> String {
        let log = self.log.lock().unwrap();
        std::iter::from_fn(|| log.recv_timeout(LONG).ok()).find(|line| line.contains(part)).expect("it is told")
    }

    /// Sends a form.
    pub fn post(&self, path: &str, headers: &str, form: &str) -> Answer {
        self.ask(&format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n{headers}\r\n{form}",
            form.len()
        ))
    }

    /// The cookie of a session for whoever shows this token.
    pub fn log_in(&self, token: &str) -> String {
        let answer = self.post("/login", "", &format!("token={token}"));
        let cookie = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.unwrap_or_else(|| panic!("{}\n{}", answer.head, answer.body));
        cookie.split(';').next().unwrap().to_owned()
    }

    /// Waits until whoever sends these headers is shown the fleet.
    pub fn shows(&self, headers: &str) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        write!(stream, "GET /events HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let request = format!("GET /fleet.json HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        let shown = |line: String| line.starts_with("data: ") && self.ask(&request).status == 200;
        assert!(lines.any(shown), "it shows the fleet");
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}\n{}", self.body))
    }
}
