//! What was read of a fleet, and what follows from it for each cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use overlays::{ClusterSpec, Fleet, Problem};
use rollout::{ClusterName, CommitId, DeployHead, ForeignChange, Plan, Roster};

use crate::cluster::{DeployedObjects, FluxReference};
use crate::controller::deployed::Deployed;
use crate::controller::directory::ClusterDirectory;
use crate::controller::gather::{Context, DeployBranch};
use crate::controller::inputs::SourceReading;
use crate::controller::missing::MissingRecord;
use crate::controller::parts::Part;
use crate::git::{DeployLayout, GitError, GitSnapshot, LastSeen};

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
    /// Where Stepgate writes.
    pub layout: DeployLayout,
    /// The clusters as deployed.
    pub deployed: Arc<Deployed>,
}

impl FleetReading {
    /// The source commit's id.
    pub fn source_commit(&self) -> &CommitId {
        self.source.files.snapshot().commit()
    }

    /// The head of the deploy branch.
    pub fn deploy_head(&self) -> Option<&CommitId> {
        self.deploy.as_ref().map(GitSnapshot::commit)
    }

    pub(super) fn deploy_branch(&self) -> DeployBranch<'_> {
        DeployBranch { layout: &self.layout, head: self.deploy_head(), lost: self.lost.as_ref() }
    }

    /// What the plans of a cluster share, as long as nobody has changed what is proposed.
    pub(super) fn context<'a>(
        &'a self,
        name: &'a ClusterName,
        directory: &'a ClusterDirectory,
        base: Option<&'a Fleet>,
    ) -> Context<'a> {
        Context { name, directory, base, deployed: &self.deployed, proposed: &[], deploy: self.deploy_branch() }
    }
}

/// A plan with the parts that its stages commit.
pub type PlannedParts = (Arc<Plan>, Arc<[Part]>);

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
    pub parts: Arc<[Part]>,
    /// The plan that the ledger is carrying out, where that is another one, with its parts.
    pub running: Option<PlannedParts>,
    /// The deploy branch as decisions see it.
    pub head: Arc<DeployHead>,
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
}

impl ClusterView {
    /// The same view of a newer source commit that says the same about this cluster.
    #[must_use]
    pub fn at_source(&self, source: &CommitId) -> Self {
        let plan = Plan { source: source.clone(), ..self.plan.as_ref().clone() };
        Self { plan: Arc::new(plan), ..self.clone() }
    }

    /// The newest plan, and the one that is being carried out where that is another one.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        let running = self.running.as_ref().map(|(plan, _)| plan);
        [Some(&self.plan), running].into_iter().flatten().map(Arc::as_ref)
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
    #[error(transparent)]
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

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Where Stepgate writes, as the policy says.
///
/// # Errors
/// [`GitError`] when the policy names no valid branch.
pub fn layout(fleet: &Fleet) -> Result<DeployLayout, GitError> {
    let deploy = &fleet.policy.deploy;
    let branch = deploy.branch.parse().map_err(|error: crate::git::BranchNameError| GitError::Library {
        action: "read deploy.branch of stepgate.yaml".to_owned(),
        message: error.to_string(),
    })?;
    Ok(DeployLayout { branch, prefix: deploy.path.clone() })
}
