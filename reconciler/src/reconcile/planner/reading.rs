//! What was read of a fleet, and what follows from it for each cluster.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use domain::{ClusterName, CommitId, Problem, Scope};
use overlays::{ClusterSpec, Fleet, RenderedTree};
use policy::Deploy;
use policy::Roster;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use rollout::{Block, Chain, DeployHead, ForeignChange, LedgerState, Lineage, Plan, WaveWords, approval_scope};

use super::Planner;
use super::context::{Base, Context, DeployBranch};
use crate::reconcile::cache::deployed::Deployed;
use crate::reconcile::cache::inputs::SourceReading;
use crate::reconcile::clusters::missing::MissingRecord;
use cluster::DeployedObjects;
use domain::BranchName;
use fetch::Images;
use git::{DeployLayout, GitError, GitSnapshot, LastSeen};
use host::memory::bytes_of;
use planning::ClusterDirectory;
use planning::policies::{Befores, Change, Field, Pushed, asks_about_wave, changes, confirmations};
use planning::progress::{ClusterProgress, WaveJudges};
use planning::stage_tree::StageTree;
use rollout::FluxReference;

/// Both branches of a fleet repository, read at one moment.
#[derive(Clone)]
pub struct FleetReading {
    /// The source commit.
    pub source: Arc<SourceReading>,
    /// The deploy branch below the deploy path; none where the branch does not exist.
    pub deploy: Option<GitSnapshot>,
    /// Where that branch was last seen, where it does not exist.
    pub lost: Option<LastSeen>,
    /// What the source commit says.
    pub fleet: Arc<Fleet>,
    /// Where Stepgate writes, or wrote by an earlier policy as long as nobody has confirmed another place.
    pub layout: DeployLayout,
    /// The earlier policy by which that is so, where it is not what the newest says, and its commit.
    pub(super) moved: Option<(CommitId, Deploy)>,
    /// The branches on which what is deployed may lie.
    pub(crate) branches: Vec<BranchName>,
    /// The clusters as deployed.
    pub deployed: Arc<Deployed>,
    /// What people have said of waves.
    pub wave_words: Arc<WaveWords>,
}

impl FleetReading {
    /// A source commit of which nothing is deployed.
    pub(super) fn undeployed(source: Arc<SourceReading>, fleet: Arc<Fleet>, layout: DeployLayout) -> Self {
        let branches = vec![layout.branch.clone()];
        let (deployed, wave_words) = (Arc::default(), Arc::default());
        Self { source, deploy: None, lost: None, fleet, layout, moved: None, branches, deployed, wave_words }
    }

    /// The source commit's id.
    pub fn source_commit(&self) -> &CommitId {
        self.source.files.snapshot().commit()
    }

    /// The head of the deploy branch.
    pub fn deploy_head(&self) -> Option<&CommitId> {
        self.deploy.as_ref().map(GitSnapshot::commit)
    }

    /// Clusters that are recorded, and that no file of the source commit specifies any more, as far as that can be read.
    ///
    /// # Errors
    /// [`GitError`] when the deploy branch cannot be read.
    pub fn abandoned(&self) -> Result<Vec<ClusterName>, GitError> {
        let Some(deploy) = &self.deploy else { return Ok(Vec::new()) };
        let mut abandoned = Vec::new();
        for name in self.deployed.names() {
            let Ok(cluster) = name.parse::<ClusterName>() else { continue };
            let is_unread = self.fleet.problems.iter().any(|problem| {
                problem.is_error() && matches!(&problem.scope, Scope::Cluster(broken) if broken == name)
            });
            let Ok(ledger) = planning::ledger_path(&cluster) else { continue };
            if self.fleet.cluster(name).is_none() && !is_unread && deploy.tree_id(&ledger)?.is_some() {
                abandoned.push(cluster);
            }
        }
        Ok(abandoned)
    }

    /// About how many bytes of memory what is deployed takes: nobody else counts it.
    pub(in crate::reconcile) fn uncounted_bytes(&self) -> usize {
        self.deployed.bytes()
    }

    pub(super) fn deploy_branch(&self) -> DeployBranch<'_> {
        DeployBranch { layout: &self.layout, head: self.deploy_head(), lost: self.lost.as_ref() }
    }

    /// What the plans of a cluster share, as long as nobody has changed what is proposed.
    pub(super) fn context<'a>(
        &'a self,
        name: &'a ClusterName,
        directory: &'a ClusterDirectory,
        base: &'a Base<'a>,
        befores: &'a Befores,
    ) -> Context<'a> {
        let newest = &self.fleet.policy;
        let deploy = self.deploy_branch();
        Context { name, directory, base, befores, newest, deployed: &self.deployed, proposed: &[], deploy }
    }

    /// The policy as it was pushed last.
    pub(super) fn pushed(&self) -> Pushed<'_> {
        Pushed { commit: self.source_commit(), policy: &self.fleet.policy, moved: self.moved.as_ref() }
    }
}

/// Clusters whose views are made together: enough to keep every processor at work. Each view holds what its cluster renders to, and clusters that
/// are asked meanwhile must not seem late.
pub const VIEWS: usize = 64;

impl Planner {
    /// The views of several clusters, in their order, made on all processors: rendering is all that takes long. Of a whole fleet [`VIEWS`] are asked
    /// for at a time.
    pub fn views(&self, reading: &FleetReading, names: &[&str]) -> Vec<Result<ClusterView, PlanError>> {
        names.par_iter().map(|name| self.view(reading, name)).collect()
    }
}

/// A plan with the parts that its stages commit.
pub type PlannedParts = (Arc<Plan>, Arc<[StageTree]>);

/// Everything about one cluster that follows from git alone. What is large is shared with the view of the next commit.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// The cluster.
    pub name: ClusterName,
    /// Its specification on the source branch.
    pub cluster: Arc<ClusterSpec>,
    /// Its directory on the deploy branch.
    pub directory: Arc<ClusterDirectory>,
    /// The plan for the newest source.
    pub plan: Arc<Plan>,
    /// The parts that the plan's stages commit.
    pub parts: Arc<[StageTree]>,
    /// The plan that the ledger is carrying out, where that is another one, with its parts.
    pub running: Option<PlannedParts>,
    /// The deploy branch as decisions see it.
    pub head: Arc<DeployHead>,
    /// How many of those commits only this view keeps.
    pub(super) unshared: usize,
    /// About how many bytes of memory all of it takes but the deploy branch.
    pub(super) weight: usize,
    /// The commit that the ledger's rollout started from.
    pub(super) base: Option<CommitId>,
    /// Whether an overlay reached beyond the overlays: then any file of the source branch may matter.
    pub reaches_far: bool,
    /// Somebody else's change to the directory.
    pub foreign: Option<ForeignChange>,
    /// Why the deploy branch holds no ledger of it; none where it does.
    pub missing: Option<MissingRecord>,
    /// Remarks of the fleet repository about this cluster.
    pub problems: Arc<[Problem]>,
    /// Its Flux Kustomizations by the directory that they apply.
    pub kustomizations: Arc<BTreeMap<String, FluxReference>>,
    /// The objects of its directory.
    pub deployed: Arc<DeployedObjects>,
    /// Who is who when its approvals are counted.
    pub roster: Arc<Roster>,
    /// The policies of before that count besides the newest.
    pub befores: Arc<Befores>,
    /// What asks registries for its images; none where the policy lets nobody be asked.
    pub images: Option<Arc<Images>>,
}

impl ClusterView {
    /// The same view of a newer source commit that says the same about this cluster.
    #[must_use]
    pub fn at_source(&self, source: &CommitId) -> Self {
        let plan = Plan { source: source.clone(), ..self.plan.as_ref().clone() };
        Self { plan: Arc::new(plan), ..self.clone() }
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.weight + self.head.bytes() + self.unshared * Lineage::COMMIT
    }

    /// The same view, once it is known how much memory it takes without the deploy branch.
    pub(super) fn weighed(self) -> Self {
        /// For each: a file's entry in a tree, what is said of a part, the rest of the view with the specification.
        const SIZES: [usize; 3] = [96, 512, 12 << 10];
        let [entry, said, rest] = SIZES;
        let entries = |tree: &RenderedTree| tree.files.keys().map(|path| entry + path.as_str().len()).sum::<usize>();
        // Most files of a part are those of the directory, or of another part: bytes count once.
        let mut counted: HashSet<*const u8> = HashSet::new();
        let mut contents = |tree: &RenderedTree| {
            let new = tree.files.values().filter(|bytes| counted.insert(bytes.as_ptr()));
            new.map(|bytes| bytes.len()).sum::<usize>()
        };
        let mut weight = rest + entries(&self.directory.files) + contents(&self.directory.files);
        let plans = [Some((&self.plan, &self.parts)), self.running.as_ref().map(|(plan, parts)| (plan, parts))];
        for (plan, parts) in plans.into_iter().flatten() {
            weight += bytes_of(plan.as_ref());
            for part in parts.iter() {
                let trees = [&part.before, &part.after, &part.rendered];
                weight += trees.into_iter().map(|tree| entries(tree) + contents(tree)).sum::<usize>();
                weight += said * (1 + part.objects.len() + part.notes.len() + part.removed_versions.len());
            }
        }
        weight += self.directory.ledger().map_or(0, bytes_of);
        Self { weight, ..self }
    }

    /// The newest plan, and the one that is being carried out where that is another one.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        let running = self.running.as_ref().map(|(plan, _)| plan);
        [Some(&self.plan), running].into_iter().flatten().map(Arc::as_ref)
    }

    /// The rollouts that the one under way, or else the next one, is part of.
    pub fn chain(&self) -> Option<&Chain> {
        let running = self.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
        match running {
            Some(ledger) => ledger.chain.as_ref(),
            None => self.plan.chain.as_ref().filter(|_| self.plan.has_differences()),
        }
    }

    /// Whether people are asked anything about this cluster, by its newest plan or by the one that is running.
    pub fn asks_people(&self) -> bool {
        self.plans().flat_map(|plan| &plan.stages).any(|stage| approval_scope(stage).is_some())
    }

    /// Whether people are asked anything about this cluster or about its wave.
    fn asks_anybody(&self, reading: &FleetReading) -> bool {
        self.asks_people() || asks_about_wave(&reading.fleet.policy, &self.befores, self.name.as_str())
    }

    /// What other clusters want to know of it.
    pub(in crate::reconcile) fn progress(&self) -> ClusterProgress {
        let judges = WaveJudges::of(self.name.as_str(), &self.befores, &self.roster);
        ClusterProgress::of(&self.plan, self.directory.ledger()).judged_by(judges)
    }

    /// What was pushed of the policy that nobody who may has confirmed: nothing is written for the cluster before.
    pub fn unconfirmed(&self, reading: &FleetReading) -> Vec<Block> {
        confirmations(&reading.pushed(), &self.befores, self.name.as_str(), self.asks_anybody(reading))
    }

    /// Whether it is not known what is asked of people: something cannot be rendered by this process, or is not confirmed.
    pub(in crate::reconcile) fn is_unsure(&self, reading: &FleetReading) -> bool {
        let running = self.running.iter().flat_map(|(_, parts)| parts.iter());
        self.parts.iter().chain(running).any(|part| part.error.is_some()) || !self.unconfirmed(reading).is_empty()
    }

    /// What the policy says otherwise than before, and what that means for the cluster.
    pub fn policy_changes(&self, reading: &FleetReading) -> Vec<Change> {
        changes(&reading.pushed(), &self.befores, self.name.as_str(), self.asks_anybody(reading))
    }

    /// Whether a forge counts who approves, now or before: then a commit's word is nobody's.
    pub fn has_forge(&self, reading: &FleetReading) -> bool {
        let mut before = self.befores.of(Field::Forge);
        reading.fleet.policy.forge.is_some() || before.any(|before| before.policy.forge.is_some())
    }

    /// The cluster's Flux Kustomizations.
    pub fn flux_references(&self) -> Vec<FluxReference> {
        self.kustomizations.values().cloned().collect()
    }
}

/// Why a cluster has no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Reading git.
    #[error("{0}{hint}", hint = of_git(.0))]
    Git(#[from] GitError),
    /// The source branch does not describe it.
    #[error("there is no cluster {0} on the source branch")]
    NoCluster(String),
    /// Its name is none that a path, a trailer and a label can hold.
    #[error("cluster {name}: {message}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// The specification is not usable.
    #[error("{}", list(.0))]
    Problems(Vec<Problem>),
}

/// What helps, as problems have it.
fn of_git(error: &GitError) -> String {
    error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default()
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Where Stepgate writes, as the policy says.
///
/// # Errors
/// [`GitError`] when the policy names no valid branch.
pub fn layout(fleet: &Fleet) -> Result<DeployLayout, GitError> {
    let deploy = &fleet.policy.deploy;
    let branch = deploy.branch.parse().map_err(|error: domain::BranchNameError| GitError::DeployBranch {
        // With its place, where the reader of the policy has found the same.
        message: fleet
            .problems
            .iter()
            .find(|problem| problem.is_error() && problem.message.starts_with("deploy.branch"))
            .map_or_else(|| error.to_string(), ToString::to_string),
    })?;
    Ok(DeployLayout { branch, prefix: deploy.path.clone() })
}
