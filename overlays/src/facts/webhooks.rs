//! Webhooks of the deployed objects against those of the target.

use std::collections::{BTreeMap, BTreeSet};

use super::index::Index;
use crate::note::{Note, NoteKind, Weight};
use crate::object::WebhookSummary;

/// Webhooks that disappear, and versions of the request (`admissionReviewVersions`) that those that stay no longer take.
pub(super) fn webhooks(old: &Index, new: &Index) -> Vec<Note> {
    let after = by_kind_and_name(new);
    let mut notes = Vec::new();
    // One note for each version, not one for each of dozens of webhooks.
    let mut dropped: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, before) in by_kind_and_name(old) {
        let Some(after) = after.get(&id) else {
            notes.push(removed(before));
            continue;
        };
        let kept: BTreeSet<&String> = after.review_versions.iter().collect();
        for version in before.review_versions.iter().filter(|version| !kept.contains(version)) {
            dropped.entry(version).or_default().push(&before.name);
        }
    }
    for (version, names) in dropped {
        let message = format!(
            "{} no longer AdmissionReview {version}: whoever speaks nothing newer cannot call {}",
            if names.len() == 1 { "1 webhook takes".to_owned() } else { format!("{} webhooks take", names.len()) },
            names.join(", ")
        );
        notes.push(Note::new(Weight::Note, NoteKind::ReviewVersionRemoved, message));
    }
    notes
}

fn by_kind_and_name(index: &Index) -> BTreeMap<(&str, &str), &WebhookSummary> {
    let all = index.values().flat_map(|(summary, _)| summary.webhooks.iter().map(move |webhook| (summary, webhook)));
    all.map(|(summary, webhook)| ((summary.kind.as_str(), webhook.name.as_str()), webhook)).collect()
}

fn removed(webhook: &WebhookSummary) -> Note {
    let message = format!(
        "webhook {} is gone from the target; were it left behind, its failurePolicy {} would {}",
        webhook.name,
        webhook.failure_policy,
        if webhook.failure_policy == "Ignore" { "only slow writes" } else { "block writes" }
    );
    Note::new(Weight::Risk, NoteKind::WebhookRemoved, message)
}
