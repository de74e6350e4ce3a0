//! What a benchmark prints.

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use crate::measure::Sample;

/// The result of one benchmark.
#[derive(Default)]
pub struct Report {
    /// The work, in words.
    pub work: String,
    /// What was compared before anything was timed, and whether it was equal.
    pub compared: Vec<(String, bool)>,
    /// What was measured: a name and its rounds. The first row is ours.
    pub rows: Vec<(String, Vec<Sample>)>,
    /// Goals and whether they were reached.
    pub goals: Vec<(String, bool)>,
    /// Remarks.
    pub notes: Vec<String>,
}

impl Report {
    /// Adds a comparison of outputs.
    pub fn compare(&mut self, what: impl Into<String>, equal: bool) {
        self.compared.push((what.into(), equal));
    }

    /// Adds a row.
    pub fn row(&mut self, name: impl Into<String>, samples: Vec<Sample>) {
        self.rows.push((name.into(), samples));
    }

    /// Adds an upper limit for a time.
    pub fn at_most(&mut self, what: &str, measured: Duration, limit: Duration) {
        self.goals.push((format!("{what} {} (goal ≤ {})", shown(measured), shown(limit)), measured <= limit));
    }

    /// Adds a ratio of two times, the peer's over ours.
    pub fn ratio(&mut self, what: &str, ours: Duration, peer: Duration, goal: f64) {
        let ratio = peer.as_secs_f64() / ours.as_secs_f64();
        self.goals.push((format!("{what} {ratio:.1}× (goal ≥ {goal}×)"), ratio >= goal));
    }

    /// Prints the report; false when outputs differed.
    pub fn print(&self, name: &str) -> bool {
        line(&format!("\n{name}  {}", self.work));
        for (what, equal) in &self.compared {
            line(&format!("  {}  {what}", if *equal { "equal    " } else { "DIFFERENT" }));
        }
        if self.compared.iter().any(|(_, equal)| !equal) {
            return false;
        }
        for (row, samples) in &self.rows {
            let cpu = median(samples, |sample| sample.cpu);
            let wall = median(samples, |sample| sample.wall);
            let rounds = samples.len();
            line(&format!("  {row:<58} {:>10} cpu {:>10} wall  (median of {rounds})", shown(cpu), shown(wall)));
        }
        for (goal, reached) in &self.goals {
            line(&format!("  {}  {goal}", if *reached { "reached" } else { "MISSED " }));
        }
        for note in &self.notes {
            line(&format!("  note: {note}"));
        }
        true
    }
}

/// The median of the rounds.
pub fn median(samples: &[Sample], of: impl Fn(&Sample) -> Duration) -> Duration {
    let mut values: Vec<Duration> = samples.iter().map(of).collect();
    values.sort();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn shown(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1000.0 { format!("{micros:.1} µs") } else { format!("{:.2} ms", micros / 1000.0) }
}

/// Says what the figures were measured on.
pub fn machine() {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    line(&format!("machine: {}; load {}", machine_told(), load.split(' ').next().unwrap_or("unknown")));
    if cfg!(debug_assertions) {
        line("NOTE: built without optimisation; these figures say nothing");
    }
}

/// The processors of this machine.
pub fn machine_told() -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("\t: unknown processor");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} × {}", model.trim_start_matches(['\t', ' ', ':']))
}

/// Prints a line. Nobody reading any more is no error of a benchmark.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
