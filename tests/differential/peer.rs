//! The real thing: a loop around kustomize's library, see `tests/servers/kustomize/main.go`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use serde_json::Value;

use crate::case::Case;
use crate::outcome::Outcome;

/// A running loop.
pub struct Peer {
    program: PathBuf,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the program.
    pub fn start(program: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let input = child.stdin.take().context("the peer has no input")?;
        let output = BufReader::new(child.stdout.take().context("the peer has no output")?);
        Ok(Self { program: program.to_owned(), child, input, output })
    }

    /// What kustomize makes of a case. A peer that dies (a stack overflow cannot be caught in Go) is started anew.
    pub fn build(&mut self, case: &Case) -> anyhow::Result<Outcome> {
        let asked = self.ask(case);
        if let Ok(outcome) = asked {
            return Ok(outcome);
        }
        self.stop();
        *self = Self::start(&self.program.clone())?;
        Ok(Outcome::Broken("the program died".to_owned()))
    }

    fn ask(&mut self, case: &Case) -> anyhow::Result<Outcome> {
        let mut line = case.to_json().to_string();
        line.push('\n');
        self.input.write_all(line.as_bytes())?;
        self.input.flush()?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        let answer: Value = serde_json::from_str(&answer).context("read the peer's answer")?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let lines = answer.get("warnings").and_then(Value::as_array).into_iter().flatten();
        // How Go prints a value of the wrong kind is no part of what is compared.
        let warnings = lines.filter_map(Value::as_str).map(without_time);
        let warnings = warnings.filter(|line| !line.starts_with("MakePrimitiveReplacer")).collect();
        Ok(match text("error") {
            Some(error) if answer.get("internal").and_then(Value::as_bool) == Some(true) => Outcome::Broken(error),
            Some(error) => Outcome::Refused(error),
            None => Outcome::Built { text: text("output").unwrap_or_default(), warnings },
        })
    }

    fn stop(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const UNUSED: &str = "well-defined vars that were never replaced: ";

/// Go's log begins its lines with the time.
fn without_time(line: &str) -> String {
    let rest = line.get(20..).filter(|_| line.starts_with(|c: char| c.is_ascii_digit()) && line.get(4..5) == Some("/"));
    let line = rest.unwrap_or(line);
    let Some(names) = line.strip_prefix(UNUSED) else {
        return line.to_owned();
    };
    // Go prints them in the order of a map, which is any.
    let mut names: Vec<&str> = names.split(',').collect();
    names.sort_unstable();
    format!("{UNUSED}{}", names.join(","))
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop();
    }
}
