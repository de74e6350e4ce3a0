//! Spans of a rollout, as traces have them: read off the ledger, so that a new process comes to the same ones.
//!
//! A rollout lasts for days and outlives processes, so no span is ever open: one is made when it ends.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::announcement::Announcement;
use crate::ledger::{Ledger, StageRecord, StageRecordKind};
use crate::verdict::Evidence;
use policy::AnnouncementKind;

/// A part of a rollout's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// Its place in the trace, `STAGE/ATTEMPT` or a part of that such as `control-plane/1/soak`;
    /// empty for the rollout itself.
    pub place: String,
    /// The place of the span around it; none for the rollout itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What people read: `rollout`, the stage, `approval`, `window`, `gate` or `soak`.
    pub name: String,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// Why it failed; none where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What else is known of it, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// Spans that ended at the same time, and the trace that they belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spans {
    /// Names the trace: the cluster, its rollout, and when that began. A rollout that is begun anew is
    /// another trace.
    pub trace: String,
    /// The spans, parents first.
    pub spans: Vec<Span>,
}

/// The spans that end with what is told: those of a stage whose gate has passed or which was taken
/// back, and that of a rollout which has ended. None where nothing ends.
#[must_use]
pub fn spans(ledger: &Ledger, told: &Announcement) -> Option<Spans> {
    let spans = match (&told.stage, told.kind) {
        (Some(_), AnnouncementKind::Done) => of_stage(ledger, told, StageRecordKind::Commit)?,
        (Some(_), AnnouncementKind::RolledBack) => of_stage(ledger, told, StageRecordKind::Revert)?,
        (None, AnnouncementKind::Done | AnnouncementKind::RolledBack) => vec![of_rollout(ledger, told)],
        _ => return None,
    };
    let trace = format!("{}/{}/{}", ledger.cluster, ledger.rollout, ledger.started_at);
    Some(Spans { trace, spans })
}

fn of_rollout(ledger: &Ledger, told: &Announcement) -> Span {
    let mut attributes = BTreeMap::from([
        ("stepgate.cluster".to_owned(), ledger.cluster.to_string()),
        ("stepgate.rollout".to_owned(), ledger.rollout.to_string()),
        ("stepgate.source".to_owned(), ledger.source.to_string()),
        ("stepgate.outcome".to_owned(), told.kind.to_string()),
    ]);
    attributes.extend(ledger.rollback.as_ref().map(|rollback| ("stepgate.rollback".to_owned(), rollback.to_string())));
    Span {
        place: String::new(),
        parent: None,
        name: "rollout".to_owned(),
        began: opened_at(ledger.stages.first()).unwrap_or(ledger.started_at).min(ledger.started_at),
        ended: told.at,
        failure: None,
        attributes,
    }
}

/// The span of the attempt that ends with a record of this kind, and those of what it waited for.
fn of_stage(ledger: &Ledger, told: &Announcement, ends_by: StageRecordKind) -> Option<Vec<Span>> {
    let stage = told.stage.as_ref()?;
    let turn = usize::try_from(told.turn).ok()?.checked_sub(1)?;
    let is_named = |(_, record): &(usize, &StageRecord)| &record.stage == stage && record.kind == ends_by;
    let (index, named) = ledger.stages.iter().enumerate().filter(is_named).nth(turn)?;
    let (index, commit) = match ends_by {
        StageRecordKind::Commit => (index, named),
        // The commit that was taken back.
        StageRecordKind::Revert => {
            let before = ledger.stages.iter().enumerate().take(index);
            before.rev().find(|(_, record)| &record.stage == stage && record.kind == StageRecordKind::Commit)?
        }
    };
    let place = format!("{}/{}", commit.stage, commit.attempt);
    let opened = opened_at(Some(commit)).map_or(commit.committed_at, |opened| opened.min(commit.committed_at));
    let gate = match ends_by {
        StageRecordKind::Commit => evidence_after(ledger, index),
        StageRecordKind::Revert => None,
    };
    let ended = gate.map_or(told.at, |gate| gate.observed_at).max(commit.committed_at);
    let reasons: Vec<String> = named.reasons.iter().map(ToString::to_string).collect();
    let failure = (ends_by == StageRecordKind::Revert).then(|| reasons.join("; "));
    let mut attributes = BTreeMap::from([
        ("stepgate.cluster".to_owned(), ledger.cluster.to_string()),
        ("stepgate.rollout".to_owned(), ledger.rollout.to_string()),
        ("stepgate.stage".to_owned(), commit.stage.to_string()),
        ("stepgate.attempt".to_owned(), commit.attempt.to_string()),
        ("stepgate.tree".to_owned(), commit.after.to_string()),
    ]);
    attributes.extend(gate.map(|gate| ("stepgate.reads".to_owned(), gate.reads.to_string())));
    let whole = Span {
        place: place.clone(),
        parent: Some(String::new()),
        name: commit.stage.to_string(),
        began: opened,
        ended,
        failure,
        attributes,
    };
    let part = |name: &str, began: Timestamp, ended: Timestamp| {
        (began < ended).then(|| Span {
            place: format!("{place}/{name}"),
            parent: Some(place.clone()),
            name: name.to_owned(),
            began,
            ended,
            failure: None,
            attributes: BTreeMap::new(),
        })
    };
    let approved = approved_at(ledger, commit).map(|at| at.clamp(opened, commit.committed_at));
    let healthy = gate.map_or(ended, |gate| gate.held_since.clamp(commit.committed_at, ended));
    let parts = [
        approved.and_then(|approved| part("approval", opened, approved)),
        part("window", approved.unwrap_or(opened), commit.committed_at),
        part("gate", commit.committed_at, healthy),
        part("soak", healthy, ended),
    ];
    Some(std::iter::once(whole).chain(parts.into_iter().flatten()).collect())
}

/// When the gate before a commit was seen to be open.
fn opened_at(record: Option<&StageRecord>) -> Option<Timestamp> {
    Some(record?.opened_by.as_ref()?.observed_at)
}

/// The evidence of a commit's own gate.
fn evidence_after(ledger: &Ledger, index: usize) -> Option<&Evidence> {
    match ledger.stages.get(index + 1) {
        Some(next) => next.opened_by.as_ref(),
        None => ledger.verified.as_ref(),
    }
}

/// When people approved what a commit brought.
fn approved_at(ledger: &Ledger, commit: &StageRecord) -> Option<Timestamp> {
    let brought = ledger.approvals.iter().filter(|approved| ledger.brought(approved) == Some(&commit.stage));
    brought.filter_map(|approved| approved.at).filter(|at| *at <= commit.committed_at).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::announcement::announcements;
    use crate::step::harness::RolloutHarness;
    use policy::OnFailure;

    /// What ends in a rollout of two stages, a line a span.
    fn told(ledger: &Ledger) -> Vec<Spans> {
        let commit = "c".repeat(40).parse().unwrap();
        announcements(None, ledger, &commit).iter().filter_map(|told| spans(ledger, told)).collect()
    }

    fn rolled_out() -> Ledger {
        let mut harness = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
        harness.until("close");
        harness.ledger.unwrap()
    }

    #[test]
    fn stages_that_passed_and_the_rollout_are_told_within_each_other() {
        let ledger = rolled_out();
        let told = told(&ledger);
        let all: Vec<&Span> = told.iter().flat_map(|told| &told.spans).collect();
        let wholes: Vec<&str> =
            all.iter().map(|span| span.place.as_str()).filter(|place| place.split('/').count() < 3).collect();
        assert_eq!(wholes, ["cert-manager/1", "capi/1", ""]);
        let root = all.last().unwrap();
        for span in &all {
            assert!(span.began <= span.ended && root.began <= span.began && span.ended <= root.ended, "{span:?}");
            let parent = span.parent.as_ref().map(|parent| all.iter().find(|one| &one.place == parent).unwrap());
            assert!(parent.is_none_or(|parent| parent.began <= span.began && span.ended <= parent.ended), "{span:?}");
        }
        let traces: std::collections::BTreeSet<&str> = told.iter().map(|told| told.trace.as_str()).collect();
        assert_eq!(traces.len(), 1);
    }

    #[test]
    fn time_of_a_stage_is_split_into_gate_and_soak() {
        let ledger = rolled_out();
        let told = told(&ledger);
        let first = &told.first().unwrap().spans;
        let (committed, gate) = (ledger.stages[0].committed_at, ledger.stages[1].opened_by.as_ref().unwrap());
        let of = |name: &str| first.iter().find(|span| span.name == name).map(|span| (span.began, span.ended));
        assert_eq!(of("soak"), Some((gate.held_since, gate.observed_at)));
        assert_eq!(of("gate").map_or(committed, |(began, _)| began), committed);
        assert_eq!(of("approval"), None);
    }

    #[test]
    fn a_stage_that_was_taken_back_ends_as_a_failure() {
        let mut harness = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
        harness.broken = vec![("capi", 2)];
        harness.policy.on_failure = OnFailure::Revert;
        harness.until("revert capi 1");
        let told = told(&harness.ledger.unwrap());
        let failed: Vec<&Span> =
            told.iter().flat_map(|told| &told.spans).filter(|span| span.failure.is_some()).collect();
        assert_eq!(failed.iter().map(|span| span.place.as_str()).collect::<Vec<_>>(), ["capi/1"]);
        assert!(failed[0].failure.as_ref().is_some_and(|reasons| !reasons.is_empty()), "{failed:?}");
    }
}
