//! `stepgate show`: one rollout, commit by commit, with what opened each.

use clap::Args;
use serde::Serialize;

use crate::cli::FleetArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use crate::cli::common::when::Teller;
use crate::report::{CommitReport, commits_of};
use domain::nearest;

/// How many commits of each cluster are looked through.
const LOOKED_THROUGH: usize = 1000;

/// The fewest characters that name a rollout.
const SHORTEST: usize = 4;

/// How many columns of text it takes for people.
const COLUMNS: usize = 100;

/// Arguments of `stepgate show`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    /// The rollout, or how its name begins: `stepgate status` and `stepgate history` name them.
    #[arg(add = crate::cli::common::names::rollouts())]
    rollout: String,
    /// Every fact that opened a stage, instead of the first.
    #[arg(long)]
    verbose: bool,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// One rollout.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutShown {
    /// The rollout.
    pub rollout: String,
    /// The cluster.
    pub cluster: String,
    /// Its commits, oldest first.
    pub commits: Vec<CommitReport>,
    /// Whether tables show every fact.
    #[serde(skip)]
    verbose: bool,
}

impl Report for RolloutShown {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let teller = Teller::here();
        let mut table = Table { headers: vec!["STAGE", "COMMIT", "WHEN", "OPENED BY"], ..Table::default() };
        table.width = Some(COLUMNS);
        for commit in &self.commits {
            let opened = match commit.evidence.as_slice() {
                [] => "-".to_owned(),
                all if self.verbose => all.join("\n"),
                [only] => only.clone(),
                [first, rest @ ..] => format!("{first} (and {} more facts)", rest.len()),
            };
            let when = commit.committed_at.parse().map_or_else(|_| commit.committed_at.clone(), |at| teller.when(at));
            let stage = commit.stage.clone().unwrap_or_default();
            for (index, line) in opened.lines().enumerate() {
                let cell = |text: &str| if index == 0 { text.to_owned() } else { String::new() };
                let short: String = commit.commit.chars().take(12).collect();
                table.rows.push(vec![cell(&stage), cell(&short), cell(&when), line.to_owned()]);
            }
        }
        table
            .notes
            .push(format!("what it changed: `git show COMMIT`; where it stands: `stepgate why {}`", self.cluster));
        vec![(Some(format!("rollout {} of cluster {}", self.rollout, self.cluster)), table)]
    }
}

/// Prints the rollout.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.remark();
    let mut all: Vec<CommitReport> = Vec::new();
    for name in opened.clusters(None)? {
        // Of a cluster whose directory cannot be read, others tell.
        all.extend(commits_of(&opened.planner, &opened.reading, &name, LOOKED_THROUGH).unwrap_or_default());
    }
    let mut known: Vec<(String, String)> = all.iter().filter_map(of).collect();
    known.sort();
    known.dedup();
    let (rollout, cluster) = chosen(&arguments.rollout, &known)?;
    let mut commits: Vec<CommitReport> =
        all.into_iter().filter(|commit| of(commit).as_ref() == Some(&(rollout.clone(), cluster.clone()))).collect();
    commits.reverse();
    let report = RolloutShown { rollout, cluster, commits, verbose: arguments.verbose };
    output::print(arguments.output, &report)?;
    Ok(Exit::Success)
}

/// The rollout and the cluster of a commit.
fn of(commit: &CommitReport) -> Option<(String, String)> {
    Some((commit.rollout.clone()?, commit.cluster.clone()))
}

/// The one rollout that is meant.
fn chosen(wanted: &str, known: &[(String, String)]) -> Result<(String, String), CommandError> {
    let exact = known.iter().filter(|(rollout, _)| rollout == wanted);
    let begins = known.iter().filter(|(rollout, _)| wanted.len() >= SHORTEST && rollout.starts_with(wanted));
    let mut found: Vec<&(String, String)> = exact.collect();
    if found.is_empty() {
        found.extend(begins);
    }
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let names: Vec<&str> = known.iter().map(|(rollout, _)| rollout.as_str()).collect();
            let error = CommandError::new(format!("no cluster has had a rollout {wanted}"));
            let error = match nearest(wanted, &names) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error,
            };
            Err(error.hint("`stepgate history` lists the rollouts"))
        }
        several => {
            let told: Vec<String> =
                several.iter().map(|(rollout, cluster)| format!("{rollout} of {cluster}")).collect();
            Err(CommandError::new(format!("{wanted} is how several rollouts begin: {}", told.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_is_named_by_how_it_begins_if_no_other_does() {
        let known = [("98be685b16e0", "mgmt"), ("98be1f00aa31", "team-a"), ("c0ffee00c0de", "team-b")];
        let known = known.map(|(rollout, cluster)| (rollout.to_owned(), cluster.to_owned()));
        for (wanted, expected) in [
            ("98be685b16e0", Ok("mgmt")),
            ("c0ff", Ok("team-b")),
            ("98be", Err("98be is how several rollouts begin")),
            ("c0f", Err("no cluster has had a rollout c0f")),
            ("", Err("no cluster has had a rollout")),
        ] {
            match (chosen(wanted, &known), expected) {
                (Ok((_, cluster)), Ok(expected)) => assert_eq!(cluster, expected),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (other, _) => panic!("{wanted}: {other:?}"),
            }
        }
    }
}
