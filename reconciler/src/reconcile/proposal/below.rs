//! What became of something that people have merged, said below its pull request: what keeps nodes while a stage rolls them, and
//! what differs once the rollout has ended.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use domain::ClusterName;
use jiff::{SignedDuration, Timestamp};
use overlays::ClusterSpec;
use rollout::{ApprovalScope, Approved, Ledger, LedgerState, Reason, World, kept_nodes};

use super::mergers::branch_of;
use super::proposal_cache::{Landed, ProposalCache};
use crate::reconcile::Controller;
use crate::reconcile::effects::dumps::DUMP;
use crate::reconcile::planner::{ClusterView, FleetReading};
use approvals::text::truncate;
use forge::ForgeError;

/// What was said last of each cluster, and when: what changes all the time is said once a minute.
pub type SaidBelow = BTreeMap<ClusterName, (String, Timestamp)>;

/// What has only changed is said again after this time.
const BETWEEN: SignedDuration = SignedDuration::from_secs(60);

/// So many pods are named.
const NAMED: usize = 10;

/// What is said once nothing keeps nodes any more.
const FREE: &str = "Nothing keeps its nodes any more.";

impl Controller {
    /// Says below the pull request of the running stage which pods keep its nodes, and that none does any more.
    pub(in crate::reconcile) async fn say_what_keeps_nodes(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        view: &ClusterView,
        world: &World,
    ) {
        let running = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
        let (Some(ledger), Some(observation)) = (running, world.observation.as_deref()) else { return };
        let Some(approved) = brought(ledger) else { return };
        let kept = kept_nodes(observation);
        let event = if kept.is_empty() { FREE.to_owned() } else { what_keeps(&view.name, &kept) };
        let now = self.clock.now();
        let is_due = |said: &SaidBelow| match said.get(&view.name) {
            // Nothing was said, and there is nothing to say.
            None => !kept.is_empty(),
            Some((text, _)) if *text == event => false,
            Some((text, at)) => text == FREE || kept.is_empty() || now.duration_since(*at) >= BETWEEN,
        };
        if is_due(&self.said_below.lock().unwrap_or_else(PoisonError::into_inner)) {
            self.say_below(reading, board, view, approved, event).await;
        }
    }

    /// Says below the pull request of the last stage what differs from before the rollout, now that it has ended.
    pub(in crate::reconcile) async fn say_what_differs(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        cluster: &ClusterSpec,
    ) {
        let Ok(view) = self.current_view(reading, cluster) else { return };
        let Some(ledger) = view.directory.ledger() else { return };
        let Some(approved) = ledger.approvals.last() else { return };
        let Some(event) = what_differs(ledger) else { return };
        self.say_below(reading, board, &view, approved, event).await;
    }

    async fn say_below(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        view: &ClusterView,
        approved: &Approved,
        event: String,
    ) {
        let about = Landed { cluster: &view.name, plan: &approved.plan, scope: &approved.scope };
        let said = async {
            let Some(forge) = self.planner.forge(reading)? else { return Ok(()) };
            let Ok(branch) = branch_of(reading, view, &about) else { return Ok(()) };
            let Some(thread) = board.merged(&self.planner, reading, &branch, &about).await? else { return Ok(()) };
            if let Some((id, text)) = thread.conversation.comment(Some(&event)) {
                forge.comment(thread.pull.number, id, &text).await?;
                board.forget(thread.pull.number);
            }
            Ok::<(), ForgeError>(())
        };
        if let Err(error) = said.await {
            // It stands in `why` all the same, and is said at the next change.
            tracing::warn!(cluster.name = %view.name, %error, hint = error.hint(), "could not say below a pull request what became of it");
        }
        let mut said = self.said_below.lock().unwrap_or_else(PoisonError::into_inner);
        said.insert(view.name.clone(), (event, self.clock.now()));
    }
}

/// The approval that brought the stage which runs.
fn brought(ledger: &Ledger) -> Option<&Approved> {
    let stage = &ledger.stages.last()?.stage;
    let is_it = |approved: &&Approved| match &approved.scope {
        ApprovalScope::Rollout => true,
        ApprovalScope::Stage(of) => of == stage,
    };
    ledger.approvals.iter().rev().filter(|approved| approved.plan == ledger.plan).find(is_it)
}

fn what_keeps(cluster: &ClusterName, kept: &[Reason]) -> String {
    let mut text = format!("**Nodes of {cluster} are kept from being drained:**\n");
    for reason in kept.iter().take(NAMED) {
        text.push_str(&format!("\n- {}", truncate::line(&reason.to_string())));
        if let Some(help) = &reason.help {
            text.push_str(&format!("\n  - {}", truncate::line(help)));
        }
    }
    let more = kept.len().saturating_sub(NAMED);
    if more > 0 {
        text.push_str(&format!("\n- and {more} more: `stepgate why {cluster}`"));
    }
    text
}

/// What the closing commit says of the dumps; none where there are none.
fn what_differs(ledger: &Ledger) -> Option<String> {
    let facts = &ledger.verified.as_ref()?.facts;
    let first = facts.iter().position(|fact| fact.object == DUMP)?;
    let lines = facts.get(first..)?.iter();
    let lines = lines.map(|fact| truncate::line(&format!("{}: {}", fact.object, fact.seen)));
    let lines: Vec<String> = lines.map(|line| format!("- {line}\n")).collect();
    Some(format!("**The rollout of {} has ended.** Before and after:\n\n{}", ledger.cluster, lines.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_nodes_is_told_with_what_helps_and_bounded() {
        let reason = |number: usize| {
            Reason::on(format!("Pod shop/web-{number} of Deployment shop/web"), "is refused").help("scale")
        };
        let cluster = "shop".parse().unwrap();
        let one = what_keeps(&cluster, &[reason(1)]);
        let expected = "**Nodes of shop are kept from being drained:**\n\n\
                        - Pod shop/web-1 of Deployment shop/web: is refused\n  - scale";
        assert_eq!(one, expected);
        let many = what_keeps(&cluster, &(0..12).map(reason).collect::<Vec<_>>());
        assert!(many.ends_with("- and 2 more: `stepgate why shop`") && many.matches("scale").count() == 10, "{many}");
    }
}
