//! One pass: every cluster is brought as far as it can go now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt as _;
use jiff::SignedDuration;
use overlays::{Apply, ClusterSpec, RenderedTree};
use rollout::{
    ApprovalRecord, ClusterName, Effect, LedgerState, Pause, People, Prerequisite, StageCommit, StageName, World,
};

use super::access::Clusters;
use super::asking::request;
use super::commit::{self, Signature, StaleDecision};
use super::direct;
use super::directory::ClusterDirectory;
use super::planner::{ClusterView, FleetReading, PlanError, Planner};
use super::proposal::{self, Asking, Board, Mergers, Position};
use super::report::{ClusterOutcome, ClusterPass, CommittedStage, Pass};
use super::standing::{self, Standing};
use super::{Controller, Memory, Settled};
use crate::cluster::Cluster;
use crate::git::{CommitDraft, CommitOutcome, GitError, PushOutcome};

/// How many effects one cluster may carry out in one pass before the others have their turn again.
const EFFECTS_PER_PASS: usize = 100;

/// What is due within this time is done in the same pass.
const AT_ONCE: SignedDuration = SignedDuration::from_millis(5);

impl Controller {
    /// Brings every cluster as far as it can go now. What goes wrong with one cluster stays with it.
    ///
    /// # Errors
    /// [`GitError`] when the repository or the source branch cannot be read at all.
    pub async fn pass(&self) -> Result<Arc<Pass>, GitError> {
        self.forget_changed();
        let heads = self.heads()?;
        if let Some(settled) = self.settled_at(&heads) {
            return Ok(settled);
        }
        let reading = self.read()?;
        let management = |cluster: &&ClusterSpec| cluster.is_management();
        let clusters = &reading.fleet.clusters;
        self.make_views(&reading, &clusters.iter().collect::<Vec<_>>());
        // Management clusters first, so that the clusters that wait for them see this pass' result.
        let (first, second): (Vec<_>, Vec<_>) = clusters.iter().partition(management);
        let open = self.open_pulls.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let board = Board::knowing(open);
        let mut works = self.work_on(&reading, &board, first).await;
        works.extend(self.work_on(&reading, &board, second).await);
        self.ask_people(&reading, board, &mut works).await?;
        let mut passes: Vec<ClusterPass> = works.into_iter().map(|work| work.pass).collect();
        // In the order of the fleet, which is that of names.
        passes.sort_by(|left, right| left.cluster.cmp(&right.cluster));
        passes.extend(reading.fleet.unreadable_clusters().into_iter().map(|name| self.unreadable(&reading, name)));
        let pass = Arc::new(Pass { clusters: passes });
        self.settle(heads, &pass);
        Ok(pass)
    }

    fn heads(&self) -> Result<crate::git::Heads, GitError> {
        let mut branches = vec![self.planner.source_branch().clone()];
        let reading = self.reading.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        branches.extend(reading.as_ref().map(|reading| reading.layout.branch.clone()));
        drop(reading);
        self.planner.repository().heads(&branches)
    }

    fn settled_at(&self, heads: &crate::git::Heads) -> Option<Arc<Pass>> {
        let settled = self.settled.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        settled.as_ref().filter(|settled| &settled.heads == heads).map(|settled| Arc::clone(&settled.pass))
    }

    /// `heads` are those from before the pass: what was pushed while it went on has not been looked at.
    fn settle(&self, heads: crate::git::Heads, pass: &Arc<Pass>) {
        let quiet =
            pass.clusters.iter().all(|cluster| cluster.outcome == ClusterOutcome::Done && cluster.committed.is_empty());
        let settled = quiet.then(|| Settled { heads, pass: Arc::clone(pass) });
        *self.settled.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = settled;
    }

    async fn work_on(&self, reading: &FleetReading, board: &Board, clusters: Vec<&ClusterSpec>) -> Vec<Work> {
        let work = clusters.into_iter().map(|cluster| self.cluster(reading, board, cluster));
        futures::stream::iter(work).buffer_unordered(self.concurrency).collect().await
    }

    /// Asks people for everything that waits for them, once for all clusters. Those of which there is something new to say then are decided
    /// about once more, so that the pass says where people are asked.
    async fn ask_people(&self, reading: &FleetReading, board: Board, works: &mut [Work]) -> Result<(), GitError> {
        if !works.iter().filter_map(|work| work.position.as_ref()).any(|position| asks_people(&position.view)) {
            return Ok(());
        }
        let (mut positions, mut undecided) = (BTreeMap::new(), BTreeSet::new());
        for work in works.iter() {
            let Ok(name) = work.pass.cluster.parse::<ClusterName>() else { continue };
            match &work.position {
                Some(position) => drop(positions.insert(name, position.clone())),
                None if work.pass.outcome == ClusterOutcome::Done => {}
                None => drop(undecided.insert(name)),
            }
        }
        undecided.extend(reading.fleet.unreadable_clusters().into_iter().filter_map(|name| name.parse().ok()));
        let asked = self.ask(reading, &board, &positions, &undecided).await?;
        let open = board.open_ones().await;
        *self.open_pulls.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = open;
        let (reading, board) = if asked.landed {
            (self.planner.read_deploy(Arc::clone(&reading.source))?, Board::default())
        } else {
            (reading.clone(), board)
        };
        for work in works.iter_mut() {
            let is = |name: &ClusterName| name.as_str() == work.pass.cluster;
            let concerned = asked.told.iter().any(is) || (asked.landed && work.position.is_some());
            if let Some(cluster) = reading.fleet.cluster(&work.pass.cluster).filter(|_| concerned) {
                let before = std::mem::take(&mut work.pass.committed);
                *work = self.cluster(&reading, &board, cluster).await;
                work.pass.committed.splice(0..0, before);
            }
        }
        for (name, error) in asked.failed {
            for work in works.iter_mut().filter(|work| name.as_str() == work.pass.cluster) {
                work.fail(&error);
            }
        }
        for name in asked.later {
            for work in works.iter_mut().filter(|work| name.as_str() == work.pass.cluster) {
                if let ClusterOutcome::Waiting { reason, .. } = &mut work.pass.outcome {
                    reason.message.push_str("; it is asked for when its wave has a place for it");
                }
            }
        }
        Ok(())
    }

    /// A cluster whose files cannot be read: it stays where it is, and the others go on.
    fn unreadable(&self, reading: &FleetReading, name: &str) -> ClusterPass {
        let message = match self.planner.view(reading, name) {
            Err(error) => error.to_string(),
            Ok(_) => format!("cluster {name} could not be read"),
        };
        tracing::error!(cluster.name = %name, "cluster `{name}` was not moved on: {message}");
        let help = Some("`stepgate check` lists what to repair".to_owned());
        let outcome = ClusterOutcome::Failed { message, help };
        ClusterPass { cluster: name.to_owned(), committed: Vec::new(), outcome, proposed: None, next: None }
    }

    async fn cluster(&self, reading: &FleetReading, board: &Board, cluster: &ClusterSpec) -> Work {
        let pass = ClusterPass {
            cluster: cluster.name.clone(),
            committed: Vec::new(),
            outcome: ClusterOutcome::Failed { message: "not decided yet".to_owned(), help: None },
            proposed: None,
            next: None,
        };
        let mut work = Work { pass, position: None };
        let name = cluster.name.parse::<ClusterName>().ok();
        let state = Self::state(reading, cluster);
        if let Some(name) = &name
            && state.is_some()
            && self.memory(name).done == state
        {
            work.pass.outcome = ClusterOutcome::Done;
            return work;
        }
        match self.advance(reading, board, cluster, &mut work.pass).await {
            Ok(position) => work.position = position,
            Err(error) => work.fail(&error),
        }
        let pass = &work.pass;
        if let Some(name) = name {
            // Of a cluster that is done the view is let go: its files need not be kept in memory.
            let done = state.filter(|_| pass.outcome == ClusterOutcome::Done && pass.committed.is_empty());
            self.remember(&name, |memory| {
                let reaches_far = memory.view.as_ref().is_some_and(|(_, view)| view.reaches_far);
                memory.done = done.filter(|_| !reaches_far);
                if memory.done.is_some() {
                    (memory.view, memory.observation) = (None, None);
                }
            });
            if pass.outcome == ClusterOutcome::Done {
                self.clusters.cluster(cluster).rest();
            }
        }
        work
    }

    /// Asks `step` and carries out what it says, until it says nothing that can be done now but to ask people.
    async fn advance(
        &self,
        reading: &FleetReading,
        board: &Board,
        cluster: &ClusterSpec,
        pass: &mut ClusterPass,
    ) -> Result<Option<Position>, anyhow::Error> {
        let mut reading = reading.clone();
        let mut turn = None;
        for _ in 0..EFFECTS_PER_PASS {
            let view = self.current_view(&reading, cluster)?;
            let now = self.clock.now();
            let mut askings = proposal::askings(&self.planner, board, &reading, &view).await?;
            for asking in askings.iter_mut() {
                asking.problem = self.problem(&asking.branch);
            }
            let people = proposal::people(&self.planner, board, &reading, &view).await?;
            if people.retries.is_empty() && self.retry_by_comment(&reading, board, &view).await {
                reading = self.planner.read_deploy(Arc::clone(&reading.source))?;
                continue;
            }
            let world = self.world(&reading, board, &view, &askings, people, now).await;
            let effects = rollout::step(&world, now);
            if !effects.iter().any(writes) {
                drop(turn.take());
            } else if turn.is_none() {
                turn = Some(self.writing.lock().await);
                // Somebody may have written while we waited for our turn: then everything is decided anew from there.
                if self.planner.repository().head(&reading.layout.branch)?.as_ref() != reading.deploy_head() {
                    reading = self.planner.read_deploy(Arc::clone(&reading.source))?;
                    continue;
                }
            }
            let mut again = false;
            (pass.next, pass.proposed) = (None, None);
            let held = effects.iter().any(|effect| matches!(effect, Effect::Hold { .. }));
            let mut position = Position { view: Arc::clone(&view), askings, request: None, held };
            for effect in effects {
                if let Effect::RequestApproval(request) = effect {
                    let is_for = |asking: &&Asking| asking.is_for(&request);
                    pass.proposed = position.askings.iter().find(is_for).map(|asking| asking.branch.clone());
                    position.request = Some(request);
                    continue;
                }
                match self.perform(&reading, &view, &world, effect, pass).await? {
                    Performed::Nothing => {}
                    Performed::Again => again = true,
                    Performed::Pushed => {
                        drop(turn.take());
                        // What was read before the commit says nothing about it.
                        self.remember(&view.name, |memory| memory.observation = None);
                        reading = self.planner.read_deploy(Arc::clone(&reading.source))?;
                        again = true;
                        break;
                    }
                    Performed::Moved => {
                        // The deploy branch moved, by us or by somebody else: everything is decided anew from there.
                        reading = self.planner.read_deploy(Arc::clone(&reading.source))?;
                        again = true;
                        break;
                    }
                }
            }
            drop(turn.take());
            if !again {
                return Ok(Some(position));
            }
        }
        pass.next = Some(self.clock.now());
        Ok(None)
    }

    async fn world(
        &self,
        reading: &FleetReading,
        board: &Board,
        view: &ClusterView,
        askings: &[Asking],
        people: People,
        now: jiff::Timestamp,
    ) -> World {
        let prerequisite = {
            let standings = self.standings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            standing::prerequisite(&reading.fleet, &view.cluster, &standings)
        };
        let memory = self.memory(&view.name);
        let mut mergers = memory.mergers.clone();
        let approvals = askings.iter().filter_map(Asking::record).collect();
        let mut world = world(reading, view, memory, prerequisite.into_iter().collect(), approvals);
        world.people = people;
        proposal::name_mergers(&self.planner, board, reading, view, &mut world.deploy, &mut mergers).await;
        world.history = rollout::record(&world, now);
        self.remember(&view.name, |memory| {
            memory.history = world.history.clone();
            memory.mergers = mergers;
        });
        world
    }

    async fn perform(
        &self,
        reading: &FleetReading,
        view: &Arc<ClusterView>,
        world: &World,
        effect: Effect,
        pass: &mut ClusterPass,
    ) -> Result<Performed, anyhow::Error> {
        let now = self.clock.now();
        match effect {
            Effect::Observe { confirm, at } => {
                if at.duration_since(now) > AT_ONCE {
                    pass.next = Some(pass.next.map_or(at, |next| next.min(at)));
                    return Ok(Performed::Nothing);
                }
                self.clock.sleep_until(at).await;
                let now = self.clock.now();
                let cluster = self.clusters.cluster(&view.cluster);
                self.ensure_applied(reading, view, cluster.as_ref(), now).await;
                self.ensure_told(reading, view, cluster.as_ref(), now).await;
                let request = request(view, world, confirm, now);
                // First the watches: what changes after the reading is told, and nothing in between is missed.
                cluster.follow(&request).await;
                let observation = cluster.observe(&request).await;
                self.remember(&view.name, |memory| memory.observation = Some(observation));
                Ok(Performed::Again)
            }
            Effect::Backup { rollout, .. } => {
                if let Err(error) = self.clusters.cluster(&view.cluster).back_up(&rollout, now).await {
                    tracing::warn!(cluster.name = %view.name, %error, "backup of `{}` failed", view.name);
                }
                // Only a new reading shows the report.
                self.remember(&view.name, |memory| memory.observation = None);
                Ok(Performed::Again)
            }
            Effect::Commit(commit) => self.commit_stage(reading, view, &commit, false, pass),
            Effect::Revert(commit) => self.commit_stage(reading, view, &commit, true, pass),
            Effect::Close(close) => {
                let signature = Signature::of(&reading.fleet.policy)?;
                let draft = commit::close_draft(&close, &view.directory, &signature, now)?;
                let evidence = close.ledger.verified.as_ref().map(evidence_lines).unwrap_or_default();
                let stage = StageName::Verify.into();
                self.push(reading, view, &draft, &signature, CommittedDraft { stage, reverted: false, evidence }, pass)
            }
            // People are asked once for all clusters, at the end of the pass.
            Effect::RequestApproval(_) => Ok(Performed::Nothing),
            Effect::Wait { stage, reason, until } => {
                if let Some(until) = until {
                    pass.next = Some(pass.next.map_or(until, |next| next.min(until)));
                }
                pass.outcome = ClusterOutcome::Waiting { stage, reason, until };
                Ok(Performed::Nothing)
            }
            Effect::Hold { stage, reasons, help } => {
                pass.outcome = ClusterOutcome::Held { stage, reasons, help };
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
        let signature = Signature::of(&reading.fleet.policy)?;
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
        let before = ClusterDirectory::read(&snapshot, &view.name)?;
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
        let repository = self.planner.repository();
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
                self.stands(&view.name, Standing::of(view).begun());
                pass.committed.push(CommittedStage {
                    stage: made.stage,
                    commit,
                    reverted: made.reverted,
                    evidence: made.evidence,
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

    /// Flux is told of a commit before its effect is looked for, whoever brought it onto the branch: it would find it at its own interval, which
    /// may be an hour. A new process cannot know what the one before it told, and tells it once more.
    async fn ensure_told(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        cluster: &dyn Cluster,
        now: jiff::Timestamp,
    ) {
        let runs = view.directory.ledger().is_some_and(|ledger| ledger.state == LedgerState::Running);
        if !runs
            || reading.fleet.policy.apply != Apply::Flux
            || self.memory(&view.name).told == Some(view.directory.ids)
        {
            return;
        }
        if let Err(error) = cluster.nudge(&view.flux_references(), now).await {
            tracing::warn!(cluster.name = %view.name, %error, "Flux was not told of the commit; it finds it at its own interval");
        }
        self.remember(&view.name, |memory| memory.told = Some(view.directory.ids));
    }

    /// Without Flux the directory is applied by us: after a commit, and once by each new process, since it cannot know what the
    /// one before it still did.
    async fn ensure_applied(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        cluster: &dyn Cluster,
        now: jiff::Timestamp,
    ) {
        let Some(commit) = reading.deploy_head().filter(|_| reading.fleet.policy.apply == Apply::Direct) else {
            return;
        };
        if self.memory(&view.name).applied == Some(view.directory.ids) {
            return;
        }
        let request = direct::request(&reading.fleet, view, commit);
        match cluster.apply(&request, now).await {
            Ok(report) => direct::tell(view, &report),
            Err(error) => {
                // The next observation carries the problem, so the gate says it.
                tracing::warn!(cluster.name = %view.name, %error, "could not apply the directory of `{}`", view.name);
                return;
            }
        }
        self.remember(&view.name, |memory| memory.applied = Some(view.directory.ids));
    }

    /// What the next pass would decide about a cluster, from one reading. Nothing is written anywhere.
    ///
    /// # Errors
    /// [`PlanError`] when proposed branches, or the commits that people are judged by, cannot be read.
    pub async fn explain(
        planner: &Planner,
        reading: &FleetReading,
        view: &ClusterView,
        clusters: &dyn Clusters,
        now: jiff::Timestamp,
    ) -> Result<ClusterOutcome, PlanError> {
        let board = Board::default();
        let askings = proposal::askings(planner, &board, reading, view).await?;
        let approvals = askings.iter().filter_map(Asking::record).collect();
        let mut world = world(reading, view, Memory::default(), Vec::new(), approvals);
        world.people = proposal::people(planner, &board, reading, view).await?;
        proposal::name_mergers(planner, &board, reading, view, &mut world.deploy, &mut Mergers::default()).await;
        world.observation = Some(clusters.cluster(&view.cluster).observe(&request(view, &world, true, now)).await);
        world.history = rollout::record(&world, now);
        for effect in rollout::step(&world, now) {
            match effect {
                Effect::Wait { stage, reason, until } => return Ok(ClusterOutcome::Waiting { stage, reason, until }),
                Effect::Hold { stage, reasons, help } => return Ok(ClusterOutcome::Held { stage, reasons, help }),
                Effect::Blocked { reasons } => return Ok(ClusterOutcome::Blocked { reasons }),
                Effect::Done => return Ok(ClusterOutcome::Done),
                Effect::Commit(commit) => {
                    let reason =
                        rollout::Reason::new("its gate is open; the controller commits it next").help("stepgate run");
                    return Ok(ClusterOutcome::Waiting { stage: Some(commit.stage), reason, until: None });
                }
                Effect::Observe { .. }
                | Effect::Backup { .. }
                | Effect::RequestApproval(_)
                | Effect::Revert(_)
                | Effect::Close(_) => {}
            }
        }
        let reason = rollout::Reason::new("the controller has something to do").help("stepgate run");
        Ok(ClusterOutcome::Waiting { stage: None, reason, until: None })
    }
}

/// What a pass did for one cluster, and where it stands with people; none where nothing was decided.
struct Work {
    pass: ClusterPass,
    position: Option<Position>,
}

impl Work {
    fn fail(&mut self, error: &anyhow::Error) {
        let (name, message) = (&self.pass.cluster, format!("{error:#}"));
        let help = error.chain().find_map(|cause| cause.downcast_ref::<GitError>().and_then(GitError::hint));
        tracing::error!(cluster.name = %name, error = message, hint = help, "cluster `{name}` was not moved on");
        self.pass.outcome = ClusterOutcome::Failed { message, help };
    }
}

/// Whether an effect writes to the deploy branch.
fn writes(effect: &Effect) -> bool {
    matches!(effect, Effect::Commit(_) | Effect::Revert(_) | Effect::Close(_))
}

/// What carrying out an effect leads to.
enum Performed {
    Nothing,
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

/// Whether people are asked anything about this cluster, by its newest plan or by the one that is running.
fn asks_people(view: &ClusterView) -> bool {
    let plans = [Some(&view.plan), view.running.as_ref().map(|(plan, _)| plan)];
    let mut stages = plans.into_iter().flatten().flat_map(|plan| &plan.stages);
    stages.any(|stage| rollout::approval_scope(stage).is_some())
}

fn world(
    reading: &FleetReading,
    view: &ClusterView,
    memory: Memory,
    prerequisites: Vec<Prerequisite>,
    approvals: Vec<ApprovalRecord>,
) -> World {
    let policy = &reading.fleet.policy;
    let by_policy = policy.is_paused(view.name.as_str());
    let place = if by_policy { "stepgate.yaml".to_owned() } else { format!("the specification of {}", view.name) };
    World {
        plan: view.plan.clone(),
        running: view.running.as_ref().map(|(plan, _)| plan.clone()),
        ledger: view.directory.ledger().cloned(),
        deploy: view.head.clone(),
        observation: memory.observation,
        history: memory.history,
        paused: (by_policy || view.cluster.paused).then_some(Pause { place, reason: None }),
        foreign_change: view.foreign.clone(),
        prerequisites,
        approvals,
        people: People::default(),
    }
}
