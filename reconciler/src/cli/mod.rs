//! The command line: one file a verb, one way to print, one table of exit codes.
//!
//! Data goes to standard output, progress and errors to standard error. Verbs that change something are dry unless
//! `--yes` is given.

mod adopt;
mod answer;
mod bundle;
mod common;
mod demo;
mod extension;
mod init;
mod inspect;
mod install;
mod kustomize;
mod rehearse;
mod restore;
mod run;
mod schema;
mod support_bundle;
mod terminal;
mod upgrader;
mod version;
mod web;

use std::error::Error;
use std::ffi::OsString;
use std::num::ParseIntError;
use std::path::Path;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub use common::arguments::{ClusterArguments, FleetArguments, ReportArguments};
pub use common::error::CommandError;
pub use common::exit::{EXIT_CODES, Exit};
pub use common::output::{Format, Report, Table};

use crate::telemetry::{self, LogFormat};
use host::memory::{self, Amount};

/// Carries Kubernetes clusters from one version to the next, stage by stage, through git.
#[derive(Debug, Parser)]
#[command(name = "stepgate", version, after_help = EXIT_CODES, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// Flags of every verb.
#[derive(Clone, Debug, Args)]
struct Global {
    /// Which log lines are written to standard error: `error`, `warn`, `info`, `debug`, or a `tracing` filter. Left out, it is `info` for
    /// `run`, `web` and `extension`, and `warn` for all else.
    #[arg(long, global = true, env = "STEPGATE_LOG_LEVEL", value_name = "LEVEL")]
    log_level: Option<String>,
    /// How much memory is to be enough, such as `192Mi`: a third of it is for what is remembered, which costs time where it is too little. Left out,
    /// it is what the control group (the container) allows, else 768Mi.
    #[arg(long, global = true, env = "STEPGATE_MEMORY_LIMIT", value_name = "AMOUNT")]
    memory_limit: Option<Amount>,
    /// A file with public keys (PEM, ECDSA on P-256) whose signatures of Bundles and EKS-D releases count besides those of EKS Anywhere and
    /// EKS-D: of whoever publishes bundles of their own.
    #[arg(long, global = true, env = "STEPGATE_BUNDLE_KEYS", value_name = "FILE")]
    bundle_keys: Option<SignerKeys>,
    /// How log lines are written.
    #[arg(long, global = true, env = "STEPGATE_LOG_FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,
}

/// More than any file of keys.
const MOST_OF_KEYS: u64 = 64 << 10;

/// The keys in a file.
#[derive(Clone, Debug)]
struct SignerKeys(Vec<bundles::SignerKey>);

impl std::str::FromStr for SignerKeys {
    type Err = String;

    fn from_str(file: &str) -> Result<Self, Self::Err> {
        let text = host::disk::read_text(Path::new(file), MOST_OF_KEYS).map_err(|error| error.to_string())?;
        bundles::SignerKey::from_pem(&text).map(Self).map_err(|error| error.to_string())
    }
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "one is made for each process")]
enum Verb {
    /// Check a fleet repository: policy, bundles, clusters, lock; every problem with file, line and what to do. What overlays make is rendered
    /// by `plan` only.
    Check(inspect::check::Arguments),
    /// Show what a rollout would do, stage by stage, with reasons, risks and one-way doors.
    Plan(inspect::changes::plan::Arguments),
    /// Carry the plan of a cluster through a simulation of it: a timeline, an estimate, what faults would do, the way back. Nothing is written.
    Rehearse(rehearse::Arguments),
    /// Show what the stages change, object by object.
    Diff(inspect::changes::diff::Arguments),
    /// Write the rendered files of a cluster.
    Render(inspect::render::Arguments),
    /// Show where every cluster stands.
    Status(inspect::status::Arguments),
    /// Say what a cluster waits for, since when, until when, and the command that helps.
    Why(inspect::why::Arguments),
    /// Wait until a cluster is done, or a stage is committed; the exit code says what came of it.
    Wait(inspect::wait::Arguments),
    /// Show one rollout, commit by commit, with what opened each.
    Show(inspect::show::Arguments),
    /// Show what a cluster is like now, or write it down: nodes, workloads, pods by owner, without anything secret.
    Dump(inspect::dump::Arguments),
    /// Show what differs between two dumps of a cluster, or between one and now: by owner, and not by the names of pods.
    Compare(inspect::compare::Arguments),
    /// Show the stage commits of the deploy branch with the evidence that opened each.
    History(inspect::history::Arguments),
    /// Show what has happened, in the order of time: pushes, stages, approvals, what others did.
    Events(inspect::events::Arguments),
    /// Run the controller: watch the repository and carry rollouts through.
    Run(run::verb::Arguments),
    /// Show the fleet in a browser: where every cluster stands, and why. It reads, and never writes.
    Web(web::Arguments),
    /// Record what the source branch says of a running cluster as deployed, after comparing it with what runs.
    Adopt(adopt::Arguments),
    /// Merge what is proposed for a cluster into the deploy branch: the approval, where no forge is used. Or approve a wave.
    Approve(answer::approve::Arguments),
    /// Say no to what is proposed for a cluster, or to a wave: it is held until its plan is another one.
    Reject(answer::reject::Arguments),
    /// Let a reverted stage be committed once more, or machines that did not come up be tried again.
    Retry(answer::retry::Arguments),
    /// Put a cluster back to a state that was verified before, stage by stage in reverse order, through the same gates and approvals.
    Rollback(answer::rollback::Arguments),
    /// Put Cluster API objects of a cluster back from a backup, or move them to another management cluster: paused, linked anew, then let go.
    Restore(restore::Arguments),
    /// Stop a cluster for a while: what Flux applies of it is paused, until a time that stands on each object.
    Hold(answer::hold::Arguments),
    /// End what `hold` began, before its time.
    Resume(answer::resume::Arguments),
    /// Run a whole upgrade on a simulated fleet in a temporary folder.
    Demo(demo::Arguments),
    /// Write a commented `stepgate.yaml` into a folder.
    Init(init::Arguments),
    /// Print the JSON schema of a document, for editors.
    Schema(schema::Arguments),
    /// Say which version this is, and whether it reads the ledgers of the deploy branch.
    Version(version::Arguments),
    /// Write what whoever helps needs to know into one archive: where every cluster stands, plans, commits, problems; nothing secret.
    SupportBundle(support_bundle::Arguments),
    /// Write the manifests of an installation in a management cluster: for kubectl, kustomize or Helm.
    Install(install::Arguments),
    /// Answer the hooks by which Cluster API upgrades machines in place, instead of replacing them.
    Extension(extension::Arguments),
    /// Compare, verify, show, fetch and propose Bundles manifests.
    Bundle(bundle::Arguments),
    /// Make the images that nodes are upgraded in place with.
    Upgrader(upgrader::Arguments),
    /// Evaluate gates on recordings.
    Gate(inspect::gate::Arguments),
    /// Build kustomizations as kustomize does, and compare what two of them make.
    Kustomize(kustomize::Arguments),
    /// Print the completion script of a shell.
    Completion(common::completion::CompletionArguments),
    /// Print the manual page.
    Man,
}

/// Programs that run others whose name begins with theirs, as their own verbs.
const HOSTS: [&str; 2] = ["kubectl", "flux"];

/// The command, called as whoever runs it calls it: as `kubectl stepgate` where the program is `kubectl-stepgate`.
fn command(program: Option<&OsString>) -> clap::Command {
    let name = program.and_then(|program| Path::new(program).file_stem()?.to_str()?.split_once('-'));
    match name.filter(|(host, name)| HOSTS.contains(host) && *name == "stepgate") {
        Some((host, name)) => Cli::command().bin_name(format!("{host} {name}")),
        None => Cli::command(),
    }
}

/// Runs the program with the arguments given and returns its exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match common::completion::answered(&arguments) {
        Ok(false) => {}
        Ok(true) => return Exit::Success.into(),
        Err(error) => {
            let _ = error.print();
            return Exit::Error.into();
        }
    }
    let program = arguments.first().cloned();
    let parsed = command(program.as_ref()).try_get_matches_from(arguments).and_then(|mut matches| {
        Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command(program.as_ref())))
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // clap's own texts: help and version go to standard output and are no failure.
            let error = with_help(error);
            let _ = error.print();
            return if error.use_stderr() { Exit::Error.into() } else { Exit::Success.into() };
        }
    };
    if let Some(limit) = cli.global.memory_limit {
        memory::set(limit);
    }
    if let Some(keys) = cli.global.bundle_keys {
        bundles::SignerKey::trust(keys.0);
    }
    let goes_on = match &cli.verb {
        Verb::Run(arguments) => arguments.goes_on(),
        Verb::Extension(_) | Verb::Web(_) => true,
        _ => false,
    };
    let usual = if goes_on { "info" } else { "warn" };
    telemetry::install(cli.global.log_level.as_deref().unwrap_or(usual), cli.global.log_format);
    match run_verb(cli.verb) {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.report();
            Exit::Error.into()
        }
    }
}

/// Says what to write in the place of a text that is no number, which the parser of numbers leaves out.
fn with_help(mut error: clap::Error) -> clap::Error {
    if error.source().is_some_and(<dyn Error>::is::<ParseIntError>) {
        let help = StyledStr::from("write a whole number, such as 30");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![help]));
    }
    error
}

fn run_verb(verb: Verb) -> Result<Exit, CommandError> {
    match verb {
        Verb::Check(arguments) => inspect::check::run(&arguments),
        Verb::Plan(arguments) => inspect::changes::plan::run(&arguments),
        Verb::Rehearse(arguments) => rehearse::run(&arguments),
        Verb::Diff(arguments) => inspect::changes::diff::run(&arguments),
        Verb::Render(arguments) => inspect::render::run(&arguments),
        Verb::Status(arguments) => inspect::status::run(&arguments),
        Verb::Why(arguments) => inspect::why::run(&arguments),
        Verb::Wait(arguments) => inspect::wait::run(&arguments),
        Verb::Show(arguments) => inspect::show::run(&arguments),
        Verb::Dump(arguments) => inspect::dump::run(&arguments),
        Verb::Compare(arguments) => inspect::compare::run(&arguments),
        Verb::History(arguments) => inspect::history::run(&arguments),
        Verb::Events(arguments) => inspect::events::run(&arguments),
        Verb::Run(arguments) => run::verb::run(&arguments),
        Verb::Web(arguments) => web::run(&arguments),
        Verb::Adopt(arguments) => adopt::run(&arguments),
        Verb::Approve(arguments) => answer::approve::run(&arguments),
        Verb::Reject(arguments) => answer::reject::run(&arguments),
        Verb::Retry(arguments) => answer::retry::run(&arguments),
        Verb::Rollback(arguments) => answer::rollback::run(&arguments),
        Verb::Restore(arguments) => restore::run(&arguments),
        Verb::Hold(arguments) => answer::hold::run(&arguments),
        Verb::Resume(arguments) => answer::resume::run(&arguments),
        Verb::Demo(arguments) => demo::run(&arguments),
        Verb::Init(arguments) => init::run(&arguments),
        Verb::Schema(arguments) => schema::run(&arguments),
        Verb::Version(arguments) => version::run(&arguments),
        Verb::SupportBundle(arguments) => support_bundle::run(&arguments),
        Verb::Install(arguments) => install::run(&arguments),
        Verb::Extension(arguments) => extension::run(&arguments),
        Verb::Bundle(arguments) => bundle::run(&arguments),
        Verb::Upgrader(arguments) => upgrader::run(&arguments),
        Verb::Gate(arguments) => inspect::gate::run(&arguments),
        Verb::Kustomize(arguments) => kustomize::run(&arguments),
        Verb::Completion(arguments) => common::completion::completion(&arguments),
        Verb::Man => common::completion::manual(),
    }
}

#[cfg(test)]
mod tests {
    use schemars::schema_for;

    use super::*;

    #[test]
    fn a_plugin_is_called_as_people_call_it() {
        let called = |program: &str| command(Some(&program.into())).get_bin_name().map(str::to_owned);
        for (program, expected) in [
            ("/usr/bin/kubectl-stepgate", Some("kubectl stepgate")),
            ("flux-stepgate", Some("flux stepgate")),
            ("stepgate", None),
            ("stepgate-in-tests", None),
            ("helm-stepgate", None),
        ] {
            assert_eq!(called(program).as_deref(), expected, "{program}");
        }
    }

    #[test]
    fn a_text_in_the_place_of_a_number_is_refused_with_help() {
        let arguments = ["stepgate", "status", "--requests-per-second", "many"];
        let error = with_help(Cli::try_parse_from(arguments).unwrap_err()).to_string();
        assert!(error.contains("'many' for '--requests-per-second <NUMBER>'"), "{error}");
        assert!(error.contains("write a whole number, such as 30"), "{error}");
    }

    #[test]
    fn the_argument_tree_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The documents of `-o json`, as JSON schemas. `UPDATE_FIXTURES=1` writes them anew.
    #[test]
    fn the_schemas_in_the_repository_are_those_of_the_reports() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
        for (verb, schema) in [
            ("check", schema_for!(inspect::check::CheckReport)),
            ("check-apis", schema_for!(inspect::apis::report::ApiReport)),
            ("check-cluster", schema_for!(inspect::cluster_checks::ClusterCheckReport)),
            ("compare", schema_for!(inspect::compare::CompareReport)),
            ("dashboard", schema_for!(crate::dashboard::Snapshot)),
            ("demo", schema_for!(crate::demo::DemoReport)),
            ("diff", schema_for!(crate::report::DiffReport)),
            ("events", schema_for!(crate::report::EventsReport)),
            ("history", schema_for!(crate::report::HistoryReport)),
            ("kustomize-diff", schema_for!(kustomize::diff::KustomizeDiffReport)),
            ("plan", schema_for!(inspect::changes::plan::PlanReport)),
            ("policy", policy::policy_schema()),
            ("rehearse", schema_for!(crate::rehearsal::RehearsalReport)),
            ("render", schema_for!(inspect::render::RenderReport)),
            ("restore", schema_for!(restore::RestoreReport)),
            ("run", schema_for!(run::verb::PassReport)),
            ("show", schema_for!(inspect::show::RolloutShown)),
            ("status", schema_for!(inspect::status::StatusReport)),
            ("version", schema_for!(version::VersionReport)),
            ("upgrader-build", schema_for!(upgrader::build::UpgraderImagesReport)),
            ("why", schema_for!(crate::report::WhyReport)),
        ] {
            let file = folder.join(format!("{verb}.json"));
            let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
            if std::env::var_os("UPDATE_FIXTURES").is_some() {
                std::fs::write(&file, &text).unwrap();
            }
            let committed = std::fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(committed, text, "{} is not the schema of `stepgate {verb} -o json`", file.display());
        }
    }
}
