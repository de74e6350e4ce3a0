//! `stepgate render`: the files of a cluster as they should be on the deploy branch.

use std::path::PathBuf;

use clap::Args;

use super::error::CommandError;
use super::exit::Exit;
use super::{FleetArguments, fleet, output};
use crate::controller::parts::target_tree;

/// Arguments of `stepgate render`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    /// The cluster.
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// Only the files below this folder of the cluster's directory, such as `cert-manager`.
    #[arg(long, value_name = "FOLDER")]
    component: Option<String>,
    /// Write the files below this folder instead of printing them.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Prints or writes the files; what could not be rendered is an error after the rest.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.clusters(Some(&arguments.cluster))?;
    let view = opened.view(&arguments.cluster)?;
    let tree = target_tree(&view.directory.files, &view.parts);
    let tree = match &arguments.component {
        Some(component) => tree.below(&format!("clusters/{}/{component}", view.name)),
        None => tree,
    };
    for (path, bytes) in &tree.files {
        match &arguments.to {
            Some(folder) => {
                let target = folder.join(path.as_str());
                let parent = target.parent().map(std::path::Path::to_owned).unwrap_or_default();
                let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&target, bytes));
                written.map_err(|error| CommandError::from(error).context(format!("writing {}", target.display())))?;
            }
            None => output::print_text(&format!("---\n# {path}\n{}", String::from_utf8_lossy(bytes)))?,
        }
    }
    let broken: Vec<String> =
        view.parts.iter().filter_map(|part| Some(format!("{}: {}", part.stage, part.error.as_ref()?))).collect();
    if broken.is_empty() {
        return Ok(Exit::Success);
    }
    Err(CommandError::new(format!("not everything could be rendered: {}", broken.join("; "))))
}
