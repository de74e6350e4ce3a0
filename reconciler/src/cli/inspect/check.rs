//! `stepgate check`: every problem of a fleet repository, with file, line, column and what to do.

use clap::{Args, Subcommand};
use domain::{Problem, ProblemCode, Severity};
use serde::Serialize;

use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use crate::cli::common::{fleet, machine};
use crate::cli::inspect::{apis, cluster_checks, overlay_conflicts};
use crate::cli::{ClusterArguments, FleetArguments};
use crate::reconcile::cache::sources::undefined;
use crate::report::{ProblemReport, of_repository};

/// Arguments of `stepgate check`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// Ask the checks of this running cluster instead: what would go wrong with its next rollout. The exit code is 3 when a blocking check fails,
    /// 4 when one could not be judged.
    #[arg(long, value_name = "NAME", add = crate::cli::common::names::clusters())]
    cluster: Option<String>,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What is checked instead of the fleet.
#[derive(Debug, Subcommand)]
enum What {
    /// Find what is written for API versions that a version of Kubernetes does not serve: in manifests, or in a running cluster.
    Apis(apis::Arguments),
}

/// What `check` found.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// Commit of the source branch that was read.
    pub source: String,
    /// Names of the clusters found.
    pub clusters: Vec<String>,
    /// Names of the bundles found.
    pub bundles: Vec<String>,
    /// What is wrong or worth knowing.
    pub problems: Vec<ProblemReport>,
}

/// Problems as lines for people: where, what, and what to do.
pub fn problem_table(problems: &[ProblemReport]) -> Table {
    let mut table = Table { headers: vec!["SEVERITY", "WHERE", "CLUSTER", "MESSAGE"], ..Table::default() };
    for problem in problems {
        let cluster = problem.cluster.clone().unwrap_or_else(|| "-".to_owned());
        table.rows.push(vec![problem.severity.clone(), problem.place(), cluster, problem.message.clone()]);
        if let Some(hint) = &problem.hint {
            table.notes.push(format!("hint: {}: {hint}", problem.place()));
        }
    }
    table
}

impl Report for CheckReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table = problem_table(&self.problems);
        let errors = self.problems.iter().filter(|problem| problem.severity == "error").count();
        table.notes.push(format!(
            "{} clusters, {} bundles, {errors} errors, {} other remarks",
            self.clusters.len(),
            self.bundles.len(),
            self.problems.len() - errors
        ));
        if !self.clusters.is_empty() {
            table.notes.push(
                "components are rendered here only to find what upstream changed of what overlays set: `stepgate plan` \
                 names objects of them that Flux would refuse"
                    .to_owned(),
            );
        }
        vec![(None, table)]
    }
}

/// Reads the repository and prints what is wrong with it.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    if let Some(What::Apis(arguments)) = &arguments.what {
        return apis::run(arguments);
    }
    let opened = fleet::open_to_check(&arguments.fleet)?;
    if let Some(name) = &arguments.cluster {
        let (report, exit) = cluster_checks::report(&opened, name, &arguments.access)?;
        output::print(arguments.output, &report)?;
        return Ok(exit);
    }
    let mirrors = &arguments.fleet.mirrors;
    let is_defined = |name: &&String| mirrors.iter().any(|mirror| mirror.name.as_ref() == Some(*name));
    let undefined_mirrors = opened.fleet().policy.mirrors.iter().filter(|name| !is_defined(name)).map(|name| {
        let problem = Problem::new(ProblemCode::MissingReference, undefined(name)).severity(Severity::Warning);
        ProblemReport::from(&problem.shown_path("stepgate.yaml"))
    });
    let (mut problems, mut own) = of_repository(&opened.planner, &opened.reading);
    problems.extend(undefined_mirrors);
    problems.extend(overlay_conflicts::problems(&opened).iter().map(ProblemReport::from));
    problems.extend(machine::problems(&arguments.fleet, &opened));
    problems.sort_by_key(|problem| problem.severity != "error");
    let report = CheckReport {
        source: opened.source().snapshot().commit().to_string(),
        clusters: opened.fleet().clusters.iter().map(|cluster| cluster.name.clone()).collect(),
        bundles: opened.fleet().bundles.iter().map(|file| file.bundles.name.clone()).collect(),
        problems,
    };
    output::print(arguments.output, &report)?;
    own.extend(opened.fleet().problems.iter().cloned());
    Ok(if own.iter().any(Problem::is_error) { Exit::Error } else { Exit::Success })
}
