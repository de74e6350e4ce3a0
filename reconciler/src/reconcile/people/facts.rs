//! What the rules for approvals look at, as git tells it.

use policy::{ApprovalRules, GivenApproval, Means, Override, Person};
use rollout::{
    ApprovalFacts, ApprovalRecord, ApprovalScope, ApprovalState, Approved, Landing, Ledger, LedgerState, Plan,
    StageTrailer, approval_rules,
};

use super::{authors, owners};
use crate::reconcile::people::words::words;
use crate::reconcile::planner::{ClusterView, FleetReading, PlanError, Planner};
use crate::reconcile::proposal::Stack;
use approvals::words::{Subject, Word};
use planning::stage_tree::StageTree;

/// What is known of something that is, or is to be, proposed. What people gave is read off its branch where there is no forge: a forge knows
/// whose word it is, and a commit does not.
///
/// # Errors
/// [`PlanError`] when commits cannot be read.
pub fn asked(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    plan: &Plan,
    scope: &ApprovalScope,
    stack: Option<&Stack>,
) -> Result<ApprovalFacts, PlanError> {
    let rules = approval_rules(plan, scope);
    let mut facts = ApprovalFacts::default();
    if rules.take_anybody() {
        return Ok(facts);
    }
    let parts = parts(view, plan);
    let paths = || owners::proposed_paths(view, plan, parts, scope);
    about(planner, reading, view, plan, &rules, &mut facts)?;
    if rules.code_owners {
        let last = view.head.newest(|_| true).map(|landed| landed.id);
        facts.owners = owners::owners(planner, reading, view, last, &paths()?)?;
    }
    if let Some(stack) = stack.filter(|_| !view.has_forge(reading)) {
        let subject = Subject { cluster: view.name.clone(), scope: scope.clone(), plan: plan.digest.clone() };
        for word in stack.words.iter().filter(|word| word.names(&subject)) {
            hear(&mut facts, words(planner, &word.commit, &subject)?);
        }
    }
    Ok(facts)
}

/// What landed last by a merge and is not settled: no commit of ours has followed on it.
pub struct Landed<'a> {
    /// The approval that the ledger records for it.
    pub approved: &'a Approved,
    /// The commit that brought it.
    pub commit: rollout::Landed<'a>,
    /// The plan that it was proposed for, where that can be made again.
    pub plan: Option<&'a Plan>,
    /// Whose approval is enough.
    pub rules: ApprovalRules,
    /// Whether the source branch asks for something else by now.
    pub is_old: bool,
}

impl<'a> Landed<'a> {
    /// What landed last; none where nothing that was proposed did.
    pub fn of(view: &'a ClusterView) -> Option<Self> {
        let ledger = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running)?;
        let record = ledger.stages.last()?;
        let brought = |it: &&Approved| ledger.brought(it) == Some(&record.stage) && it.plan == ledger.plan;
        let approved = ledger.approvals.iter().rev().find(brought)?;
        let is_of = |trailer: &StageTrailer| trailer.rollout == ledger.rollout && trailer.stage == record.stage;
        let commit = view.head.newest(is_of)?;
        let plan = own_plan(view, ledger);
        let rules = approval_rules(plan.unwrap_or(&view.plan), &approved.scope);
        Some(Self { approved, commit, plan, rules, is_old: view.plan.digest != ledger.plan })
    }

    /// Whether anybody's word about it may matter still.
    pub fn matters(&self) -> bool {
        let settled = !self.approved.approvers.is_empty() || self.approved.overridden.is_some();
        !settled && *self.commit.landing != Landing::Pushed && (self.is_old || !self.rules.take_anybody())
    }

    /// What is answered about it.
    pub fn subject(&self, view: &ClusterView) -> Subject {
        Subject { cluster: view.name.clone(), scope: self.approved.scope.clone(), plan: self.approved.plan.clone() }
    }

    /// What git knows of it: who merged it, who spoke on the branch since, who wrote it and who owns it.
    ///
    /// # Errors
    /// [`PlanError`] when commits cannot be read.
    pub fn record(
        &self,
        planner: &Planner,
        reading: &FleetReading,
        view: &ClusterView,
    ) -> Result<ApprovalRecord, PlanError> {
        let mut facts = ApprovalFacts::default();
        if !self.rules.take_anybody() {
            about(planner, reading, view, self.plan.unwrap_or(&view.plan), &self.rules, &mut facts)?;
            if self.rules.code_owners {
                let paths = owners::landed_paths(planner, reading, view, self.commit.id)?;
                let before = planner.repository().parent(self.commit.id)?;
                facts.owners = owners::owners(planner, reading, view, before.as_ref(), &paths)?;
            }
        }
        let subject = self.subject(view);
        for commit in view.head.lineage().since(self.commit.place).iter() {
            hear(&mut facts, words(planner, commit, &subject)?);
        }
        if view.has_forge(reading) {
            // The forge knows who people are.
            facts.given.clear();
            facts.ticks.clear();
        } else if let Landing::Merged(by) = self.commit.landing
            && let Ok(who) = by.parse::<Person>()
            && !facts.given.iter().any(|known| known.who == who)
        {
            let (plan, at) = (self.approved.plan.clone(), Some(self.commit.committed_at));
            facts.given.push(GivenApproval { who, plan, at, means: Means::Merge });
        }
        Ok(ApprovalRecord {
            scope: self.approved.scope.clone(),
            plan: self.approved.plan.clone(),
            state: ApprovalState::Approved,
            by: None,
            place: None,
            facts,
        })
    }
}

/// By whom, and why, the rules for approvals were set aside last in the rollout that runs: as the ledger tells it, or commits that it does not
/// tell of yet.
///
/// # Errors
/// [`PlanError`] when commits cannot be read.
pub fn overridden(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
) -> Result<Option<Override>, PlanError> {
    if let Some(landed) = Landed::of(view).filter(Landed::matters)
        && let Some(overridden) = landed.record(planner, reading, view)?.facts.overridden
    {
        return Ok(Some(overridden));
    }
    let ledger = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
    let told = ledger.and_then(|ledger| ledger.approvals.iter().rev().find_map(|approved| approved.overridden.clone()));
    Ok(told)
}

/// The plan that a ledger is carrying out.
fn own_plan<'a>(view: &'a ClusterView, ledger: &Ledger) -> Option<&'a Plan> {
    view.plans().find(|plan| plan.digest == ledger.plan)
}

fn parts<'a>(view: &'a ClusterView, plan: &Plan) -> &'a [StageTree] {
    match &view.running {
        Some((running, parts)) if running.digest == plan.digest => parts,
        _ => &view.parts,
    }
}

fn about(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    plan: &Plan,
    rules: &ApprovalRules,
    facts: &mut ApprovalFacts,
) -> Result<(), PlanError> {
    if !rules.author {
        facts.authors = authors::authors(planner, reading, view, &plan.source)?;
        // Who changed what is proposed has written it as well.
        let edits = plan.edits.iter().flat_map(|edit| &edit.by).filter_map(|name| name.parse().ok());
        let new: Vec<Person> = edits.filter(|author| !facts.authors.contains(author)).collect();
        facts.authors.extend(new);
    }
    Ok(())
}

fn hear(facts: &mut ApprovalFacts, words: Vec<Word>) {
    for word in words {
        match word {
            Word::Approved(given) if !facts.given.iter().any(|known| known.who == given.who) => facts.given.push(given),
            Word::Approved(_) => {}
            Word::Ticked(tick) => facts.ticks.push(tick),
            Word::Overridden(overridden) => facts.overridden = Some(overridden),
            Word::Retried(_) => {}
        }
    }
}
