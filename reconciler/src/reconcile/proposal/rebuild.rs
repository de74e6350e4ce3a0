//! Writing a proposed branch anew: what lies there for the same plan stays as it is, and so does what people said of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::ClusterName;
use rollout::{ApprovalRequest, Plan};

use super::ask::Position;
use super::body_path;
use super::build::{Layer, build};
use super::stack::{Proposal, Stack};
use super::wanted::Wanted;
use crate::reconcile::Controller;
use crate::reconcile::effects::commit::{Signature, StaleDecision, stage_draft};
use crate::reconcile::planner::{ClusterView, FleetReading};
use approvals::PREFIX;
use approvals::text::body;
use approvals::words::Subject;
use domain::BranchName;
use git::{CommitDraft, GitError, PushOutcome};

impl Controller {
    /// The commit of one cluster: what is proposed already for this plan and stage on the directory as it is now, else a new one. None where
    /// there is nothing to propose after all.
    pub(super) fn layer(
        &self,
        reading: &FleetReading,
        branch: &BranchName,
        stack: Option<&Stack>,
        wanted: &Wanted<'_>,
    ) -> Result<Option<Layer>, anyhow::Error> {
        let (view, repository) = (&wanted.position.view, self.planner.repository());
        let up_to_date = |known: &Proposal| -> Result<bool, GitError> {
            let same = wanted.request.is_none_or(|request| known.trailers.stage == request.commit.stage);
            Ok(same && known.is_on(repository, reading, view)?)
        };
        // As the branch is now: another process may have proposed it since the pass began.
        let known = stack.and_then(|stack| stack.proposal(&wanted.asking.subject(view)));
        let mut forged = None;
        if let Some(known) = known.filter(|known| known.trailers.plan == wanted.asking.plan)
            && up_to_date(&known)?
        {
            if self.knows_as_ours(reading, view, (wanted.plan, &wanted.asking.scope), &known)? {
                return Ok(Some(Layer::Known(view.name.clone(), known.commit)));
            }
            forged = Some(known);
        }
        let Some(request) = wanted.request else { return Ok(None) };
        let on = (branch, stack, forged.as_ref());
        self.draft(reading, on, view, wanted.plan, request).map(|draft| Some(Layer::New(Box::new(draft))))
    }

    /// The same where the branch is written anew for another reason: what people changed of a commit that stays goes all the same, so that is
    /// made anew too and says so.
    pub(super) fn with_lost(
        &self,
        reading: &FleetReading,
        branch: &BranchName,
        stack: Option<&Stack>,
        wanted: &BTreeMap<ClusterName, Wanted<'_>>,
        layers: Vec<Layer>,
    ) -> Result<Vec<Layer>, anyhow::Error> {
        let again = |layer: Layer| {
            let Layer::Known(cluster, _) = &layer else { return Ok(layer) };
            let of = wanted.get(cluster).and_then(|wanted| Some((wanted, wanted.request?)));
            match of.filter(|_| stack.is_some_and(|stack| stack.is_edited_for(cluster))) {
                Some((wanted, request)) => {
                    let view = &wanted.position.view;
                    let draft = self.draft(reading, (branch, stack, None), view, wanted.plan, request)?;
                    Ok(Layer::New(Box::new(draft)))
                }
                None => Ok(layer),
            }
        };
        layers.into_iter().map(again).collect()
    }

    fn draft(
        &self,
        reading: &FleetReading,
        (branch, stack, forged): (&BranchName, Option<&Stack>, Option<&Proposal>),
        view: &ClusterView,
        plan: &Plan,
        request: &ApprovalRequest,
    ) -> Result<CommitDraft, anyhow::Error> {
        let parts = match &view.running {
            Some((running, parts)) if running.digest == plan.digest => parts.as_ref(),
            _ => view.parts.as_ref(),
        };
        let signature = Signature::of(&reading.fleet.policy, self.planner.signing())?;
        let mut draft = match stage_draft(&request.commit, &view.directory, parts, &signature, self.clock.now()) {
            Ok(draft) => draft,
            Err(StaleDecision::Git(error)) => return Err(error.into()),
            Err(stale) => return Err(stale.into()),
        };
        let lost = self.lost(reading, (branch, stack, forged), view, (plan, parts))?;
        let ApprovalRequest { scope, commit, .. } = request;
        let asked = body::Asked { scope, stage: &commit.stage, source: &commit.source, ledger: &commit.ledger };
        let text = body::text(plan, &asked, parts, (branch, &reading.layout.branch), &lost);
        draft.edits.insert(body_path(&view.name)?, Some(Arc::from(text.into_bytes())));
        Ok(draft)
    }

    /// Writes a branch anew; none where somebody else was faster. What people said of plans that are asked still stays on it, and so does
    /// what they said of clusters of which nothing is known now (`undecided`).
    pub(super) fn rebuild(
        &self,
        reading: &FleetReading,
        branch: &BranchName,
        stack: Option<&Stack>,
        layers: Vec<Layer>,
        (positions, undecided): (&BTreeMap<ClusterName, Position>, &BTreeSet<ClusterName>),
    ) -> Result<Option<Stack>, anyhow::Error> {
        let repository = self.planner.repository();
        let subjects: Vec<Subject> = positions
            .values()
            .flat_map(|position| position.askings.iter().map(|asking| asking.subject(&position.view)))
            .collect();
        let about = |word: &&super::stack::Spoken| {
            subjects.iter().any(|subject| word.names(subject)) || undecided.iter().any(|cluster| word.concerns(cluster))
        };
        let words: Vec<_> = stack.into_iter().flat_map(|stack| stack.words.iter().rev().filter(about)).collect();
        let words: Vec<_> = words.into_iter().map(|word| word.commit.clone()).collect();
        let clusters = layers.len();
        let signature = Signature::of(&reading.fleet.policy, self.planner.signing())?;
        // What lies there already need not be made again, unless the deploy branch has moved.
        let top = build(repository, reading, &signature, reading.deploy_head(), layers, &words)?;
        let Some(top) = top.filter(|top| Some(top) != reading.deploy_head()) else { return Ok(None) };
        let outcome = match repository.propose(branch, &top, stack.map(|stack| &stack.head)) {
            Ok(outcome) => outcome,
            Err(error) => return Err(self.why_not_there(branch, error)),
        };
        match outcome {
            PushOutcome::Pushed => {
                tracing::info!(git.branch = %branch, git.commit = %top, clusters, "proposed `{branch}` for {clusters} clusters");
                Ok(Some(Stack::at(repository, reading, branch, top)?))
            }
            PushOutcome::Lost { .. } => Ok(None),
            PushOutcome::RejectedByHook { message } => Err(anyhow::anyhow!(
                "a hook or rule of the repository refused the branch {branch}, which proposes {clusters} commits: {message}; allow Stepgate to \
                 write branches below {PREFIX}"
            )),
        }
    }

    /// Why a branch could not be written, where that is another one whose name ends in the middle of its name.
    fn why_not_there(&self, branch: &BranchName, error: GitError) -> anyhow::Error {
        let name = branch.as_str();
        let shorter = name.match_indices('/').filter_map(|(end, _)| name.get(..end)?.parse::<BranchName>().ok());
        for other in shorter {
            let other_is_there = self.planner.repository().refresh(std::slice::from_ref(&other)).is_ok()
                && self.planner.repository().head(&other).is_ok_and(|head| head.is_some());
            if other_is_there {
                return anyhow::anyhow!("branch {other} is in the way of {branch}: rename or delete it; {error}");
            }
        }
        error.into()
    }
}
