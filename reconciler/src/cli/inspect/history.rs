//! `stepgate history`: the stage commits of the deploy branch.

use clap::Args;

use crate::cli::FleetArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use crate::report::{HistoryReport, commits_of};

/// Arguments of `stepgate history`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    /// The cluster; all, when left out.
    #[arg(add = crate::cli::common::names::clusters())]
    cluster: Option<String>,
    /// How many commits of each cluster.
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Report for HistoryReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table =
            Table { headers: vec!["CLUSTER", "WHEN", "COMMIT", "ROLLOUT", "STAGE", "SUBJECT"], ..Table::default() };
        for commit in &self.commits {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "(foreign)".to_owned());
            table.rows.push(vec![
                commit.cluster.clone(),
                commit.committed_at.clone(),
                commit.commit.chars().take(12).collect(),
                text(&commit.rollout),
                text(&commit.stage),
                commit.subject.clone(),
            ]);
        }
        if self.commits.is_empty() {
            table.notes.push("no commits yet: `stepgate why CLUSTER` says what helps".to_owned());
        }
        vec![(None, table)]
    }
}

/// Prints the history.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.remark();
    let (mut commits, mut exit) = (Vec::new(), Exit::Success);
    for name in opened.clusters(arguments.cluster.as_deref())? {
        match commits_of(&opened.planner, &opened.reading, &name, arguments.limit) {
            Ok(found) => commits.extend(found),
            // The others have a history all the same.
            Err(error) if arguments.cluster.is_none() => {
                output::note(&format!("error: cluster {name}: {error}"));
                exit = Exit::Error;
            }
            Err(error) => return Err(error.into()),
        }
    }
    output::print(arguments.output, &HistoryReport { commits })?;
    Ok(exit)
}
