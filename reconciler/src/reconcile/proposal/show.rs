//! Showing a proposed branch on the forge: a pull request, opened or brought up to what is asked now, and a status on its head.
//!
//! Pull requests are looked for before each decision, and one is opened where none is open, so that
//! a process killed between any two calls has opened none twice. A merged one is found by what it
//! showed, since it stands for several clusters and its branch may have another one by now. Closed
//! by somebody else it is a rejection of what it shows. Before a void branch goes, its pull request
//! is closed and says why.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use domain::{ClusterName, CommitId, PlanDigest};
use jiff::SignedDuration;
use policy::ticked;
use rollout::ApprovalRequest;

use super::ask::{Position, Told};
use super::pending_approval::rejected_by;
use super::proposal_cache::ProposalCache;
use super::stack::{Proposal, Stack};
use super::tell::Text;
use super::thread::Thread;
use super::{Asking, WITHDRAWN};
use crate::reconcile::Controller;
use crate::reconcile::planner::{ClusterView, FleetReading};
use approvals::group::Group;
use approvals::metadata::{Place, PullRequestMetadata};
use approvals::status::{Readiness, status};
use approvals::text::combined::{CheckLine, same_text};
use approvals::text::sections::Sections;
use approvals::text::truncate::whole;
use domain::BranchName;
use forge::{CommitStatus, Edit, Forge, ForgeError, NewPullRequest, PullRequest, PullRequestState};

/// The time within which whoever has pushed a branch opens its pull request.
const OPENED_WITHIN: SignedDuration = SignedDuration::from_secs(20);

/// What people see on the forge of a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The head that this process has pushed: it is the one that opens the pull request.
    pushed: Option<CommitId>,
    /// The head, and what its status says.
    status: Option<(String, CommitStatus)>,
    /// Why the pull request could not be opened or renewed.
    problem: Option<ForgeError>,
}

/// What is proposed for one cluster on a branch.
pub(super) struct Row<'a> {
    pub proposal: Proposal,
    /// The cluster; none where nothing is known of it in this pass.
    pub view: Option<&'a ClusterView>,
    pub asking: Option<&'a Asking>,
    /// What is asked now; none where it only stays.
    pub request: Option<&'a ApprovalRequest>,
}

/// What speaks against a part of whose cluster nothing is known.
const NOT_READ: &str = "the cluster could not be planned now";

/// What speaks against a part that people have changed.
const EDITED: &str = "people have changed the branch";

/// What is said of a change that is only not proposed yet.
const TAKEN_UP: &str = "; that is proposed once the gate before it is open";

/// A branch that is to be shown.
pub(super) struct Showing<'a> {
    pub branch: &'a BranchName,
    pub group: &'a Group,
    pub stack: &'a Stack,
    pub rows: Vec<Row<'a>>,
    pub positions: &'a BTreeMap<ClusterName, Position>,
    /// Whether its head was pushed just now.
    pub is_new: bool,
}

impl Row<'_> {
    pub fn cluster(&self) -> &ClusterName {
        &self.proposal.trailers.cluster
    }

    pub fn plan(&self) -> &PlanDigest {
        &self.proposal.trailers.plan
    }

    /// Whether its plan has changes of people that are not on the deploy branch.
    pub fn takes_up(&self) -> bool {
        let (Some(view), Some(asking)) = (self.view, self.asking) else { return false };
        let plan = super::asked(view).find(|(plan, _)| plan.digest == asking.plan);
        let deployed = view.directory.ledger().map(|ledger| ledger.edits.as_slice()).unwrap_or_default();
        plan.is_some_and(|(plan, _)| plan.edits.iter().any(|edit| !deployed.contains(edit)))
    }

    /// The boxes of its check list: what the gate before has seen of the registry of checks, and what people tick. None where the
    /// policy has no check list.
    pub fn check_list(&self, text: &str, names_cluster: bool) -> Vec<CheckLine> {
        let (Some(asking), Some(view)) = (self.asking, self.view) else { return Vec::new() };
        let boxes = &asking.group.rules.check_list;
        if boxes.is_empty() {
            return Vec::new();
        }
        let of = if names_cluster { format!("{}: ", self.cluster()) } else { String::new() };
        let evidence = Sections::read(text).evidence.into_iter().filter(|line| line.starts_with("check"));
        let seen = evidence.map(|line| CheckLine {
            is_ticked: !line.contains(": unknown") && !line.contains(": fail"),
            text: format!("{of}{line}"),
        });
        let ticked = ticked(boxes, &asking.facts.ticks, &asking.plan, &view.roster);
        let asked = ticked.iter().map(|it| CheckLine { is_ticked: it.by.is_some(), text: format!("{of}{it}") });
        seen.chain(asked).collect()
    }

    pub fn readiness(&self) -> Readiness {
        let held_by = self.asking.and_then(|asking| asking.said.held_by.as_deref());
        let missing = match (self.asking, self.view) {
            (Some(asking), Some(view)) => asking.missing(view),
            // Nothing is known of it in this pass.
            (Some(_) | None, _) => vec![NOT_READ.to_owned()],
        };
        let edited = self.proposal.edited.then(|| {
            let why = self.asking.and_then(|asking| asking.facts.edited.clone());
            let waits = self.asking.is_some_and(|asking| asking.takes_up);
            why.unwrap_or_else(|| format!("{EDITED}{}", if waits { TAKEN_UP } else { "" }))
        });
        Readiness::of(edited, held_by, self.request, &missing)
    }
}

impl Controller {
    /// Keeps what people were shown last of a branch, or forgets it.
    pub(super) fn remember_shown(&self, branch: &BranchName, shown: Option<Shown>) {
        let mut memory = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match shown {
            Some(shown) => drop(memory.insert(branch.clone(), shown)),
            None => drop(memory.remove(branch)),
        }
    }

    fn shown(&self, branch: &BranchName) -> Shown {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).get(branch).cloned().unwrap_or_default()
    }

    /// Why a branch could not be shown last.
    pub(in crate::reconcile) fn problem(&self, branch: &BranchName) -> Option<ForgeError> {
        self.shown(branch).problem
    }

    /// Opens or renews the pull request of a branch, answers what people said below it, and merges it where they said so.
    pub(super) async fn show(&self, reading: &FleetReading, board: &ProposalCache, showing: &Showing<'_>) -> Told {
        let Ok(Some(forge)) = self.planner.forge(reading) else { return Told::Nothing };
        let branch = showing.branch;
        let before = self.shown(branch);
        let mut shown = Shown { problem: None, ..before.clone() };
        if showing.is_new {
            shown.pushed = Some(showing.stack.head.clone());
        }
        let told = match self.show_on(&forge, reading, board, showing, &mut shown).await {
            Ok(told) => told,
            Err(error) => {
                let is_new = before.problem.as_ref() != Some(&error);
                if is_new {
                    tracing::warn!(git.branch = %branch, %error, hint = error.hint(), "the pull request of `{branch}` could not be shown");
                }
                shown.problem = Some(error);
                if is_new { Told::New } else { Told::Nothing }
            }
        };
        let recovered = before.problem.is_some() && shown.problem.is_none() && told == Told::Nothing;
        self.remember_shown(branch, Some(shown));
        if recovered { Told::New } else { told }
    }

    async fn show_on(
        &self,
        forge: &Forge,
        reading: &FleetReading,
        board: &ProposalCache,
        showing: &Showing<'_>,
        shown: &mut Shown,
    ) -> Result<Told, ForgeError> {
        let (base, head) = (reading.layout.branch.as_str(), showing.branch.as_str());
        let is_open = |pull: &PullRequest| pull.state == PullRequestState::Open;
        let mut pulls = board.pulls(forge, reading, showing.branch).await?;
        if !pulls.iter().any(is_open) {
            // Looked for once more right before one is opened: another process may have been faster.
            pulls = board.pulls_again(forge, reading, showing.branch).await?;
            if Self::was_rejected(forge, reading, board, showing, &pulls).await? {
                return Ok(Told::New);
            }
        }
        let merged = |pull: &PullRequest| matches!(pull.state, PullRequestState::Merged { .. });
        if pulls.iter().any(|pull| merged(pull) && pull.head == showing.stack.head.as_str()) {
            // Its merge is on its way to us.
            return Ok(Told::Nothing);
        }
        let is_ours = shown.pushed.as_ref() == Some(&showing.stack.head);
        if !is_ours && !pulls.iter().any(is_open) && self.is_being_opened(showing)? {
            return Ok(Told::Nothing);
        }
        // Of two that were opened at the very same time the first stays.
        let mut open: Vec<&PullRequest> = pulls.iter().filter(|pull| is_open(pull)).collect();
        open.sort_by_key(|pull| pull.number);
        for second in open.iter().skip(1) {
            let body = whole(format!("{WITHDRAWN} Another pull request asks the same.\n\n{}", second.body));
            forge.edit(second.number, &Edit { title: None, body: Some(&body), close: true }).await?;
        }
        let open = match open.first() {
            Some(pull) => Some(board.thread(forge, reading, pull, !showing.group.rules.take_anybody()).await?),
            None => None,
        };
        // What was said while this pass went on was said of what was shown until now, so it is heard before that is another.
        let open = match open {
            Some(thread) if Self::shows_another(showing, &thread) => {
                board.forget(thread.pull.number);
                // How many comments there were then says nothing of now.
                let pull = PullRequest { comments: None, ..thread.pull.clone() };
                Some(board.thread(forge, reading, &pull, !showing.group.rules.take_anybody()).await?)
            }
            open => open,
        };
        let newest = pulls.iter().map(|pull| pull.number).max().unwrap_or_default();
        let place = open.as_ref().map_or(Place::After(newest), |thread| Place::Number(thread.pull.number));
        let Text { title, body, marks } = self.text(reading, showing, open.as_deref(), (place, &forge.seal()?))?;
        if let Some(thread) = &open {
            let pull = &thread.pull;
            let edit = Edit {
                title: (pull.title != title).then_some(title.as_str()),
                body: (!same_text(&pull.body, &body)).then_some(body.as_str()),
                close: false,
            };
            if edit.title.is_some() || edit.body.is_some() {
                forge.edit(pull.number, &edit).await?;
                let head = showing.stack.head.to_string();
                board.keep(showing.branch, PullRequest { title, body, head, ..pull.clone() });
            }
        } else {
            let new = NewPullRequest { base, head, title: &title, body: &body };
            if let Some(pull) = open_new(forge, &new).await? {
                board.begin(showing.branch, &pull, &marks);
            }
        }
        self.show_status(forge, showing, shown, open.is_none()).await?;
        match &open {
            Some(thread) => self.reply(forge, reading, showing, thread).await,
            None => Ok(Told::New),
        }
    }

    /// Whether somebody has said no since this pass looked, to anything that is to be shown: that is decided about first.
    async fn was_rejected(
        forge: &Forge,
        reading: &FleetReading,
        board: &ProposalCache,
        showing: &Showing<'_>,
        pulls: &[PullRequest],
    ) -> Result<bool, ForgeError> {
        if pulls.iter().any(|pull| pull.state == PullRequestState::Open) {
            return Ok(false);
        }
        for row in &showing.rows {
            let shows =
                |pull: &&PullRequest| PullRequestMetadata::read(&pull.body).of(row.cluster(), row.plan()).is_some();
            let Some(pull) = pulls.iter().find(shows) else { continue };
            if !matches!(pull.state, PullRequestState::Closed { .. }) || pull.body.starts_with(WITHDRAWN) {
                continue;
            }
            // Lists do not tell who it was.
            let thread = board.thread(forge, reading, pull, !showing.group.rules.take_anybody()).await?;
            if rejected_by(&thread.pull, Some(&row.proposal.head)).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a plan is to be shown that is not shown yet.
    fn shows_another(showing: &Showing<'_>, thread: &Thread) -> bool {
        showing.rows.iter().any(|row| thread.marks.of(row.cluster(), row.plan()).is_none())
    }

    /// Whether another process has pushed this just now. It is about to open the pull request, and forges may take two that come at once;
    /// where it has died, somebody else does it soon.
    fn is_being_opened(&self, showing: &Showing<'_>) -> Result<bool, ForgeError> {
        let made = self.planner.repository().committed_at(&showing.stack.head);
        let made = made.map_err(|error| ForgeError::Unavailable {
            action: format!("read when {} was proposed", showing.branch),
            reason: error.to_string(),
        })?;
        let age = self.clock.now().duration_since(made);
        Ok(age.abs() < OPENED_WITHIN)
    }

    /// Sets the status of the head, unless it is so. Of a commit that was pushed and shown just now none has to be asked for.
    async fn show_status(
        &self,
        forge: &Forge,
        showing: &Showing<'_>,
        shown: &mut Shown,
        opened: bool,
    ) -> Result<(), ForgeError> {
        let rows: Vec<(&str, Readiness)> =
            showing.rows.iter().map(|row| (row.cluster().as_str(), row.readiness())).collect();
        let (status, head) = (status(&showing.group.scope, &rows), showing.stack.head.as_str());
        let known = Some((head.to_owned(), status.clone()));
        if shown.status != known {
            let is_bare = opened && showing.is_new;
            if is_bare || forge.status(head, &status.context).await?.as_ref() != Some(&status) {
                forge.set_status(head, &status).await?;
            }
            shown.status = known;
        }
        Ok(())
    }
}

/// Opens a pull request, unless somebody else was faster: another process of ours, or a person.
async fn open_new(forge: &Forge, new: &NewPullRequest<'_>) -> Result<Option<PullRequest>, ForgeError> {
    match forge.open(new).await {
        Ok(pull) => {
            tracing::info!(git.branch = new.head, "opened {}", pull.url);
            Ok(Some(pull))
        }
        Err(error @ ForgeError::Refused { .. }) => match forge.find(new.base, new.head).await? {
            Some(pull) if pull.state == PullRequestState::Open => Ok(None),
            Some(_) | None => Err(error),
        },
        Err(error) => Err(error),
    }
}
