//! The demo's fleet, with the real controller on a real bare repository and simulated clusters under a virtual clock.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use domain::BranchName;
use domain::{ClusterName, CommitId, RepoPath};
use forge::ForgeAccess;
use git::{CommitDraft, CommitMessage, CommitOutcome, DeployLayout, HistoryEntry, PushOutcome, Repository, Signing};
use jiff::{SignedDuration, Timestamp};
use overlays::RenderedTree;
use rollout::StageName;
use simulator::{Fault, Injection, Trigger};
use stepgate::demo::{DemoKind, DemoSettings, FleetFiles};
use stepgate::reconcile::cache::sources::FetchSources;
use stepgate::reconcile::clusters::access::Clusters;
use stepgate::reconcile::effects::adopt::adopt;
use stepgate::reconcile::main_loop::clock::{Clock as _, VirtualClock};
use stepgate::reconcile::planner::Planner;
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};
use stepgate::simulation::SimulatedFleet;
use tempfile::TempDir;

/// Virtual time within which every rollout here comes to its end.
const PATIENCE: SignedDuration = SignedDuration::from_hours(24);

/// The clusters of the demo's fleet.
pub const CLUSTERS: [&str; 3] = ["mgmt", "team-a", "team-b"];

/// Files of a branch.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A fleet that is adopted and settled before the bump.
pub struct Fleet {
    _folder: TempDir,
    pub repository: Repository,
    pub files: FleetFiles,
    pub clock: VirtualClock,
    pub simulated: Arc<SimulatedFleet>,
    pub layout: DeployLayout,
    /// What controllers are given for a forge.
    pub access: ForgeAccess,
    main: BranchName,
}

impl Fleet {
    pub fn new() -> Self {
        Self::with_policy(|policy| policy)
    }

    /// A fleet with another `stepgate.yaml`.
    pub fn with_policy(change: impl FnOnce(String) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::create(&folder.path().join("fleet.git"), &"main".parse().unwrap()).unwrap();
        Self::on(folder, repository, "2026-01-05T09:00:00Z".parse().unwrap(), ForgeAccess::default(), change)
    }

    /// A fleet whose files are other ones before it is adopted.
    pub fn with_files(change: impl FnOnce(&mut FleetFiles)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::create(&folder.path().join("fleet.git"), &"main".parse().unwrap()).unwrap();
        let mut files = FleetFiles::of(&settings(&folder)).unwrap();
        change(&mut files);
        let clusters = CLUSTERS.map(str::to_owned);
        let start = "2026-01-05T09:00:00Z".parse().unwrap();
        Self::of_files(folder, repository, start, ForgeAccess::default(), files, &clusters, |policy| policy)
    }

    /// A fleet in an empty repository, from this time on, with another `stepgate.yaml`.
    pub fn on(
        folder: TempDir,
        repository: Repository,
        start: Timestamp,
        access: ForgeAccess,
        change: impl FnOnce(String) -> String,
    ) -> Self {
        let files = FleetFiles::of(&settings(&folder)).unwrap();
        let clusters = CLUSTERS.map(str::to_owned);
        Self::of_files(folder, repository, start, access, files, &clusters, change)
    }

    /// A fleet of the management cluster and these, which all are like `team-a`.
    pub fn of_many(
        folder: TempDir,
        repository: Repository,
        access: ForgeAccess,
        names: &[String],
        change: impl FnOnce(String) -> String,
    ) -> Self {
        let mut files = FleetFiles::of(&settings(&folder)).unwrap();
        let like = files.before.remove("clusters/team-a/cluster.yaml").unwrap();
        let like = String::from_utf8(like).unwrap();
        files.before.remove("clusters/team-b/cluster.yaml");
        for name in names {
            let text = like.replace("team-a", name).into_bytes();
            files.before.insert(format!("clusters/{name}/cluster.yaml"), text);
        }
        let clusters: Vec<String> = std::iter::once("mgmt".to_owned()).chain(names.iter().cloned()).collect();
        let start = "2026-01-05T09:00:00Z".parse().unwrap();
        Self::of_files(folder, repository, start, access, files, &clusters, change)
    }

    fn of_files(
        folder: TempDir,
        repository: Repository,
        start: Timestamp,
        access: ForgeAccess,
        mut files: FleetFiles,
        clusters: &[String],
        change: impl FnOnce(String) -> String,
    ) -> Self {
        let policy = files.before.get_mut("stepgate.yaml").unwrap();
        *policy = change(String::from_utf8(policy.clone()).unwrap()).into_bytes();
        let main: BranchName = "main".parse().unwrap();
        let clock = VirtualClock::new(start);
        let planner = planner(&repository, &files);
        commit(&repository, &main, &additions(&files.before), clock.now());
        for cluster in clusters {
            adopt(&planner, &planner.read().unwrap(), cluster, clock.now(), false).unwrap();
        }
        let reading = planner.read().unwrap();
        let simulated = Arc::new(SimulatedFleet::settled(&reading, clock.now()).unwrap());
        clock.advance(SignedDuration::from_secs(60));
        Self { _folder: folder, repository, files, clock, simulated, layout: reading.layout, access, main }
    }

    pub fn planner(&self) -> Planner {
        planner(&self.repository, &self.files).with_forge(self.access.clone())
    }

    /// A planner of a process that has opened the repository by itself.
    pub fn planner_of(&self, repository: &Repository) -> Planner {
        planner(repository, &self.files).with_forge(self.access.clone())
    }

    /// A controller that remembers nothing: a process that has just been started.
    pub fn controller(&self) -> Controller {
        self.controller_of(Arc::clone(&self.simulated) as Arc<_>)
    }

    /// One that works on so many clusters at once.
    pub fn controller_working_on(&self, concurrency: usize) -> Controller {
        let clusters = Arc::clone(&self.simulated) as Arc<_>;
        Controller::new(self.planner(), clusters, Arc::new(self.clock.clone()), concurrency)
    }

    pub fn controller_of(&self, clusters: Arc<dyn Clusters>) -> Controller {
        Controller::new(self.planner(), clusters, Arc::new(self.clock.clone()), 4)
    }

    /// A person pushes to the source branch.
    pub fn push(&self, files: &Files) -> CommitId {
        commit(&self.repository, &self.main, &additions(files), self.clock.now())
    }

    pub fn bump(&self) -> CommitId {
        self.push(&self.files.bump)
    }

    /// A person pushes one changed file to the source branch.
    pub fn edit(&self, path: &str, change: impl FnOnce(&str) -> String) -> CommitId {
        let before = self.read(&self.main, path).unwrap_or_default();
        self.push(&Files::from([(path.to_owned(), change(&before).into_bytes())]))
    }

    /// A person pushes to the deploy branch; none removes a file.
    pub fn meddle(&self, path: &str, text: Option<&str>) -> CommitId {
        let edits = BTreeMap::from([(path.to_owned(), text.map(|text| text.as_bytes().to_vec()))]);
        commit(&self.repository, &self.layout.branch, &edits, self.clock.now())
    }

    /// A person pushes one file to any branch.
    pub fn write(&self, branch: &BranchName, path: &str, text: &str) -> CommitId {
        let edits = BTreeMap::from([(path.to_owned(), Some(text.as_bytes().to_vec()))]);
        commit(&self.repository, branch, &edits, self.clock.now())
    }

    /// A file of a branch, as text.
    pub fn read(&self, branch: &BranchName, path: &str) -> Option<String> {
        let snapshot = self.repository.snapshot(branch).unwrap();
        let bytes = snapshot.read(&RepoPath::new(path).unwrap()).ok()?;
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// An object of the repository is lost.
    pub fn lose(&self, revision: &str) {
        let objects = self.repository.folder().join("objects");
        let git = |arguments: &[&str], input: Stdio| {
            let mut command = Command::new("git");
            let output = command.arg("-C").arg(self.repository.folder()).args(arguments).stdin(input).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let id = git(&["rev-parse", revision], Stdio::null());
        // Out of its pack first.
        for file in std::fs::read_dir(objects.join("pack")).unwrap() {
            let (file, beside) = (file.unwrap().path(), objects.join("unpacked"));
            std::fs::rename(&file, &beside).unwrap();
            if file.extension().is_some_and(|extension| extension == "pack") {
                git(&["unpack-objects", "-q"], std::fs::File::open(&beside).unwrap().into());
            }
        }
        let (first, rest) = id.trim().split_at(2);
        std::fs::remove_file(objects.join(first).join(rest)).unwrap();
    }

    pub fn deployed(&self, path: &str) -> Option<String> {
        self.read(&self.layout.branch, path)
    }

    pub fn clock_now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn head(&self) -> CommitId {
        self.repository.head(&self.layout.branch).unwrap().unwrap()
    }

    /// What the newest commit of the deploy branch says.
    pub fn head_message(&self) -> String {
        self.repository.message(&self.head()).unwrap()
    }

    /// A fault from the moment at which a stage is committed.
    pub fn break_at(&self, cluster: &str, stage: StageName, fault: Fault) {
        let injection = Injection { fault, from: Trigger::Stage(stage), lasts: None };
        self.simulated.get(cluster).unwrap().cluster().inject(&injection);
    }

    pub fn heal(&self, cluster: &str) {
        self.simulated.get(cluster).unwrap().cluster().heal(self.clock.now());
    }

    /// One pass of a controller; the clusters hear of what it pushed. None when it was killed in the middle.
    pub fn pass_or_death(&self, controller: &Controller, dead: &AtomicBool) -> Option<Arc<ReconcileReport>> {
        // The executor of a test may stand around this one, and it alone would renew what a task may do before it yields.
        let mut pass = pin!(tokio::task::unconstrained(controller.pass()));
        let result = futures::executor::block_on(std::future::poll_fn(|context| match pass.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result.unwrap())),
            Poll::Pending if dead.load(Ordering::SeqCst) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }));
        self.follow();
        result
    }

    /// The clusters hear of what was pushed.
    pub fn follow(&self) {
        let reading = self.planner().read().unwrap();
        self.simulated.follow(&self.repository, &reading, self.clock.now()).unwrap();
    }

    pub fn pass(&self, controller: &Controller) -> Arc<ReconcileReport> {
        self.pass_or_death(controller, &AtomicBool::new(false)).unwrap()
    }

    /// Lets time pass until a cluster of the pass is to be looked at again.
    pub fn wait(&self, pass: Option<&ReconcileReport>) {
        let soon = self.clock.now() + SignedDuration::from_secs(1);
        let next = pass.and_then(|pass| pass.clusters.iter().filter_map(|cluster| cluster.next).min());
        let until: Timestamp = next.map_or(soon, |next| next.max(soon));
        futures::executor::block_on(self.clock.sleep_until(until));
    }

    /// Passes until one of them is what is wanted.
    #[track_caller]
    pub fn run_until(
        &self,
        controller: &Controller,
        wanted: impl Fn(&ReconcileReport) -> bool,
    ) -> Arc<ReconcileReport> {
        let end = self.clock.now() + PATIENCE;
        loop {
            let pass = self.pass(controller);
            if wanted(&pass) {
                return pass;
            }
            assert!(self.clock.now() < end, "it goes on for ever: {}", told(&pass));
            self.wait(Some(&pass));
        }
    }

    #[track_caller]
    pub fn run_to_the_end(&self, controller: &Controller) -> Arc<ReconcileReport> {
        self.run_until(controller, is_done)
    }

    /// Passes until the clusters' history has this stage of the newest rollout of `cluster`.
    #[track_caller]
    pub fn run_until_committed(&self, controller: &Controller, cluster: &str, stage: &str) -> Arc<ReconcileReport> {
        self.run_until(controller, |pass| {
            let own = pass.clusters.iter().find(|own| own.cluster == cluster).unwrap();
            own.committed.iter().any(|committed| committed.stage.to_string() == stage)
        })
    }

    /// What was committed for a cluster since it was adopted, oldest first.
    pub fn history(&self, cluster: &str) -> Vec<HistoryEntry> {
        let cluster: ClusterName = cluster.parse().unwrap();
        let planner = self.planner();
        let mut history = planner.commits(&planner.read().unwrap(), &cluster, 1000).unwrap();
        history.reverse();
        // The first one is the adoption.
        history.split_off(1)
    }

    /// The stages that were committed for a cluster, oldest first; `foreign` for a person's commit.
    pub fn stages(&self, cluster: &str) -> Vec<String> {
        let stage =
            |entry: HistoryEntry| entry.stage.map_or("foreign".to_owned(), |trailers| trailers.stage.to_string());
        self.history(cluster).into_iter().map(stage).collect()
    }

    /// The deploy tree without ledgers: these tell times and commits.
    pub fn tree(&self) -> RenderedTree {
        let mut tree = self.repository.snapshot(&self.layout.branch).unwrap().files().unwrap();
        tree.files.retain(|path, _| !path.as_str().ends_with("/rollout.yaml"));
        tree
    }

    /// The files of one folder of the deploy branch.
    pub fn folder(&self, folder: &str) -> RenderedTree {
        self.tree().below(folder)
    }
}

fn settings(folder: &TempDir) -> DemoSettings {
    DemoSettings {
        folder: folder.path().to_owned(),
        kind: DemoKind::EksAnywhere,
        bundles: None,
        mirrors: Vec::new(),
        broken: None,
    }
}

fn planner(repository: &Repository, files: &FleetFiles) -> Planner {
    let sources = Arc::new(FetchSources::new(files.mirrors.clone()));
    Planner::new(repository.clone(), "main".parse().unwrap(), sources)
}

fn additions(files: &Files) -> BTreeMap<String, Option<Vec<u8>>> {
    files.iter().map(|(path, bytes)| (path.clone(), Some(bytes.clone()))).collect()
}

/// A person's commit on any branch; none removes a file.
pub fn commit(
    repository: &Repository,
    branch: &BranchName,
    files: &BTreeMap<String, Option<Vec<u8>>>,
    time: Timestamp,
) -> CommitId {
    let parent = repository.head(branch).unwrap();
    let edits = files.iter().map(|(path, bytes)| (RepoPath::new(path.as_str()).unwrap(), bytes.clone().map(Arc::from)));
    let draft = CommitDraft {
        parent: parent.clone(),
        prefix: None,
        edits: edits.collect(),
        message: CommitMessage { subject: "A person's change".to_owned(), body: String::new(), trailers: Vec::new() },
        author: "A Person <person@example.com>".parse().unwrap(),
        time,
        merges: None,
        allow_empty: false,
    };
    let CommitOutcome::Created(commit) = repository.commit(&draft, &Signing::None).unwrap() else {
        panic!("the change changes nothing")
    };
    assert_eq!(repository.push(branch, &commit, parent.as_ref()).unwrap(), PushOutcome::Pushed);
    commit
}

/// Every cluster is done, and was so before the pass.
pub fn is_done(pass: &ReconcileReport) -> bool {
    pass.clusters.iter().all(|cluster| cluster.outcome == ClusterOutcome::Done && cluster.committed.is_empty())
}

/// Where a cluster stands.
pub fn outcome<'a>(pass: &'a ReconcileReport, cluster: &str) -> &'a ClusterOutcome {
    &pass.clusters.iter().find(|own| own.cluster == cluster).unwrap().outcome
}

/// A pass for a person.
pub fn told(pass: &ReconcileReport) -> String {
    let line = |cluster: &stepgate::reconcile::ClusterPass| {
        let stage = cluster.outcome.stage().map(ToString::to_string).unwrap_or_default();
        format!("{} {} {stage}: {}", cluster.cluster, cluster.outcome.word(), cluster.outcome.message())
    };
    pass.clusters.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Fails where a stage of a rollout was committed more than once.
#[track_caller]
pub fn assert_no_stage_twice(fleet: &Fleet) {
    assert_stage_once(fleet, &CLUSTERS);
}

/// The same for these clusters.
#[track_caller]
pub fn assert_stage_once(fleet: &Fleet, clusters: &[impl AsRef<str>]) {
    for cluster in clusters {
        let cluster = cluster.as_ref();
        let mut seen = BTreeMap::new();
        for entry in fleet.history(cluster) {
            let Some(trailers) = entry.stage else { continue };
            let key = (trailers.rollout.to_string(), trailers.stage.to_string());
            let before = seen.insert(key.clone(), entry.commit.clone());
            assert_eq!(before, None, "{cluster}: {key:?} was committed twice, the second time by {}", entry.commit);
        }
    }
}
