//! What is done, and said, upon what people said below a pull request: one comment of Stepgate's own, written anew each time.

use std::collections::BTreeMap;

use domain::{ClusterName, CommitId};

use super::AnswerError;
use super::ask::{Position, Told};
use super::merge::{Piece, merge};
use super::proposal_cache::ProposalCache;
use super::show::{Row, Showing};
use super::thread::Thread;
use crate::reconcile::Controller;
use crate::reconcile::planner::FleetReading;
use forge::{Forge, ForgeError};
use git::Identity;

impl Controller {
    /// Does what people said below a pull request, and says so there. It is merged once every part of it was approved, since a merge brings
    /// all of them.
    pub(super) async fn reply(
        &self,
        forge: &Forge,
        reading: &FleetReading,
        showing: &Showing<'_>,
        thread: &Thread,
    ) -> Result<Told, ForgeError> {
        let approved = |row: &Row<'_>| row.asking.and_then(|asking| asking.said.approved_by.clone());
        let last = showing.rows.iter().filter_map(approved).max_by_key(|(_, comment)| *comment);
        let Some((by, _)) = last else { return self.say(forge, thread, None).await };
        let unheard: Vec<&Row<'_>> = showing.rows.iter().filter(|row| approved(row).is_none()).collect();
        if !unheard.is_empty() {
            let event = format!(
                "{by} approved it for {} of {} clusters. It is merged once every one of them is approved, or held by its name: {}.",
                showing.rows.len() - unheard.len(),
                showing.rows.len(),
                names(unheard.iter().map(|row| row.cluster()))
            );
            return self.say(forge, thread, Some(&event)).await;
        }
        if let Some(event) = not_yet(&by, &showing.rows) {
            return self.say(forge, thread, Some(&event)).await;
        }
        match self.merge_all(reading, showing, &by) {
            Ok(commit) => {
                tracing::info!(git.branch = %showing.branch, approved.by = by, "merged what {} proposes", thread.pull.url);
                let event = format!("Merged into `{}` as {commit}: {by} approved it.", reading.layout.branch);
                if let Err(error) = self.say(forge, thread, Some(&event)).await {
                    // It is on the branch, whatever is said of it.
                    tracing::warn!(git.branch = %showing.branch, %error, hint = error.hint(), "could not say below {} that it is merged", thread.pull.url);
                }
                Ok(Told::Landed)
            }
            Err(error) => {
                let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                let event = format!("What {by} approved could not be merged: {error}{hint}.");
                self.say(forge, thread, Some(&event)).await
            }
        }
    }

    async fn say(&self, forge: &Forge, thread: &Thread, event: Option<&str>) -> Result<Told, ForgeError> {
        if let Some((id, text)) = thread.conversation.comment(event) {
            forge.comment(thread.pull.number, id, &text).await?;
        }
        Ok(Told::Nothing)
    }

    /// Merges everything that a branch proposes, in somebody's name.
    fn merge_all(&self, reading: &FleetReading, showing: &Showing<'_>, by: &str) -> Result<CommitId, AnswerError> {
        let address = reading.fleet.policy.forge.as_ref().map(|forge| host(&forge.url)).unwrap_or_default();
        let by = format!("{by} <{by}@{address}>").parse::<Identity>()?;
        let mut pieces = Vec::new();
        for row in &showing.rows {
            // Every row has both by now: it was approved, and asked for.
            let (Some(view), Some(asking), Some(request)) = (row.view, row.asking, row.request) else { continue };
            let approvers = request.approvers.iter().map(|given| given.who.to_string()).collect();
            pieces.push(Piece::new(&self.planner, reading, view, &row.proposal, asking.subject(view), approvers)?);
        }
        merge(&self.planner, reading, showing.stack, &pieces, (&by, None), None, self.clock.now())
    }

    /// Says below pull requests that people closed what that means, once for all clusters.
    pub(super) async fn tell_rejected(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        positions: &BTreeMap<ClusterName, Position>,
    ) {
        let Ok(Some(forge)) = self.planner.forge(reading) else { return };
        let mut closed: BTreeMap<u64, (&Thread, &str, Vec<&ClusterName>)> = BTreeMap::new();
        for (name, position) in positions {
            for asking in &position.askings {
                let (Some(by), Ok(Some(thread))) = (asking.rejected_on_forge(), &asking.thread) else { continue };
                closed.entry(thread.pull.number).or_insert((thread, by, Vec::new())).2.push(name);
            }
        }
        for (thread, by, clusters) in closed.into_values() {
            let clusters = match clusters.as_slice() {
                [one] => format!("{one} stays as it is until its plan is another one."),
                many => format!("{} stay as they are until their plans are others.", names(many.iter().copied())),
            };
            let event =
                format!("**Rejected**: {by} closed this. {clusters} Please say here why. Opening it again asks again.");
            if let Some((id, text)) = thread.conversation.comment(Some(&event)) {
                match forge.comment(thread.pull.number, id, &text).await {
                    Ok(()) => board.forget(thread.pull.number),
                    Err(error) => {
                        tracing::warn!(%error, hint = error.hint(), "could not ask why {} was closed", thread.pull.url);
                    }
                }
            }
        }
    }
}

/// Why what was approved is not merged yet; none where nothing speaks against it.
fn not_yet(by: &str, rows: &[Row<'_>]) -> Option<String> {
    if let [row] = rows {
        let Some(request) = row.request else {
            return Some(format!("{by} approved it. It is not merged yet: {LOOKED_AT}."));
        };
        if !request.missing.is_empty() {
            return Some(format!("{by} approved it. It is not merged yet: {}.", request.missing.join("; ")));
        }
        let reason = request.not_yet.as_ref()?;
        return Some(format!("{by} approved it. It is merged in its time: {reason}."));
    }
    let against = rows.iter().filter_map(|row| {
        // What only stays is not merged by us before its gate has been looked at.
        let looked_at = || row.request.is_none().then(|| LOOKED_AT.to_owned());
        Some((row.cluster(), row.readiness().against.or_else(looked_at)?))
    });
    let against: Vec<String> = against.map(|(cluster, against)| format!("{cluster}: {against}")).collect();
    let more = against.len().saturating_sub(NAMED);
    let told = against.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!against.is_empty()).then(|| format!("{by} approved it. It is not merged yet: {told}{more}."))
}

/// Why what was asked before is not merged now.
const LOOKED_AT: &str = "the gate before it is looked at again";

/// Of how many clusters the names are told.
const NAMED: usize = 10;

fn names<'a>(clusters: impl Iterator<Item = &'a ClusterName>) -> String {
    let names: Vec<&str> = clusters.map(ClusterName::as_str).collect();
    let more = names.len().saturating_sub(NAMED);
    let told = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{told} and {more} more") } else { told }
}

/// The host of a web address.
pub(super) fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default();
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}
