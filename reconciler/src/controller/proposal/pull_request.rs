//! The pull requests of proposals, where there is a forge. They follow the branches: each is looked for before it is opened, so that a process
//! that was killed anywhere has opened none twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use rollout::{
    ApprovalFacts, ApprovalRecord, ApprovalRequest, ApprovalScope, ApprovalState, CommitId, DeployHead, Landing,
    PlanDigest, StageId, approval_rules,
};

use super::command::{Conversation, speakers};
use super::given::given;
use super::{AnswerError, Consent, Proposal, answer, asked, body_path, branch};
use crate::controller::Controller;
use crate::controller::people::facts;
use crate::controller::planner::{ClusterView, FleetReading, PlanError, Planner};
use crate::forge::{CommitStatus, Edit, Forge, ForgeError, NewPullRequest, PullRequest, PullRequestState, StatusState};
use crate::git::{BranchName, GitError, Identity};

/// The longest text of a pull request, in bytes: what the strictest forge takes, and a little less.
const LONGEST_BODY: usize = 60_000;

/// The longest description of a status, in characters.
const LONGEST_DESCRIPTION: usize = 140;

/// What the text of a pull request tells besides the proposal.
const COMMANDS: &str = "\nHere, closing this rejects it, and `/stepgate approve`, `hold`, `resume`, `retry` or `plan` at the beginning of a line of a \
     comment is done for\nwhoever may write in this repository.\n";

/// What the text of a pull request begins with that Stepgate itself has closed.
const WITHDRAWN: &str = "**Withdrawn by Stepgate.**";

/// Who merged the commits of a rollout, and when, as the forge said.
pub type Mergers = BTreeMap<CommitId, (String, Option<Timestamp>)>;

/// What people see on the forge of what is proposed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The head, and what its status says.
    status: Option<(String, CommitStatus)>,
    /// Why the pull request could not be opened or renewed.
    problem: Option<ForgeError>,
}

/// What came of showing something to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing is different from before.
    Nothing,
    /// There is something new to say of it.
    New,
    /// People approved it, and it is merged.
    Landed,
}

/// Something that people are, or are to be, asked: what git and the forge say of it.
#[derive(Clone, Debug)]
pub struct Asking {
    /// Its branch.
    pub branch: BranchName,
    scope: ApprovalScope,
    plan: PlanDigest,
    proposal: Option<Proposal>,
    /// What the rules for approvals look at.
    facts: ApprovalFacts,
    /// Its pull request and what was said below it, as far as there is a forge.
    pull: Result<Option<(PullRequest, Conversation)>, ForgeError>,
    /// Why it could not be opened or renewed.
    problem: Option<ForgeError>,
}

impl Asking {
    /// What was answered; none while nothing is asked yet.
    pub fn record(&self) -> Option<ApprovalRecord> {
        let record = self.proposal.as_ref().map(|proposal| proposal.record(self.scope.clone()));
        let pending = || ApprovalRecord {
            scope: self.scope.clone(),
            plan: self.plan.clone(),
            state: ApprovalState::Pending,
            by: None,
            place: None,
            facts: ApprovalFacts::default(),
        };
        let pull = self.pull.as_ref().ok().and_then(Option::as_ref);
        let error = self.pull.as_ref().err().or(self.problem.as_ref());
        if pull.is_none() && error.is_none() {
            return record.map(|record| ApprovalRecord { facts: self.facts.clone(), ..record });
        }
        let mut record = ApprovalRecord { facts: self.facts.clone(), ..record.unwrap_or_else(pending) };
        if let Some((pull, conversation)) = pull {
            if let Some(by) = self.rejected_on_forge() {
                (record.state, record.by) = (ApprovalState::Rejected, Some(by.to_owned()));
            }
            let edited = self.proposal.as_ref().is_some_and(|proposal| proposal.edited);
            let edited = if edited { " (changed by people)" } else { "" };
            let held = conversation.held_by.as_ref().map(|by| format!(" (held by {by})")).unwrap_or_default();
            if pull.state == PullRequestState::Open || record.state == ApprovalState::Rejected {
                record.place = Some(format!("{}{edited}{held}", pull.url));
            }
        }
        if let Some(error) = error {
            let place = record.place.map(|place| format!("{place}; ")).unwrap_or_default();
            record.place = Some(format!("{place}{error}; {}", error.hint()));
        }
        Some(record)
    }

    /// Whether people said no, on the branch or on the forge.
    pub fn is_rejected(&self) -> bool {
        self.proposal.as_ref().is_some_and(|proposal| proposal.rejected_by.is_some())
            || self.rejected_on_forge().is_some()
    }

    /// Who closed the pull request, unless that was Stepgate. A forge closes it too when the branch goes, as by whoever removed that: it
    /// then is of another head than what is proposed now.
    fn rejected_on_forge(&self) -> Option<&str> {
        let (pull, _) = self.pull.as_ref().ok()?.as_ref()?;
        let PullRequestState::Closed { by } = &pull.state else { return None };
        let by = by.as_deref().unwrap_or("somebody");
        let same_head = self.proposal.as_ref().is_some_and(|proposal| proposal.head.as_str() == pull.head);
        (!pull.body.starts_with(WITHDRAWN) && (by != pull.author || same_head)).then_some(by)
    }
}

/// What the plans of a cluster ask people next, and what they said.
///
/// # Errors
/// [`GitError`] when branches cannot be read. What goes wrong with the forge is part of the answer.
pub async fn askings(planner: &Planner, reading: &FleetReading, view: &ClusterView) -> Result<Vec<Asking>, PlanError> {
    let mut askings = Vec::new();
    for (plan, scope) in asked(view) {
        let branch = branch(&plan.rollout_id, &scope)?;
        planner.repository().refresh(std::slice::from_ref(&branch))?;
        let proposal = Proposal::read(planner.repository(), &branch)?;
        let mut pull = match planner.forge(reading) {
            Ok(Some(forge)) => read(&forge, reading, &branch, &plan.digest).await,
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        let mut facts = facts::asked(planner, reading, view, plan, &scope, proposal.as_ref())?;
        if !approval_rules(plan, &scope).take_anybody()
            && let (Ok(Some(forge)), Ok(Some((request, conversation)))) = (planner.forge(reading), &pull)
        {
            match given(&forge, reading, request, conversation, &plan.digest).await {
                Ok(given) => facts.given = given,
                Err(error) => pull = Err(error),
            }
        }
        askings.push(Asking { branch, scope, plan: plan.digest.clone(), proposal, facts, pull, problem: None });
    }
    Ok(askings)
}

/// A pull request, and what was said below it where that matters.
pub(super) async fn read(
    forge: &Forge,
    reading: &FleetReading,
    branch: &BranchName,
    plan: &PlanDigest,
) -> Result<Option<(PullRequest, Conversation)>, ForgeError> {
    let Some(pull) = forge.find(reading.layout.branch.as_str(), branch.as_str()).await? else { return Ok(None) };
    if matches!(pull.state, PullRequestState::Merged { .. }) {
        return Ok(Some((pull, Conversation::default())));
    }
    let conversation = listen(forge, &pull, plan).await?;
    Ok(Some((pull, conversation)))
}

/// What was said below a pull request.
pub(super) async fn listen(forge: &Forge, pull: &PullRequest, plan: &PlanDigest) -> Result<Conversation, ForgeError> {
    let comments = forge.comments(pull.number).await?;
    let mut permissions = BTreeMap::new();
    for speaker in speakers(&comments) {
        match forge.permission(speaker).await {
            Ok(permission) => permissions.insert(speaker.to_owned(), permission),
            // Whose permission cannot be looked up commands nothing, and is told so.
            Err(ForgeError::Forbidden { .. }) => continue,
            Err(error) => return Err(error),
        };
    }
    let standing = format!("the text above is what is asked, plan {plan}");
    Ok(Conversation::of(&comments, &pull.author, &permissions, &standing))
}

/// Says of commits that were merged on the forge who did it and when: git does not tell of every kind of merge.
pub async fn name_mergers(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    deploy: &mut DeployHead,
    mergers: &mut Mergers,
) {
    let Ok(Some(forge)) = planner.forge(reading) else { return };
    let Some(ledger) = view.directory.ledger() else { return };
    for approved in ledger.approvals.iter().filter(|approved| approved.by.is_none()) {
        let stage = ledger.brought(approved);
        let landed = deploy.commits.iter_mut().rev().find(|commit| {
            let trailer = commit.trailer.as_ref();
            trailer.is_some_and(|trailer| trailer.rollout == ledger.rollout && Some(&trailer.stage) == stage)
        });
        let Some(commit) = landed.filter(|commit| commit.landing != Landing::Pushed) else { continue };
        if !mergers.contains_key(&commit.id)
            && let Ok(branch) = branch(&ledger.rollout, &approved.scope)
            && let Ok(Some(merger)) = merger(&forge, reading, &branch).await
        {
            mergers.insert(commit.id.clone(), merger);
        }
        if let Some((by, at)) = mergers.get(&commit.id) {
            commit.landing = Landing::Merged(by.clone());
            commit.committed_at = at.unwrap_or(commit.committed_at);
        }
    }
}

async fn merger(
    forge: &Forge,
    reading: &FleetReading,
    branch: &BranchName,
) -> Result<Option<(String, Option<Timestamp>)>, ForgeError> {
    let Some(pull) = forge.find(reading.layout.branch.as_str(), branch.as_str()).await? else { return Ok(None) };
    let PullRequestState::Merged { by: Some(by), at } = &pull.state else { return Ok(None) };
    let reviews = forge.approvals(pull.number).await?;
    let approved: Vec<String> = reviews
        .into_iter()
        .filter(|review| review.commit.as_ref().is_none_or(|commit| *commit == pull.head))
        .map(|review| review.by)
        .collect();
    let approved = if approved.is_empty() { String::new() } else { format!(", approved by {}", approved.join(", ")) };
    Ok(Some((format!("{by} ({}{approved})", pull.url), *at)))
}

impl Controller {
    pub(in crate::controller) async fn askings(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
    ) -> Result<Vec<Asking>, PlanError> {
        let mut askings = askings(&self.planner, reading, view).await?;
        let problem = self.memory(&view.name).shown.problem;
        for asking in askings.iter_mut().filter(|asking| asking.proposal.is_some()) {
            asking.problem.clone_from(&problem);
        }
        Ok(askings)
    }

    /// Opens or renews the pull request of a proposal that is on its branch, answers what people said below it, and merges it where they
    /// said so.
    pub(in crate::controller) async fn show(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        request: &ApprovalRequest,
        asking: &Asking,
    ) -> Told {
        let Ok(Some(forge)) = self.planner.forge(reading) else { return Told::Nothing };
        let Some(proposal) = &asking.proposal else { return Told::Nothing };
        let before = self.memory(&view.name).shown;
        let mut shown = Shown { problem: None, ..before.clone() };
        let told = match self.show_on(&forge, reading, view, request, asking, proposal, &mut shown).await {
            Ok(told) => told,
            Err(error) => {
                let is_new = before.problem.as_ref() != Some(&error);
                if is_new {
                    tracing::warn!(cluster.name = %view.name, git.branch = %asking.branch, %error, hint = error.hint(), "the pull request of `{}` could not be shown", asking.branch);
                }
                shown.problem = Some(error);
                if is_new { Told::New } else { Told::Nothing }
            }
        };
        self.remember(&view.name, |memory| memory.shown = shown);
        told
    }

    #[expect(clippy::too_many_arguments, reason = "what is shown, of what, to whom")]
    async fn show_on(
        &self,
        forge: &Forge,
        reading: &FleetReading,
        view: &ClusterView,
        request: &ApprovalRequest,
        asking: &Asking,
        proposal: &Proposal,
        shown: &mut Shown,
    ) -> Result<Told, ForgeError> {
        let (base, head) = (reading.layout.branch.as_str(), asking.branch.as_str());
        let (title, body) = self.text(reading, view, proposal)?;
        let found = asking.pull.as_ref().map_err(ForgeError::clone)?.as_ref();
        let open = found.filter(|(pull, _)| pull.state == PullRequestState::Open);
        let held_by = open.and_then(|(_, conversation)| conversation.held_by.as_deref());
        if let Some((pull, _)) = open {
            let edit = Edit {
                title: (pull.title != title).then_some(title.as_str()),
                body: (!same_text(&pull.body, &body)).then_some(body.as_str()),
                close: false,
            };
            if edit.title.is_some() || edit.body.is_some() {
                forge.edit(pull.number, &edit).await?;
            }
        } else {
            let merged = |pull: &PullRequest| matches!(pull.state, PullRequestState::Merged { .. });
            if found.is_some_and(|(pull, _)| merged(pull) && pull.head == proposal.head.as_str()) {
                // Its merge is on its way to us.
                return Ok(Told::Nothing);
            }
            open_new(forge, &NewPullRequest { base, head, title: &title, body: &body }).await?;
        }
        let status = status(proposal, held_by, request);
        let known = Some((proposal.head.to_string(), status.clone()));
        if shown.status != known {
            if forge.status(proposal.head.as_str(), &status.context).await?.as_ref() != Some(&status) {
                forge.set_status(proposal.head.as_str(), &status).await?;
            }
            shown.status = known;
        }
        match open {
            Some((pull, conversation)) => self.answer(forge, reading, view, pull, conversation, request).await,
            None => Ok(Told::New),
        }
    }

    /// Does what people said below a pull request, and says so there.
    async fn answer(
        &self,
        forge: &Forge,
        reading: &FleetReading,
        view: &ClusterView,
        pull: &PullRequest,
        conversation: &Conversation,
        request: &ApprovalRequest,
    ) -> Result<Told, ForgeError> {
        let mut event = None;
        if let (Some(by), false) = (&conversation.approved_by, request.missing.is_empty()) {
            event = Some(format!("{by} approved it. It is not merged yet: {}.", request.missing.join("; ")));
        } else if let (Some(by), Some(reason)) = (&conversation.approved_by, &request.not_yet) {
            event = Some(format!("{by} approved it. It is merged in its time: {reason}."));
        } else if let Some(by) = &conversation.approved_by {
            let address = reading.fleet.policy.forge.as_ref().map(|forge| host(&forge.url)).unwrap_or_default();
            let identity = format!("{by} <{by}@{address}>").parse::<Identity>();
            let approved = identity.map_err(AnswerError::from).and_then(|by| {
                answer(&self.planner, reading, view, Some(&by), &Consent::Forge(&request.approvers), self.clock.now())
            });
            match approved {
                Ok(approval) => {
                    tracing::info!(cluster.name = %view.name, stage.name = %approval.stage, approved.by = by, "merged what {} proposes", pull.url);
                    let commit = approval.commit.map(|commit| commit.to_string()).unwrap_or_default();
                    let event = format!("Merged into `{}` as {commit}: {by} approved it.", reading.layout.branch);
                    if let Some((id, text)) = conversation.comment(Some(&event))
                        && let Err(error) = forge.comment(pull.number, id, &text).await
                    {
                        // It is on the branch, whatever is said of it.
                        tracing::warn!(cluster.name = %view.name, %error, hint = error.hint(), "could not say below {} that it is merged", pull.url);
                    }
                    return Ok(Told::Landed);
                }
                Err(error) => {
                    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                    event = Some(format!("What {by} approved could not be merged: {error}{hint}."));
                }
            }
        }
        if let Some((id, text)) = conversation.comment(event.as_deref()) {
            forge.comment(pull.number, id, &text).await?;
        }
        Ok(Told::Nothing)
    }

    /// Says below a pull request that people closed what that means.
    pub(super) async fn tell_rejected(&self, reading: &FleetReading, view: &ClusterView, askings: &[Asking]) {
        let Ok(Some(forge)) = self.planner.forge(reading) else { return };
        for asking in askings {
            let (Some(by), Ok(Some((pull, conversation)))) = (asking.rejected_on_forge(), &asking.pull) else {
                continue;
            };
            let event = format!(
                "**Rejected**: {by} closed this. {} stays as it is until its plan is another one. Please say here why. Opening it again asks \
                 again.",
                view.name
            );
            if let Some((id, text)) = conversation.comment(Some(&event))
                && let Err(error) = forge.comment(pull.number, id, &text).await
            {
                tracing::warn!(cluster.name = %view.name, %error, hint = error.hint(), "could not ask why {} was closed", pull.url);
            }
        }
    }

    /// Title and text of a pull request: those of the proposed commit, so that they stay as long as it does.
    fn text(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        proposal: &Proposal,
    ) -> Result<(String, String), ForgeError> {
        let unreadable = |error: GitError| ForgeError::Unavailable {
            action: format!("read what {} proposes", proposal.branch),
            reason: error.to_string(),
        };
        let repository = self.planner.repository();
        let message = repository.message(&proposal.commit).map_err(unreadable)?;
        let title = message.lines().next().unwrap_or_default().to_owned();
        let snapshot = repository.deploy_snapshot(&reading.layout, &proposal.commit).map_err(unreadable)?;
        let bytes: Arc<[u8]> = body_path(&view.name).and_then(|path| snapshot.read(&path)).map_err(unreadable)?;
        let mut body = String::from_utf8_lossy(&bytes).into_owned();
        body.push_str(COMMANDS);
        if proposal.edited {
            body = format!(
                "**People have changed this branch.** What they changed is not approved with it: merged, it stops the cluster.\n\n{body}"
            );
        }
        Ok((title, shortened(body)))
    }

    /// Closes the pull request of what is void, before its branch goes. Where the forge cannot be asked, the branch goes all the same:
    /// what is void must not be merged.
    pub(super) async fn close(&self, reading: &FleetReading, view: &ClusterView, proposal: &Proposal, is_wanted: bool) {
        let Ok(Some(forge)) = self.planner.forge(reading) else { return };
        self.remember(&view.name, |memory| memory.shown = Shown::default());
        let ledger = view.directory.ledger().filter(|ledger| ledger.rollout == proposal.trailers.rollout);
        let landed = ledger.is_some_and(|ledger| ledger.last_record(&proposal.trailers.stage).is_some());
        let reason = if landed {
            "It is on the deploy branch."
        } else if is_wanted {
            "The gate before it fails now. It is proposed anew once that passes."
        } else {
            "The source branch, the policy or the cluster's directory has moved: this plan would not be committed any more. What is asked now is \
             in another pull request."
        };
        let closed = async {
            let found = forge.find(reading.layout.branch.as_str(), proposal.branch.as_str()).await?;
            let Some(pull) = found.filter(|pull| pull.state == PullRequestState::Open) else { return Ok(()) };
            let void = CommitStatus {
                state: StatusState::Failure,
                description: "void: this would not be committed any more".to_owned(),
                context: context(&proposal.trailers.stage),
            };
            if !landed {
                forge.set_status(proposal.head.as_str(), &void).await?;
            }
            let body = shortened(format!("{WITHDRAWN} {reason}\n\n{}", pull.body));
            forge.edit(pull.number, &Edit { title: None, body: Some(&body), close: true }).await
        };
        if let Err(error) = closed.await {
            tracing::warn!(cluster.name = %view.name, git.branch = %proposal.branch, %error, hint = error.hint(), "a pull request could not be closed");
        }
    }
}

/// Opens a pull request, unless somebody else was faster: another process of ours, or a person.
async fn open_new(forge: &Forge, new: &NewPullRequest<'_>) -> Result<(), ForgeError> {
    match forge.open(new).await {
        Ok(pull) => {
            tracing::info!(git.branch = new.head, "opened {}", pull.url);
            Ok(())
        }
        Err(error @ ForgeError::Refused { .. }) => match forge.find(new.base, new.head).await? {
            Some(pull) if pull.state == PullRequestState::Open => Ok(()),
            Some(_) | None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// What branch protection can require: whether what is proposed may be merged as it is.
fn status(proposal: &Proposal, held_by: Option<&str>, request: &ApprovalRequest) -> CommitStatus {
    let approvers = request.approvers.iter().map(|given| given.who.to_string()).collect::<Vec<_>>().join(", ");
    let (state, description) = match (held_by, &request.not_yet) {
        _ if proposal.edited => (StatusState::Failure, "people have changed the branch".to_owned()),
        (Some(by), _) => (StatusState::Pending, format!("held by {by}")),
        _ if !request.missing.is_empty() => (StatusState::Pending, request.missing.join("; ")),
        (None, Some(reason)) => (StatusState::Pending, reason.clone()),
        (None, None) if !approvers.is_empty() => (StatusState::Success, format!("approved by {approvers}")),
        (None, None) => (StatusState::Success, "the gate before it is open".to_owned()),
    };
    CommitStatus { state, context: context(&request.commit.stage), description: short(description) }
}

/// The name of a status.
fn context(stage: &StageId) -> String {
    format!("stepgate/{stage}")
}

/// As much of a description as every forge takes.
fn short(text: String) -> String {
    if text.chars().count() <= LONGEST_DESCRIPTION {
        return text;
    }
    text.chars().take(LONGEST_DESCRIPTION - 1).chain(['…']).collect()
}

/// The host of a web address.
pub(super) fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default();
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// Whether a forge holds this text, whatever it does to line ends.
fn same_text(there: &str, ours: &str) -> bool {
    there.replace("\r\n", "\n").trim_end() == ours.trim_end()
}

fn shortened(mut text: String) -> String {
    if text.len() <= LONGEST_BODY {
        return text;
    }
    let end = (0..=LONGEST_BODY).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text.truncate(end);
    text.push_str("\n\n… cut off here; the whole text is `proposal.md` on the branch.\n");
    text
}
