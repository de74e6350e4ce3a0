//! `stepgate demo`: a whole upgrade on a simulated fleet.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use simulator::Break;

use super::common::error::CommandError;
use super::common::exit::Exit;
use super::common::output;
use super::common::output::{Format, Report, Table};
use crate::demo::{self, DemoEvent, DemoReport, DemoSettings};
use crate::reconcile::ClusterOutcome;

/// Arguments of `stepgate demo`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Keep everything in this folder: the repository is `fleet.git` in it. A second run there finds nothing to do.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A published Bundles manifest to begin with, instead of the built-in ones.
    #[arg(long, value_name = "FILE", requires = "to")]
    from: Option<PathBuf>,
    /// The Bundles manifest to go to.
    #[arg(long, value_name = "FILE", requires = "from")]
    to: Option<PathBuf>,
    /// A folder with the manifests that these bundles name. May be given several times: the first hit wins.
    #[arg(long = "mirror", value_name = "DIR", requires = "from")]
    mirrors: Vec<PathBuf>,
    /// Break a stage, such as `cert-manager` or `workers/md-0=machine-stuck`, see what holds it and why, and how it goes on once
    /// repaired.
    #[arg(long = "break", value_name = "STAGE[=FAULT]")]
    broken: Option<Break>,
    /// The form of the final report.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Report for DemoReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table =
            Table { headers: vec!["CLUSTER", "STAGE", "COMMIT", "COMMITTED AT", "OPENED BY"], ..Table::default() };
        for cluster in &self.clusters {
            for stage in &cluster.stages {
                let evidence = match stage.evidence.as_slice() {
                    [] => "-".to_owned(),
                    [only] => only.clone(),
                    [first, rest @ ..] => format!("{first} (and {} more facts)", rest.len()),
                };
                let name = if stage.reverted { format!("{} (reverted)", stage.stage) } else { stage.stage.clone() };
                table.rows.push(vec![
                    cluster.cluster.clone(),
                    name,
                    stage.commit.chars().take(12).collect(),
                    stage.committed_at.clone(),
                    evidence,
                ]);
            }
            if cluster.state != "done" {
                table.notes.push(format!("{} is {}: {}", cluster.cluster, cluster.state, cluster.message));
                table.notes.extend(cluster.help.iter().map(|help| format!("  what helps: {help}")));
            }
        }
        let outcome = if self.complete { "every cluster is done" } else { "not every cluster is done" };
        table.notes.push(format!(
            "{outcome}: {} commits, {} of virtual time, {:.1} s of yours",
            self.commits,
            hours(self.virtual_seconds),
            self.seconds
        ));
        if self.commits == 0 && self.complete {
            table
                .notes
                .push("nothing was committed: the deploy branch equals what the source branch asks for".to_owned());
        }
        table.notes.push(format!("look at it: git -C {} log --stat deploy", self.repository));
        table.notes.push(format!("            stepgate history --repo {}", self.repository));
        vec![(None, table)]
    }
}

fn hours(seconds: i64) -> String {
    format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60)
}

/// Runs the demonstration and prints the report.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    // Kept alive until the end: the folder goes with it.
    let temporary = match &arguments.dir {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("stepgate-demo-").tempdir()?),
    };
    let folder = match (&arguments.dir, &temporary) {
        (Some(folder), _) => folder.clone(),
        (None, Some(temporary)) => temporary.path().to_owned(),
        (None, None) => return Err(CommandError::new("there is no folder to work in")),
    };
    let settings = DemoSettings {
        folder,
        bundles: arguments.from.clone().zip(arguments.to.clone()),
        mirrors: arguments.mirrors.clone(),
        broken: arguments.broken.clone(),
    };
    let report = super::run::verb::runtime()?.block_on(demo::run(&settings, &mut tell))?;
    output::print(arguments.output, &report)?;
    if temporary.is_some() && arguments.output == Format::Table {
        output::print_text("the folder is removed now; `--dir DIR` keeps it\n")?;
    }
    Ok(match report.complete {
        true => Exit::Success,
        false if report.clusters.iter().any(|cluster| cluster.state == "blocked") => Exit::Blocked,
        false => Exit::Stopped,
    })
}

/// Progress, on standard error.
fn tell(now: Timestamp, event: DemoEvent<'_>) {
    let mut stderr = anstream::stderr().lock();
    let clock = now.strftime("%H:%M:%S");
    // Nobody reads a closed standard error.
    let _ = match event {
        DemoEvent::Ready { repository, clusters } => {
            writeln!(
                stderr,
                "{clock}  fleet repository {repository}; clusters {}, recorded as they run",
                clusters.join(", ")
            )
        }
        DemoEvent::Pushed { subject } => writeln!(stderr, "{clock}  pushed to main: {subject}"),
        DemoEvent::Planned { plan } => {
            let mut told = |text: &String| writeln!(stderr, "{clock}  {:<8}   {text}", plan.cluster);
            let rollout = plan.rollout_id.as_deref().unwrap_or("-");
            let heading = format!("rollout {rollout}: {} commits, {} machines", plan.commits, plan.machines);
            let one_way = plan
                .stages
                .iter()
                .flat_map(|stage| stage.one_way.iter().map(move |text| format!("one way ({}): {text}", stage.name)));
            let risks = plan.risk_groups.iter().map(|group| format!("risk: {}", group.text));
            let blocks = plan.blocked.iter().map(|block| format!("blocked: {}", block.message));
            std::iter::once(heading).chain(blocks).chain(one_way).chain(risks).try_for_each(|text| told(&text))
        }
        DemoEvent::Committed { cluster, stage } => {
            let word = if stage.reverted { "reverted" } else { "committed" };
            let commit: String = stage.commit.as_str().chars().take(12).collect();
            writeln!(
                stderr,
                "{clock}  {cluster:<8} {word} {} ({commit}), opened by {} facts",
                stage.stage,
                stage.evidence.len()
            )
        }
        DemoEvent::ClusterProgress { pass } => {
            let stage = pass.outcome.stage().map(|stage| format!(" at {stage}")).unwrap_or_default();
            let line = writeln!(
                stderr,
                "{clock}  {:<8} {}{stage}: {}",
                pass.cluster,
                pass.outcome.word(),
                pass.outcome.message()
            );
            match (&pass.outcome, pass.outcome.help()) {
                (ClusterOutcome::Held { .. } | ClusterOutcome::Blocked { .. }, Some(help)) => {
                    line.and_then(|()| writeln!(stderr, "{clock}  {:<8}   what helps: {help}", pass.cluster))
                }
                _ => line,
            }
        }
        DemoEvent::Repaired { cluster, broken } => {
            writeln!(
                stderr,
                "{clock}  {cluster:<8} was broken by `{}` ({}); repaired now",
                broken.fault,
                broken.fault.summary()
            )
        }
    };
}
