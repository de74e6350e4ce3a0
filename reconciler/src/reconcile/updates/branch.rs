//! The branch and the pull request of an update: opened once, brought up to date in place, withdrawn when it is asked no more.
//!
//! A branch that people have changed is left as it is. A closed pull request is an answer, and is asked for.

use domain::{BranchName, CommitId};
use forge::{CommitStatus, Edit, Forge, ForgeError, NewPullRequest, PullRequest, PullRequestState, StatusState};
use git::{CommitMessage, PushOutcome};
use planning::updates::FileEdits;

use super::{PREFIX, Run};

/// The line by which a commit of ours is known.
const MARK: &str = "Stepgate-Update:";
/// The name of the status of a proposed update.
const STATUS: &str = "stepgate/update";
/// The name of the status that says whether people are asked after its merge.
const AUTOMATIC: &str = "stepgate/automatic";

/// Something to be proposed.
pub(super) struct Offer<'a> {
    pub branch: BranchName,
    pub title: String,
    pub body: String,
    /// Clusters whose rollouts would ask people.
    pub asking: Vec<String>,
    pub files: &'a FileEdits,
    /// The commit that makes them, on top of the source branch.
    pub commit: CommitId,
}

/// Where it stands.
pub(super) enum Standing {
    /// It is proposed: the address of the pull request, or the branch.
    Open { place: String, is_new: bool },
    /// It would be.
    Due(BranchName),
    /// People have closed it, or merged it and taken it back.
    Closed(String),
    /// People have changed the branch.
    Changed(BranchName),
}

/// What a branch holds.
enum Held {
    Nothing,
    Ours { head: CommitId, is_up_to_date: bool },
    Theirs,
}

/// The message of an update's commit.
pub(super) fn message(branch: &BranchName, title: &str) -> CommitMessage {
    CommitMessage { subject: title.to_owned(), body: format!("{MARK} {branch}"), trailers: Vec::new() }
}

impl Run<'_> {
    /// The answer that people have given before, if they have.
    pub(super) async fn closed(&self, branch: &BranchName) -> anyhow::Result<Option<Standing>> {
        let Some(forge) = &self.forge else { return Ok(None) };
        let base = self.updater.planner.source_branch().as_str();
        let found = forge.find(base, branch.as_str()).await?;
        let is_answer = |pull: &PullRequest| match &pull.state {
            PullRequestState::Open => false,
            // Whoever opened it withdrew it, for a version that may be gone again.
            PullRequestState::Closed { by } => by.as_ref() != Some(&pull.author),
            PullRequestState::Merged { .. } => true,
        };
        Ok(found.filter(is_answer).map(|pull| Standing::Closed(pull.url)))
    }

    /// Proposes an update, or brings what proposes it up to date.
    pub(super) async fn offer(&mut self, offer: &Offer<'_>) -> anyhow::Result<Standing> {
        self.kept.push(offer.branch.clone());
        let repository = self.updater.planner.repository();
        let (head, is_up_to_date) = match self.held(&offer.branch, offer)? {
            Held::Theirs => return Ok(Standing::Changed(offer.branch.clone())),
            Held::Nothing => (None, false),
            Held::Ours { head, is_up_to_date } => (Some(head), is_up_to_date),
        };
        if self.updater.is_dry && head.is_none() {
            return Ok(Standing::Due(offer.branch.clone()));
        }
        let is_pushed = !is_up_to_date && !self.updater.is_dry;
        if is_pushed {
            match repository.propose(&offer.branch, &offer.commit, head.as_ref())? {
                PushOutcome::Pushed => {}
                PushOutcome::Lost { .. } => anyhow::bail!("{} was moved by somebody else meanwhile", offer.branch),
                PushOutcome::RejectedByHook { message } => anyhow::bail!("{} was refused: {message}", offer.branch),
            }
        }
        let Some(forge) = self.forge.clone().filter(|_| !self.updater.is_dry) else {
            return Ok(Standing::Open { place: offer.branch.to_string(), is_new: head.is_none() });
        };
        let shown = head.as_ref().filter(|_| !is_pushed).unwrap_or(&offer.commit);
        Ok(self.show(&forge, offer, shown, is_pushed).await?)
    }

    async fn show(
        &self,
        forge: &Forge,
        offer: &Offer<'_>,
        shown: &CommitId,
        is_pushed: bool,
    ) -> Result<Standing, ForgeError> {
        let (base, head) = (self.updater.planner.source_branch().as_str(), offer.branch.as_str());
        let (title, body) = (offer.title.as_str(), offer.body.as_str());
        let found = forge.find(base, head).await?.filter(|pull| pull.state == PullRequestState::Open);
        let mut is_told = false;
        let (place, is_new) = match found {
            Some(pull) => {
                // Forges cut ends of lines off.
                let is_same = pull.title == title && pull.body.trim_end() == body.trim_end();
                is_told = is_same;
                if !is_same {
                    let edit = Edit { title: Some(title), body: Some(body), close: false };
                    forge.edit(pull.number, &edit).await?;
                }
                (pull.url, false)
            }
            None => (forge.open(&NewPullRequest { base, head, title, body }).await?.url, true),
        };
        if is_pushed {
            let description = "every cluster's plan allows it".to_owned();
            let status = CommitStatus { state: StatusState::Success, context: STATUS.to_owned(), description };
            forge.set_status(shown.as_str(), &status).await?;
        }
        if is_pushed || !is_told {
            let (state, description) = match offer.asking.as_slice() {
                [] => (StatusState::Success, "nobody is asked after the merge (approval: none)".to_owned()),
                [one] => (StatusState::Pending, format!("people are asked for {one}")),
                [one, others @ ..] => {
                    (StatusState::Pending, format!("people are asked for {one} and {} more", others.len()))
                }
            };
            let status = CommitStatus { state, context: AUTOMATIC.to_owned(), description };
            forge.set_status(shown.as_str(), &status).await?;
        }
        Ok(Standing::Open { place, is_new })
    }

    /// What the branch of an offer holds.
    fn held(&self, branch: &BranchName, offer: &Offer<'_>) -> anyhow::Result<Held> {
        let repository = self.updater.planner.repository();
        let Some(head) = repository.head(branch)? else { return Ok(Held::Nothing) };
        if !self.is_ours(branch, &head)? {
            return Ok(Held::Theirs);
        }
        let Some(parent) = repository.parent(&head)? else { return Ok(Held::Theirs) };
        // It is written anew only where it would not merge, or say something else: whoever has looked at it need not look again.
        let (proposed, base) = (repository.snapshot_of(&head)?, repository.snapshot_of(&parent)?);
        let source = self.reading.source.files.snapshot();
        let mut is_up_to_date = true;
        for (path, bytes) in offer.files {
            is_up_to_date &= base.tree_id(path)? == source.tree_id(path)?;
            is_up_to_date &= proposed.read(path).is_ok_and(|held| held == *bytes);
        }
        Ok(Held::Ours { head, is_up_to_date })
    }

    fn is_ours(&self, branch: &BranchName, head: &CommitId) -> anyhow::Result<bool> {
        let message = self.updater.planner.repository().message(head)?;
        let mark = format!("{MARK} {branch}");
        Ok(message.lines().any(|line| line == mark))
    }

    /// Withdraws what is proposed and asked no more: a later version takes its place, or it was merged.
    pub(super) async fn withdraw_others(&self) -> Vec<(BranchName, anyhow::Error)> {
        let mut failed = Vec::new();
        let branches = self.updater.planner.repository().branches();
        let branches = branches.unwrap_or_default().into_iter().filter(|branch| branch.as_str().starts_with(PREFIX));
        for branch in branches.filter(|branch| !self.kept.contains(branch)) {
            if let Err(error) = self.withdraw(&branch).await {
                failed.push((branch, error));
            }
        }
        failed
    }

    async fn withdraw(&self, branch: &BranchName) -> anyhow::Result<()> {
        let repository = self.updater.planner.repository();
        let Some(head) = repository.head(branch)? else { return Ok(()) };
        if !self.is_ours(branch, &head)? {
            return Ok(());
        }
        if let Some(forge) = &self.forge {
            let base = self.updater.planner.source_branch().as_str();
            let found = forge.find(base, branch.as_str()).await?;
            if let Some(pull) = found.filter(|pull| pull.state == PullRequestState::Open) {
                let why = "Another version takes its place, or it may be asked no more: withdrawn.";
                forge.comment(pull.number, None, why).await?;
                forge.edit(pull.number, &Edit { close: true, ..Edit::default() }).await?;
            }
        }
        Ok(repository.withdraw(branch, &head)?)
    }
}
