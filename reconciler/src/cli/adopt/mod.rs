//! `stepgate adopt`: records what the source branch says of running clusters, beside what they run.

mod found;
mod recording;
mod write;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use domain::CommitId;
use domain::{Problem, ProblemCode, Severity};
use jiff::Timestamp;
use rollout::{ClusterIdentity, Identification};

use self::found::Found;
use self::recording::Recording;
use super::common::error::CommandError;
use super::common::exit::Exit;
use super::common::{fleet, output};
use super::terminal::progress::Step;
use super::{ClusterArguments, FleetArguments};
use crate::reconcile::clusters::access::Clusters;
use crate::reconcile::clusters::comparison::compare;
use crate::reconcile::clusters::missing::MissingRecord;
use crate::reconcile::clusters::recorded_commits::{self, ClusterTold};
use crate::reconcile::effects::adopt::{Adoption, LostRecord, NotRolledOut, Unrendered, replace_identity};
use crate::reconcile::effects::records::Record;
use crate::reconcile::planner::{ClusterView, FleetReading, PlanError};
use git::RepositoryLocation;

/// Arguments of `stepgate adopt`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// The clusters; all that have no record yet, when left out.
    #[arg(add = crate::cli::common::names::clusters())]
    clusters: Vec<String>,
    /// This commit had the record and no clone has it any more, or it took the record away and was meant to: make a new record. Flux then
    /// applies at once whatever the source branch says otherwise than the cluster runs.
    #[arg(long, value_name = "COMMIT")]
    abandon: Option<CommitId>,
    /// Record which cluster answers by now, of clusters that have a record: they were made anew, or are reached in another way. What else is
    /// recorded of them stays.
    #[arg(long, requires = "clusters")]
    replace_identity: bool,
    /// Record what the source branch says although the cluster runs something else, or does not
    /// answer: Flux applies the source branch's side at once, without a gate. What ran, or that nobody
    /// knows, stands in the ledger.
    #[arg(long)]
    as_declared: bool,
    /// Record nothing: write the repository that describes what the management cluster holds into
    /// this folder. These are the specifications of
    /// the clusters that are named, or of all, the bundles that they follow, a policy, and Flux'
    /// objects as they were found. No file is
    /// overwritten, and none is written where a cluster is between two versions.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["abandon", "replace_identity", "as_declared", "yes"])]
    write: Option<PathBuf>,
    /// Write the record. Without it, only what would be written is said.
    #[arg(long)]
    yes: bool,
}

/// Records the clusters, many with each commit.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    if let Some(folder) = &arguments.write {
        return write::run(&arguments.access, &arguments.clusters, folder);
    }
    let opened = fleet::open(&arguments.fleet)?;
    let mut names = Vec::new();
    if arguments.clusters.is_empty() {
        names = opened.clusters(None)?;
    }
    for name in &arguments.clusters {
        names.extend(opened.clusters(Some(name))?);
    }
    // What comes next is to point Flux to the deploy branch.
    for problem in opened.fleet().problems.iter().filter(|problem| is_of_flux(problem)) {
        let weight = if problem.severity == Severity::Note { "note" } else { "warning" };
        output::note(&format!("{weight}: {problem}"));
    }
    let access = arguments.access.open()?;
    let step = Step::of("comparing", names.len());
    let (access, abandoned) = (access.as_ref(), arguments.abandon.as_ref());
    let mut asking = Asking { opened: &opened, access, abandoned, silent: None, is_upstream_asked: false, step: &step };
    let mut recording = Recording::new(&opened.planner, &step);
    let mut is_refused = opened.fleet().errors_of_nobody().any(|problem| problem.code == ProblemCode::NotRendered);
    if arguments.fleet.trust_policy.is_none() {
        let source = opened.source().snapshot().commit();
        output::note(&format!(
            "what is recorded has no policy before it: that of commit {source} decides as it stands who approves what comes next, where commits land \
             and under whose name; `--trust-policy COMMIT` judges it by an earlier one as well"
        ));
    }
    let mut ended = Ok(());
    for name in names {
        step.at(&name);
        ended = one(arguments, &name, &mut asking, &mut recording);
        step.next();
        if ended.is_err() {
            break;
        }
    }
    // What ends the verb keeps none from being recorded that was compared before.
    recording.commit()?;
    ended?;
    is_refused |= recording.is_refused;
    let is_recorded = recording.is_recorded;
    drop(step);
    if is_recorded && matches!(opened.planner.repository().location(), RepositoryLocation::Local(_)) {
        for (remote, url) in opened.planner.repository().remotes().into_iter().take(1) {
            let (branch, url) = (&opened.reading.layout.branch, url.unwrap_or_else(|| remote.clone()));
            output::note(&format!(
                "the record is in this clone alone: `git push {remote} {branch}` brings it to {url}; from then on use `--repo` with that"
            ));
        }
    }
    Ok(if is_refused { Exit::Error } else { Exit::Success })
}

/// Compares one cluster, and lets it be recorded or refuses it.
///
/// # Errors
/// What keeps every cluster from being recorded.
fn one(
    arguments: &Arguments,
    name: &str,
    asking: &mut Asking<'_>,
    recording: &mut Recording<'_>,
) -> Result<(), CommandError> {
    let planner = &asking.opened.planner;
    let reading = recording.reading()?;
    let blocking = reading.fleet.blocking(name);
    if !blocking.is_empty() && !arguments.replace_identity {
        for problem in blocking {
            recording.refuse(&CommandError::new(format!("{name} is not recorded: {problem}")));
        }
        return Ok(());
    }
    let view = match planner.view(&reading, name) {
        Err(PlanError::Git(error)) => return Err(fleet::explain(error)),
        Err(error) => {
            recording.refuse(&error.into());
            return Ok(());
        }
        Ok(view) => view,
    };
    let found = match asking.ask(&reading, &view) {
        // Where the branch is gone, every other cluster is refused for the same reason.
        Err(refusal) if reading.deploy.is_some() => {
            recording.refuse(&refusal);
            return Ok(());
        }
        found => found?,
    };
    if let Some(refusal) = found.refusal(&view).filter(|_| !arguments.as_declared && !arguments.replace_identity) {
        recording.refuse(&refusal);
        return Ok(());
    }
    let (identity, now, dry) = (asking.identify(&reading, &view)?, Timestamp::now(), !arguments.yes);
    if arguments.replace_identity {
        let identity = proven(&view, &identity)?;
        let adoption = replace_identity(planner, &reading, &view, identity, now, dry).map_err(explain)?;
        return recording.tell(name, &adoption, Some(identity.to_string()), None);
    }
    let unproven = proven(&view, &identity).err();
    match Record::of(&reading, &view, identity.proven(), &found.as_declared(), now) {
        Ok(Some(record)) if dry => {
            let adoption = Adoption::Recorded { commit: None, files: record.files() };
            recording.tell(name, &adoption, None, unproven)
        }
        Ok(Some(record)) => recording.add(&reading, &view.name, record, unproven),
        Ok(None) => recording.tell(name, &Adoption::Already, None, None),
        Err(error) => {
            recording.refuse(&explain(error));
            Ok(())
        }
    }
}

/// Whether a problem is about what happens to what Flux applies today. Errors are told of the cluster that they stop.
fn is_of_flux(problem: &Problem) -> bool {
    let codes = [
        ProblemCode::FluxPrunes,
        ProblemCode::SharedSource,
        ProblemCode::FluxField,
        ProblemCode::NotApplied,
        ProblemCode::UnsetVariable,
        ProblemCode::Rendered,
    ];
    codes.contains(&problem.code) && !problem.is_error()
}

/// What is asked before a cluster is recorded: whether it had a record, and what it runs.
struct Asking<'a> {
    opened: &'a fleet::Opened,
    access: &'a dyn Clusters,
    /// The commit whose loss was said to be for good.
    abandoned: Option<&'a CommitId>,
    /// Why the management cluster does not answer: it is asked once.
    silent: Option<String>,
    /// Whether what this is a clone of was asked for the deploy branch: it has none.
    is_upstream_asked: bool,
    /// How far it is.
    step: &'a Step,
}

/// The identity of a cluster.
fn proven<'a>(view: &ClusterView, identity: &'a Identification) -> Result<&'a ClusterIdentity, CommandError> {
    match identity {
        Identification::Proven { identity } => Ok(identity),
        Identification::Unproven { reason, help } => {
            let message = format!("which cluster answers as {} is not proven: {reason}", view.name);
            Err(CommandError::new(message).hint(help.clone()))
        }
    }
}

impl Asking<'_> {
    /// Which cluster answers, whatever is recorded of it.
    fn identify(&self, reading: &FleetReading, view: &ClusterView) -> Result<Identification, CommandError> {
        if let Some(reason) = &self.silent {
            let help = "adopt it where it can be reached".to_owned();
            return Ok(Identification::Unproven { reason: reason.clone(), help });
        }
        let reference = self.opened.planner.reference_anew(reading, &view.cluster);
        let cluster = self.access.referred(&view.cluster, &reference);
        Ok(super::run::verb::runtime()?.block_on(cluster.identify()))
    }

    /// Prints how the cluster differs from the source branch, and what Flux applies of it.
    ///
    /// # Errors
    /// When it had a record, as far as anybody knows.
    fn ask(&mut self, reading: &FleetReading, view: &ClusterView) -> Result<Found, CommandError> {
        let Some(missing) = &view.missing else { return Ok(Found::default()) };
        if *missing == MissingRecord::NoBranch && !self.is_upstream_asked {
            self.ask_upstream(reading, view)?;
            self.is_upstream_asked = true;
        }
        if !missing.asks_cluster() || self.silent.is_some() {
            self.refuse(reading, view, missing)?;
            return Ok(if self.silent.is_some() { Found::unreached() } else { Found::default() });
        }
        let reference = self.opened.planner.reference_anew(reading, &view.cluster);
        let cluster = self.access.referred(&view.cluster, &reference);
        let runtime = super::run::verb::runtime()?;
        let now = Timestamp::now();
        let told = runtime.block_on(recorded_commits::ask(&self.opened.planner, reading, view, cluster.as_ref(), now));
        let untold = match told {
            ClusterTold::Lost(missing) => {
                self.refuse(reading, view, &missing)?;
                None
            }
            ClusterTold::Nothing => {
                self.refuse(reading, view, missing)?;
                None
            }
            ClusterTold::Unreachable(reason) => {
                self.refuse(reading, view, missing)?;
                Some(reason)
            }
        };
        match (runtime.block_on(compare(view, cluster.as_ref(), now)), untold) {
            (Ok(mut comparison), untold) => {
                // It answers, and not to this question.
                comparison.unknown.extend(untold.map(|reason| format!("whether it had a record: {reason}")));
                self.step.aside(|| Found::print(view, &comparison))
            }
            (Err(_), Some(reason)) => {
                let told = "nothing was compared with what runs, and whether Flux has applied a record is not known";
                self.step.aside(|| output::note(&format!("warning: {told}: {reason}")));
                self.silent = Some(reason);
                Ok(Found::unreached())
            }
            (Err(reason), None) => {
                let told = format!("warning: {}: nothing was compared with what runs: {reason}", view.name);
                self.step.aside(|| output::note(&told));
                Ok(Found::unreached())
            }
        }
    }

    /// Refuses a record in the place of one that was lost, unless that is lost for good.
    fn refuse(&self, reading: &FleetReading, view: &ClusterView, missing: &MissingRecord) -> Result<(), CommandError> {
        if !missing.is_lost() {
            return Ok(());
        }
        let repository = self.opened.planner.repository();
        // What is there can be pushed; what somebody took away on purpose can be reverted, or be meant.
        let is_removed = matches!(missing, MissingRecord::Removed { .. });
        let gone = missing.commit().filter(|commit| is_removed || !repository.holds(commit));
        if gone.is_some() && gone == self.abandoned {
            return Ok(());
        }
        let block = missing.block(&view.name, &reading.layout, repository);
        Err(explain(LostRecord { cluster: view.name.to_string(), block }.into()))
    }

    /// A clone may have been made without the deploy branch.
    fn ask_upstream(&self, reading: &FleetReading, view: &ClusterView) -> Result<(), CommandError> {
        match self.opened.planner.repository().upstream(&reading.layout.branch) {
            Some(Ok(seen)) => self.refuse(reading, view, &MissingRecord::Lost { seen, asked: false }),
            Some(Err(error)) => {
                output::note(&format!("warning: what this is a clone of was not asked for the deploy branch: {error}"));
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// What helps against each of the reasons, once.
fn explain(error: anyhow::Error) -> CommandError {
    if let Some(lost) = error.downcast_ref::<LostRecord>() {
        let help = lost.block.help.clone();
        return CommandError::from(error).hint(help);
    }
    if let Some(refused) = error.downcast_ref::<NotRolledOut>() {
        let help = refused.help;
        return CommandError::from(error).hint(help);
    }
    let failures = error.downcast_ref::<Unrendered>().map(|unrendered| unrendered.failures.as_slice());
    let hints: BTreeSet<String> = failures.into_iter().flatten().map(|(_, failure)| failure.help.clone()).collect();
    hints.into_iter().fold(error.into(), CommandError::hint)
}
