//! The real thing: a loop around kustomize's library, see `tests/servers/kustomize/main.go`; for charts, which have to be
//! files, the program itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use fetch::{ChartInflation, Helm};
use serde_json::Value;

use crate::case::Case;
use crate::outcome::Outcome;

/// A running loop.
pub struct Peer {
    program: PathBuf,
    charts: ChartInflation,
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
        let charts = ChartInflation::new(Helm::new(program.with_file_name("helm")), None);
        Ok(Self { program: program.to_owned(), charts, child, input, output })
    }

    /// Renders charts by the same helm.
    pub fn charts(&self) -> &ChartInflation {
        &self.charts
    }

    /// What kustomize makes of a case. A peer that dies (a stack overflow cannot be caught in Go) is started anew.
    pub fn build(&mut self, case: &Case) -> anyhow::Result<Outcome> {
        if case.charts {
            return self.run(case);
        }
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
        let warnings = warnings(lines.filter_map(Value::as_str));
        Ok(match text("error") {
            Some(error) if answer.get("internal").and_then(Value::as_bool) == Some(true) => Outcome::Broken(error),
            Some(error) => Outcome::Refused(error),
            None => Outcome::Built { text: text("output").unwrap_or_default(), warnings },
        })
    }

    fn run(&self, case: &Case) -> anyhow::Result<Outcome> {
        let folder = tempfile::tempdir().context("make a folder for a case")?;
        case.save(folder.path())?;
        let program = self.program.with_file_name("kustomize");
        let mut command = Command::new(&program);
        command.args(["build", "--enable-helm", "--helm-command"]).arg(self.program.with_file_name("helm"));
        if case.unsorted {
            command.args(["--reorder", "none"]);
        }
        let output = command.arg(folder.path().join(&case.directory)).output();
        let output = output.with_context(|| format!("start {}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            let text = String::from_utf8(output.stdout).context("read what kustomize printed")?;
            return Ok(Outcome::Built { text, warnings: warnings(said.lines()) });
        }
        let panicked = said.contains("\ngoroutine ") || said.starts_with("panic:");
        Ok(if panicked { Outcome::Broken(said) } else { Outcome::Refused(said) })
    }

    fn stop(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How Go prints a value of the wrong kind is no part of what is compared, nor what only the program says of its options.
fn warnings<'l>(lines: impl Iterator<Item = &'l str>) -> Vec<String> {
    let is_ours = |line: &String| !line.starts_with("MakePrimitiveReplacer") && !line.starts_with("Flag --reorder ");
    lines.map(without_time).filter(is_ours).collect()
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
