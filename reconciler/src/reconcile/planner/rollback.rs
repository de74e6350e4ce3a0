//! Going back: the states that a cluster can go back to, and the plan that leads there.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ClusterName, CommitId, RolloutId};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use overlays::{ClusterSpec, ComponentName, Fleet};
use rollout::{Block, Ledger, LedgerState, Plan, Rollback, StageId, StageName, StageRecordKind};

use super::chained::at_target;
use super::context::Context;
use super::making::Planned;
use super::{ClusterView, FleetReading, PlanError, Planner};
use crate::reconcile::cache::deploy;
use crate::reconcile::cache::inputs::SourceReading;
use crate::reconcile::clusters::directory::{self, ledger_path, refused};
use git::{GitError, HistoryEntry, Reach};
use planning::stage_tree::{self, target_tree};
use planning::{ClusterDirectory, DeployedLedger, facts, plan, rollback};

/// How many commits of a cluster are looked through for a state that is named.
const LOOKED_THROUGH: usize = 1000;

/// So many are looked through first for the one before: the last two rollouts are nearly always among them, and each more reads the commits of all other clusters between.
const AT_FIRST: usize = 32;

/// Why there is nothing to go back to.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    /// It was never adopted, or its ledger cannot be read.
    #[error("cluster {0} has no ledger that can be read: nothing is known of what it was at before")]
    NoLedger(ClusterName),
    /// The ledger is the first one.
    #[error("cluster {0} was never at anything else that was verified")]
    NothingBefore(ClusterName),
    /// It goes back already.
    #[error("cluster {cluster} goes back to {to} already, or is there")]
    AlreadyBack {
        /// The cluster.
        cluster: ClusterName,
        /// What to.
        to: Box<Rollback>,
    },
    /// No rollout and no stage is named so.
    #[error("{to:?} is not a rollout of cluster {cluster} that ended, nor a stage that its last rollout committed")]
    Unknown {
        /// The cluster.
        cluster: ClusterName,
        /// What was named.
        to: String,
        /// What can be named.
        known: Vec<String>,
    },
    /// The gate of the stage has not passed.
    #[error("stage {stage} of cluster {cluster} has not passed its gate: nothing proves that the cluster held there")]
    NotVerified {
        /// The cluster.
        cluster: ClusterName,
        /// The stage.
        stage: StageId,
    },
    /// Nothing differs.
    #[error("cluster {cluster} is at {to} already")]
    AlreadyThere {
        /// The cluster.
        cluster: ClusterName,
        /// What was named.
        to: String,
    },
    /// The plan cannot be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl RollbackError {
    /// What helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoLedger(cluster) => Some(format!("`stepgate adopt {cluster}` records what it is at")),
            Self::NothingBefore(_) => Some("change the source branch: that is a rollout like any other".to_owned()),
            Self::AlreadyBack { cluster, .. } => Some(format!(
                "`stepgate rollback {cluster} --end --yes` lets the source branch count again; `--to` names another state"
            )),
            Self::Unknown { known, .. } if known.is_empty() => None,
            Self::Unknown { known, .. } => Some(format!("there are: {}", known.join(", "))),
            Self::NotVerified { .. } => Some("name an earlier stage, or none".to_owned()),
            Self::AlreadyThere { cluster, .. } => Some(format!("`stepgate history {cluster}` lists what there was")),
            Self::Git(error) | Self::Plan(PlanError::Git(error)) => error.hint(),
            Self::Plan(_) => None,
        }
    }
}

/// Until when a cluster can go back to where its last rollout began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// There is nothing to go back to.
    Nothing,
    /// The source branch is held back: the cluster goes back, or has gone.
    Back(Box<Rollback>),
    /// It can, until this stage is committed, for this reason; with none as long as no rollout follows.
    Possible {
        /// What it would go back to.
        to: RolloutId,
        /// The stage that closes the way, and why.
        until: Option<(StageId, String)>,
    },
    /// It cannot, for these reasons.
    Barred(Vec<Block>),
}

impl Outlook {
    /// In words; none where nothing is to be said.
    pub fn told(&self, cluster: &ClusterName) -> Option<String> {
        Some(match self {
            Self::Nothing => return None,
            Self::Back(back) => format!(
                "kept at {back}, as {} wanted; `stepgate rollback {cluster} --end --yes` lets the source branch count again",
                back.by
            ),
            Self::Possible { to, until: None } => format!("possible to the end of rollout {to}"),
            Self::Possible { to, until: Some((stage, why)) } => {
                format!("possible to the end of rollout {to} until {stage} is committed ({why})")
            }
            Self::Barred(blocks) => {
                let reasons = blocks.iter().map(|block| block.message.as_str()).collect::<Vec<_>>().join("; ");
                format!("not possible any more: {reasons}")
            }
        })
    }
}

impl Planner {
    /// The state that a cluster can go back to, by the name of a rollout or of a stage of the last one; without a name, what the last rollout
    /// found.
    ///
    /// # Errors
    /// [`RollbackError`].
    pub fn state_before(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        to: Option<&str>,
        (by, at, reason): (&str, Timestamp, Option<&str>),
    ) -> Result<Rollback, RollbackError> {
        let ledger = view.directory.ledger().ok_or_else(|| RollbackError::NoLedger(view.name.clone()))?;
        if let (None, Some(back)) = (to, &ledger.rollback) {
            return Err(RollbackError::AlreadyBack { cluster: view.name.clone(), to: Box::new(back.clone()) });
        }
        let (commit, found, stage) = match to {
            None => {
                let (commit, found) = self.last_other_state(reading, view)?;
                (commit, found, None)
            }
            Some(to) => {
                let entries = self.commits(reading, &view.name, LOOKED_THROUGH)?;
                let ended = self.ended(reading, &view.name, &entries)?;
                match ended.iter().position(|(_, found)| found.rollout.to_string() == to) {
                    Some(place) => {
                        let (commit, found) =
                            ended.into_iter().nth(place).ok_or_else(|| unknown(view, to, &[], ledger))?;
                        (commit, found, None)
                    }
                    None => {
                        let (commit, found, stage) = self
                            .stage_before(reading, view, ledger, &entries, to)?
                            .ok_or_else(|| unknown(view, to, &ended, ledger))?;
                        (commit, found, Some(stage))
                    }
                }
            }
        };
        if found.tree == view.plan.deployed {
            let to = to.unwrap_or_default().to_owned();
            return Err(RollbackError::AlreadyThere { cluster: view.name.clone(), to });
        }
        Ok(Rollback {
            to: commit,
            source: rendered_from(&found).clone(),
            tree: found.tree,
            rollout: found.rollout,
            stage,
            held_back: reading.source_commit().clone(),
            by: by.to_owned(),
            at,
            reason: reason.map(str::to_owned),
        })
    }

    /// What the last rollout that ended elsewhere has left, with the commit that closed it.
    fn last_other_state(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
    ) -> Result<(CommitId, Ledger), RollbackError> {
        for limit in [AT_FIRST, deploy::LONGEST_ROLLOUT] {
            let entries = self.newest_commits(reading, &view.name, limit, Reach::Lifetime)?;
            let ended = self.ended(reading, &view.name, &entries)?;
            if let Some(other) = ended.into_iter().find(|(_, found)| found.tree != view.plan.deployed) {
                return Ok(other);
            }
            if entries.len() < limit {
                break;
            }
        }
        Err(RollbackError::NothingBefore(view.name.clone()))
    }

    /// The ledgers of rollouts that ended, with the commits that closed them, the newest first.
    fn ended(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        entries: &[HistoryEntry],
    ) -> Result<Vec<(CommitId, Ledger)>, RollbackError> {
        let closing = |entry: &&HistoryEntry| {
            entry.stage.as_ref().is_some_and(|trailers| trailers.stage.name == StageName::Verify)
        };
        let mut ended: Vec<(CommitId, Ledger)> = Vec::new();
        for entry in entries.iter().filter(closing) {
            let ledger = self.ledger_at(reading, cluster, &entry.commit)?;
            let is_new = |ledger: &Ledger| !ended.iter().any(|(_, known)| known.rollout == ledger.rollout);
            if let Some(ledger) = ledger.filter(|ledger| ledger.state == LedgerState::Done && is_new(ledger)) {
                ended.push((entry.commit.clone(), ledger));
            }
        }
        Ok(ended)
    }

    fn ledger_at(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        commit: &CommitId,
    ) -> Result<Option<Ledger>, GitError> {
        let snapshot = self.repository.deploy_snapshot(&reading.layout, commit)?;
        Ok(match snapshot.read(&ledger_path(cluster)?).map(|bytes| DeployedLedger::of(&bytes)) {
            Ok(DeployedLedger::Read(ledger)) => Some(ledger.as_ref().clone()),
            Ok(DeployedLedger::Absent | DeployedLedger::Unreadable(_)) | Err(_) => None,
        })
    }

    /// The state that a stage of the last rollout left; none where it has committed none of that name.
    fn stage_before(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        ledger: &Ledger,
        entries: &[HistoryEntry],
        to: &str,
    ) -> Result<Option<(CommitId, Ledger, StageId)>, RollbackError> {
        let Ok(stage) = to.parse::<StageId>() else { return Ok(None) };
        let place = ledger.stages.iter().rposition(|record| record.stage == stage);
        let Some(place) = place
            .filter(|place| ledger.stages.get(*place).is_some_and(|record| record.kind == StageRecordKind::Commit))
        else {
            return Ok(None);
        };
        let later = ledger.stages.iter().skip(place + 1).any(|record| record.opened_by.is_some());
        if !later && ledger.verified.is_none() {
            return Err(RollbackError::NotVerified { cluster: view.name.clone(), stage });
        }
        let own = |entry: &&HistoryEntry| {
            let trailers = entry.stage.as_ref();
            trailers.is_some_and(|trailers| trailers.rollout == ledger.rollout && trailers.stage == stage)
        };
        let Some(entry) = entries.iter().find(own) else { return Ok(None) };
        let found = self.ledger_at(reading, &view.name, &entry.commit)?;
        Ok(found.map(|found| (entry.commit.clone(), found, stage)))
    }

    /// The plan that goes back to a state.
    ///
    /// # Errors
    /// [`PlanError`] when it cannot be read.
    pub fn going_back(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        rollback: &Rollback,
    ) -> Result<Arc<Plan>, PlanError> {
        let base = self.base(reading, &view.name, &view.directory, view.base.as_ref());
        let context = reading.context(&view.name, &view.directory, &base, &view.befores);
        Ok(self.plan_back(&context, &reading.source, &view.cluster, rollback)?.plan)
    }

    /// Until when a cluster can go back to where its last rollout began.
    ///
    /// # Errors
    /// [`PlanError`] when the deploy branch cannot be read.
    pub fn outlook(&self, reading: &FleetReading, view: &ClusterView, now: Timestamp) -> Result<Outlook, PlanError> {
        if let Some(back) = &view.plan.rollback {
            return Ok(Outlook::Back(Box::new(back.clone())));
        }
        let before = match self.state_before(reading, view, None, ("", now, None)) {
            Ok(before) => before,
            Err(RollbackError::Plan(error)) => return Err(error),
            Err(RollbackError::Git(error)) => return Err(error.into()),
            Err(_) => return Ok(Outlook::Nothing),
        };
        let back = self.going_back(reading, view, &before)?;
        if !back.blocked.is_empty() {
            return Ok(Outlook::Barred(back.blocked.clone()));
        }
        let running = view.plans().find(|plan| plan.running);
        let pending = running.into_iter().flat_map(|plan| &plan.stages);
        let pending = pending.filter(|stage| stage.state == rollout::StageState::Pending);
        let door = pending.filter_map(|stage| Some((stage.stage.clone(), stage.one_way.first()?.clone()))).next();
        Ok(Outlook::Possible { to: before.rollout, until: door })
    }

    /// Whether a source commit asks for what is held back: the same files, or others that come to the same.
    pub(super) fn is_held_back(
        &self,
        context: &Context<'_>,
        source: &SourceReading,
        cluster: &ClusterSpec,
        rollback: &Rollback,
    ) -> Result<bool, PlanError> {
        if source.files.snapshot().commit() == &rollback.held_back {
            return Ok(true);
        }
        let name = context.name.as_str();
        let held = match self.repository.snapshot_of(&rollback.held_back) {
            Ok(snapshot) => self.source(snapshot)?,
            // Rewritten history says nothing of what people want: they end the rollback.
            Err(error) => {
                tracing::warn!(cluster = name, commit = %rollback.held_back, %error, "the source commit that is held back is gone");
                return Ok(true);
            }
        };
        if held.inputs(name) == source.inputs(name) {
            return Ok(true);
        }
        let Some(before) = held.fleet.cluster(name) else { return Ok(false) };
        let asked = self.plan_forward(context, source, cluster)?.plan;
        Ok(self.plan_forward(context, &held, before)?.plan.target == asked.target)
    }

    /// The plan that goes back, under the policy of `source`.
    pub(super) fn plan_back(
        &self,
        context: &Context<'_>,
        source: &SourceReading,
        cluster: &ClusterSpec,
        back: &Rollback,
    ) -> Result<Planned, PlanError> {
        let before = self.directory_before(context, back)?;
        let (deployed_tree, before_tree) = (context.directory.deployed(context.name), before.deployed(context.name));
        let old = self.repository.snapshot_of(&back.source).and_then(|snapshot| self.source(snapshot)).ok();
        let chain = before.ledger().and_then(|ledger| ledger.chain.as_ref());
        let old = old.map(|old| at_target(&old, context.name, chain));
        let mut fleet = old.as_ref().map_or(&source.fleet, |old| &old.fleet).as_ref().clone();
        fleet.policy = source.fleet.policy.clone();
        let spec = rollback::cluster_of(&before_tree, cluster).unwrap_or_else(|| cluster.clone());
        let deployed = facts::deployed_cluster(&deployed_tree, cluster);
        let rendered = rollback::target(context.name, context.directory, &before);
        let specification = rendered.components.get(&ComponentName::Cluster).and_then(|it| it.as_ref().ok());
        let steps = specification
            .map(|target| facts::specification_steps_back(&fleet, &deployed_tree, &target.tree, &spec))
            .unwrap_or_default();
        let groups = overlays::ordered_groups(&fleet, &spec);
        let order: Vec<&str> = groups.iter().map(String::as_str).collect();
        let parts = stage_tree::cut_back(context.name, &spec, &context.directory.files, &rendered, &order, &steps)
            .map_err(|error| refused(context.name.as_str(), &error))?;
        let bundle = overlays::uses_bundle(&fleet, &spec).then(|| overlays::bundle_for(&fleet, &spec));
        let bundle = bundle.and_then(Result::ok);
        let base = self.fleet_now(context, back)?;
        let base = match base.as_deref() {
            Some(base) => Some(base),
            None => context.base.get()?.map(|base| base.fleet.as_ref()),
        };
        let changes = bundle
            .map(|bundle| facts::component_changes(base, &fleet, &spec, &bundle.bundles, deployed.as_ref()))
            .unwrap_or_default();
        let new_releases = bundle
            .map(|bundle| facts::new_releases(base, &spec, &bundle.bundles, deployed.as_ref()))
            .unwrap_or_default();
        let (mut blocked, remarks) = facts::immutable_fields(&deployed_tree, &spec, &before_tree);
        blocked.extend(facts::blocks(&fleet, &spec, &context.deployed.unreadable, None));
        let untrusted = rollback::untrusted(back, &before);
        if untrusted.is_none() && target_tree(&context.directory.files, &parts).digest() != back.tree {
            blocked.push(strays(back));
        }
        blocked.extend(untrusted);
        blocked.extend(rollback::doors(context.name, context.directory, &before, &spec, &changes));
        let kustomizations = facts::kustomizations(&fleet, &spec, &rendered, context.name);
        let facts = plan::Facts {
            fleet: &fleet,
            befores: context.befores,
            newest: context.newest,
            cluster: &spec,
            name: context.name,
            deployed: deployed.as_ref(),
            directory: context.directory,
            source: source.files.snapshot().commit(),
            parts: &parts,
            changes: &changes,
            // What is put back has its own overlays.
            overlay_conflicts: &BTreeMap::new(),
            kustomizations: &kustomizations,
            deployed_eksa: &context.deployed.eksa,
            new_releases: &new_releases,
            today: self.clock.now().to_zoned(TimeZone::UTC).date(),
            now: self.clock.now(),
            blocked,
            warnings: remarks,
            rollback: Some(back.clone()),
        };
        let edits = before.ledger().map(|ledger| ledger.edits.clone()).unwrap_or_default();
        let plan = Arc::new(Plan { edits, ..rollout::plan(plan::input(&facts)) });
        Ok(Planned { plan, parts: parts.into(), kustomizations: Arc::new(kustomizations), reaches_far: false })
    }

    /// What stages of a rollout that is still under way were rendered from.
    fn fleet_now(&self, context: &Context<'_>, back: &Rollback) -> Result<Option<Arc<Fleet>>, PlanError> {
        let ledger = context.directory.ledger();
        let ledger = ledger.filter(|it| it.state == LedgerState::Running && it.target != back.tree);
        let Some(Ok(snapshot)) = ledger.map(|ledger| self.repository.snapshot_of(&ledger.source)) else {
            return Ok(None);
        };
        let chain = context.directory.ledger().and_then(|ledger| ledger.chain.as_ref());
        Ok(Some(Arc::clone(&at_target(&self.source(snapshot)?, context.name, chain).fleet)))
    }

    /// The directory as it is to be; an absent one where the deploy branch does not have that commit.
    fn directory_before(&self, context: &Context<'_>, back: &Rollback) -> Result<ClusterDirectory, PlanError> {
        let Some(head) = context.deploy.head else { return Ok(ClusterDirectory::absent()) };
        // A commit that nobody merged is not a state that the cluster was at.
        if !self.repository.lineage(&back.to, head).is_ok_and(|lineage| !lineage.is_empty()) {
            return Ok(ClusterDirectory::absent());
        }
        Ok(directory::read(&self.repository.deploy_snapshot(context.deploy.layout, &back.to)?, context.name)?)
    }
}

/// The commit of the source branch that the files of a ledger's directory were rendered from.
fn rendered_from(ledger: &Ledger) -> &CommitId {
    let back = ledger.rollback.as_ref().filter(|back| back.tree == ledger.tree);
    back.map_or(&ledger.source, |back| &back.source)
}

fn unknown(view: &ClusterView, to: &str, ended: &[(CommitId, Ledger)], ledger: &Ledger) -> RollbackError {
    let others = ended.iter().filter(|(_, found)| found.tree != ledger.tree);
    let mut known: Vec<String> = others.map(|(_, found)| found.rollout.to_string()).collect();
    known.extend(ledger.stages.iter().map(|record| record.stage.to_string()));
    known.dedup();
    RollbackError::Unknown { cluster: view.name.clone(), to: to.to_owned(), known }
}

/// Files that no stage puts back.
fn strays(back: &Rollback) -> Block {
    Block {
        code: Block::ROLLBACK_TARGET.to_owned(),
        stage: None,
        message: format!("no stage puts all files of {back} back: some lie in folders that belong to no stage"),
        help: "put what was there into the source branch: that is a rollout like any other".to_owned(),
    }
}
