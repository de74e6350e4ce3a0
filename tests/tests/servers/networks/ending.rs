//! One rollout under a schedule, and what is left of it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tests::servers::{DEPLOY, Process};
use tests::waiting::{LONG_PATIENCE, until, until_within};
use tokio::time::Instant;

use super::faults::{Disturbance, Schedule};
use super::lane::{Fleet, Host, Lane, STAGES, git};

/// What a person leaves on both branches.
const NOTE: &str = "notes.txt";

/// Connections that an outage may begin with: what was under way is tried again, each watch is, and a program that was killed begins anew.
const AT_ONCE: usize = 30;

/// Connections a second that may be made in vain, where passes are a second apart.
const MOST_A_SECOND: f64 = 5.0;

/// What is left of a rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// The stages of the commits of Stepgate, in order.
    stages: Vec<String>,
    /// The files of the deploy branch, but for the record of when what was seen.
    files: BTreeMap<String, String>,
    /// How many commits a person made on the deploy branch.
    of_people: usize,
    /// The titles of pull requests by number, and whether they were merged.
    pulls: Vec<(String, bool)>,
    /// Branches that propose something.
    proposed: Vec<String>,
}

/// A rollout that came to its end.
pub struct Rolled {
    pub end: End,
    took: Duration,
    /// Since the last fault was mended.
    recovered: Duration,
    disturbance: Disturbance,
}

impl fmt::Display for Rolled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let made: Vec<String> = self
            .disturbance
            .outages
            .iter()
            .map(|(_, lasted, made)| format!("{made} in {} ms", lasted.as_millis()))
            .collect();
        write!(
            formatter,
            "ended after {:.1} s, {:.1} s after the last fault; connections in outages: {made:?}",
            self.took.as_secs_f64(),
            self.recovered.as_secs_f64()
        )
    }
}

impl Fleet {
    /// Waits until there are so many commits of Stepgate.
    pub async fn has_committed(&self, commits: usize) -> anyhow::Result<()> {
        let mut last = (String::new(), 0);
        let committed = async || {
            let head = self.head()?;
            if head != last.0 {
                last = (head, self.commits()?);
            }
            Ok((last.1 >= commits).then_some(()))
        };
        until_within(&format!("{commits} commits"), LONG_PATIENCE, committed).await
    }
}

impl Lane {
    /// One rollout from its push to its end, under a schedule; afterwards nothing is left to do.
    pub async fn roll_out(&self, name: &str, schedule: &Schedule) -> anyhow::Result<Rolled> {
        let fleet = self.fleet(name).await?;
        let begun = Instant::now();
        let rolled = async {
            tokio::select! {
                done = self.under(&fleet, schedule) => done,
                end = self.carry_out(&fleet) => match end? {},
                end = self.merge(&fleet) => match end? {},
            }
        };
        let (recovered, disturbance) =
            rolled.await.with_context(|| format!("state is in {}", fleet.folder.display()))?;
        for (fault, lasted, made) in &disturbance.outages {
            let most = AT_ONCE + (MOST_A_SECOND * lasted.as_secs_f64()) as usize;
            ensure!(*made <= most, "{made} connections in {lasted:?}: {fault:?}");
        }
        let took = begun.elapsed();
        self.mend()?;
        self.nothing_is_left(&fleet).await?;
        self.is_told_to_nobody(&fleet)?;
        let end = self.end(&fleet).await?;
        self.end_connections()?;
        std::fs::remove_dir_all(&fleet.folder)?;
        Ok(Rolled { end, took, recovered, disturbance })
    }

    async fn under(&self, fleet: &Fleet, schedule: &Schedule) -> anyhow::Result<(Duration, Disturbance)> {
        let disturbed = async {
            let disturbance = self.disturb(fleet, &schedule.faults).await?;
            anyhow::Ok((Instant::now(), disturbance))
        };
        let person = async {
            let (commits, after) = schedule.person;
            fleet.has_committed(commits).await?;
            // The moment of it is the point.
            tokio::time::sleep(after).await;
            fleet.repository.push("Leave a note", &[(NOTE, "A person was here.\n")])?;
            // Whoever loses the race for the branch tries again.
            let pushed = async || Ok(fleet.repository.tamper("Leave a note", NOTE, Some("A person was here.\n")).ok());
            until("a person has pushed to the deploy branch", pushed).await
        };
        let program = self.controller(fleet, schedule.kill);
        let ((mended, disturbance), (), ended) = tokio::try_join!(disturbed, person, program)?;
        Ok((ended.saturating_duration_since(mended), disturbance))
    }

    /// The program until everything is committed.
    async fn controller(&self, fleet: &Fleet, kill: Option<(usize, Duration)>) -> anyhow::Result<Instant> {
        let arguments = ["run", "--listen", "off", "--health-address", "off", "--interval", "1"];
        let mut process = Process::start(&fleet.folder, "stepgate", impatient(self.command(fleet, &arguments)))?;
        if let Some((commits, after)) = kill {
            fleet.has_committed(commits).await?;
            // The moment of it is the point.
            tokio::time::sleep(after).await;
            process.kill()?;
            process.restart()?;
        }
        let committed = async || Ok((fleet.commits()? >= STAGES.len()).then_some(()));
        process.until_within("everything is committed", LONG_PATIENCE, committed).await?;
        Ok(Instant::now())
    }

    /// A person merges whatever is proposed, and never ends.
    async fn merge(&self, fleet: &Fleet) -> anyhow::Result<std::convert::Infallible> {
        let Host::Forge(gitea) = &self.host else { return std::future::pending().await };
        loop {
            // The forge is asked where there may be something to merge.
            if !fleet.repository.proposed()?.is_empty() {
                for pull in gitea.read("pulls?state=open&limit=50").await?.as_array().into_iter().flatten() {
                    let number = pull.get("number").and_then(Value::as_u64).unwrap_or_default();
                    // One whose branch is moved at this moment is seen again.
                    let _ = gitea.merge("alice", number, "merge").await;
                }
            }
            // People look now and then.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// A pass of an undisturbed process finds nothing to do, and everybody agrees that there is nothing.
    async fn nothing_is_left(&self, fleet: &Fleet) -> anyhow::Result<()> {
        let head = fleet.head()?;
        for arguments in [&["run", "--once"][..], &["status"]] {
            let output = tokio::process::Command::from(self.command(fleet, arguments)).output().await?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{arguments:?}: {} {said}", output.status);
        }
        ensure!(fleet.head()? == head, "committed besides: {:?}", fleet.repository.stages()?);
        Ok(())
    }

    /// What the program said has no secret in it, and it never broke.
    fn is_told_to_nobody(&self, fleet: &Fleet) -> anyhow::Result<()> {
        let said = std::fs::read(fleet.folder.join("stepgate.log"))?;
        let said = String::from_utf8_lossy(&said);
        ensure!(!said.contains("panicked"), "{said}");
        for secret in self.secrets()? {
            ensure!(!said.contains(secret.trim()), "a secret is in {said}");
        }
        Ok(())
    }

    async fn end(&self, fleet: &Fleet) -> anyhow::Result<End> {
        let bare = fleet.repository.bare();
        is_sound(&bare)?;
        let listed = git(&bare, &["ls-tree", "-r", DEPLOY])?;
        let files = listed.lines().filter(|line| !line.ends_with("/rollout.yaml"));
        let files =
            files.filter_map(|line| line.split_once('\t')).map(|(entry, path)| (path.to_owned(), entry.to_owned()));
        let pulls = match &self.host {
            Host::Plain { .. } => Vec::new(),
            Host::Forge(gitea) => {
                let pulls = gitea.read("pulls?state=all&sort=oldest&limit=50").await?;
                let told = |pull: &Value| {
                    let title = pull.get("title").and_then(Value::as_str).unwrap_or_default().to_owned();
                    (title, pull.get("merged").and_then(Value::as_bool) == Some(true))
                };
                pulls.as_array().into_iter().flatten().map(told).collect()
            }
        };
        Ok(End {
            stages: fleet.repository.stages()?,
            files: files.collect(),
            of_people: git(&bare, &["log", "--format=%s", DEPLOY])?
                .lines()
                .filter(|line| *line == "Leave a note")
                .count(),
            pulls,
            proposed: fleet.repository.proposed()?,
        })
    }
}

/// The program, which waits no longer for an answer than a test can.
pub fn impatient(mut command: Command) -> Command {
    command.env("STEPGATE_REQUEST_TIMEOUT", "2").env("STEPGATE_GIT_PATIENCE", "3");
    command
}

/// Nothing in the repository keeps git from going on.
fn is_sound(bare: &Path) -> anyhow::Result<()> {
    let said = git(bare, &["fsck", "--strict", "--full", "--no-dangling"])?;
    ensure!(!said.contains("error") && !said.contains("warning") && !said.contains("missing"), "{said}");
    Ok(())
}
