//! Reading a fleet and making the plan of each cluster: everything before a cluster is looked at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bundles::{Bundles, Locks};
use overlays::{
    BundleFile, Charts, ClusterSpec, ComponentName, Fleet, Manifests, Problem, RenderRequest, RenderedCluster,
    RenderedTree, Scope,
};
use rollout::{Block, ClusterName, CommitId, ComponentChange, DeployHead, ForeignChange, LedgerState, Plan, StageName};

use super::directory::{self, ClusterDirectory};
use super::parts::{self, Part, SpecificationStep};
use super::{changes, deploy, plan};
use crate::cluster::FluxReference;
use crate::git::{BranchName, DeployLayout, GitError, GitSnapshot, ListedSnapshot, Repository};

/// Where manifests and charts come from, given what the policy allows.
pub trait Sources: Send + Sync {
    /// Upstream manifests.
    fn manifests(&self, fleet: &Fleet) -> Arc<dyn Manifests>;
    /// Helm charts.
    fn charts(&self, fleet: &Fleet) -> Arc<dyn Charts>;
}

/// Both branches of a fleet repository, read at one moment.
#[derive(Clone)]
pub struct FleetReading {
    /// The source commit.
    pub source: Arc<ListedSnapshot>,
    /// The deploy branch below the deploy path; none where the branch does not exist.
    pub deploy: Option<GitSnapshot>,
    /// What the source commit says.
    pub fleet: Arc<Fleet>,
    /// Where Stepgate writes.
    pub layout: DeployLayout,
    /// The EKS Anywhere version of every cluster, as deployed.
    pub deployed_eksa: Arc<BTreeMap<ClusterName, String>>,
}

impl FleetReading {
    /// The head of the deploy branch.
    pub fn deploy_head(&self) -> Option<&CommitId> {
        self.deploy.as_ref().map(GitSnapshot::commit)
    }
}

/// Everything about one cluster that follows from git alone.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// The cluster.
    pub name: ClusterName,
    /// Its specification on the source branch.
    pub cluster: ClusterSpec,
    /// Its directory on the deploy branch.
    pub directory: ClusterDirectory,
    /// The plan for the newest source.
    pub plan: Plan,
    /// The parts that the plan's stages commit.
    pub parts: Vec<Part>,
    /// The plan that the ledger is carrying out, where that is another one, with its parts.
    pub running: Option<(Plan, Vec<Part>)>,
    /// The deploy branch as decisions see it.
    pub head: DeployHead,
    /// Somebody else's change to the directory.
    pub foreign: Option<ForeignChange>,
    /// Remarks of the fleet repository about this cluster.
    pub problems: Vec<Problem>,
    /// Its Flux Kustomizations by the directory that they apply.
    pub kustomizations: BTreeMap<String, FluxReference>,
}

impl ClusterView {
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

/// Reads fleets and makes plans. The same commits give the same plans; what it remembers only saves reading them again.
#[derive(Clone)]
pub struct Planner {
    repository: Repository,
    source_branch: BranchName,
    sources: Arc<dyn Sources>,
    fleets: Arc<Mutex<BTreeMap<CommitId, Arc<Fleet>>>>,
}

/// How many source commits are remembered: the newest, the running rollouts' and the deployed ones.
const REMEMBERED_FLEETS: usize = 8;

impl Planner {
    /// A planner for the fleet repository, whose intent is on `source_branch`.
    pub fn new(repository: Repository, source_branch: BranchName, sources: Arc<dyn Sources>) -> Self {
        Self { repository, source_branch, sources, fleets: Arc::default() }
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
        self.repository.refresh(std::slice::from_ref(&self.source_branch))?;
        let source = self.repository.snapshot(&self.source_branch)?;
        let fleet = self.fleet(&source)?;
        self.read_deploy(Arc::new(source.listed()?), fleet)
    }

    /// The deploy branch, for a source commit that was read before.
    ///
    /// # Errors
    /// As [`Planner::read`].
    pub fn read_deploy(&self, source: Arc<ListedSnapshot>, fleet: Arc<Fleet>) -> Result<FleetReading, GitError> {
        let layout = layout(&fleet)?;
        self.repository.refresh(std::slice::from_ref(&layout.branch))?;
        let deploy = match self.repository.head(&layout.branch)? {
            None => None,
            Some(_) => {
                let snapshot = self.repository.snapshot(&layout.branch)?;
                Some(match &layout.prefix {
                    Some(prefix) => snapshot.below(prefix)?,
                    None => snapshot,
                })
            }
        };
        let deployed_eksa = Arc::new(deployed_eksa(&fleet, deploy.as_ref())?);
        Ok(FleetReading { source, deploy, fleet, layout, deployed_eksa })
    }

    /// What a source commit says. The deploy path, where there is one on the same branch, is no part of it.
    fn fleet(&self, source: &GitSnapshot) -> Result<Arc<Fleet>, GitError> {
        let known = self.fleets.lock().unwrap_or_else(PoisonError::into_inner).get(source.commit()).cloned();
        if let Some(fleet) = known {
            return Ok(fleet);
        }
        let fleet = Arc::new(overlays::read_fleet(&source.clone().listed()?));
        let mut fleets = self.fleets.lock().unwrap_or_else(PoisonError::into_inner);
        if fleets.len() >= REMEMBERED_FLEETS {
            fleets.clear();
        }
        fleets.insert(source.commit().clone(), Arc::clone(&fleet));
        Ok(fleet)
    }

    /// The plan of one cluster with everything it was made from.
    ///
    /// # Errors
    /// [`PlanError`] concerns this cluster alone.
    pub fn view(&self, reading: &FleetReading, name: &str) -> Result<ClusterView, PlanError> {
        let cluster = reading.fleet.clusters.iter().find(|cluster| cluster.name == name);
        let problems: Vec<Problem> = reading
            .fleet
            .problems
            .iter()
            .filter(|problem| {
                matches!(&problem.scope, Scope::Fleet) || matches!(&problem.scope, Scope::Cluster(it) if it == name)
            })
            .cloned()
            .collect();
        let Some(cluster) = cluster else {
            let errors: Vec<Problem> = problems.into_iter().filter(Problem::is_error).collect();
            return Err(if errors.is_empty() {
                PlanError::NoCluster(name.to_owned())
            } else {
                PlanError::Problems(errors)
            });
        };
        let cluster_name: ClusterName = name.parse().map_err(|error: rollout::InvalidIdentifier| PlanError::Name {
            name: name.to_owned(),
            message: error.to_string(),
        })?;
        let directory = match &reading.deploy {
            Some(deploy) => ClusterDirectory::read(deploy, &cluster_name)?,
            None => ClusterDirectory::absent(),
        };
        let head = reading.deploy_head();
        let history = deploy::history(&self.repository, &reading.layout, &cluster_name, head, directory.ledger())?;
        let foreign = deploy::foreign_change(&self.repository, &reading.layout, &cluster_name, head, &directory)?;
        let base = self.base_source(reading, &cluster_name, &directory, &history)?;
        let source = reading.source.snapshot().commit().clone();
        let context = Context {
            name: &cluster_name,
            directory: &directory,
            base: base.as_deref(),
            deployed_eksa: &reading.deployed_eksa,
        };
        let Planned { plan, parts, kustomizations } =
            self.plan(&context, &reading.fleet, &reading.source, &source, cluster)?;
        let running = self.running_plan(&context, &plan)?;
        Ok(ClusterView {
            name: cluster_name.clone(),
            cluster: cluster.clone(),
            plan,
            parts,
            running,
            head: history.head,
            foreign,
            problems,
            directory,
            kustomizations,
        })
    }

    /// The plan that the ledger is carrying out, made again from its own source commit, where it is not the newest plan.
    fn running_plan(&self, context: &Context<'_>, newest: &Plan) -> Result<Option<(Plan, Vec<Part>)>, PlanError> {
        let Some(ledger) = context.directory.ledger() else { return Ok(None) };
        if ledger.state != LedgerState::Running || ledger.plan == newest.digest {
            return Ok(None);
        }
        let source = self.repository.snapshot_of(&ledger.source)?;
        let fleet = self.fleet(&source)?;
        let Some(cluster) = fleet.clusters.iter().find(|cluster| cluster.name == context.name.as_str()) else {
            return Ok(None);
        };
        let listed = source.listed()?;
        let Planned { plan, parts, .. } = self.plan(context, &fleet, &listed, &ledger.source, cluster)?;
        Ok(Some((plan, parts)))
    }

    fn plan(
        &self,
        context: &Context<'_>,
        fleet: &Fleet,
        files: &ListedSnapshot,
        source: &CommitId,
        cluster: &ClusterSpec,
    ) -> Result<Planned, PlanError> {
        let mut blocked = blocks(fleet, context);
        let bundle = match overlays::uses_bundle(fleet, cluster).then(|| overlays::bundle_for(fleet, cluster)) {
            None => None,
            Some(Ok(bundle)) => Some(bundle),
            Some(Err(problem)) => {
                blocked.push(block(&problem));
                None
            }
        };
        let deployed_tree = context.directory.deployed(context.name);
        let rendered = self.render(fleet, files, cluster, bundle, &deployed_tree);
        let deployed = deployed_cluster(&deployed_tree, cluster);
        let steps = specification_steps(fleet, &deployed_tree, &rendered, cluster);
        let groups: Vec<String> = cluster.worker_groups.iter().map(|group| group.name.clone()).collect();
        let order = fleet.policy.worker_order(&cluster.name, &groups);
        let parts = parts::cut(context.name, cluster, &context.directory.files, &rendered, &order, &steps)?;
        let changes =
            bundle.map(|bundle| component_changes(context, fleet, cluster, &bundle.bundles, deployed.as_ref()));
        let kustomizations = kustomizations(&rendered, context.name);
        let facts = plan::Facts {
            fleet,
            cluster,
            name: context.name,
            deployed: deployed.as_ref(),
            directory: context.directory,
            source,
            parts: &parts,
            changes: &changes.unwrap_or_default(),
            kustomizations: &kustomizations,
            deployed_eksa: context.deployed_eksa,
            blocked,
            warnings: warnings(fleet, cluster, &rendered),
        };
        Ok(Planned { plan: rollout::plan(plan::input(&facts)?), parts, kustomizations })
    }

    fn render(
        &self,
        fleet: &Fleet,
        files: &ListedSnapshot,
        cluster: &ClusterSpec,
        bundle: Option<&BundleFile>,
        deployed: &RenderedTree,
    ) -> RenderedCluster {
        let (manifests, charts) = (self.sources.manifests(fleet), self.sources.charts(fleet));
        overlays::render::render(&RenderRequest {
            fleet,
            cluster,
            bundle,
            deployed,
            manifests: manifests.as_ref(),
            charts: charts.as_ref(),
            files,
        })
    }

    /// The fleet that the deployed state was rendered from: classes of changes are relative to its bundle.
    fn base_source(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        directory: &ClusterDirectory,
        history: &deploy::ClusterHistory,
    ) -> Result<Option<Arc<Fleet>>, PlanError> {
        let source = match directory.ledger() {
            None => None,
            Some(ledger) if ledger.state == LedgerState::Done => Some(ledger.source.clone()),
            Some(_) => match &history.base {
                None => None,
                Some(commit) => {
                    let mut snapshot = self.repository.snapshot_of(commit)?;
                    if let Some(prefix) = &reading.layout.prefix {
                        snapshot = snapshot.below(prefix)?;
                    }
                    ClusterDirectory::read(&snapshot, cluster)?.ledger().map(|ledger| ledger.source.clone())
                }
            },
        };
        let Some(source) = source else { return Ok(None) };
        if &source == reading.source.snapshot().commit() {
            return Ok(Some(Arc::clone(&reading.fleet)));
        }
        // A source commit that was rewritten away only costs the classes of the changes, not the plan.
        match self.repository.snapshot_of(&source) {
            Ok(snapshot) => Ok(Some(self.fleet(&snapshot)?)),
            Err(error) => {
                tracing::warn!(%cluster, %source, %error, "the source commit of the deployed state is gone; changes cannot be classed");
                Ok(None)
            }
        }
    }
}

/// A plan with the parts that its stages commit.
struct Planned {
    plan: Plan,
    parts: Vec<Part>,
    kustomizations: BTreeMap<String, FluxReference>,
}

/// What the plans of one cluster share.
struct Context<'a> {
    name: &'a ClusterName,
    directory: &'a ClusterDirectory,
    base: Option<&'a Fleet>,
    deployed_eksa: &'a BTreeMap<ClusterName, String>,
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

fn blocks(fleet: &Fleet, context: &Context<'_>) -> Vec<Block> {
    let mut blocks: Vec<Block> = fleet.blocking(context.name.as_str()).into_iter().map(block).collect();
    if let directory::LedgerState::Absent = context.directory.ledger {
        blocks.push(Block {
            code: "not-adopted".to_owned(),
            stage: None,
            message: format!("the deploy branch does not hold clusters/{} with a ledger", context.name),
            help: format!("`stepgate adopt {} --yes` records the cluster as it runs now", context.name),
        });
    }
    blocks
}

fn block(problem: &Problem) -> Block {
    Block {
        code: problem.code.to_string(),
        stage: None,
        message: problem.to_string(),
        help: problem.hint.clone().unwrap_or_else(|| "repair the file named, commit and push".to_owned()),
    }
}

/// The cluster as its deployed files specify it.
pub fn deployed_cluster(deployed: &RenderedTree, cluster: &ClusterSpec) -> Option<ClusterSpec> {
    let fleet = overlays::read_fleet(&deployed.below(ComponentName::Cluster.directory()));
    fleet.clusters.into_iter().find(|found| found.name == cluster.name)
}

fn specification_steps(
    fleet: &Fleet,
    deployed: &RenderedTree,
    rendered: &RenderedCluster,
    cluster: &ClusterSpec,
) -> Vec<SpecificationStep> {
    let Some(Ok(target)) = rendered.components.get(&ComponentName::Cluster) else { return Vec::new() };
    overlays::cluster_stages(fleet, deployed, &target.tree, cluster)
        .into_iter()
        .map(|stage| SpecificationStep { stage: stage.stage, tree: stage.tree })
        .collect()
}

fn component_changes(
    context: &Context<'_>,
    fleet: &Fleet,
    cluster: &ClusterSpec,
    target: &Bundles,
    deployed: Option<&ClusterSpec>,
) -> BTreeMap<StageName, Vec<ComponentChange>> {
    let base = context.base.and_then(|base| {
        let before = base.clusters.iter().find(|known| known.name == cluster.name)?;
        Some((overlays::bundle_for(base, before).ok()?, &base.lock))
    });
    let Some((old, old_lock)) = base else { return BTreeMap::new() };
    let deployed = deployed.unwrap_or(cluster);
    let sections = changes::section(&old.bundles, deployed.kubernetes_minor())
        .zip(changes::section(target, cluster.kubernetes_minor()));
    let locks = Locks { old: Some(old_lock), new: Some(&fleet.lock) };
    sections.map(|(old, new)| changes::by_stage(old, new, locks, cluster)).unwrap_or_default()
}

fn warnings(fleet: &Fleet, cluster: &ClusterSpec, rendered: &RenderedCluster) -> Vec<String> {
    let remarks =
        fleet.problems.iter().filter(|problem| !problem.is_error() && problem.severity == overlays::Severity::Warning);
    let concerns = |problem: &&Problem| match &problem.scope {
        Scope::Fleet => true,
        Scope::Cluster(name) => *name == cluster.name,
    };
    let skipped = rendered.skipped.iter().map(|(component, reason)| format!("{component}: {reason}"));
    remarks.filter(concerns).map(ToString::to_string).chain(skipped).collect()
}

/// The cluster's Flux Kustomizations by the directory that they apply.
fn kustomizations(rendered: &RenderedCluster, cluster: &ClusterName) -> BTreeMap<String, FluxReference> {
    let Some(Ok(objects)) = rendered.components.get(&ComponentName::FluxObjects) else {
        // Without Flux the names only tell the directories apart.
        let reference = |directory: &str| FluxReference {
            namespace: "stepgate".to_owned(),
            name: format!("{cluster}-{directory}"),
        };
        let own = |component: &&ComponentName| !matches!(component, ComponentName::CiliumPreflight);
        let directories = rendered.components.keys().filter(own).map(|component| component.directory());
        return directories.map(|directory| (directory.to_owned(), reference(directory))).collect();
    };
    let marker = format!("clusters/{cluster}/");
    let nodes = objects.tree.files.values().flat_map(|bytes| overlays::objects_of(bytes));
    nodes
        .filter_map(|node| {
            let text = |path: &[&str]| node.at(path)?.as_str().map(str::to_owned);
            let path = text(&["spec", "path"])?;
            let (_, directory) = path.split_once(&marker)?;
            let reference =
                FluxReference { namespace: text(&["metadata", "namespace"])?, name: text(&["metadata", "name"])? };
            Some((directory.trim_end_matches('/').to_owned(), reference))
        })
        .collect()
}

/// The EKS Anywhere version of every cluster, as deployed.
fn deployed_eksa(fleet: &Fleet, deploy: Option<&GitSnapshot>) -> Result<BTreeMap<ClusterName, String>, GitError> {
    let Some(deploy) = deploy else { return Ok(BTreeMap::new()) };
    let mut versions = BTreeMap::new();
    for cluster in &fleet.clusters {
        let Ok(name) = cluster.name.parse::<ClusterName>() else { continue };
        let folder =
            directory::path(&format!("{}/{}", directory::cluster_folder(&name), ComponentName::Cluster.directory()))?;
        let files = deploy.below(&folder)?.files()?;
        let found = overlays::read_fleet(&files).clusters.into_iter().find(|found| found.name == cluster.name);
        if let Some(overlays::BundleReference::EksaVersion(version)) = found.and_then(|found| found.bundle_reference) {
            versions.insert(name, version);
        }
    }
    Ok(versions)
}
