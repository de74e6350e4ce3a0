//! Which two states a verb compares: by itself what is deployed and the source branch, or any two commits.

use clap::Args;
use domain::CommitId;

use crate::cli::ReportArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::fleet::{self, Opened};
use crate::cli::common::output;
use crate::cli::terminal::progress::transferring;
use crate::reconcile::planner::{FleetReading, Planner};

/// Arguments of verbs that compare two states.
#[derive(Debug, Args)]
pub struct RangeArguments {
    /// Begin from this commit of the source branch, as if every cluster ran it: a branch, a tag or a commit, such as `main~2`. Neither the deploy
    /// branch nor a cluster is looked at. Left out, it is what is deployed.
    #[arg(long, value_name = "REF")]
    from: Option<String>,
    /// Go to this commit. Left out, it is the head of the source branch.
    #[arg(long, value_name = "REF")]
    to: Option<String>,
}

/// Two states of a fleet.
pub struct Range {
    /// Where it goes to.
    pub opened: Opened,
    /// The clusters that it is about.
    pub names: Vec<String>,
    /// Where it begins; none where that is what is deployed.
    pub from: Option<FleetReading>,
}

impl RangeArguments {
    /// Reads both states, and says which clusters only the first one knows.
    ///
    /// # Errors
    /// When a commit cannot be read, or there is no such cluster.
    pub fn open(&self, report: &ReportArguments) -> Result<Range, CommandError> {
        if self.from.is_none() && self.to.is_none() {
            let (opened, names) = report.open()?;
            return Ok(Range { opened, names, from: None });
        }
        let planner = fleet::planner(&report.fleet)?;
        let branch = planner.source_branch().clone();
        transferring(|| planner.repository().refresh(std::slice::from_ref(&branch))).map_err(fleet::explain)?;
        let to = commit(&planner, self.to.as_deref().unwrap_or(branch.as_str()))?;
        let from =
            self.from.as_deref().map(|from| planner.read_alone(&commit(&planner, from)?).map_err(fleet::explain));
        let from = from.transpose()?;
        let reading = if from.is_some() { planner.read_alone(&to) } else { planner.read_commit(&to) };
        let opened = Opened { planner, reading: reading.map_err(fleet::explain)? };
        let names = opened.clusters(report.cluster.as_deref())?;
        for gone in from.iter().flat_map(|from| &from.fleet.clusters) {
            let is_there = opened.fleet().cluster(&gone.name).is_some() || names.contains(&gone.name);
            if !is_there && report.cluster.is_none() {
                output::note(&format!("note: cluster {} is not in {to}: what runs of it stays as it is", gone.name));
            }
        }
        Ok(Range { opened, names, from })
    }
}

fn commit(planner: &Planner, name: &str) -> Result<CommitId, CommandError> {
    planner.repository().revision(name).map_err(fleet::explain)
}
