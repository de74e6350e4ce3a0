//! Carrying out an effect: visiting the cluster, committing, pushing.

use std::sync::Arc;

use jiff::SignedDuration;
use overlays::RenderedTree;
use rollout::{ClusterAct, Effect, Observation, Reason, StageCommit, StageName, World};

use crate::reconcile::Controller;
use crate::reconcile::clusters::cluster_timeout::ClusterTimeout;
use crate::reconcile::effects::commit::{self, Signature, StaleDecision};
use crate::reconcile::main_loop::report::{ClosedStage, ClusterOutcome, ClusterPass, CommittedStage};
use crate::reconcile::main_loop::visit::Visit;
use crate::reconcile::observe::explain::standing;
use crate::reconcile::planner::{ClusterView, FleetReading};
use cluster::{BackupRequest, Freshness};
use git::{CommitDraft, CommitOutcome, PushOutcome};

/// What is due within this time is done in the same pass.
const AT_ONCE: SignedDuration = SignedDuration::from_millis(5);

impl Controller {
    pub(in crate::reconcile) async fn perform(
        &self,
        reading: &FleetReading,
        view: &Arc<ClusterView>,
        world: &World,
        effect: Effect,
        pass: &mut ClusterPass,
        answering: &ClusterTimeout,
    ) -> Result<Performed, anyhow::Error> {
        let now = self.clock.now();
        match effect {
            Effect::Observe { confirm, at } => {
                if at.duration_since(now) > AT_ONCE {
                    pass.next = Some(pass.next.map_or(at, |next| next.min(at)));
                    return Ok(Performed::Nothing);
                }
                self.clock.sleep_until(at).await;
                let freshness = if confirm { Freshness::Fresh } else { Freshness::WatchEvidence };
                let visit = Box::pin(self.visit(reading, view, world, freshness, answering));
                match answering.wait(self.clock.as_ref(), visit).await {
                    Visit::Waits(outcome, next) => {
                        pass.outcome = outcome;
                        pass.next = Some(pass.next.map_or(next, |known| known.min(next)));
                        Ok(Performed::Waits)
                    }
                    Visit::Read(readings) => {
                        // Applied once more, a field that somebody had taken over is ours again if its value is that of git by now.
                        let is_taken = readings.reading().observation().is_some_and(|read| !read.taken.is_empty());
                        let tanzu = readings.reading().observation().and_then(|read| standing(view, read));
                        self.remember(&view.name, |memory| {
                            if tanzu.is_some() {
                                memory.tanzu = tanzu;
                            }
                            memory.applied = memory.applied.filter(|_| !is_taken);
                            memory.fast_path = readings;
                            memory.read = Some(view.directory.ids);
                        });
                        Ok(Performed::Again)
                    }
                }
            }
            Effect::Backup { rollout, .. } => {
                let cluster = self.handle(reading, view);
                let policy::BackupPolicy { keep, keep_for, .. } = reading.fleet.policy.backup;
                let request = BackupRequest { rollout, at: now, keep, keep_for };
                if let Err(error) = answering.wait(self.clock.as_ref(), cluster.back_up(&request)).await {
                    tracing::warn!(cluster.name = %view.name, %error, "backup of `{}` failed", view.name);
                }
                // Only a new reading shows the report.
                self.remember(&view.name, |memory| memory.fast_path.forget());
                Ok(Performed::Again)
            }
            Effect::Etcd(act) => {
                let cluster = self.handle(reading, view);
                if let Err(error) = answering.wait(self.clock.as_ref(), cluster.act_on_etcd(&act, now)).await {
                    tracing::warn!(cluster.name = %view.name, %error, "external etcd of `{}` is left to people", view.name);
                    // What people can do is said by what follows.
                    return Ok(Performed::Nothing);
                }
                self.remember(&view.name, |memory| memory.fast_path.forget());
                Ok(Performed::Again)
            }
            Effect::Cluster(act) => {
                let cluster = self.handle(reading, view);
                if let Err(error) = answering.wait(self.clock.as_ref(), cluster.act(&act, now)).await {
                    tracing::warn!(cluster.name = %view.name, %error, "machines of `{}` are left as they are", view.name);
                    return Ok(Performed::Nothing);
                }
                // What is written on machines changes nothing that is decided.
                if matches!(act, ClusterAct::Sign { .. }) {
                    return Ok(Performed::Nothing);
                }
                self.remember(&view.name, |memory| memory.fast_path.forget());
                Ok(Performed::Again)
            }
            Effect::OrderMachines { changes } => {
                let cluster = self.handle(reading, view);
                let ordering = cluster.order_machines(&changes, now);
                // The rollout goes on without it: the next reading shows what is still missing.
                if let Err(error) = answering.wait(self.clock.as_ref(), ordering).await {
                    tracing::warn!(cluster.name = %view.name, %error, "machines of `{}` could not be marked", view.name);
                }
                Ok(Performed::Nothing)
            }
            Effect::Commit(mut commit) => {
                self.dump_before(reading, view, &mut commit.ledger, answering).await;
                self.commit_stage(reading, view, &commit, false, pass)
            }
            Effect::Revert(commit) => self.commit_stage(reading, view, &commit, true, pass),
            Effect::Close(mut close) => {
                self.dump_after(reading, view, &mut close.ledger, answering).await;
                let signature = Signature::of(&reading.fleet.policy, self.planner.signing())?;
                let draft = commit::close_draft(&close, &view.directory, &signature, now)?;
                let evidence = close.ledger.verified.as_ref().map(evidence_lines).unwrap_or_default();
                let stage = StageName::Verify.into();
                self.push(reading, view, &draft, &signature, CommittedDraft { stage, reverted: false, evidence }, pass)
            }
            // People are asked once for all clusters, at the end of the pass.
            Effect::RequestApproval(request) => {
                // What is proposed stays as it was made; the dump is found again by its rollout.
                let mut ledger = request.commit.ledger;
                self.dump_before(reading, view, &mut ledger, answering).await;
                Ok(Performed::Nothing)
            }
            Effect::Wait { stage, mut reason, until } => {
                if stage.as_ref().is_some_and(|stage| stage.name == StageName::Fargate) {
                    let refused = Box::pin(self.restart_on_fargate(reading, view, world, answering)).await;
                    reason = refused.into_iter().fold(reason, Reason::and);
                }
                if let Some(stage) = stage.as_ref().filter(|stage| matches!(stage.name, StageName::Workers(_))) {
                    let forced = Box::pin(self.force_refused(reading, view, world, stage, answering)).await;
                    reason = forced.into_iter().fold(reason, Reason::and);
                }
                if let Some(until) = until {
                    pass.next = Some(pass.next.map_or(until, |next| next.min(until)));
                }
                pass.outcome = match (stage, world.observation.as_deref().and_then(Observation::hold)) {
                    // Whoever looks at it is told that people have stopped it.
                    (Some(stage), Some(_)) => {
                        let help = reason.help.clone().unwrap_or_default();
                        ClusterOutcome::Held { stage: Some(stage), reasons: vec![reason], help }
                    }
                    (stage, _) => ClusterOutcome::Waiting { stage, reason, until },
                };
                Ok(Performed::Nothing)
            }
            Effect::Hold { stage, reasons, help } => {
                pass.outcome = ClusterOutcome::Held { stage: Some(stage), reasons, help };
                Ok(Performed::Nothing)
            }
            Effect::Blocked { reasons } => {
                pass.outcome = ClusterOutcome::Blocked { reasons };
                Ok(Performed::Nothing)
            }
            Effect::Done => {
                pass.outcome = ClusterOutcome::Done;
                Ok(Performed::Nothing)
            }
        }
    }

    fn commit_stage(
        &self,
        reading: &FleetReading,
        view: &Arc<ClusterView>,
        commit: &StageCommit,
        revert: bool,
        pass: &mut ClusterPass,
    ) -> Result<Performed, anyhow::Error> {
        let signature = Signature::of(&reading.fleet.policy, self.planner.signing())?;
        let now = self.clock.now();
        let draft = if revert {
            let (restored, current) = self.restored(reading, view, commit)?;
            commit::revert_draft(commit, &view.directory, &restored, &current, &signature, now)
        } else {
            let parts = match &view.running {
                Some((plan, parts)) if plan.digest == commit.plan => parts.as_ref(),
                _ => view.parts.as_ref(),
            };
            commit::stage_draft(commit, &view.directory, parts, &signature, now)
        };
        let draft = match draft {
            Ok(draft) => draft,
            Err(StaleDecision::Git(error)) => return Err(error.into()),
            Err(stale) => return Err(stale.into()),
        };
        let record = commit.ledger.last_record(&commit.stage);
        let evidence = record.and_then(|record| record.opened_by.as_ref()).map(evidence_lines).unwrap_or_default();
        let made = CommittedDraft { stage: commit.stage.clone(), reverted: revert, evidence };
        self.push(reading, view, &draft, &signature, made, pass)
    }

    /// The part of a reverted stage as it was before, and as it is.
    fn restored(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        commit: &StageCommit,
    ) -> Result<(RenderedTree, RenderedTree), anyhow::Error> {
        let undone =
            commit.undoes.as_ref().ok_or_else(|| anyhow::anyhow!("the revert of {} names no commit", commit.stage))?;
        let parent = self.planner.repository().parent(undone)?;
        let parent = parent.ok_or_else(|| anyhow::anyhow!("commit {undone} has no parent to go back to"))?;
        let snapshot = self.planner.repository().deploy_snapshot(&reading.layout, &parent)?;
        let before = crate::reconcile::clusters::directory::read(&snapshot, &view.name)?;
        let parts = view.running.as_ref().map_or(&view.parts, |(_, parts)| parts);
        let part = parts.iter().find(|part| part.stage == commit.stage);
        let part = part.ok_or_else(|| anyhow::anyhow!("the plan has no stage {} any more", commit.stage))?;
        let scope = part.scope(&view.name);
        let within = |tree: &RenderedTree| -> RenderedTree {
            let mut found = RenderedTree::new();
            for folder in &scope {
                found.extend(&tree.below(folder));
            }
            found
        };
        Ok((within(&before.files), within(&view.directory.files)))
    }

    fn push(
        &self,
        reading: &FleetReading,
        view: &Arc<ClusterView>,
        draft: &CommitDraft,
        signature: &Signature,
        made: CommittedDraft,
        pass: &mut ClusterPass,
    ) -> Result<Performed, anyhow::Error> {
        let (repository, now) = (self.planner.repository(), self.clock.now());
        let branch = &reading.layout.branch;
        if repository.head(branch)? != draft.parent {
            return Ok(Performed::Moved);
        }
        let commit = match repository.commit(draft, &signature.signing)? {
            CommitOutcome::Created(commit) => commit,
            CommitOutcome::Unchanged => return Ok(Performed::Moved),
        };
        match repository.push(branch, &commit, draft.parent.as_ref())? {
            PushOutcome::Pushed => {
                tracing::info!(cluster.name = %view.name, stage.name = %made.stage, git.commit = %commit, "committed stage `{}` of `{}`", made.stage, view.name);
                let ledger = view.directory.ledger().filter(|_| !made.reverted);
                let follows = ledger.and_then(|ledger| {
                    let stage = ledger.stages.last()?.stage.clone();
                    Some(ClosedStage { stage, took: self.clock.now().duration_since(ledger.stage_since()?) })
                });
                self.stands(&view.name, view.progress().begun(now));
                pass.committed.push(CommittedStage {
                    stage: made.stage,
                    commit,
                    reverted: made.reverted,
                    evidence: made.evidence,
                    follows,
                });
                Ok(Performed::Pushed)
            }
            PushOutcome::Lost { actual } => {
                tracing::info!(cluster.name = %view.name, ?actual, "lost the race for `{branch}`; planning again");
                Ok(Performed::Moved)
            }
            PushOutcome::RejectedByHook { message } => Err(anyhow::anyhow!(
                "a hook of the repository rejected stage {} of {}: {message}; nothing was pushed, and the next pass tries again",
                made.stage,
                view.name
            )),
        }
    }
}

/// What carrying out an effect leads to.
pub(in crate::reconcile) enum Performed {
    Nothing,
    /// Nothing more can be done now, whatever else was to be.
    Waits,
    Again,
    Moved,
    Pushed,
}

/// What is said of a commit once it is pushed.
struct CommittedDraft {
    stage: rollout::StageId,
    reverted: bool,
    evidence: Vec<String>,
}

fn evidence_lines(evidence: &rollout::Evidence) -> Vec<String> {
    evidence.facts.iter().map(|fact| format!("{}: {}", fact.object, fact.seen)).collect()
}
