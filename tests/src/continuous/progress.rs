//! How far a run has come, as it writes it down itself: whoever is killed in the middle has told so much.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// The parts of a run. What fails while a cluster is made or taken away says nothing of upgrades.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Servers are started and the cluster comes up.
    Creating,
    /// The cluster is upgraded, and what came of it is looked at.
    Upgrading,
    /// The cluster is taken away.
    Deleting,
    /// Everything is over.
    Done,
}

impl Phase {
    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Upgrading => "upgrading",
            Self::Deleting => "deleting",
            Self::Done => "done",
        }
    }
}

/// What a run tells of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A part begins.
    Phase(Phase),
    /// One upgrade of the chain begins.
    Upgrade(String),
    /// One upgrade of the chain is over.
    Upgraded(String),
    /// Stepgate has committed a stage.
    Commit(String),
    /// Something goes wrong on purpose.
    Fault(String),
    /// A fault whose moment did not come.
    NotMade(String),
    /// A program has ended by itself, and was started again.
    Revived(String),
    /// Why the run ends.
    Error(String),
}

/// An event, and when it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Seconds since the run began.
    pub seconds: f64,
    /// What happened.
    pub event: Event,
}

/// Where a run writes.
#[derive(Debug)]
pub struct Teller {
    file: File,
    start: Instant,
}

impl Teller {
    /// Begins to write to a file.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::options().create(true).append(true).open(path).with_context(|| path.display().to_string())?;
        Ok(Self { file, start: Instant::now() })
    }

    /// Writes an event, whole and at once, and shows it on standard output.
    ///
    /// # Errors
    /// When it cannot be written.
    #[expect(clippy::print_stdout, reason = "told to whoever reads the log of a run")]
    pub fn tell(&self, event: Event) -> anyhow::Result<()> {
        let line = Line { seconds: self.start.elapsed().as_secs_f64(), event };
        println!("{:.1} s: {:?}", line.seconds, line.event);
        let text = serde_json::to_string(&line)? + "\n";
        Ok((&self.file).write_all(text.as_bytes())?)
    }
}

/// What a run has written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    lines: Vec<Line>,
}

impl Progress {
    /// Reads what was written; a last line that is not whole was not written to its end.
    #[must_use]
    pub fn read(text: &str) -> Self {
        Self { lines: text.lines().map_while(|line| serde_json::from_str(line).ok()).collect() }
    }

    /// Whether it has begun at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The part that it was in last.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let phases =
            self.events().filter_map(|event| if let Event::Phase(phase) = event { Some(*phase) } else { None });
        phases.last().unwrap_or(Phase::Creating)
    }

    /// How long a part took; none where it did not come to its end.
    #[must_use]
    pub fn seconds(&self, phase: Phase) -> Option<f64> {
        let mut starts = self.lines.iter().filter(|line| matches!(line.event, Event::Phase(_)));
        let start = starts.find(|line| line.event == Event::Phase(phase))?;
        Some(starts.next()?.seconds - start.seconds)
    }

    /// How long each upgrade of the chain took, of those that came to their end.
    #[must_use]
    pub fn upgrades(&self) -> Vec<f64> {
        let mut start = None;
        let mut took = Vec::new();
        for Line { seconds, event } in &self.lines {
            match event {
                Event::Upgrade(_) => start = Some(*seconds),
                Event::Upgraded(_) => took.extend(start.take().map(|start: f64| seconds - start)),
                _ => {}
            }
        }
        took
    }

    /// What went wrong on purpose.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let faults =
            self.events().filter_map(|event| if let Event::Fault(what) = event { Some(what.clone()) } else { None });
        faults.collect()
    }

    /// Why it ended, as far as it says.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.events().find_map(|event| if let Event::Error(what) = event { Some(what.as_str()) } else { None })
    }

    /// Where it stood last: the upgrade that was under way, and the stage that was committed last.
    #[must_use]
    pub fn place(&self) -> String {
        let (mut upgrade, mut stage) = (None, None);
        for event in self.events() {
            match event {
                Event::Upgrade(to) => (upgrade, stage) = (Some(to), None),
                Event::Commit(name) => stage = Some(name),
                _ => {}
            }
        }
        match (self.phase(), upgrade, stage) {
            (Phase::Upgrading, Some(to), Some(stage)) => format!("to {to}, after {stage}"),
            (Phase::Upgrading, Some(to), None) => format!("to {to}, before its first commit"),
            (phase, ..) => phase.word().to_owned(),
        }
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.lines.iter().map(|line| &line.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(events: &[Event]) -> String {
        let line = |(number, event): (usize, &Event)| {
            let line = Line { seconds: 10.0 * f64::from(u32::try_from(number).unwrap()), event: event.clone() };
            serde_json::to_string(&line).unwrap() + "\n"
        };
        events.iter().enumerate().map(line).collect()
    }

    #[test]
    fn what_was_written_says_how_far_a_run_came() {
        let text = |text: &str| text.to_owned();
        let mut events = vec![Event::Phase(Phase::Creating), Event::Phase(Phase::Upgrading)];
        assert_eq!(Progress::read(&written(&events)).place(), "upgrading");
        events.push(Event::Upgrade(text("v1.35.0")));
        assert_eq!(Progress::read(&written(&events)).place(), "to v1.35.0, before its first commit");
        events.extend([Event::Commit(text("control-plane")), Event::Fault(text("kill")), Event::NotMade(text("push"))]);
        let progress = Progress::read(&(written(&events) + "{\"seconds\": 60.0, \"ev"));
        assert_eq!(
            (progress.place().as_str(), progress.phase()),
            ("to v1.35.0, after control-plane", Phase::Upgrading)
        );
        assert_eq!((progress.seconds(Phase::Creating), progress.seconds(Phase::Upgrading)), (Some(10.0), None));
        assert_eq!((progress.faults(), progress.upgrades(), progress.error()), (vec![text("kill")], Vec::new(), None));

        events.extend([Event::Upgraded(text("v1.35.0")), Event::Phase(Phase::Deleting), Event::Error(text("stuck"))]);
        let progress = Progress::read(&written(&events));
        assert_eq!((progress.place().as_str(), progress.error()), ("deleting", Some("stuck")));
        assert_eq!((progress.upgrades(), progress.seconds(Phase::Upgrading)), (vec![40.0], Some(60.0)));
    }

    #[test]
    fn what_is_told_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress.jsonl");
        let teller = Teller::create(&path).unwrap();
        teller.tell(Event::Phase(Phase::Creating)).unwrap();
        teller.tell(Event::Error("it broke\nhere".to_owned())).unwrap();
        let progress = Progress::read(&std::fs::read_to_string(&path).unwrap());
        assert_eq!((progress.phase(), progress.error()), (Phase::Creating, Some("it broke\nhere")));
        assert!(Progress::read("").is_empty() && !progress.is_empty());
    }
}
