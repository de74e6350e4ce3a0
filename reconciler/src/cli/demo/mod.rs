//! `stepgate demo`: a whole upgrade on a simulated fleet.

mod progress;
mod story;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use git::{Repository, RepositoryLocation};
use simulator::Break;
use tokio::sync::oneshot;

use self::progress::Progress;
use super::common::error::CommandError;
use super::common::exit::Exit;
use super::common::output;
use super::common::output::{Format, Report, Table};
use super::web;
use crate::demo::{self, DemoEvent, DemoKind, DemoReport, DemoSettings};
use crate::reconcile::cache::sources::FetchSources;
use crate::reconcile::planner::Planner;

/// Arguments of `stepgate demo`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Keep everything in this folder: the repository is `fleet.git` in it. A second run there finds nothing to do.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Of which kind the clusters of the built-in fleet are.
    #[arg(long, value_enum, default_value_t, conflicts_with = "from")]
    kind: DemoKind,
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
    /// Show it in a browser on this machine while it runs, and afterwards until it is stopped.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:8090")]
    web: Option<SocketAddr>,
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

    fn prose(&self) -> Option<String> {
        Some(story::told(self))
    }

    fn names(&self) -> Vec<String> {
        self.clusters.iter().map(|cluster| cluster.cluster.clone()).collect()
    }
}

fn hours(seconds: i64) -> String {
    format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60)
}

/// Runs the demonstration and prints the report.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    // Kept alive until the end: the folder goes with it, unless the report points at it.
    let points_at_it = arguments.output == Format::Table;
    let temporary = match &arguments.dir {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("stepgate-demo-").disable_cleanup(points_at_it).tempdir()?),
    };
    let mut progress = Progress::new(points_at_it);
    let folder = match (&arguments.dir, &temporary) {
        (Some(folder), _) => folder.clone(),
        (None, Some(temporary)) => temporary.path().to_owned(),
        (None, None) => return Err(CommandError::new("there is no folder to work in")),
    };
    let settings = DemoSettings {
        folder,
        kind: arguments.kind,
        bundles: arguments.from.clone().zip(arguments.to.clone()),
        mirrors: arguments.mirrors.clone(),
        broken: arguments.broken.clone(),
    };
    let report = super::run::verb::runtime()?.block_on(async {
        let Some(address) = arguments.web else {
            let report = demo::run(&settings, &mut |now, event| progress.tell(now, &event)).await?;
            output::print(arguments.output, &report)?;
            return Ok::<_, CommandError>(report);
        };
        let (ready, planner) = oneshot::channel();
        let mut ready = Some(ready);
        let place = web::show(address, planner, "its clusters are simulated, by the demonstration alone").await?;
        output::note(&place);
        let report = demo::run(&settings, &mut |now, event| {
            if let DemoEvent::Ready { repository, .. } = &event
                && let Some(ready) = ready.take()
                && let Ok(planner) = shown(&settings, repository)
            {
                // A dashboard that has ended shows nothing.
                drop(ready.send(planner));
            }
            progress.tell(now, &event);
        })
        .await?;
        output::print(arguments.output, &report)?;
        output::note(&format!("{place}, until you stop it"));
        tokio::signal::ctrl_c().await?;
        Ok(report)
    })?;
    Ok(match report.complete {
        true => Exit::Success,
        false if report.clusters.iter().any(|cluster| cluster.state == "blocked") => Exit::Blocked,
        false => Exit::Stopped,
    })
}

/// What the dashboard reads: the demonstration's repository, as anybody reads it.
fn shown(settings: &DemoSettings, repository: &str) -> Result<Planner, CommandError> {
    let repository = Repository::open(&RepositoryLocation::Local(repository.into()))?;
    let mirrors = demo::FleetFiles::of(settings)?.mirrors;
    Ok(Planner::new(repository, "main".parse()?, Arc::new(FetchSources::new(mirrors))))
}
