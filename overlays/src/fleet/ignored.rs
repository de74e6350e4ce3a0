//! Files that the policy leaves out (`ignore`).

use crate::FileEntry;
use domain::{Problem, ProblemCode, Severity};
use policy::Policy;

/// Patterns that no file matches.
pub(super) fn unused_patterns(entries: &[FileEntry], policy: &Policy) -> Vec<Problem> {
    let unused = policy.ignore.iter().filter(|pattern| !entries.iter().any(|entry| pattern.matches(&entry.path)));
    let told = unused.map(|pattern| {
        let problem = Problem::new(ProblemCode::Skipped, format!("`ignore:` pattern `{pattern}` matches no file"));
        let problem = problem.shown_path(super::POLICY).severity(Severity::Warning);
        problem.hint("remove it, or write the path from the top of the repository")
    });
    told.collect()
}
