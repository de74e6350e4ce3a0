//! Clusters that were compared and wait for the commit that records them together, and what is told of each.

use std::collections::BTreeMap;

use domain::{ClusterName, CommitId};
use jiff::Timestamp;

use super::explain;
use crate::cli::common::error::CommandError;
use crate::cli::common::{fleet, output};
use crate::cli::terminal::progress::Step;
use crate::reconcile::effects::adopt::Adoption;
use crate::reconcile::effects::records::{Record, Records};
use crate::reconcile::planner::{FleetReading, Planner};

/// What is recorded, and what was so far.
pub(super) struct Recording<'a> {
    planner: &'a Planner,
    step: &'a Step,
    pending: Option<Records>,
    /// Why it is not proven which cluster answers, of those that wait.
    unproven: BTreeMap<ClusterName, CommandError>,
    /// Whether anything was recorded.
    pub(super) is_recorded: bool,
    /// Whether any cluster was refused.
    pub(super) is_refused: bool,
}

impl<'a> Recording<'a> {
    pub(super) fn new(planner: &'a Planner, step: &'a Step) -> Self {
        let (pending, unproven) = (None, BTreeMap::new());
        Self { planner, step, pending, unproven, is_recorded: false, is_refused: false }
    }

    /// What the next cluster is compared by: those that share a commit follow from one reading, and what was recorded moves the deploy branch.
    pub(super) fn reading(&self) -> Result<FleetReading, CommandError> {
        match &self.pending {
            Some(records) => Ok(records.reading().clone()),
            None => self.planner.read().map_err(fleet::explain),
        }
    }

    /// One cluster is not recorded, which keeps no other from it.
    pub(super) fn refuse(&mut self, refusal: &CommandError) {
        self.is_refused = true;
        self.step.aside(|| refusal.report());
    }

    /// One more that is to be recorded. `unproven` says why it is not proven which cluster answers.
    pub(super) fn add(
        &mut self,
        reading: &FleetReading,
        name: &ClusterName,
        record: Record,
        unproven: Option<CommandError>,
    ) -> Result<(), CommandError> {
        let records = self.pending.get_or_insert_with(|| Records::new(reading.clone()));
        records.push(record);
        self.unproven.extend(unproven.map(|error| (name.clone(), error)));
        if records.is_full() { self.commit() } else { Ok(()) }
    }

    /// Records all that wait.
    pub(super) fn commit(&mut self) -> Result<(), CommandError> {
        let Some(records) = self.pending.take() else { return Ok(()) };
        for (name, outcome) in records.commit(self.planner, Timestamp::now()).map_err(explain)? {
            let unproven = self.unproven.remove(&name);
            match outcome {
                Ok(adoption) => self.tell(name.as_str(), &adoption, None, unproven)?,
                Err(error) => self.refuse(&explain(error)),
            }
        }
        Ok(())
    }

    /// What became of a cluster. `identity` is what it is recorded as.
    pub(super) fn tell(
        &mut self,
        name: &str,
        adoption: &Adoption,
        identity: Option<String>,
        unproven: Option<CommandError>,
    ) -> Result<(), CommandError> {
        self.is_recorded |= commit(adoption).is_some();
        let line = line(name, adoption, &identity.unwrap_or_default());
        self.step.aside(|| output::print_text(&line))?;
        if let Some(error) = unproven.filter(|_| *adoption != Adoption::Already) {
            let told = format!("warning: {error}; it is recorded with the next commit that a controller makes");
            self.step.aside(|| output::note(&told));
        }
        Ok(())
    }
}

fn commit(adoption: &Adoption) -> Option<&CommitId> {
    match adoption {
        Adoption::Recorded { commit, .. } | Adoption::Identified { commit, .. } => commit.as_ref(),
        Adoption::Already => None,
    }
}

fn line(name: &str, adoption: &Adoption, is: &str) -> String {
    match adoption {
        Adoption::Already => format!("{name}: has a ledger already\n"),
        Adoption::Recorded { commit: Some(commit), files } => {
            format!("{name}: recorded what the source branch says, {files} files, commit {commit}\n")
        }
        Adoption::Recorded { commit: None, files } => {
            format!("{name}: would be recorded as the source branch says, {files} files; `--yes` does it\n")
        }
        Adoption::Identified { commit: Some(commit), .. } => format!("{name}: recorded as {is}, commit {commit}\n"),
        Adoption::Identified { commit: None, before } => {
            let before = before.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string);
            format!("{name}: would be recorded as {is}, where {before} is recorded now; `--yes` does it\n")
        }
    }
}
