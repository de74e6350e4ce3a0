//! What the program is told on its command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;

/// What to run, for how long, and where it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// The test binary of the suite on real servers.
    pub tests: PathBuf,
    /// No run begins after this time.
    pub lasts: Option<Duration>,
    /// No more runs than these.
    pub runs: Option<usize>,
    /// Words that a cell has to have.
    pub only: String,
    /// What cells, their order and their faults follow from.
    pub seed: u64,
    /// How many runs there are at once.
    pub jobs: usize,
    /// How long one may take.
    pub limit: Duration,
    /// Where results, page and logs are.
    pub folder: PathBuf,
    /// What is done.
    pub verb: Verb,
}

/// What the program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Upgrades run.
    Run,
    /// The cells are listed, with those that are not offered.
    List,
    /// The page is written again.
    Page,
}

impl Arguments {
    /// Reads them. Without `--hours` and `--runs`, each selected cell is run once.
    pub fn read(given: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let now = u64::try_from(Timestamp::now().as_second()).unwrap_or_default();
        let mut arguments = Self {
            tests: PathBuf::new(),
            lasts: None,
            runs: None,
            only: String::new(),
            seed: now % 1_000_000_000,
            jobs: 1,
            limit: Duration::from_secs(1800),
            folder: PathBuf::from("target/continuous"),
            verb: Verb::Run,
        };
        let mut given = given;
        while let Some(argument) = given.next() {
            let mut value = || given.next().with_context(|| format!("{argument} needs a value"));
            let read = |text: &str| text.parse::<u64>().with_context(|| format!("{text:?} is no number"));
            match argument.as_str() {
                "--tests" => arguments.tests = value()?.into(),
                "--hours" => arguments.lasts = Some(hours(&value()?)?),
                "--runs" => arguments.runs = Some(usize::try_from(read(&value()?)?)?),
                "--only" => arguments.only = value()?,
                "--seed" => arguments.seed = read(&value()?)?,
                "--jobs" => arguments.jobs = usize::try_from(read(&value()?)?)?,
                "--limit" => arguments.limit = Duration::from_secs(60 * read(&value()?)?),
                "--to" => arguments.folder = value()?.into(),
                "--list" => arguments.verb = Verb::List,
                "--page" => arguments.verb = Verb::Page,
                _ => bail!("unknown argument {argument} (see --help)"),
            }
        }
        ensure!(arguments.jobs > 0, "--jobs is at least 1");
        ensure!(arguments.verb != Verb::Run || arguments.tests.is_file(), "--tests names no program");
        Ok(arguments)
    }
}

fn hours(text: &str) -> anyhow::Result<Duration> {
    let hours: f64 = text.parse().with_context(|| format!("{text:?} is no number of hours"))?;
    Duration::try_from_secs_f64(3600.0 * hours).with_context(|| format!("{text:?} is no number of hours"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> anyhow::Result<Arguments> {
        Arguments::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_are_read_and_wrong_ones_named() {
        let told = read(
            "--tests /proc/self/exe --hours 1.5 --runs 60 --only stacked,one --seed 7 --jobs 2 --limit 20 --to out",
        )
        .unwrap();
        assert_eq!((told.lasts, told.runs), (Some(Duration::from_secs(5400)), Some(60)));
        assert_eq!((told.only.as_str(), told.seed, told.jobs, told.verb), ("stacked,one", 7, 2, Verb::Run));
        assert_eq!((told.limit, told.folder), (Duration::from_secs(1200), PathBuf::from("out")));
        assert_eq!(read("--list").unwrap().verb, Verb::List);
        for (line, words) in [
            ("--runs", "--runs needs a value"),
            ("--list --seed x", "\"x\" is no number"),
            ("--list --hours x", "is no number of hours"),
            ("--list --hours -1", "is no number of hours"),
            ("--list --jobs 0", "--jobs is at least 1"),
            ("--night", "unknown argument --night"),
            ("--runs 1", "--tests names no program"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
