//! What a `proposal.md` says, taken apart again, for a text about several of them.

use crate::text::body::{CHANGES, EDITS, EVIDENCE, LOST, NOTES, OBJECTS, ONE_WAY, RISKS};

/// What a `proposal.md` says, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// The line that names rollout and plan.
    pub plan: String,
    /// What cannot be undone.
    pub one_way: Vec<String>,
    /// The risks of the plan.
    pub risks: Vec<String>,
    /// What lay on the branch and is not part of it.
    pub lost: Vec<String>,
    /// What people changed and is taken up, an entry of several lines for each object.
    pub edits: Vec<String>,
    /// Addresses of release notes.
    pub notes: Vec<String>,
    /// What changes, an entry of several lines for each object.
    pub objects: Vec<String>,
    /// Rows of its table from the first bar on.
    pub rows: Vec<String>,
    /// What the gate before saw.
    pub evidence: Vec<String>,
}

impl Sections {
    /// Reads the form that [`crate::text::body::text`] writes.
    pub fn read(text: &str) -> Self {
        let mut sections = Self::default();
        let mut heading = "";
        for line in text.lines() {
            if let Some(next) = line.strip_prefix("## ") {
                heading = next;
            } else if heading.is_empty() && line.starts_with("Rollout ") {
                line.trim_end_matches('.').clone_into(&mut sections.plan);
            } else if let Some(item) = line.strip_prefix("- ") {
                let list = match heading {
                    ONE_WAY => &mut sections.one_way,
                    RISKS => &mut sections.risks,
                    LOST => &mut sections.lost,
                    EDITS => &mut sections.edits,
                    NOTES => &mut sections.notes,
                    OBJECTS => &mut sections.objects,
                    EVIDENCE => &mut sections.evidence,
                    _ => continue,
                };
                list.push(item.to_owned());
            } else if [OBJECTS, EDITS].contains(&heading) && line.starts_with("  - ") {
                let list = if heading == OBJECTS { &mut sections.objects } else { &mut sections.edits };
                if let Some(object) = list.last_mut() {
                    object.push('\n');
                    object.push_str(line);
                }
            } else if heading == CHANGES && line.starts_with("| ") {
                sections.rows.push(line.trim_end().to_owned());
            }
        }
        // The first two are the head of the table.
        sections.rows.drain(..sections.rows.len().min(2));
        sections
    }
}
