//! `growth`: what a year of bumps makes of a fleet repository on disk: stage commits a second, bytes a commit, `git gc` in the middle of it, and
//! how long a new process reads before it knows every cluster's history.
//!
//! Each cluster gets the commits that a rollout of its machines has, with ledgers whose digests are true. `STEPGATE_CLUSTERS=1000` are the sizes
//! of the fleet, `STEPGATE_BUMPS=2` how often all of it is rolled out.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use domain::{CommitId, RepoPath};
use git::{CommitDraft, CommitMessage, CommitOutcome, PushOutcome, Repository, Signing, StageTrailers};
use jiff::{SignedDuration, Timestamp};
use overlays::RenderedTree;
use rollout::{Ledger, StageName};
use stepgate::reconcile::effects::commit::ledger_text;
use stepgate::reconcile::main_loop::clock::Clock as _;

use crate::Environment;
use crate::fleet::Fleet;
use crate::measure::{Sample, whole_process};
use crate::report::Report;

const SIZES: [usize; 1] = [1_000];

/// So often every cluster is rolled out.
const BUMPS: usize = 2;

/// A bump a week.
const YEAR: u32 = 52;

/// The commits of a rollout of machines.
const STAGES: [&str; 3] = ["control-plane", "workers/md-0", "verify"];

/// So long another `git gc` is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// What gates saw, in ledger and message.
const FACTS: usize = 20;

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let mut report = Report {
        work: "bumps of every cluster, a commit for each stage, on a real bare repository".to_owned(),
        ..Report::default()
    };
    let bumps = std::env::var("STEPGATE_BUMPS").ok().and_then(|bumps| bumps.parse().ok()).unwrap_or(BUMPS);
    for clusters in crate::sizes(&SIZES)? {
        let folder = environment.scratch.path().join(format!("growth-{clusters}"));
        std::fs::create_dir_all(&folder)?;
        measure(&mut report, &folder, clusters, bumps)?;
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(report)
}

fn measure(report: &mut Report, folder: &Path, clusters: usize, bumps: usize) -> anyhow::Result<()> {
    let fleet = Fleet::recorded(folder, clusters)?;
    let bare = folder.join("fleet.git");
    let mut writer = Writer::new(&fleet)?;
    let before = bytes(&bare)?;
    let mut collected = None;
    for bump in 0..bumps {
        let (mut times, begun) = (Vec::new(), Instant::now());
        for (place, stage) in STAGES.iter().enumerate() {
            for cluster in 0..writer.clusters.len() {
                // Somebody keeps house in the middle of the last one.
                if bump + 1 == bumps && place == 1 && cluster == 0 {
                    let bare = bare.clone();
                    collected = Some(std::thread::spawn(move || keep_house(&bare)));
                }
                times.push(writer.commit(cluster, stage, bump)?);
            }
        }
        let wall = begun.elapsed();
        times.sort_unstable();
        let of = |share: usize| times.get((times.len() - 1) * share / 100).copied().unwrap_or_default();
        let rate = f64::from(u32::try_from(times.len())?) / wall.as_secs_f64();
        report.notes.push(format!(
            "{clusters} clusters, bump {}: {} commits, {rate:.0} a second; p50 {:.1?}, p99 {:.1?}, slowest {:.1?}",
            bump + 1,
            times.len(),
            of(50),
            of(99),
            times.last().copied().unwrap_or_default()
        ));
        let samples = times.iter().map(|wall| Sample { cpu: Duration::ZERO, wall: *wall }).collect();
        report.row(format!("{clusters:>6}  bump {}: commit and push of a stage", bump + 1), samples);
    }
    if let Some(collected) = collected {
        let took = collected.join().map_err(|_| anyhow::anyhow!("the thread of `git gc` broke off"))??;
        report.notes.push(format!("{clusters} clusters: `git gc` beside it took {took:.1?}"));
    }
    let git = |arguments: &[&str]| crate::measure::run(&bare, "git", arguments);
    let commits: usize = git(&["rev-list", "--count", "deploy"])?.parse()?;
    let made = clusters * STAGES.len() * bumps;
    git(&["fsck", "--connectivity-only", "--no-dangling"])?;
    report.compare(
        format!("{clusters} clusters: every commit is there after `git gc`"),
        commits >= made && writer.made == made,
    );

    let (restart, (known, foreign)) = whole_process(|| histories(&fleet))?;
    report.compare(
        format!("{clusters} clusters: a new process knows {known} rollouts, and {foreign} as somebody else's"),
        known == clusters && foreign == 0,
    );
    report.row(format!("{clusters:>6}  a new process makes the plan of every cluster"), vec![restart]);

    let grown = bytes(&bare)?.saturating_sub(before);
    keep_house(&bare)?;
    let packed = bytes(&bare)?.saturating_sub(before);
    let year = |bytes: u64| (bytes / u64::try_from(bumps.max(1)).unwrap_or(1) * u64::from(YEAR)) >> 20;
    let each = |bytes: u64| bytes / u64::try_from(made.max(1)).unwrap_or(1);
    report.notes.push(format!(
        "{clusters} clusters: the repository has {} MiB at first; each commit adds {} bytes as it is kept, {} after `git gc`; {YEAR} bumps add {} MiB, {} \
         after it",
        before >> 20,
        each(grown),
        each(packed),
        year(grown),
        year(packed)
    ));
    Ok(())
}

/// Packs everything beside what goes on, and tells how long that took. With `--prune=now` git takes what is being written too: it is for
/// repositories that nobody writes to. What receives pushes does the same now and then by itself: that comes to its
/// end first.
fn keep_house(bare: &Path) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    loop {
        let collected = Command::new("git").args(["gc", "--quiet"]).current_dir(bare).output();
        let collected = collected.context("run git gc")?;
        let told = String::from_utf8_lossy(&collected.stderr);
        match collected.status.success() {
            true => return Ok(begun.elapsed()),
            false if told.contains("gc is already running") && begun.elapsed() < PATIENCE => {
                // Nothing tells when the other one is over.
                std::thread::sleep(Duration::from_millis(200));
            }
            false => bail!("git gc: {}", told.trim()),
        }
    }
}

/// How many clusters have a plan without differences and a rollout that is known, and how many were changed by somebody else.
fn histories(fleet: &Fleet) -> anyhow::Result<(usize, usize)> {
    let planner = fleet.planner()?;
    let reading = planner.read()?;
    let (mut known, mut foreign) = (0, 0);
    for cluster in &reading.fleet.clusters {
        let view = planner.view(&reading, &cluster.name)?;
        foreign += usize::from(view.foreign.is_some());
        known += usize::from(view.head.trailers().count() == STAGES.len());
    }
    Ok((known, foreign))
}

/// Bytes of all objects.
fn bytes(bare: &Path) -> anyhow::Result<u64> {
    let told = crate::measure::run(bare, "git", &["count-objects", "-v"])?;
    let kilobytes = told.lines().filter_map(|line| {
        let (key, value) = line.split_once(": ")?;
        matches!(key, "size" | "size-pack").then(|| value.parse::<u64>().ok())?
    });
    Ok(kilobytes.sum::<u64>() << 10)
}

/// Commits stages as the controller does.
struct Writer {
    repository: Repository,
    clusters: Vec<Deployed>,
    head: Option<CommitId>,
    now: Timestamp,
    made: usize,
}

/// What the deploy branch holds of a cluster.
struct Deployed {
    ledger: Ledger,
    files: RenderedTree,
}

impl Writer {
    fn new(fleet: &Fleet) -> anyhow::Result<Self> {
        let planner = fleet.planner()?;
        let reading = planner.read()?;
        let mut clusters = Vec::new();
        for cluster in &reading.fleet.clusters {
            let view = planner.view(&reading, &cluster.name)?;
            let ledger = view.directory.ledger().context("the cluster has no record")?.clone();
            clusters.push(Deployed { ledger, files: view.directory.files.clone() });
        }
        let (head, now) = (reading.deploy_head().cloned(), fleet.clock.now());
        Ok(Self { repository: fleet.repository.clone(), clusters, head, now, made: 0 })
    }

    fn commit(&mut self, cluster: usize, stage: &str, bump: usize) -> anyhow::Result<Duration> {
        self.now += SignedDuration::from_secs(1);
        let Some(own) = self.clusters.get_mut(cluster) else { bail!("there is no cluster {cluster}") };
        let begun = Instant::now();
        let name = own.ledger.cluster.clone();
        let mut edits: BTreeMap<RepoPath, Option<Arc<[u8]>>> = BTreeMap::new();
        if stage != STAGES[2] {
            let path = RepoPath::new(format!("clusters/{name}/cluster/{}.yaml", stage.replace('/', "-")))?;
            let bytes: Arc<[u8]> = format!("# {stage} {bump} of {name}\n").into_bytes().into();
            own.files.insert(path.clone(), Arc::clone(&bytes));
            edits.insert(path, Some(bytes));
        }
        let facts: Vec<String> =
            (0..FACTS).map(|fact| format!("object {fact} of {stage} {bump}: as it should be, {}", self.made)).collect();
        let digest = own.files.digest();
        // The first of its digits are the identity of the rollout.
        let plan: domain::PlanDigest = format!("{bump:08x}{:056x}", 0).parse()?;
        own.ledger = Ledger {
            rollout: plan.rollout_id(),
            plan: plan.clone(),
            target: digest.clone(),
            as_declared: facts.clone(),
            ..own.ledger.clone().with_tree(digest)
        };
        edits.insert(RepoPath::new(format!("clusters/{name}/rollout.yaml"))?, Some(ledger_text(&own.ledger)?));
        let stage = if stage == STAGES[2] { StageName::Verify.into() } else { stage.parse()? };
        let trailers = StageTrailers {
            rollout: own.ledger.rollout.clone(),
            cluster: name.clone(),
            stage,
            plan,
            source: own.ledger.source.clone(),
        };
        let draft = CommitDraft {
            parent: self.head.clone(),
            prefix: None,
            edits,
            message: CommitMessage {
                subject: format!("{name}: {}", trailers.stage),
                body: facts.join("\n"),
                trailers: vec![trailers],
            },
            author: "Stepgate <stepgate@example.com>".parse()?,
            time: self.now,
            merges: None,
            allow_empty: false,
        };
        let CommitOutcome::Created(commit) = self.repository.commit(&draft, &Signing::None)? else {
            bail!("the commit changes nothing")
        };
        let pushed = self.repository.push(&"deploy".parse()?, &commit, self.head.as_ref())?;
        ensure!(pushed == PushOutcome::Pushed, "the push ended as {pushed:?}");
        self.head = Some(commit);
        self.made += 1;
        Ok(begun.elapsed())
    }
}
