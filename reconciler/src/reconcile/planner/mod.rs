//! Reading a fleet and making the plan of each cluster: everything before a cluster is looked at.

mod base;
mod before;
mod between;
mod chained;
mod context;
mod edited;
mod histories;
mod making;
mod missing;
mod overlay_conflicts;
mod reading;
mod rollback;

use std::sync::{Arc, Mutex, PoisonError};

use domain::{ClusterName, CommitId};
use domain::{Problem, ProblemCode};
use jiff::Timestamp;
use overlays::{Charts, Fleet, Manifests, ReadFiles, Remembered};

pub use base::EksDReleases;
pub(in crate::reconcile) use between::as_adopted;
pub use between::{Between, BetweenError};
use making::Planned;
pub use reading::{ClusterView, FleetReading, PlanError, PlannedParts, VIEWS, layout};
pub use rollback::{Outlook, RollbackError};

use crate::reconcile::cache::deploy;
use crate::reconcile::cache::deploy::Histories;
use crate::reconcile::cache::deployed::DeployedVersions;
use crate::reconcile::cache::inputs::SourceReading;
use crate::reconcile::clusters::directory;
use crate::reconcile::clusters::reference::Recorded;
use crate::reconcile::main_loop::clock::{Clock, SystemClock};
use cluster::DeployedObjects;
use domain::BranchName;
use domain::ObjectId;
use fetch::Images;
use forge::{Forge, ForgeAccess, ForgeError, Forges};
use git::{DeployLayout, GitError, GitSnapshot, Heads, Limit, Repository, Signing};
use host::memory::Part;
use planning::{ClusterDirectory, DeployedLedger};
use rollout::WaveWords;

/// Where manifests and charts come from, given what the policy allows.
pub trait Sources: Send + Sync {
    /// Upstream manifests, from the network only as far as `allow` says (see `fetch.allow`).
    fn manifests(&self, fleet: &Fleet, allow: &[String]) -> Arc<dyn Manifests>;
    /// Helm charts, likewise.
    fn charts(&self, fleet: &Fleet, allow: &[String]) -> Arc<dyn Charts>;
    /// What asks registries for images, likewise; none where nobody is to be asked.
    fn images(&self, _fleet: &Fleet, _allow: &[String]) -> Option<Arc<Images>> {
        None
    }
}

/// Reads fleets and makes plans. The same commits give the same plans; what it remembers only saves reading them again.
#[derive(Clone)]
pub struct Planner {
    repository: Repository,
    source_branch: BranchName,
    sources: Arc<dyn Sources>,
    forges: Arc<Forges>,
    signing: Arc<Signing>,
    trusted: Option<CommitId>,
    /// Whether nothing is for good: people, forges and registries are asked nothing.
    rehearses: bool,
    clock: Arc<dyn Clock>,
    policies: Arc<before::KnownPolicies>,
    known: Arc<Known>,
}

/// So many source commits are kept although they are too large for their part of memory: the newest one, and those that rollouts and deployed states are
/// from. Each is asked for once for each cluster: a fleet of 4,000 took 33 times as long as one of 2,000 when it was read anew each time.
const LARGE_SOURCES: usize = 3;

/// What a planner has read and made before. All of it is named by its content, so nothing is ever out of date, and each
/// part takes a bounded number of bytes.
struct Known {
    files: ReadFiles,
    sources: Mutex<Remembered<CommitId, Arc<SourceReading>>>,
    deployed: DeployedVersions,
    histories: Histories,
    recorded: Mutex<Remembered<ObjectId, Recorded>>,
    /// What people have said of waves, by the file that says it.
    words: Mutex<Remembered<ObjectId, Arc<WaveWords>>>,
    /// When commits were seen for the first time: whoever makes one chooses the time in it.
    seen: Mutex<Remembered<CommitId, Timestamp>>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            files: ReadFiles::new(Part::Files.bytes()),
            // The newest commit, the running rollouts' and the deployed ones.
            sources: Mutex::new(Remembered::new(Part::Sources.bytes()).keeping(LARGE_SOURCES)),
            deployed: DeployedVersions::default(),
            histories: Histories::default(),
            recorded: Mutex::new(Remembered::new(Part::Policies.bytes() / 10)),
            words: Mutex::new(Remembered::new(Part::Policies.bytes() / 10)),
            seen: Mutex::new(Remembered::new(Part::Policies.bytes() / 10)),
        }
    }
}

impl Planner {
    /// A planner for the fleet repository, whose intent is on `source_branch`.
    pub fn new(repository: Repository, source_branch: BranchName, sources: Arc<dyn Sources>) -> Self {
        let nodes = usize::try_from(repository.limits().get(Limit::Nodes)).unwrap_or(usize::MAX);
        let known = Known::default();
        Self {
            repository,
            source_branch,
            sources,
            forges: Arc::default(),
            signing: Arc::default(),
            trusted: None,
            rehearses: false,
            clock: Arc::new(SystemClock),
            policies: Arc::default(),
            known: Arc::new(Known { files: known.files.with_nodes(nodes), ..known }),
        }
    }

    /// The same planner, which may ask a forge.
    #[must_use]
    pub fn with_forge(self, access: ForgeAccess) -> Self {
        Self { forges: Arc::new(Forges::new(access)), ..self }
    }

    /// The same planner, whose operator has given a key that signs commits.
    #[must_use]
    pub fn with_signing(self, signing: Signing) -> Self {
        Self { signing: Arc::new(signing), ..self }
    }

    /// How commits are signed.
    pub fn signing(&self) -> &Signing {
        &self.signing
    }

    /// The same planner, for which no policy counts that is older than that of a commit of the source branch: whoever runs Stepgate answers for
    /// it. Of a cluster that has no record yet it is the policy of before.
    #[must_use]
    pub fn trusting(self, trusted: Option<CommitId>) -> Self {
        Self { trusted, policies: Arc::default(), ..self }
    }

    /// The same planner, which tells the time by this clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// The same planner with other sources, which remembers nothing that was rendered from those of before.
    #[must_use]
    pub fn with_sources(self, sources: Arc<dyn Sources>) -> Self {
        let fresh = Self::new(self.repository.clone(), self.source_branch.clone(), sources);
        Self { sources: fresh.sources, known: fresh.known, ..self }
    }

    /// The same planner for a copy of its repository, in which rollouts are rehearsed: by no policy, of now or before, people are asked, a
    /// forge, or a registry for images, and no commit is signed. Planners of several copies share what they remember.
    #[must_use]
    pub fn rehearsing_in(&self, copy: Repository) -> Self {
        let shared = Self { repository: copy.clone(), ..self.clone() };
        if self.rehearses {
            return shared;
        }
        let fresh = Self::new(copy, self.source_branch.clone(), Arc::clone(&self.sources));
        let Self { known, policies, forges, signing, .. } = fresh;
        Self { known, policies, forges, signing, rehearses: true, ..shared }
    }

    /// About how many bytes source commits take that are too large for their part of memory.
    pub(in crate::reconcile) fn uncounted_bytes(&self) -> usize {
        self.known.sources.lock().unwrap_or_else(PoisonError::into_inner).large_bytes()
    }

    /// What people have said of waves, as far as it was read.
    pub(in crate::reconcile) fn known_words(&self) -> &Mutex<Remembered<ObjectId, Arc<WaveWords>>> {
        &self.known.words
    }

    /// When a commit was seen for the first time: now, unless it was before.
    fn first_seen(&self, commit: &CommitId) -> Timestamp {
        let mut seen = self.known.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(commit).unwrap_or_else(|| {
            let now = self.clock.now();
            seen.insert(commit.clone(), now, 128);
            now
        })
    }

    /// When a commit was made, by the clock of whoever made it: not before what it follows on, and not after it was seen here.
    ///
    /// # Errors
    /// [`GitError`] when the commit or its parent cannot be read.
    pub fn committed_at(&self, commit: &CommitId) -> Result<Timestamp, GitError> {
        let told = self.repository.committed_at(commit)?;
        let earliest = match self.repository.parent(commit)? {
            Some(parent) => self.repository.committed_at(&parent)?,
            None => told,
        };
        Ok(told.max(earliest).min(self.first_seen(commit)))
    }

    /// When a commit was seen for the first time, if it was.
    fn seen_before(&self, commit: &CommitId) -> Option<Timestamp> {
        self.known.seen.lock().unwrap_or_else(PoisonError::into_inner).get(commit)
    }

    /// The forge that the policy of a reading names; none where it names none.
    ///
    /// # Errors
    /// [`ForgeError`] when it may not be asked.
    pub fn forge(&self, reading: &FleetReading) -> Result<Option<Arc<Forge>>, ForgeError> {
        let policy = reading.fleet.policy.forge.as_ref();
        policy.map(|policy| self.forges.get(policy, self.repository.location())).transpose()
    }

    /// A pass begins: forges are asked again that kept the one before waiting too long.
    pub fn begin_pass(&self) {
        self.forges.begin_pass();
    }

    /// The fleet repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The branch that people write.
    pub fn source_branch(&self) -> &BranchName {
        &self.source_branch
    }

    /// Reads the source branch, and the deploy branch that its policy names.
    ///
    /// # Errors
    /// [`GitError`] when a branch cannot be read; a deploy branch that does not exist is no error.
    pub fn read(&self) -> Result<FleetReading, GitError> {
        self.read_at(&self.repository.heads(std::slice::from_ref(&self.source_branch))?)
    }

    /// As [`Planner::read`], for somebody who wants to know what is wrong with the source branch: where its policy names no deploy branch that there
    /// can be, nothing is deployed.
    ///
    /// # Errors
    /// As [`Planner::read`].
    pub fn read_to_check(&self) -> Result<FleetReading, GitError> {
        match self.read() {
            Err(GitError::DeployBranch { message }) => {
                let source = self.source(self.repository.snapshot(&self.source_branch)?)?;
                let layout = layout(&Fleet::default())?;
                let mut fleet = Arc::clone(&source.fleet);
                if !fleet.problems.iter().any(|problem| problem.to_string() == message) {
                    let problem = Problem::new(ProblemCode::BadPolicy, message);
                    let problem = problem.hint("name another branch, or a folder on this one as `deploy.path`");
                    Arc::make_mut(&mut fleet).problems.push(match "stepgate.yaml".parse() {
                        Ok(path) => problem.path(&path),
                        Err(_) => problem,
                    });
                }
                Ok(FleetReading::undeployed(source, fleet, layout))
            }
            other => other,
        }
    }

    /// As [`Planner::read`], by heads that were just asked for. What is not among them is asked for.
    ///
    /// # Errors
    /// As [`Planner::read`].
    pub fn read_at(&self, heads: &Heads) -> Result<FleetReading, GitError> {
        self.repository.refresh_to(heads)?;
        let source = self.source(self.repository.snapshot(&self.source_branch)?)?;
        self.read_deploy_at(source, heads)
    }

    /// As [`Planner::read`], as if the source branch were at this commit.
    ///
    /// # Errors
    /// As [`Planner::read`].
    pub fn read_commit(&self, commit: &CommitId) -> Result<FleetReading, GitError> {
        let source = self.source(self.repository.snapshot_of(commit)?)?;
        self.read_deploy(source)
    }

    /// As [`Planner::read_deploy`], by heads that were just asked for.
    ///
    /// # Errors
    /// As [`Planner::read`].
    pub fn read_deploy_at(&self, source: Arc<SourceReading>, heads: &Heads) -> Result<FleetReading, GitError> {
        if !self.places(&source)?.iter().all(|branch| heads.contains_key(branch)) {
            return self.read_deploy(source);
        }
        self.repository.refresh_to(heads)?;
        self.deploy(source)
    }

    /// The deploy branch, for a source commit that was read before.
    ///
    /// # Errors
    /// As [`Planner::read`].
    pub fn read_deploy(&self, source: Arc<SourceReading>) -> Result<FleetReading, GitError> {
        self.repository.refresh(&self.places(&source)?)?;
        self.deploy(source)
    }

    /// The branches on which what is deployed may lie: that of the policy, and those of policies before it.
    fn places(&self, source: &SourceReading) -> Result<Vec<BranchName>, GitError> {
        let declared = self.layout(&source.fleet)?.branch;
        let mut branches = before::branches(&self.earlier_places(source)?);
        branches.retain(|branch| *branch != declared);
        branches.insert(0, declared);
        branches.dedup();
        Ok(branches)
    }

    /// The deploy branch as far as it was fetched.
    fn deploy(&self, source: Arc<SourceReading>) -> Result<FleetReading, GitError> {
        self.first_seen(source.files.snapshot().commit());
        let fleet = Arc::clone(&source.fleet);
        let declared = self.layout(&fleet)?;
        let branches = self.places(&source)?;
        let (layout, moved) = match self.moved(&declared, &self.earlier_places(&source)?)? {
            Some((layout, commit, place)) => (layout, Some((commit, place))),
            None => (declared, None),
        };
        let head = self.repository.head(&layout.branch)?;
        let lost = if head.is_none() { self.lost_branch(&layout) } else { None };
        let deploy = match head {
            None => None,
            Some(head) => Some(self.repository.deploy_snapshot(&layout, &head)?),
        };
        let deployed = Arc::new(self.known.deployed.read(deploy.as_ref())?);
        let wave_words = self.wave_words(&layout, deploy.as_ref())?;
        Ok(FleetReading { source, deploy, lost, fleet, layout, moved, branches, deployed, wave_words })
    }

    /// Where Stepgate writes, which is never over what people write.
    fn layout(&self, fleet: &Fleet) -> Result<DeployLayout, GitError> {
        let layout = layout(fleet)?;
        if layout.branch == self.source_branch && layout.prefix.is_none() {
            let message = format!(
                "deploy.branch is {}, the branch that people write, and there is no deploy.path",
                layout.branch
            );
            return Err(GitError::DeployBranch { message });
        }
        Ok(layout)
    }

    /// A source commit and what it says. The deploy path, where there is one on the same branch, is no part of it.
    fn source(&self, source: GitSnapshot) -> Result<Arc<SourceReading>, GitError> {
        let commit = source.commit().clone();
        let remembered = || self.known.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = remembered().get(&commit) {
            return Ok(known);
        }
        let files = source.listed()?;
        let mut fleet = overlays::read_fleet_remembering(&files, &self.known.files);
        if self.rehearses {
            fleet.policy.ask_nobody();
        }
        let reading = Arc::new(SourceReading::new(Arc::new(files), fleet));
        remembered().insert(commit, Arc::clone(&reading), reading.bytes());
        Ok(reading)
    }

    /// The plan of one cluster with everything it was made from.
    ///
    /// # Errors
    /// [`PlanError`] concerns this cluster alone.
    pub fn view(&self, reading: &FleetReading, name: &str) -> Result<ClusterView, PlanError> {
        let cluster = reading.fleet.cluster(name);
        let problems: Vec<Problem> = reading.fleet.problems_of(name).cloned().collect();
        let Some(cluster) = cluster else {
            let errors: Vec<Problem> = problems.into_iter().filter(Problem::is_error).collect();
            return Err(if errors.is_empty() {
                PlanError::NoCluster(name.to_owned())
            } else {
                PlanError::Problems(errors)
            });
        };
        let cluster_name: ClusterName = name.parse().map_err(|error: domain::InvalidIdentifier| PlanError::Name {
            name: name.to_owned(),
            message: error.to_string(),
        })?;
        let directory = match &reading.deploy {
            Some(deploy) => directory::read(deploy, &cluster_name)?,
            None => ClusterDirectory::absent(),
        };
        let head = reading.deploy_head();
        let history = self.history(reading, &cluster_name, &directory)?;
        let foreign = deploy::foreign_change(&self.repository, &reading.layout, &cluster_name, head, &directory)?;
        let base = self.base(reading, &cluster_name, &directory, history.base.as_ref());
        let befores = self.befores_of(reading, &cluster_name, &directory, history.base.as_ref())?;
        let context = reading.context(&cluster_name, &directory, &base, &befores);
        let missing = self.missing_record(context.deploy, &cluster_name, &directory)?;
        let asked = || self.sources.images(&reading.fleet, &befores.fetch_allow(context.newest));
        let images = if self.rehearses { None } else { asked() };
        let Planned { plan, parts, kustomizations, reaches_far } = self.plan(&context, &reading.source, cluster)?;
        let running = self.running_plan(&context, &plan)?;
        drop(base);
        let roster = Arc::new(planning::people::roster_since(&reading.fleet.policy, &befores));
        let deployed = Arc::new(DeployedObjects::new(directory.files.files.clone()));
        let view = ClusterView {
            name: cluster_name.clone(),
            cluster: Arc::new(cluster.clone()),
            plan,
            parts,
            running,
            head: Arc::new(history.head),
            unshared: history.unshared,
            weight: 0,
            base: history.base,
            reaches_far,
            foreign,
            missing,
            problems: problems.into(),
            directory: Arc::new(directory),
            kustomizations,
            deployed,
            roster,
            befores: Arc::new(befores),
            images,
        };
        Ok(view.weighed())
    }

    /// The view after the deploy branch has moved on without touching the cluster's folders; none where that is not all
    /// that has happened to it.
    ///
    /// # Errors
    /// [`GitError`] when commits cannot be read.
    pub fn view_at_head(&self, reading: &FleetReading, view: &ClusterView) -> Result<Option<ClusterView>, GitError> {
        let history = self.history(reading, &view.name, &view.directory)?;
        let missing = self.missing_record(reading.deploy_branch(), &view.name, &view.directory)?;
        let same = history.base == view.base && view.foreign.is_none() && missing == view.missing;
        Ok(same.then(|| {
            let (head, unshared) = (Arc::new(history.head), history.unshared);
            ClusterView { head, unshared, ..view.clone() }
        }))
    }

    /// What the ledger of a cluster records of its identity.
    pub(super) fn recorded(&self, reading: &FleetReading, cluster: &ClusterName) -> Recorded {
        let (Some(deploy), (Some(id), _)) = (&reading.deploy, reading.deployed.ids(cluster.as_str())) else {
            return Recorded::NoLedger;
        };
        let mut known = self.known.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorded) = known.get(&id) {
            return recorded;
        }
        let text = directory::ledger_path(cluster).and_then(|path| deploy.read(&path));
        let recorded = match text.map(|text| DeployedLedger::of(&text)) {
            Ok(DeployedLedger::Read(ledger)) => match &ledger.identity {
                None => Recorded::NoIdentity,
                Some(identity) => Recorded::Identity(identity.clone()),
            },
            Ok(DeployedLedger::Absent | DeployedLedger::Unreadable(_)) | Err(_) => Recorded::NoLedger,
        };
        known.insert(id, recorded.clone(), 512);
        recorded
    }
}
