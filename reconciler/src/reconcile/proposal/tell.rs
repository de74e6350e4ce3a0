//! What a pull request says of a proposed branch now, and what has changed since it said something else.

use std::collections::BTreeMap;

use domain::{ClusterName, CommitId};
use rollout::ApprovalScope;

use super::ask::Position;
use super::body_path;
use super::close::Left;
use super::edited;
use super::show::Showing;
use super::thread::Thread;
use crate::reconcile::Controller;
use crate::reconcile::planner::FleetReading;
use approvals::metadata::{Place, PullRequestMetadata};
use approvals::text::combined::{Content, Proposed, since};
use approvals::text::sections::Sections;
use forge::{ForgeError, MetadataSigner};
use git::GitError;

/// By how many characters a line is known.
const BEGIN: usize = 200;

/// What is said where the marks in the text are not those that Stepgate wrote.
const NOT_KNOWN: &str =
    "what Stepgate notes in this text was changed, or Stepgate has another token now; what was said before is void";

/// What a pull request is to say.
pub(super) struct Text {
    pub title: String,
    pub body: String,
    /// Those that its body holds.
    pub marks: PullRequestMetadata,
}

impl Controller {
    /// Title and text of a pull request: those of the proposed commits, with what is missing now, so that they stay as long as these do.
    pub(super) fn text(
        &self,
        reading: &FleetReading,
        showing: &Showing<'_>,
        open: Option<&Thread>,
        (place, seal): (Place, &MetadataSigner),
    ) -> Result<Text, ForgeError> {
        let unreadable = |error: GitError| ForgeError::Unavailable {
            action: format!("read what {} proposes", showing.branch),
            reason: error.to_string(),
        };
        let repository = self.planner.repository();
        let (mut proposed, mut check_list) = (Vec::new(), Vec::new());
        for row in &showing.rows {
            let snapshot = repository.deploy_snapshot(&reading.layout, &row.proposal.commit).map_err(unreadable)?;
            let text = match body_path(row.cluster()).and_then(|path| snapshot.read(&path)) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                // One text that cannot be read is no reason not to show the others.
                Err(error) if error.is_of_content() => error.to_string(),
                Err(error) => return Err(unreadable(error)),
            };
            check_list.extend(row.check_list(&text, showing.rows.len() > 1));
            proposed.push(Proposed { cluster: row.cluster(), text, readiness: row.readiness().cell() });
        }
        let title = match showing.rows.as_slice() {
            [row] => {
                let message = repository.message(&row.proposal.commit).map_err(unreadable)?;
                message.lines().next().unwrap_or_default().to_owned()
            }
            rows => {
                let what = match &showing.group.scope {
                    ApprovalScope::Stage(stage) => stage.to_string(),
                    ApprovalScope::Rollout => "the whole rollout".to_owned(),
                };
                format!("{}: {what}, {} clusters", showing.group.name, rows.len())
            }
        };
        let before = open.map(|thread| thread.marks.clone()).unwrap_or_default();
        let last_comment = open.map_or(0, |thread| thread.conversation.last);
        let parts = showing.rows.iter().map(|row| (row.cluster(), row.plan()));
        let marks = before.shown(place, &showing.stack.head, parts, last_comment);
        let sealed = marks.sealed(showing.branch.as_str(), seal);
        let mut lines = open.map(|thread| since(&thread.pull.body)).unwrap_or_default();
        if open.is_some() {
            lines.extend(self.what_changed(reading, showing, &before));
            tell_lost(&proposed, &showing.stack.head, &mut lines);
        }
        let branches = (showing.branch.as_str(), reading.layout.branch.as_str());
        let edits = match showing.stack.is_edited() {
            true => edited::told(repository, reading, showing.stack).map_err(unreadable)?,
            false => Vec::new(),
        };
        let content = Content {
            title: &title,
            branches,
            proposed: &proposed,
            edits: &edits,
            check_list: &check_list,
            since: &lines,
            marks: &sealed,
        };
        let body = content.text();
        Ok(Text { title, body, marks })
    }

    /// What is different from what was shown before, a line each.
    fn what_changed(&self, reading: &FleetReading, showing: &Showing<'_>, before: &PullRequestMetadata) -> Vec<String> {
        let head: String = showing.stack.head.as_str().chars().take(10).collect();
        if before.is_not_known() {
            return vec![format!("{head}: {NOT_KNOWN}")];
        }
        let mut lines = Vec::new();
        for row in &showing.rows {
            let cluster = row.cluster();
            match before.differs(cluster, row.plan()) {
                Some(false) => {}
                Some(true) if row.takes_up() => {
                    lines.push(format!(
                        "{head}: what people changed of {cluster} is proposed now; what was said before is void"
                    ));
                }
                Some(true) => {
                    let source: String = row.proposal.trailers.source.as_str().chars().take(10).collect();
                    lines.push(format!(
                        "{head}: {cluster} has another plan, of source commit {source}; what was said of the one before is void"
                    ));
                }
                None => lines.push(format!("{head}: {cluster} is asked for as well")),
            }
        }
        for cluster in before.clusters().filter(|name| showing.rows.iter().all(|row| row.cluster() != *name)) {
            let left = self.why_left(reading, cluster, before, showing.positions).map_or("", Left::reason);
            lines.push(format!("{head}: {cluster} is asked for no more. {left}"));
        }
        lines
    }

    /// Why a cluster that was asked for is not any more, as far as this pass knows.
    fn why_left(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        before: &PullRequestMetadata,
        positions: &BTreeMap<ClusterName, Position>,
    ) -> Option<Left> {
        let Some(position) = positions.get(cluster) else { return Some(Left::Landed) };
        let shown = position.askings.iter().find(|asking| before.of(cluster, &asking.plan).is_some());
        match shown {
            None => {
                let plan = position.view.directory.ledger().map(|ledger| &ledger.plan);
                let landed = plan.is_some_and(|plan| before.of(cluster, plan).is_some());
                Some(if landed && reading.deploy.is_some() { Left::Landed } else { Left::Moved })
            }
            Some(asking) if asking.is_rejected() => Some(Left::Rejected),
            Some(_) if position.held => Some(Left::Held),
            Some(asking) if asking.said.held_by.is_some() => Some(Left::Apart),
            Some(_) => None,
        }
    }
}

/// Says once what lay on the branch and is not part of what is proposed.
fn tell_lost(proposed: &[Proposed<'_>], head: &CommitId, lines: &mut Vec<String>) {
    let head: String = head.as_str().chars().take(10).collect();
    for it in proposed {
        for lost in Sections::read(&it.text).lost {
            let line = format!("{}: {lost}", it.cluster);
            // Lines are cut where they are too long.
            let begin: String = line.chars().take(BEGIN).collect();
            if !lines.iter().any(|known| known.contains(&begin)) {
                lines.push(format!("{head}: {line}"));
            }
        }
    }
}
