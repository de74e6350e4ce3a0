//! How the objects of a backup stand to those that are there.

use jiff::Timestamp;
use serde_json::Value;

use super::object::{content, differing, key, text};
use super::pausing::{Pause, pause_of};

/// How a saved object stands to the one that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SavedState {
    /// It is not there.
    Missing,
    /// It is there, and has lost its owners or labels.
    Changed,
    /// Somebody has changed it, or made it anew, since the backup was taken.
    Newer,
    /// It is being deleted.
    Leaving,
    /// Its kind is not served in the version of the backup.
    NotServed,
    /// It is there as it was.
    Same,
}

impl SavedState {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Changed => "changed",
            Self::Newer => "newer",
            Self::Leaving => "leaving",
            Self::NotServed => "not-served",
            Self::Same => "same",
        }
    }
}

/// One object of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedObject {
    /// `Kind namespace/name`.
    pub object: String,
    /// How it stands to the one that is there.
    pub state: SavedState,
    /// What differs; empty where nothing does.
    pub detail: String,
}

/// What comparing two objects gives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It stands so.
    So(SavedState, String),
    /// Other fields than were saved may be what the server adds by itself: it has to be asked.
    Unclear(String),
}

impl Judged {
    /// Two objects whose contents are the same.
    pub(super) fn metadata(saved: &Value, live: &Value, links: &[String]) -> Self {
        let lost = lost_labels(saved, live).into_iter().chain(links.iter().cloned()).collect::<Vec<_>>();
        if lost.is_empty() {
            Self::So(SavedState::Same, String::new())
        } else {
            Self::So(SavedState::Changed, format!("without {}", lost.join(", ")))
        }
    }
}

/// How many paths that differ are named.
const NAMED: usize = 3;

/// Compares a saved object with the one that is there. `links` are the owners that it should have and has not.
pub(super) fn judge(saved: &Value, live: &Value, taken_at: Timestamp, links: &[String]) -> Judged {
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return Judged::So(SavedState::Leaving, "it is being deleted".to_owned());
    }
    let fields = differing_fields(saved, live);
    if fields.is_empty() {
        return Judged::metadata(saved, live, links);
    }
    let fields = fields.join(", ");
    let uid = |object| text(object, "/metadata/uid").to_owned();
    if uid(saved) != uid(live) {
        let made = text(live, "/metadata/creationTimestamp").parse::<Timestamp>();
        let made = made.map_or_else(|_| "anew".to_owned(), |at| format!("at {at}, after {taken_at}"));
        return Judged::Unclear(format!("made {made}: {fields}"));
    }
    let generation = |object: &Value| object.pointer("/metadata/generation").and_then(Value::as_i64);
    match (generation(saved), generation(live)) {
        (Some(before), Some(now)) if now > before => {
            Judged::So(SavedState::Newer, format!("generation {now}, {before} in the backup: {fields}"))
        }
        // The same generation in another version of its kind.
        (Some(_), Some(_)) => Judged::metadata(saved, live, links),
        // Kinds without a generation, such as Secrets: whatever differs was written after the backup.
        _ => Judged::So(SavedState::Newer, format!("written after the backup: {fields}")),
    }
}

/// The paths at which the contents differ, but for whether a Cluster is paused.
pub(super) fn differing_fields(saved: &Value, live: &Value) -> Vec<String> {
    let mut fields = Vec::new();
    differing(&compared(saved), &compared(live), "", NAMED, &mut fields);
    fields
}

fn compared(object: &Value) -> Value {
    let mut content = content(object);
    if pause_of(&key(object)) == Some(Pause::Field)
        && let Some(spec) = content.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("paused");
    }
    Value::Object(content)
}

fn lost_labels(saved: &Value, live: &Value) -> Vec<String> {
    let labels = saved.pointer("/metadata/labels").and_then(Value::as_object);
    let of_live = |name: &str| live.pointer("/metadata/labels").and_then(|labels| labels.get(name));
    let lost = labels.into_iter().flatten().filter(|(name, value)| of_live(name) != Some(value));
    lost.map(|(name, _)| format!("label {name}")).collect()
}
