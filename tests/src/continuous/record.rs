//! What became of one run: one JSON line, which is kept.

use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::progress::{Phase, Progress};

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The upgrade came to its end as it should.
    Passed,
    /// The upgrade did not.
    Failed,
    /// Before or after the upgrade something was in the way. It is never investigated.
    Invalid,
}

impl Outcome {
    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
        }
    }
}

/// How the process of a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The test succeeded.
    Well,
    /// It did not.
    Badly,
    /// It took longer than so many seconds, and was ended.
    OutOfTime(u64),
}

/// Which run it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// When the program that ran it was started: the same for all runs of one night.
    pub session: String,
    /// Its number there, from one.
    pub number: usize,
    /// The commit of this repository.
    pub revision: String,
    /// The name of its cell.
    pub cell: String,
    /// Its seed.
    pub seed: u64,
}

impl Run {
    /// How to have it again.
    #[must_use]
    pub fn replay(&self) -> String {
        format!("tests/continuous/run --runs 1 --only {} --seed {}", self.cell, self.seed)
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Which run it was.
    #[serde(flatten)]
    pub run: Run,
    /// What became of it.
    pub outcome: Outcome,
    /// Where it stood when it ended, where it did not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Why it ended there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds to make the cluster.
    pub creating: Option<f64>,
    /// Seconds of all upgrades of the chain.
    pub upgrading: Option<f64>,
    /// Seconds of each upgrade of the chain.
    pub upgrades: Vec<f64>,
    /// Seconds to take the cluster away.
    pub deleting: Option<f64>,
    /// Seconds from the start of its process to its end.
    pub seconds: f64,
    /// What went wrong on purpose.
    pub faults: Vec<String>,
    /// Where its output is, where it did not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// How many characters of a reason are kept.
const REASON: usize = 1000;

impl Record {
    /// By what a run has written, and how it ended; `said` is the end of its output, for one that does not say why.
    #[must_use]
    pub fn of(run: Run, progress: &Progress, ended: Ended, said: &str, seconds: f64) -> Self {
        let outcome = match (progress.phase(), ended) {
            (Phase::Done, Ended::Well) => Outcome::Passed,
            (Phase::Upgrading, _) => Outcome::Failed,
            _ => Outcome::Invalid,
        };
        let reason = || {
            let own = progress.error().map(str::to_owned);
            let why = match ended {
                Ended::OutOfTime(limit) => own.unwrap_or_else(|| format!("not over after {limit} s")),
                Ended::Badly => own.unwrap_or_else(|| said.trim().to_owned()),
                Ended::Well => "it ended without a word".to_owned(),
            };
            why.chars().take(REASON).collect()
        };
        let is_passed = outcome == Outcome::Passed;
        Self {
            run,
            outcome,
            place: (!is_passed).then(|| progress.place()),
            reason: (!is_passed).then(reason),
            creating: progress.seconds(Phase::Creating),
            upgrading: progress.seconds(Phase::Upgrading),
            upgrades: progress.upgrades(),
            deleting: progress.seconds(Phase::Deleting),
            seconds,
            faults: progress.faults(),
            log: None,
        }
    }

    /// Its cell; none where the matrix has no such cell any more.
    #[must_use]
    pub fn cell(&self) -> Option<Cell> {
        self.run.cell.parse().ok()
    }

    /// What is printed when it has ended.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { run, outcome, seconds, .. } = self;
        let mut line = format!("{} {} {} seed {}, {seconds:.0} s", run.number, outcome.word(), run.cell, run.seed);
        if let (Some(place), Some(reason)) = (&self.place, &self.reason) {
            line.push_str(&format!(": {place}: {}", reason.lines().next().unwrap_or_default()));
        }
        line
    }
}

/// The records of a file, and how many of its lines are none.
#[must_use]
pub fn read(text: &str) -> (Vec<Record>, usize) {
    let read: Vec<Option<Record>> = text.lines().map(|line| serde_json::from_str(line).ok()).collect();
    let unread = read.iter().filter(|record| record.is_none()).count();
    (read.into_iter().flatten().collect(), unread)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record of a run of a night.
    pub fn record(session: &str, number: usize, cell: &str, outcome: Outcome) -> Record {
        let run = Run {
            session: session.to_owned(),
            number,
            revision: "0123456789ab".to_owned(),
            cell: cell.to_owned(),
            seed: 100 + number as u64,
        };
        let text =
            |phase: &str, seconds| format!("{{\"seconds\": {seconds}, \"event\": {{\"phase\": \"{phase}\"}}}}\n");
        let (told, ended) = match outcome {
            Outcome::Passed => (text("deleting", 40 + number) + &text("done", 50 + number), Ended::Well),
            Outcome::Failed => (String::new(), Ended::Badly),
            Outcome::Invalid => (text("deleting", 40 + number), Ended::Badly),
        };
        let progress = Progress::read(&(text("creating", 0) + &text("upgrading", 10) + &told));
        Record::of(run, &progress, ended, "it broke\nand more", 60.0)
    }

    #[test]
    fn only_what_fails_in_the_upgrade_has_failed() {
        let outcome = |phases: &[&str], ended| {
            let text: String = phases
                .iter()
                .map(|phase| format!("{{\"seconds\": 1.0, \"event\": {{\"phase\": \"{phase}\"}}}}\n"))
                .collect();
            Record::of(record("n", 1, "c", Outcome::Passed).run, &Progress::read(&text), ended, "why", 1.0).outcome
        };
        let all = ["creating", "upgrading", "deleting", "done"];
        assert_eq!(outcome(&all, Ended::Well), Outcome::Passed);
        for ended in [Ended::Badly, Ended::OutOfTime(9), Ended::Well] {
            assert_eq!(outcome(&[], ended), Outcome::Invalid);
            assert_eq!(outcome(&all[..1], ended), Outcome::Invalid);
            assert_eq!(outcome(&all[..2], ended), Outcome::Failed);
            assert_eq!(outcome(&all[..3], ended), Outcome::Invalid);
        }
        assert_eq!(outcome(&all, Ended::Badly), Outcome::Invalid);
    }

    #[test]
    fn a_record_says_where_why_and_how_to_have_it_again() {
        let failed = record("night", 3, "stacked/one/steady/rolling/managed/alone", Outcome::Failed);
        assert_eq!(
            failed.line(),
            "3 failed stacked/one/steady/rolling/managed/alone seed 103, 60 s: upgrading: it broke"
        );
        let replay = "tests/continuous/run --runs 1 --only stacked/one/steady/rolling/managed/alone --seed 103";
        assert_eq!(failed.run.replay(), replay);
        assert!(failed.cell().is_some());
        let passed = record("night", 4, "another", Outcome::Passed);
        assert_eq!((passed.reason.as_ref(), passed.upgrading, passed.deleting), (None, Some(34.0), Some(10.0)));
        assert_eq!(passed.line(), "4 passed another seed 104, 60 s");
        let text: String =
            [&failed, &passed].iter().map(|record| serde_json::to_string(record).unwrap() + "\n").collect();
        assert_eq!(read(&(text + "{\"run\"")), (vec![failed, passed], 1));
    }
}
