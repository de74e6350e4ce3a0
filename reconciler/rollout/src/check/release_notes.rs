//! Whether releases on the way have to be read about, or prepared for, before them.

use jiff::civil::Date;
use policy::CheckName;
use serde::{Deserialize, Serialize};

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};

pub(super) const CHECK: Check = Check {
    name: CheckName::ReleaseNotes,
    looks_at: "what releases on the way say has to be read, or done, before them, and `notes` of stepgate.yaml",
    severity: CheckSeverity::Blocking,
    remedy: "read the note at its source",
    judge,
};

/// The kind by which waivers name notes.
const KIND: &str = "ReleaseNote";

/// A note that concerns a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToldNote {
    /// By what waivers name it: `ReleaseNote/<name>`.
    pub name: String,
    /// What is to be known.
    pub message: String,
    /// What is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Where it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The day on which it was read there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<Date>,
    /// Whether the rollout waits until a waiver says that it is done.
    #[serde(default)]
    pub is_blocking: bool,
}

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    judged.expectation.notes.iter().map(of).collect()
}

fn of(note: &ToldNote) -> CheckFinding {
    let read = note.date.map(|date| format!(" as of {date}")).unwrap_or_default();
    let source = note.source.as_ref().map(|source| format!(" ({source}{read})")).unwrap_or_default();
    let message = format!("{}{source}", note.message);
    let finding = if note.is_blocking { CheckFinding::fail(message) } else { CheckFinding::warn(message) };
    let done = format!(
        "once that is done, say so: a waiver in stepgate.yaml with check: {}, object: {KIND}/{}, a reason and its last day",
        CheckName::ReleaseNotes,
        note.name
    );
    let remedies: Vec<String> = note.remedy.iter().cloned().chain(note.is_blocking.then_some(done)).collect();
    let finding = finding.on(FoundObject { kind: KIND.to_owned(), namespace: None, name: note.name.clone() });
    if remedies.is_empty() { finding } else { finding.remedy(remedies.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CheckStatus;

    #[test]
    fn a_note_is_told_with_its_source_and_a_blocking_one_with_its_waiver() {
        let note = |is_blocking| ToldNote {
            name: "eksa-0.26-cloudstack".to_owned(),
            message: "eksa goes from v0.25.0 to v0.26.0: it is removed".to_owned(),
            remedy: Some("move first".to_owned()),
            source: Some("https://example.com/log".to_owned()),
            date: "2026-08-18".parse().ok(),
            is_blocking,
        };
        let (warned, failed) = (of(&note(false)), of(&note(true)));
        assert_eq!((warned.status, failed.status), (CheckStatus::Warn, CheckStatus::Fail));
        let expected = "ReleaseNote eksa-0.26-cloudstack: eksa goes from v0.25.0 to v0.26.0: it is removed \
                        (https://example.com/log as of 2026-08-18)";
        assert_eq!(warned.to_string(), expected);
        assert_eq!(warned.remedy.as_deref(), Some("move first"));
        let remedy = failed.remedy.unwrap();
        assert!(remedy.contains("check: release-notes, object: ReleaseNote/eksa-0.26-cloudstack"), "{remedy}");
    }
}
