//! Whether a proposed commit is the one that Stepgate would make. Its message alone says nothing: whoever may push the branch can write that.
//!
//! Architecture Invariant: a proposed commit is ours by what it holds. One that is not the commit
//! that would be made now is replaced, and merged by nobody's word. So is one whose `proposal.md`
//! tells people something else.

use domain::{CommitId, TreeDigest};
use rollout::{ApprovalScope, Ledger, LedgerState, Plan, StageId, StageRecord};

use super::body_path;
use super::stack::Proposal;
use crate::reconcile::Controller;
use crate::reconcile::clusters::directory::path;
use crate::reconcile::planner::{ClusterView, FleetReading};
use approvals::text::body;
use approvals::text::sections::Sections;
use git::{Difference, GitError, Repository};
use planning::stage_tree::target_tree;
use planning::{cluster_folder, flux_folder};

/// Whether a commit changes nothing but what its plan says, and records and tells people nothing but that: times and evidence are those of when
/// it was made.
///
/// # Errors
/// [`GitError`] when commits cannot be read.
pub(super) fn is_ours(
    repository: &Repository,
    reading: &FleetReading,
    view: &ClusterView,
    (plan, scope): (&Plan, &ApprovalScope),
    proposal: &Proposal,
) -> Result<bool, GitError> {
    let parts = match &view.running {
        Some((running, parts)) if running.digest == plan.digest => parts,
        _ => &view.parts,
    };
    let Some(part) = parts.iter().find(|part| part.stage == proposal.trailers.stage) else { return Ok(false) };
    let after = repository.deploy_snapshot(&reading.layout, &proposal.commit)?;
    let directory = crate::reconcile::clusters::directory::read(&after, &view.name)?;
    let tree = target_tree(&view.directory.files, std::slice::from_ref(part)).digest();
    let Some(ledger) = directory.ledger().filter(|ledger| ledger.tree == tree) else { return Ok(false) };
    if directory.files.digest() != tree {
        return Ok(false);
    }
    // What is recorded as its source says by which policy the next push is judged.
    let source = &proposal.trailers.source;
    if ledger.source != *source || !says_the_same(repository, reading, source)? {
        return Ok(false);
    }
    let stage = (&part.stage, &part.before.digest(), &part.after.digest());
    let found = match after.read(&body_path(&view.name)?) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(GitError::MissingPath { .. } | GitError::NotAFile { .. } | GitError::TooLarge { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    // What lay on the branch before is told by nothing else.
    let lost = Sections::read(&found).lost;
    let asked = body::Asked { scope, stage: &part.stage, source: &proposal.trailers.source, ledger };
    let told = body::text(plan, &asked, parts, (&proposal.branch, &reading.layout.branch), &lost);
    Ok(told == found
        && records(ledger, view.directory.ledger(), plan, stage)
        && changes_nothing_else(repository, reading, view, proposal)?)
}

/// Whether a source commit has the very policy that was pushed last.
fn says_the_same(repository: &Repository, reading: &FleetReading, source: &CommitId) -> Result<bool, GitError> {
    let newest = reading.source.files.snapshot();
    if newest.commit() == source {
        return Ok(true);
    }
    let policy = path("stepgate.yaml")?;
    match repository.snapshot_of(source) {
        Ok(snapshot) => Ok(snapshot.tree_id(&policy)? == newest.tree_id(&policy)?),
        Err(GitError::MissingObject { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a ledger records one more stage than the deployed one, and nothing else than its plan says: of the stage its name and the digests
/// of its part before and after.
pub(super) fn records(
    ledger: &Ledger,
    deployed: Option<&Ledger>,
    plan: &Plan,
    (stage, before, after): (&StageId, &TreeDigest, &TreeDigest),
) -> bool {
    let is_record = |record: &StageRecord| record.stage == *stage && record.before == *before && record.after == *after;
    let known = deployed.filter(|known| known.rollout == plan.rollout_id && known.state == LedgerState::Running);
    let (stages, approvals) = known.map_or((0, 0), |known| (known.stages.len(), known.approvals.len()));
    // Whose approval it has is found out when it lands, and never said before.
    let open = ledger
        .approvals
        .iter()
        .skip(approvals)
        .all(|approved| approved.by.is_none() && approved.approvers.is_empty() && approved.overridden.is_none());
    // Which cluster it is follows from no text that others can write: what is proposed goes on with
    // what is recorded, and records nothing new.
    let recorded = deployed.and_then(|known| known.identity.as_ref());
    let is_same = match (recorded, &ledger.identity) {
        (Some(known), Some(identity)) => identity.is_of_same_cluster(known),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    is_same
        && ledger.cluster == plan.cluster
        && ledger.rollout == plan.rollout_id
        && ledger.plan == plan.digest
        && ledger.target == plan.target
        && ledger.edits == plan.edits
        && ledger.state == LedgerState::Running
        && ledger.stages.len() == stages + 1
        && ledger.stages.last().is_some_and(is_record)
        && open
}

fn changes_nothing_else(
    repository: &Repository,
    reading: &FleetReading,
    view: &ClusterView,
    proposal: &Proposal,
) -> Result<bool, GitError> {
    let Some(parent) = repository.parent(&proposal.commit)? else { return Ok(true) };
    let (before, after) = (repository.snapshot_of(&parent)?, repository.snapshot_of(&proposal.commit)?);
    let difference = Difference::between(&before, &after)?;
    let folders = [cluster_folder(&view.name), flux_folder(&view.name)];
    let is_own = |path: &domain::RepoPath| {
        let inside = match &reading.layout.prefix {
            None => Some(path.clone()),
            Some(prefix) => path.strip_prefix(prefix.as_str()),
        };
        inside.is_some_and(|inside| folders.iter().any(|folder| inside.is_below(folder)))
    };
    Ok(difference.unusable.is_empty() && difference.changed.iter().all(|file| is_own(&file.path)))
}

impl Controller {
    /// As [`is_ours`], looked at once for each commit.
    pub(super) fn knows_as_ours(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        (plan, scope): (&Plan, &ApprovalScope),
        proposal: &Proposal,
    ) -> Result<bool, GitError> {
        let key = (proposal.commit.clone(), plan.digest.clone());
        if self.memory(&view.name).proposed.as_ref() == Some(&key) {
            return Ok(true);
        }
        let repository = self.planner.repository();
        let ours = is_ours(repository, reading, view, (plan, scope), proposal)?;
        if ours {
            self.remember(&view.name, |memory| memory.proposed = Some(key));
        } else {
            let author = repository.author(&proposal.commit)?;
            tracing::warn!(
                cluster.name = %view.name, git.branch = %proposal.branch, git.commit = %proposal.commit, author,
                "`{}` holds a commit in Stepgate's name that Stepgate would not make; it is proposed anew without it", proposal.branch
            );
        }
        Ok(ours)
    }
}
