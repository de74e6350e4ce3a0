//! Files that the policy leaves out (`ignore`).

use yaml::Node;

use crate::{FileEntry, Files};
use domain::{Problem, ProblemCode, RepoPath, Severity};
use policy::{PathPattern, Policy};

/// Patterns that no file matches.
pub(super) fn unused_patterns(files: &dyn Files, entries: &[FileEntry], policy: &Policy) -> Vec<Problem> {
    let is_used = |pattern: &&PathPattern| entries.iter().any(|entry| pattern.matches(&entry.path));
    let unused: Vec<&PathPattern> = policy.ignore.iter().filter(|pattern| !is_used(pattern)).collect();
    if unused.is_empty() {
        return Vec::new();
    }
    let written = written(files);
    let told = unused.into_iter().map(|pattern| {
        let text = pattern.to_string();
        let place = written.iter().find(|node| node.as_str() == Some(text.as_str())).map(|node| node.span);
        let problem = Problem::new(ProblemCode::Skipped, format!("`ignore:` pattern `{text}` matches no file"));
        let problem = problem.shown_path(super::POLICY).severity(Severity::Warning);
        let problem = problem.hint("remove it, or write the path from the top of the repository");
        match place {
            Some(span) => problem.at(span.line().max(1), span.column().max(1)),
            None => problem,
        }
    });
    told.collect()
}

/// The patterns as they stand in the file.
fn written(files: &dyn Files) -> Vec<Node> {
    let bytes = RepoPath::new(super::POLICY).ok().and_then(|path| files.read(&path).ok()).unwrap_or_default();
    let text = yaml::decode(&bytes).unwrap_or_default();
    let documents = yaml::parse(&text, &yaml::Limits::default()).unwrap_or_default();
    let patterns = documents.first().and_then(|document| document.root.get("ignore")?.as_sequence());
    patterns.unwrap_or_default().to_vec()
}
