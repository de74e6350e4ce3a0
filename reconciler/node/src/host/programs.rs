//! The one way to the node's own programs: which, with what, how it ended, and the last it said.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::files::root::Root;
use crate::host::host_namespaces;

/// No more of what a program prints is kept.
const MOST_BYTES: usize = 4 << 20;

/// As many lines tell what went wrong.
const LAST_LINES: usize = 12;

/// A program of the node and what it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// A name, or a path of the node.
    pub program: String,
    /// As they are: no shell reads them.
    pub arguments: Vec<String>,
    /// It is killed after that.
    pub limit: Duration,
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.program)?;
        self.arguments.iter().try_for_each(|argument| {
            let is_plain = !argument.is_empty() && !argument.contains([' ', '\n', '\'', '"', '$']);
            if is_plain { write!(formatter, " {argument}") } else { write!(formatter, " {argument:?}") }
        })
    }
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Killed, since its time was over.
    TimeOver,
}

/// What a program answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output.
    pub output: String,
    /// The last lines of its output and its errors.
    pub last_lines: Vec<String>,
}

/// What runs programs on the node.
pub trait Programs {
    /// Runs one to its end.
    ///
    /// # Errors
    /// When it cannot be started.
    fn run(&self, call: &Call) -> io::Result<Answer>;
}

/// Programs of the machine; where this is a container, in the namespaces of the first process of the machine.
#[derive(Debug, Clone)]
pub struct HostPrograms {
    root: Root,
    enters: bool,
}

impl HostPrograms {
    /// `enters`: this process runs in a container and sees the processes of the node.
    #[must_use]
    pub fn new(root: &Root, enters: bool) -> Self {
        Self { root: root.clone(), enters }
    }

    fn command(&self, call: &Call) -> io::Result<Command> {
        let mut command = if self.enters {
            let mut command = Command::new(std::env::current_exe()?);
            command.args([host_namespaces::VERB, "--", &call.program]);
            command
        } else if call.program.starts_with('/') {
            Command::new(self.root.place(&call.program)?)
        } else {
            Command::new(&call.program)
        };
        command.args(&call.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        Ok(command)
    }
}

impl Programs for HostPrograms {
    fn run(&self, call: &Call) -> io::Result<Answer> {
        let mut child = self.command(call)?.spawn()?;
        let output = child.stdout.take().map(read_behind);
        let errors = child.stderr.take().map(read_behind);
        let exit = end_of(&mut child, call.limit)?;
        let text = |reader: Option<JoinHandle<Vec<u8>>>| {
            let bytes = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (output, errors) = (text(output), text(errors));
        let lines: Vec<&str> = output.lines().chain(errors.lines()).filter(|line| !line.trim().is_empty()).collect();
        let last_lines =
            lines.iter().skip(lines.len().saturating_sub(LAST_LINES)).map(|line| (*line).to_owned()).collect();
        Ok(Answer { exit, output, last_lines })
    }
}

/// Waits for its end, and makes one after `limit`: of the program and of what it started.
fn end_of(child: &mut Child, limit: Duration) -> io::Result<Exit> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(5);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(exit(status));
        }
        if start.elapsed() > limit {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ended_meanwhile = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(Exit::TimeOver);
        }
        // The standard library waits for a child without a limit or not at all.
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

/// Reads to the end, so that the program never waits for us, and keeps the last part.
fn read_behind(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let (mut kept, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            kept.extend_from_slice(buffer.get(..length).unwrap_or_default());
            if kept.len() > 2 * MOST_BYTES {
                kept.drain(..kept.len() - MOST_BYTES);
            }
        }
        kept
    })
}

impl Answer {
    /// What it printed, if it ended well.
    ///
    /// # Errors
    /// The command, how it ended, and the last it said.
    pub fn success(self, call: &Call) -> Result<String, String> {
        let how = match self.exit {
            Exit::Code(0) => return Ok(self.output),
            Exit::Code(code) => format!("ended with {code}"),
            Exit::Signal(signal) => format!("was ended by signal {signal}"),
            Exit::TimeOver => format!("did not end within {} s", call.limit.as_secs()),
        };
        let said = if self.last_lines.is_empty() { "it said nothing".to_owned() } else { self.last_lines.join("\n") };
        Err(format!("`{call}` {how}: {said}"))
    }
}
