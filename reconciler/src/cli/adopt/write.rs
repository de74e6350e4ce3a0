//! `stepgate adopt --write`: the repository that describes clusters which run already.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use cluster::kubernetes::live_objects;
use planning::repository::{Live, Proposal, propose};

use crate::cli::ClusterArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;
use crate::cli::run::verb::runtime;

/// Reads the management cluster and writes its repository below `folder`; nothing at all where
/// anything speaks against it.
pub(super) fn run(access: &ClusterArguments, clusters: &[String], folder: &Path) -> Result<Exit, CommandError> {
    let connection = access.connect()??;
    let live = runtime()?.block_on(live_objects(&connection)).map_err(|error| {
        CommandError::new(format!("nothing was written: {error}"))
            .hint("name the management cluster by --kubeconfig and --context, and try again")
    })?;
    let mut refused: Vec<CommandError> = live
        .unknown
        .iter()
        .map(|reason| {
            CommandError::new(format!("what would be written is not known: {reason}"))
                .hint("grant reading of it, and try again: what is not read would be missing from the repository")
        })
        .collect();
    if refused.is_empty() {
        let found = Live { server: &live.server, objects: &live.objects, serves_flux: live.serves_flux };
        match propose(&found, clusters) {
            Ok(proposal) => return write(&proposal, folder),
            Err(refusals) => refused
                .extend(refusals.into_iter().map(|refusal| CommandError::new(refusal.message).hint(refusal.help))),
        }
    }
    for refusal in &refused {
        refusal.report();
    }
    output::note("nothing was written");
    Ok(Exit::Error)
}

fn write(proposal: &Proposal, folder: &Path) -> Result<Exit, CommandError> {
    let files: Vec<(PathBuf, &str)> =
        proposal.files.iter().map(|(path, text)| (folder.join(path.as_str()), text.as_str())).collect();
    let there: Vec<String> = files
        .iter()
        .filter(|(path, _)| fs::symlink_metadata(path).is_ok())
        .map(|(path, _)| path.display().to_string())
        .collect();
    if !there.is_empty() {
        return Err(CommandError::new(format!("nothing was written: {} are there already", there.join(", ")))
            .hint("name another folder, and compare both"));
    }
    let mut written = Vec::new();
    for (path, text) in &files {
        if let Err(error) = write_file(path, text, &mut written) {
            // What is there in part describes nothing. That it cannot be removed either changes
            // nothing.
            written.iter().for_each(|path| drop(fs::remove_file(path)));
            let error = CommandError::from(error).context(format!("nothing was written: {}", path.display()));
            return Err(error.hint("name a folder that may be written and has room"));
        }
    }
    let names = proposal.clusters.join(", ");
    let mut text = format!("wrote {} files that describe {names}, below {}\n", files.len(), folder.display());
    for path in proposal.files.keys() {
        text.push_str(&format!("  {path}\n"));
    }
    output::print_text(&text)?;
    for problem in &proposal.problems {
        output::note(&format!(
            "{}: {problem}",
            if problem.severity == domain::Severity::Note { "note" } else { "warning" }
        ));
    }
    for remark in &proposal.remarks {
        output::note(&format!("note: {remark}"));
    }
    output::note(
        "look through them for what a repository must not hold, commit and push them; `stepgate bundle fetch` gets what bundles name, \
         `stepgate check` reads all of it, and `stepgate adopt` compares it with what runs",
    );
    Ok(Exit::Success)
}

/// Writes a file that must not be there, and notes what was made.
fn write_file(path: &Path, text: &str, written: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    written.push(path.to_owned());
    file.write_all(text.as_bytes())
}
