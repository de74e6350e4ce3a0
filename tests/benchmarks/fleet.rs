//! A fleet of many clusters in a real bare repository, with the real controller and simulated clusters.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail};
use cluster::Cluster;
use domain::RepoPath;
use futures::executor::block_on;
use git::{CommitDraft, CommitMessage, CommitOutcome, PushOutcome, Repository, Signing};
use jiff::{SignedDuration, Timestamp};
use overlays::ClusterSpec;
use stepgate::demo::{DemoKind, DemoSettings, FleetFiles};
use stepgate::reconcile::cache::sources::FetchSources;
use stepgate::reconcile::clusters::access::Clusters;
use stepgate::reconcile::effects::records::{Record, Records};
use stepgate::reconcile::main_loop::clock::{Clock as _, VirtualClock};
use stepgate::reconcile::planner::Planner;
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};
use stepgate::simulation::SimulatedFleet;

type Files = BTreeMap<String, Vec<u8>>;

/// One management cluster and workload clusters of its kind, adopted and settled.
pub struct Fleet {
    /// The bare repository.
    pub repository: Repository,
    /// Time, which goes on only when it is told to.
    pub clock: VirtualClock,
    simulated: Arc<SimulatedFleet>,
    files: FleetFiles,
    asked: Arc<AtomicUsize>,
}

impl Fleet {
    /// Makes a fleet of `clusters` clusters below `folder`.
    pub fn new(folder: &Path, clusters: usize) -> anyhow::Result<Self> {
        let mut fleet = Self::recorded(folder, clusters)?;
        fleet.simulated = Arc::new(SimulatedFleet::settled(&fleet.planner()?.read()?, fleet.clock.now())?);
        fleet.clock.advance(SignedDuration::from_secs(60));
        Ok(fleet)
    }

    /// As [`Fleet::new`], of clusters that nobody simulates.
    pub fn recorded(folder: &Path, clusters: usize) -> anyhow::Result<Self> {
        let settings = DemoSettings {
            folder: folder.to_owned(),
            kind: DemoKind::EksAnywhere,
            bundles: None,
            mirrors: Vec::new(),
            broken: None,
        };
        let mut files = FleetFiles::of(&settings)?;
        for side in [&mut files.before, &mut files.bump] {
            let template = side.remove("clusters/team-a/cluster.yaml").context("the demo has team-a")?;
            let template = String::from_utf8(template)?;
            side.remove("clusters/team-b/cluster.yaml");
            for number in 1..clusters {
                let name = name(number);
                side.insert(format!("clusters/{name}/cluster.yaml"), template.replace("team-a", &name).into_bytes());
            }
        }
        let repository = Repository::create(&folder.join("fleet.git"), &"main".parse()?)?;
        let clock = VirtualClock::new("2026-01-05T09:00:00Z".parse()?);
        let fleet = Self { repository, clock, simulated: Arc::default(), files, asked: Arc::default() };
        fleet.push(&fleet.files.before)?;
        let planner = fleet.planner()?;
        let reading = planner.read()?;
        let mut records = Records::new(reading.clone());
        for cluster in &reading.fleet.clusters {
            let view = planner.view(records.reading(), &cluster.name)?;
            let record = Record::of(records.reading(), &view, None, &[], fleet.clock.now())?;
            records.push(record.context("the cluster has a record already")?);
            if records.is_full() {
                fleet.record(&planner, std::mem::replace(&mut records, Records::new(planner.read()?)))?;
            }
        }
        fleet.record(&planner, records)?;
        crate::measure::run(&folder.join("fleet.git"), "git", &["repack", "-adq"])?;
        Ok(fleet)
    }

    fn record(&self, planner: &Planner, records: Records) -> anyhow::Result<()> {
        for (cluster, outcome) in records.commit(planner, self.clock.now())? {
            outcome.with_context(|| format!("record {cluster}"))?;
        }
        Ok(())
    }

    /// A planner that remembers nothing.
    pub fn planner(&self) -> anyhow::Result<Planner> {
        let repository = Repository::open(self.repository.location())?;
        Ok(Planner::new(repository, "main".parse()?, Arc::new(FetchSources::new(self.files.mirrors.clone()))))
    }

    /// A controller that remembers nothing.
    pub fn controller(&self) -> anyhow::Result<Controller> {
        let clusters = Counted { fleet: Arc::clone(&self.simulated), asked: Arc::clone(&self.asked) };
        Ok(Controller::new(self.planner()?, Arc::new(clusters), Arc::new(self.clock.clone()), 8))
    }

    /// How often a cluster was asked for anything.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// The bump of the bundle and of every cluster's Kubernetes version.
    pub fn bump(&self) -> anyhow::Result<()> {
        self.push(&self.files.bump)
    }

    /// Another number of control-plane machines for one cluster.
    pub fn change_one(&self, number: usize, count: usize) -> anyhow::Result<()> {
        let path = format!("clusters/{}/cluster.yaml", name(number));
        let before = self.repository.snapshot(&"main".parse()?)?.read(&RepoPath::new(path.as_str())?)?;
        let mut text = String::from_utf8(before.to_vec())?;
        let at = text.find("count: ").context("a number of machines")?;
        let end = text.get(at..).and_then(|rest| rest.find('\n')).context("a line")? + at;
        text.replace_range(at..end, &format!("count: {count}"));
        self.push(&Files::from([(path, text.into_bytes())]))
    }

    /// More text at the end of a file of the source branch, which may be new.
    pub fn append(&self, path: &str, more: &str) -> anyhow::Result<()> {
        let before = self.repository.snapshot(&"main".parse()?)?.read(&RepoPath::new(path)?);
        let before = before.map(|bytes| bytes.to_vec()).unwrap_or_default();
        self.push(&Files::from([(path.to_owned(), [&before, more.as_bytes()].concat())]))
    }

    fn push(&self, files: &Files) -> anyhow::Result<()> {
        let main = "main".parse()?;
        let parent = self.repository.head(&main)?;
        let mut edits = BTreeMap::new();
        for (path, bytes) in files {
            edits.insert(RepoPath::new(path.as_str())?, Some(Arc::from(bytes.as_slice())));
        }
        let draft = CommitDraft {
            parent: parent.clone(),
            prefix: None,
            edits,
            message: CommitMessage { subject: "A person's change".to_owned(), ..CommitMessage::default() },
            author: "A Person <person@example.com>".parse()?,
            time: self.clock.now(),
            merges: None,
            allow_empty: false,
        };
        let CommitOutcome::Created(commit) = self.repository.commit(&draft, &Signing::None)? else {
            bail!("the change changes nothing")
        };
        match self.repository.push(&main, &commit, parent.as_ref())? {
            PushOutcome::Pushed => Ok(()),
            other => bail!("the push ended as {other:?}"),
        }
    }

    /// Whether what a controller remembers gives the plans that are made from nothing, of some of so many clusters.
    pub fn plans_are_remembered_rightly(&self, controller: &Controller, clusters: usize) -> anyhow::Result<bool> {
        let (remembering, fresh) = (controller.planner(), self.planner()?);
        let (one, two) = (remembering.read()?, fresh.read()?);
        for number in (0..clusters).step_by(clusters.div_ceil(COMPARED).max(1)) {
            let name = if number == 0 { "mgmt".to_owned() } else { name(number) };
            if remembering.view(&one, &name)?.plan != fresh.view(&two, &name)?.plan {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One pass.
    pub fn pass(controller: &Controller) -> anyhow::Result<Arc<ReconcileReport>> {
        Ok(block_on(controller.pass())?)
    }

    /// Passes until every cluster is done.
    pub fn settle(&self, controller: &Controller) -> anyhow::Result<()> {
        for _ in 0..1_000 {
            let pass = Self::pass(controller)?;
            if is_done(&pass) {
                return Ok(());
            }
            self.go_on(controller, &pass)?;
        }
        bail!("the fleet does not come to an end")
    }

    /// Tells the clusters of what was pushed, and lets time pass until one is to be looked at again.
    pub fn go_on(&self, controller: &Controller, pass: &ReconcileReport) -> anyhow::Result<()> {
        self.simulated.follow(&self.repository, &controller.planner().read()?, self.clock.now())?;
        let soon = self.clock.now() + SignedDuration::from_secs(1);
        let next = pass.clusters.iter().filter_map(|cluster| cluster.next).min();
        let until: Timestamp = next.map_or(soon, |next| next.max(soon));
        block_on(self.clock.sleep_until(until));
        Ok(())
    }
}

/// So many clusters are compared.
const COMPARED: usize = 25;

/// The name of a workload cluster.
pub fn name(number: usize) -> String {
    format!("cluster-{number:05}")
}

/// Whether every cluster is done.
pub fn is_done(pass: &ReconcileReport) -> bool {
    pass.clusters.iter().all(|cluster| cluster.outcome == ClusterOutcome::Done && cluster.committed.is_empty())
}

/// Counts how often somebody turns to a cluster.
struct Counted {
    fleet: Arc<SimulatedFleet>,
    asked: Arc<AtomicUsize>,
}

impl Clusters for Counted {
    fn cluster(&self, cluster: &ClusterSpec) -> Arc<dyn Cluster> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.fleet.cluster(cluster)
    }
}
