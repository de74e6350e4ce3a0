//! Conditions as kstatus reads them: `Ready`, `Reconciling`, `Stalled`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One condition of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// One line.
    pub message: String,
    /// When the status changed last.
    pub last_transition_time: Timestamp,
    /// The generation that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Where an object stands, for kstatus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Ready,
    Reconciling,
    Stalled,
}

/// The three conditions of an object that stands so, with the times of those before that say the same.
pub(crate) fn conditions(
    before: &[Condition],
    standing: Standing,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let of = |kind: &str, is_true: bool| {
        let status = if is_true { "True" } else { "False" };
        let known = before.iter().find(|known| known.kind == kind && known.status == status);
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: known.map_or(now, |known| known.last_transition_time),
            observed_generation: generation,
        }
    };
    vec![
        of("Ready", standing == Standing::Ready),
        of("Reconciling", standing == Standing::Reconciling),
        of("Stalled", standing == Standing::Stalled),
    ]
}
