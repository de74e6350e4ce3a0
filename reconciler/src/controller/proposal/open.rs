//! Opening, renewing and withdrawing proposals.

use std::sync::Arc;

use rollout::{ApprovalRequest, Effect};

use super::{Asking, PREFIX, Proposal, asked, body, body_path, branch};
use crate::controller::Controller;
use crate::controller::commit::{Signature, StaleDecision, stage_draft};
use crate::controller::directory::ClusterDirectory;
use crate::controller::planner::{ClusterView, FleetReading};
use crate::git::{BranchName, CommitOutcome, GitError, PushOutcome};

impl Controller {
    /// Proposes a commit, unless it is proposed already on the cluster's directory as it is now. The branch on which it is proposed, and
    /// whether that was written just now.
    pub(in crate::controller) fn propose(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        request: &ApprovalRequest,
    ) -> Result<(BranchName, bool), anyhow::Error> {
        let (repository, commit) = (self.planner.repository(), &request.commit);
        let branch = branch(&commit.rollout, &request.scope)?;
        let known = Proposal::read(repository, &branch)?;
        if let Some(known) = &known
            && known.trailers.plan == commit.plan
            && known.trailers.stage == commit.stage
            && self.is_on(reading, view, known)?
        {
            return Ok((branch, false));
        }
        let (plan, parts) = match &view.running {
            Some((plan, parts)) if plan.digest == commit.plan => (plan, parts.as_ref()),
            _ => (&view.plan, view.parts.as_ref()),
        };
        let signature = Signature::of(&reading.fleet.policy)?;
        let mut draft = match stage_draft(commit, &view.directory, parts, &signature, self.clock.now()) {
            Ok(draft) => draft,
            Err(StaleDecision::Git(error)) => return Err(error.into()),
            Err(stale) => return Err(stale.into()),
        };
        let text = body::text(plan, request, &branch, &reading.layout.branch);
        draft.edits.insert(body_path(&view.name)?, Some(Arc::from(text.into_bytes())));
        let CommitOutcome::Created(proposed) = repository.commit(&draft, &signature.signing)? else {
            return Ok((branch, false));
        };
        match repository.propose(&branch, &proposed, known.as_ref().map(|known| &known.head))? {
            PushOutcome::Pushed => {
                tracing::info!(cluster.name = %view.name, stage.name = %commit.stage, git.branch = %branch, "proposed stage `{}` of `{}`", commit.stage, view.name);
                Ok((branch, true))
            }
            // Somebody else wrote to the branch meanwhile: the next pass looks at it again.
            PushOutcome::Lost { .. } => Ok((branch, false)),
            PushOutcome::RejectedByHook { message } => Err(anyhow::anyhow!(
                "a hook or rule of the repository refused the branch {branch}, which proposes stage {} of {}: {message}; allow Stepgate to \
                 write branches below {PREFIX}",
                commit.stage,
                view.name
            )),
        }
    }

    /// Whether a proposal changes the cluster's directory as it is now.
    fn is_on(&self, reading: &FleetReading, view: &ClusterView, proposal: &Proposal) -> Result<bool, GitError> {
        let repository = self.planner.repository();
        let Some(parent) = repository.parent(&proposal.commit)? else { return Ok(view.directory.ids == (None, None)) };
        let snapshot = repository.deploy_snapshot(&reading.layout, &parent)?;
        Ok(ClusterDirectory::read(&snapshot, &view.name)?.ids == view.directory.ids)
    }

    /// Takes back what was proposed for this cluster and is void: another plan's, a stage's that is no longer next, and one whose gate has
    /// failed since. A rejection stays as long as its plan does.
    pub(in crate::controller) async fn withdraw_void(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        askings: &[Asking],
        effects: &[Effect],
    ) -> Result<(), anyhow::Error> {
        let repository = self.planner.repository();
        self.tell_rejected(reading, view, askings).await;
        let held = effects.iter().any(|effect| matches!(effect, Effect::Hold { .. }));
        let asked: Vec<_> = asked(view).map(|(plan, scope)| (branch(&plan.rollout_id, &scope), plan)).collect();
        for branch in repository.branches()?.into_iter().filter(|branch| branch.as_str().starts_with(PREFIX)) {
            let Some(proposal) = Proposal::read(repository, &branch)? else { continue };
            if proposal.trailers.cluster != view.name {
                continue;
            }
            let wanted = asked.iter().any(|(name, plan)| {
                name.as_ref().is_ok_and(|name| *name == branch) && proposal.trailers.plan == plan.digest
            });
            let rejected = askings.iter().any(|asking| asking.branch == branch && asking.is_rejected());
            if !wanted || (held && !rejected) {
                self.close(reading, view, &proposal, wanted).await;
                repository.withdraw(&branch, &proposal.head)?;
                tracing::info!(cluster.name = %view.name, git.branch = %branch, "withdrew `{branch}`: it proposes nothing that could be committed now");
            }
        }
        Ok(())
    }
}
