//! P9: what the last gate waits for comes true in the last of 1,000 clusters, and the next stage's commit is on the fleet repository.
//!
//! The program, the API server, git and the controllers of workloads are real; Pods are said to run by a fake kubelet. This benchmark does what
//! Flux would do: it writes into the status of Flux's objects that a commit was applied. From the answer to the last such write, or from when
//! the API server tells that a Deployment is available again, until the deploy branch moves is one trial; where people approve, until the proposal
//! is on its branch, which this benchmark merges then.
//!
//! `STEPGATE_WAYS=2` measures the first two ways alone, for runs of a thousand trials.

mod peer;
mod scene;
mod stages;
mod workload;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tests::servers::settled::CLUSTER;
use tests::servers::{Process, Programs, kustomization};

use self::peer::Script;
use self::scene::{Scene, policy};
use crate::Environment;
use crate::corpus;
use crate::measure::Sample;
use crate::report::{Report, line};

/// Runs the program itself, in a process of its own: `stepgate ARGUMENTS…`.
pub const PROGRAM_VERB: &str = "stepgate";

/// Components whose overlays each push changes, and so the stages of each rollout.
const COMPONENTS: [&str; 5] = ["cert-manager", "capi", "eks-a", "cilium", "flux"];

/// Measured trials of each round.
const TRIALS: usize = 150;

/// Of the ways after the first two.
const FEWER: usize = 22;

/// Between what everything else says and what is waited for last.
const QUIET: Duration = Duration::from_millis(700);

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let trials = environment.rounds * TRIALS;
    let mut report = Report {
        work: format!(
            "{trials} times: the last thing a gate waits for comes true in the last of {} clusters, the next stage is committed",
            corpus::CLUSTERS
        ),
        ..Report::default()
    };
    let programs = match Programs::find(&["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"]) {
        Ok(programs) => programs,
        Err(missing) => {
            report.notes.push(format!("not measured: {missing:#}"));
            return Ok(report);
        }
    };
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let folder = environment.scratch.path().join("next-commit");
        let scene = Scene::start(&programs, &folder).await?;
        let wanted = std::env::var("STEPGATE_WAYS").ok().and_then(|ways| ways.parse().ok()).unwrap_or(usize::MAX);
        let ways = ways().into_iter().take(wanted);
        let mut measured: Vec<_> = ways.map(|way| (way, Vec::new(), Vec::new())).collect();
        let script = Script::new(&scene, &programs, &folder)?;
        let mut peer = Vec::new();
        for round in 1..=environment.rounds {
            for (way, times, asked) in &mut measured {
                let (found, requests) = scene.measure(way).await?;
                times.extend(found);
                asked.push(requests);
                times.sort_unstable();
                let (median, slowest) = (percentile(times, 50), percentile(times, 99));
                // A run takes long: what is known is shown.
                line(&format!(
                    "P9  round {round}, {}: {} trials, p50 {median:.1?}, p99 {slowest:.1?}",
                    way.name,
                    times.len()
                ));
                if way.last == Last::Workload {
                    peer.extend(script.measure(FEWER, QUIET).await?);
                    peer.sort_unstable();
                }
            }
        }
        for (way, times, asked) in measured {
            let name = way.name;
            if way.last == Last::Workload {
                let what = format!("{name}: over `kubectl wait` and git");
                report.ratio(&what, percentile(&times, 50), percentile(&peer, 50), 10.0);
            }
            report.at_most(&format!("{name}: p50"), percentile(&times, 50), Duration::from_millis(10));
            report.at_most(&format!("{name}: p99"), percentile(&times, 99), Duration::from_millis(50));
            let asked = asked.iter().sum::<f64>() / f64::from(u32::try_from(asked.len().max(1))?);
            report.notes.push(format!("{name}: {asked:.0} requests to the API server for a stage"));
            report.row(name, samples(&times));
        }
        if !peer.is_empty() {
            report.compare("the script has committed once each time", script.commits()? == peer.len());
            report.row("a Deployment is available last, `kubectl wait` and git", samples(&peer));
        }
        report.compare("every cluster is done in the end", scene.done()? == corpus::CLUSTERS);
        anyhow::Ok(())
    })?;
    report.notes.push("processor time is not measured here; Kargo and Flux look every 10 to 30 s".to_owned());
    Ok(report)
}

/// [`PROGRAM_VERB`].
pub fn program(arguments: &[String]) -> anyhow::Result<()> {
    let status =
        stepgate::cli::main(std::iter::once("stepgate").chain(arguments.iter().map(String::as_str)).map(Into::into));
    ensure!(status == std::process::ExitCode::SUCCESS, "stepgate ended with {status:?}");
    Ok(())
}

fn samples(times: &[Duration]) -> Vec<Sample> {
    times.iter().map(|wall| Sample { cpu: Duration::ZERO, wall: *wall }).collect()
}

/// So many of a hundred took at most as long. `times` are sorted.
fn percentile(times: &[Duration], share: usize) -> Duration {
    times.get(times.len().saturating_sub(1) * share / 100).copied().unwrap_or_default()
}

/// What is measured, in each round.
fn ways() -> [Way; 5] {
    let flux = Way {
        name: "Flux is done last",
        trials: TRIALS,
        last: Last::Flux,
        quiet: QUIET,
        over_http: false,
        approved: false,
    };
    [
        flux,
        Way { name: "a Deployment is available last", last: Last::Workload, ..flux },
        Way { name: "Flux last, amid other changes", trials: FEWER, quiet: Duration::ZERO, ..flux },
        Way { name: "Flux last, repository over HTTP", trials: FEWER, over_http: true, ..flux },
        Way { name: "Flux last, proposed to people", trials: FEWER, approved: true, ..flux },
    ]
}

/// One way of use.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// At least so many are measured in a round.
    trials: usize,
    last: Last,
    /// Between what everything else says and what the gate waits for.
    quiet: Duration,
    /// Whether the repository is served by git's own HTTP backend.
    over_http: bool,
    /// Whether people approve each stage.
    approved: bool,
}

/// What a gate waits for last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// That Flux has applied the stage.
    Flux,
    /// That a Deployment of the stage is available.
    Workload,
}

impl Scene {
    /// Rollouts, until there were enough trials: their times, and requests to the API server for each stage.
    async fn measure(&self, way: &Way) -> anyhow::Result<(Vec<Duration>, f64)> {
        let name = way.name;
        let ask =
            |approved| self.cluster.repository.push("Ask people or nobody", &[("stepgate.yaml", &policy(approved))]);
        if way.approved {
            ask(true)?;
        }
        let mut head = self.cluster.repository.head()?;
        self.cluster.flux.applied(&head, None).await?;
        let mut run = self.stepgate(way.over_http, &["run", "--listen", "off"])?;
        run.env("STEPGATE_REQUESTS_PER_SECOND", "1000");
        let mut controller =
            Process::start(&self.cluster.folder, &format!("stepgate-{}", name.replace([' ', ','], "-")), run)?;
        let before = self.requests()?;
        let (mut times, mut stages) = (Vec::new(), 0_u32);
        let measured = async {
            while times.len() < way.trials {
                let is_first = stages == 0;
                self.push(&format!("{name} {stages}"))?;
                let mut last_change = None;
                loop {
                    // Who no longer wants to be asked is asked once more: rules are the stricter of before and after.
                    let next = self.next(&head, way.approved || is_first).await?;
                    times.extend(last_change.map(|at| next.seen.saturating_duration_since(at)));
                    head = next.head;
                    stages += 1;
                    if next.stage == "verify" {
                        self.cluster.flux.applied(&head, None).await?;
                        break;
                    }
                    // The first rollout finds a cluster that may not have come to rest, and a process that knows nothing.
                    let came_true = match way.last {
                        Last::Workload if !is_first => self.workload_last(&head, &next.stage, way.quiet).await?,
                        Last::Workload | Last::Flux => self.flux_last(&head, &next.stage, way.quiet).await?,
                    };
                    // After the last stage comes the verification, which looks at machines twice, a second apart.
                    last_change = (next.stage != "flux" && !is_first).then_some(came_true);
                }
            }
            anyhow::Ok(())
        };
        let measured = measured.await;
        let asked = self.requests()?.saturating_sub(before);
        let last = controller.last_lines();
        controller.kill()?;
        if way.approved {
            ask(false)?;
        }
        measured.with_context(|| last)?;
        Ok((times, f64::from(u32::try_from(asked)?) / f64::from(stages.max(1))))
    }

    /// Flux takes its time; how much of it is quiet is what the ways differ in.
    async fn flux_last(&self, head: &str, stage: &str, quiet: Duration) -> anyhow::Result<Instant> {
        self.cluster.flux.applied(head, Some(stage)).await?;
        tokio::time::sleep(quiet).await;
        self.cluster.flux.reconciled(head, kustomization(stage)).await
    }

    /// A Deployment of the stage becomes unavailable when Flux applies it, and is available again after as long a quiet.
    async fn workload_last(&self, head: &str, stage: &str, quiet: Duration) -> anyhow::Result<Instant> {
        self.available(stage, false).await?;
        self.cluster.flux.applied(head, None).await?;
        tokio::time::sleep(quiet).await;
        self.available(stage, true).await
    }

    /// A person changes the overlays of every component of the management cluster.
    fn push(&self, text: &str) -> anyhow::Result<()> {
        let overlay = format!(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\ncommonAnnotations: {{example.com/trial: {text:?}}}\n"
        );
        let paths = COMPONENTS.map(|component| format!("clusters/{CLUSTER}/overlays/{component}/kustomization.yaml"));
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), overlay.as_str())).collect();
        self.cluster.repository.push(text, &files).map(drop)
    }
}
