//! `stepgate diff`: the old and new files of the stages.

use clap::Args;
use overlays::{FileChange, RenderedTree};
use serde::Serialize;
use similar::TextDiff;

use crate::cli::ReportArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use planning::difference::without_secrets;
use planning::stage_tree::StageTree;

/// Arguments of `stepgate diff`. Its `table` is a unified diff.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    report: ReportArguments,
    /// Only this stage, such as `cert-manager` or `workers/md-0`.
    #[arg(long, value_name = "STAGE")]
    stage: Option<String>,
    /// Only name the files.
    #[arg(long)]
    name_only: bool,
}

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

impl Report for DiffReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table = Table { headers: vec!["CLUSTER", "STAGE", "CHANGE", "PATH"], ..Table::default() };
        for file in &self.files {
            table.rows.push(vec![file.cluster.clone(), file.stage.clone(), file.change.clone(), file.path.clone()]);
        }
        if self.files.is_empty() {
            table.notes.push("no differences".to_owned());
        }
        vec![(None, table)]
    }
}

/// Prints the differences.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let (opened, names) = arguments.report.open()?;
    opened.remark();
    let mut files = Vec::new();
    let mut broken: Option<CommandError> = None;
    for name in names {
        let view = match opened.view(&name) {
            Ok(view) => view,
            // One cluster's bad input does not hide what the others differ in.
            Err(error) => {
                let error = CommandError::from(error).context(format!("cluster {name} has no plan"));
                if let Some(earlier) = broken.replace(error.hint("`stepgate check` lists what to repair")) {
                    earlier.report();
                }
                continue;
            }
        };
        let wanted = |part: &&StageTree| arguments.stage.as_ref().is_none_or(|stage| *stage == part.stage.to_string());
        for part in view.parts.iter().filter(wanted) {
            files.extend(changed_files(&name, part, arguments.name_only));
        }
    }
    let report = DiffReport { files };
    if arguments.report.output == Format::Table && !arguments.name_only && !report.files.is_empty() {
        for file in &report.files {
            output::print_text(file.diff.as_deref().unwrap_or_default())?;
        }
    } else {
        output::print(arguments.report.output, &report)?;
    }
    if let Some(error) = broken {
        return Err(error);
    }
    Ok(if report.files.is_empty() { Exit::Success } else { Exit::Differences })
}

fn changed_files(cluster: &str, part: &StageTree, name_only: bool) -> Vec<FileReport> {
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
