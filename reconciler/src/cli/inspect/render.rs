//! `stepgate render`: the files of a cluster as they should be on the deploy branch.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bundles::Digest;
use clap::Args;
use overlays::RenderedTree;
use serde::Serialize;

use crate::cli::FleetArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use planning::stage_tree::target_tree;

/// Arguments of `stepgate render`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    /// The cluster.
    #[arg(long, value_name = "NAME", add = crate::cli::common::names::clusters())]
    cluster: String,
    /// Only the files below this folder of the cluster's directory, such as `cert-manager`.
    #[arg(long, value_name = "FOLDER")]
    component: Option<String>,
    /// Write the files below this folder; what is printed then only names them.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// The form of the output; `table` is the manifests themselves, ready for `kubectl`.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The rendered files of a cluster.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct RenderReport {
    /// The cluster.
    pub cluster: String,
    /// The files, by path.
    pub files: Vec<RenderedFile>,
    /// What could not be rendered.
    pub failures: Vec<RenderFailure>,
}

/// One rendered file.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct RenderedFile {
    /// Path on the deploy branch.
    pub path: String,
    /// Size in bytes.
    pub bytes: usize,
    /// SHA-256 of the bytes, in hexadecimal.
    pub sha256: String,
    /// The content; null with `--to`, and where it is no UTF-8.
    pub content: Option<String>,
}

/// A stage that has no files because something is wrong.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct RenderFailure {
    /// The stage.
    pub stage: String,
    /// What is wrong, and where.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

impl Report for RenderReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table = Table { headers: vec!["PATH", "BYTES", "SHA256"], ..Table::default() };
        for file in &self.files {
            table.rows.push(vec![file.path.clone(), file.bytes.to_string(), file.sha256.clone()]);
        }
        vec![(None, table)]
    }
}

/// Prints or writes the files; what could not be rendered is an error after the rest.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.remark();
    opened.clusters(Some(&arguments.cluster))?;
    let view = opened.view(&arguments.cluster)?;
    let tree = target_tree(&view.directory.files, &view.parts);
    let tree = match &arguments.component {
        Some(component) => tree.below(&format!("clusters/{}/{component}", view.name)),
        None => tree,
    };
    if let Some(folder) = &arguments.to {
        write(&tree, folder)?;
    }
    let failed = |part: &planning::stage_tree::StageTree| {
        let rollout::RenderFailure { message, help } = part.error.clone()?;
        Some(RenderFailure { stage: part.stage.to_string(), message, help })
    };
    let report = RenderReport {
        cluster: arguments.cluster.clone(),
        files: tree.files.iter().map(|(path, bytes)| rendered(path.as_str(), bytes, arguments.to.is_none())).collect(),
        failures: view.parts.iter().filter_map(failed).collect(),
    };
    if arguments.output == Format::Table && arguments.to.is_none() {
        for (path, bytes) in &tree.files {
            output::print_content(&format!("---\n# {path}\n{}", String::from_utf8_lossy(bytes)))?;
        }
    } else {
        output::print(arguments.output, &report)?;
    }
    if report.failures.is_empty() {
        return Ok(Exit::Success);
    }
    let told: Vec<String> =
        report.failures.iter().map(|failure| format!("{}: {}", failure.stage, failure.message)).collect();
    let error = CommandError::new(format!("not everything could be rendered: {}", told.join("; ")));
    let helps: BTreeSet<&str> = report.failures.iter().map(|failure| failure.help.as_str()).collect();
    Err(helps.into_iter().fold(error, CommandError::hint))
}

fn write(tree: &RenderedTree, folder: &Path) -> Result<(), CommandError> {
    for (path, bytes) in &tree.files {
        let target = folder.join(path.as_str());
        let parent = target.parent().map(Path::to_owned).unwrap_or_default();
        let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&target, bytes));
        written.map_err(|error| CommandError::from(error).context(format!("writing {}", target.display())))?;
    }
    Ok(())
}

fn rendered(path: &str, bytes: &[u8], with_content: bool) -> RenderedFile {
    let content = with_content.then(|| std::str::from_utf8(bytes).ok()).flatten();
    RenderedFile {
        path: path.to_owned(),
        bytes: bytes.len(),
        sha256: Digest::of(bytes).hex(),
        content: content.map(str::to_owned),
    }
}
