//! Fleets that are rolled in one wave: what a commit costs by how many clusters wait for their turn, with git on disk.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rollout::Standing;
use stepgate::reconcile::{ClusterOutcome, ReconcileReport};

use crate::Environment;
use crate::fleet::{Fleet, name};
use crate::measure::{Sample, run as program, whole_process};
use crate::report::Report;

/// Sizes of the fleet. `STEPGATE_CLUSTERS` names others.
const SIZES: [usize; 2] = [100, 1_000];

/// How many clusters go at once.
const AT_ONCE: usize = 20;

/// After so many commits, no more are waited for: of a large fleet they are as any others.
const COMMITS: usize = 400;

/// After so many passes a wave has come to a standstill.
const PASSES: usize = 20_000;

/// How many times as long a commit may take in a fleet of ten times as many clusters.
const STEEPNESS: f64 = 11.0;

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let mut report = Report {
        work: format!("a wave of a fleet of rising size, {AT_ONCE} clusters at once: passes, commits, pushes"),
        ..Report::default()
    };
    let mut by_commit: Vec<(usize, Duration)> = Vec::new();
    for clusters in crate::sizes(&SIZES)? {
        let folder = environment.scratch.path().join(format!("waves-{clusters}"));
        fs::create_dir_all(&folder)?;
        let rolled = Rolled::of(&Fleet::new(&folder, clusters)?, clusters)?;
        report.compare(format!("{clusters} clusters: plans with and without what is remembered"), rolled.is_equal);
        report.compare(format!("{clusters} clusters: never more than {AT_ONCE} under way"), rolled.most <= AT_ONCE);
        let commits = u32::try_from(rolled.commits)?;
        let spent = rolled
            .passes
            .iter()
            .fold(Sample::default(), |sum, one| Sample { cpu: sum.cpu + one.cpu, wall: sum.wall + one.wall });
        let each = Sample { cpu: spent.cpu / commits, wall: spent.wall / commits };
        by_commit.push((clusters, each.cpu));
        report.row(format!("{clusters:>6}  a commit, with all that is decided beside it"), vec![each]);
        report.row(format!("{clusters:>6}  a pass"), rolled.passes);
        let size = program(&folder, "du", &["-sk", "fleet.git"])?;
        report.notes.push(format!(
            "{clusters} clusters: {commits} commits, at most {} clusters under way, repository {} KiB",
            rolled.most,
            size.split_whitespace().next().unwrap_or_default()
        ));
        fs::remove_dir_all(&folder)?;
    }
    if let [.., (few, less), (many, more)] = by_commit.as_slice() {
        let ratio = more.as_secs_f64() / less.as_secs_f64();
        report.goals.push((
            format!(
                "a commit in a fleet of {many} costs {ratio:.1} times one in a fleet of {few} (goal ≤ {STEEPNESS})"
            ),
            ratio <= STEEPNESS,
        ));
    }
    report.notes.push("no peer: nothing else rolls a fleet in waves through git".to_owned());
    Ok(report)
}

/// What became of a wave.
struct Rolled {
    passes: Vec<Sample>,
    commits: usize,
    /// The most clusters of the wave that were under way after any pass.
    most: usize,
    is_equal: bool,
}

impl Rolled {
    fn of(fleet: &Fleet, clusters: usize) -> anyhow::Result<Self> {
        let all = format!("{{name: all, clusters: ['cluster-*'], concurrency: {AT_ONCE}}}");
        let wave = format!("waves:\n- {{name: hub, clusters: [mgmt]}}\n- {all}\n");
        fleet.append("stepgate.yaml", &wave)?;
        let controller = fleet.controller()?;
        fleet.settle(&controller)?;
        fleet.bump()?;
        let mut rolled = Self { passes: Vec::new(), commits: 0, most: 0, is_equal: false };
        // The management cluster goes first, in a wave of its own.
        let is_of_wave = |cluster: &str| cluster != "mgmt";
        let mut last = None;
        for _ in 0..PASSES {
            let (sample, pass) = whole_process(|| Fleet::pass(&controller))?;
            let own = pass.clusters.iter().filter(|cluster| is_of_wave(&cluster.cluster));
            let committed: usize = own.map(|cluster| cluster.committed.len()).sum();
            rolled.most = rolled.most.max(under_way(&pass)?);
            if committed > 0 || rolled.commits > 0 {
                rolled.passes.push(sample);
            }
            rolled.commits += committed;
            let is_over = rolled.commits > 0 && pass.clusters.iter().all(|own| own.outcome == ClusterOutcome::Done);
            if rolled.commits >= COMMITS || is_over {
                ensure!(pass.clusters.len() == clusters, "{} of {clusters} clusters", pass.clusters.len());
                rolled.is_equal = fleet.plans_are_remembered_rightly(&controller, clusters)?;
                return Ok(rolled);
            }
            let failed = pass.clusters.iter().find(|own| matches!(own.outcome, ClusterOutcome::Failed { .. }));
            ensure!(failed.is_none(), "{failed:?}");
            last = pass.clusters.iter().find(|own| own.cluster == name(1)).map(|own| own.outcome.message());
            fleet.go_on(&controller, &pass)?;
        }
        let (commits, last) = (rolled.commits, last.unwrap_or_default());
        bail!("the wave comes to {commits} of {COMMITS} commits; cluster {}: {last}", name(1))
    }
}

fn under_way(pass: &ReconcileReport) -> anyhow::Result<usize> {
    let wave = pass.waves.last().context("the fleet has no wave")?;
    let is_under_way = |standing: &Standing| matches!(standing, Standing::UnderWay { .. });
    Ok(wave.members.iter().filter(|member| is_under_way(&member.standing)).count())
}
