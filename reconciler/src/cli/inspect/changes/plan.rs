//! `stepgate plan`: what a rollout would do, stage by stage.

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::Args;
use domain::Scope;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use rollout::{Expectation, Plan};
use serde::Serialize;

use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet::Opened;
use crate::cli::common::output;
use crate::cli::common::output::{Report, Table};
use crate::cli::inspect::changes::plan_text;
use crate::cli::inspect::changes::range::{Range, RangeArguments};
use crate::cli::inspect::cluster_checks;
use crate::cli::{ClusterArguments, ReportArguments};
use crate::reconcile::main_loop::clock::{Clock as _, SystemClock};
use crate::reconcile::planner::{Between, ClusterView, FleetReading};
use crate::report::{ClusterPlan, wave_told, way_back};

/// Arguments of `stepgate plan`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    report: ReportArguments,
    #[command(flatten)]
    range: RangeArguments,
    /// Exit with 1 when there is something to do.
    #[arg(long)]
    exit_code: bool,
    /// Show every stage and every risk.
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    access: ClusterArguments,
}

/// The plans of a fleet.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PlanReport {
    /// One plan a cluster, in the order of the repository.
    pub clusters: Vec<ClusterPlan>,
    /// Whether tables show every stage and risk.
    #[serde(skip)]
    pub verbose: bool,
    /// What is remarked of the whole fleet, which each plan repeats and tables tell once.
    #[serde(skip)]
    pub of_fleet: BTreeSet<String>,
}

impl Report for PlanReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        plan_text::tables(&self.clusters, &self.of_fleet, self.verbose)
    }

    fn names(&self) -> Vec<String> {
        self.clusters.iter().map(|cluster| cluster.cluster.clone()).collect()
    }
}

/// Prints the plans.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let Range { opened, names, from } = arguments.range.open(&arguments.report)?;
    let plan = |name: &String| match &from {
        Some(from) => between(&opened, from, name),
        None => pending(&opened, &arguments.access, name),
    };
    let of_fleet = opened.reading.fleet.problems.iter().filter(|problem| problem.scope == Scope::Fleet);
    let report = PlanReport {
        clusters: names.par_iter().map(plan).collect(),
        verbose: arguments.verbose,
        of_fleet: of_fleet.map(ToString::to_string).collect(),
    };
    output::print(arguments.report.output, &report)?;
    Ok(exit(&report, arguments.exit_code))
}

/// What leads a cluster from what is deployed to what the source branch says.
fn pending(opened: &Opened, access: &ClusterArguments, name: &str) -> ClusterPlan {
    let view = match opened.view(name) {
        Ok(view) => view,
        Err(error) => return ClusterPlan::broken(name, &error),
    };
    let (plan, unread) = live(&view, opened, access);
    let unconfirmed = view.unconfirmed(&opened.reading);
    let never = rollout::fitting_nowhere(&plan, view.directory.ledger(), SystemClock.now());
    let never: Vec<String> = never.iter().map(ToString::to_string).collect();
    let mut plan = ClusterPlan::of(&plan, &unconfirmed, view.directory.ledger());
    plan.wave = wave_told(&opened.reading.fleet, name, SystemClock.now());
    plan.warnings.extend(unread);
    plan.warnings.extend(never);
    plan.warnings.extend(way_back(&view));
    let pending = view.policy_changes(&opened.reading).into_iter().filter(|change| change.values.is_none());
    plan.warnings.extend(pending.map(|change| change.message(name)));
    plan
}

/// What leads a cluster from one commit of the source branch to another.
fn between(opened: &Opened, from: &FleetReading, name: &str) -> ClusterPlan {
    match opened.planner.between(from, &opened.reading, name) {
        Ok(Between { planned: (plan, _), unconfirmed, ledger }) => {
            ClusterPlan::of(&plan, &unconfirmed, ledger.as_deref())
        }
        Err(error) => ClusterPlan::broken(name, &error),
    }
}

/// The plan without the risks that do not apply to the running cluster, where somebody named how it is reached; and why they could not be told
/// apart.
fn live(view: &ClusterView, opened: &Opened, access: &ClusterArguments) -> (Arc<Plan>, Option<String>) {
    let plan = Arc::clone(&view.plan);
    let definitions = plan.definitions_at_risk();
    if !access.is_explicit() || definitions.is_empty() || plan.next_stage().is_none() {
        return (plan, None);
    }
    // What is asked for is which of them there are, and what they store.
    let asked = definitions.iter().map(|name| Expectation::CustomResourceDefinition {
        name: (*name).to_owned(),
        served: Vec::new(),
        storage: String::new(),
    });
    let read = cluster_checks::observe(opened, view, access, asked.collect());
    let unread = match read {
        Ok(observation) => match observation.unread.get("CustomResourceDefinition") {
            None => {
                let applied = Plan::clone(&plan).with_definitions(&observation.custom_resource_definitions);
                return (Arc::new(applied), None);
            }
            Some(reason) => reason.clone(),
        },
        Err(error) => error.to_string(),
    };
    (plan, Some(format!("risks are told whether they apply or not, because definitions were not read: {unread}")))
}

fn exit(report: &PlanReport, exit_code: bool) -> Exit {
    if report.clusters.iter().any(|cluster| cluster.rollout_id.is_none()) {
        Exit::Error
    } else if report.clusters.iter().any(|cluster| !cluster.blocked.is_empty()) {
        Exit::Blocked
    } else if exit_code && report.clusters.iter().any(|cluster| cluster.commits > 0) {
        Exit::Differences
    } else {
        Exit::Success
    }
}
