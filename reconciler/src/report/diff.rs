//! What the stages of a cluster change, file by file.

use overlays::{FileChange, RenderedTree};
use serde::Serialize;
use similar::TextDiff;

use planning::difference::without_secrets;
use planning::stage_tree::StageTree;

/// What differs between the deploy branch and the target.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct DiffReport {
    /// The files, by cluster, stage and path.
    pub files: Vec<FileReport>,
}

/// One file that a stage changes.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileReport {
    /// The cluster.
    pub cluster: String,
    /// The stage.
    pub stage: String,
    /// Path on the deploy branch.
    pub path: String,
    /// `added`, `removed` or `modified`.
    pub change: String,
    /// Unified diff without the values of Secrets; null with `--name-only`.
    pub diff: Option<String>,
}

/// What a stage changes, file by file.
pub fn changed_files(cluster: &str, part: &StageTree, name_only: bool) -> Vec<FileReport> {
    let report = |(path, change): (domain::RepoPath, FileChange)| FileReport {
        cluster: cluster.to_owned(),
        stage: part.stage.to_string(),
        change: match change {
            FileChange::Added => "added",
            FileChange::Removed => "removed",
            FileChange::Modified => "modified",
        }
        .to_owned(),
        diff: (!name_only).then(|| unified(part, &path)),
        path: path.to_string(),
    };
    part.before.diff(&part.after).files.into_iter().map(report).collect()
}

fn unified(part: &StageTree, path: &domain::RepoPath) -> String {
    let text = |tree: &RenderedTree| {
        tree.get(path.as_str()).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    };
    let (before, after) = (text(&part.before), text(&part.after));
    let name = |side: &str, text: &str| if text.is_empty() { "/dev/null".to_owned() } else { format!("{side}/{path}") };
    let (old, new) = (name("deploy", &before), name("target", &after));
    // The diff is read in terminals and logs of CI, where nobody keeps secrets.
    let [before, after] = without_secrets(&before, &after);
    TextDiff::from_lines(&before, &after).unified_diff().header(&old, &new).to_string()
}
