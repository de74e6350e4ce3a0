//! What has been done, as text and as JSON.

use std::fmt::Write as _;

use crate::journal::{Journal, Record, State};
use crate::step::{MOST_ATTEMPTS, Step};

/// A table for people.
#[must_use]
pub fn table(journal: &Journal) -> String {
    let target = &journal.target;
    let mut text = format!(
        "node {} ({}): {} to {} ({})\n",
        journal.node,
        role(journal),
        journal.version_before,
        target.kubernetes_version,
        target.manifest
    );
    for step in Step::ALL {
        row(&mut text, step.as_str(), &journal.record(step));
    }
    if let Some(record) = &journal.rollback {
        row(&mut text, "rollback", record);
    }
    text
}

fn role(journal: &Journal) -> String {
    serde_json::to_value(journal.role).ok().and_then(|role| role.as_str().map(str::to_owned)).unwrap_or_default()
}

fn row(text: &mut String, name: &str, record: &Record) {
    let state = match record.state {
        State::Pending => "pending",
        State::Running => "running",
        State::Succeeded => "succeeded",
        State::Failed => "failed",
    };
    let times = match (record.started, record.finished) {
        (Some(started), Some(finished)) => format!("{started} {} s", finished.as_second() - started.as_second()),
        (Some(started), None) => started.to_string(),
        (None, _) => String::new(),
    };
    let mut notes = Vec::new();
    if record.attempts > 0 {
        notes.push(format!("{} of {MOST_ATTEMPTS} attempts failed", record.attempts));
    }
    if record.interruptions > 0 {
        notes.push(format!("interrupted {} times", record.interruptions));
    }
    if !record.message.is_empty() {
        notes.push(record.message.replace('\n', "\n    "));
    }
    let _always_written =
        writeln!(text, "{}", format!("{name:<12} {state:<10} {times:<26} {}", notes.join("; ")).trim_end());
}
