//! `stepgate bundle`: compare, verify, show and fetch Bundles manifests.

mod bump;
mod diff;
mod fetch;
mod hosts;
mod needed;
mod show;
mod verify;

use std::path::{Path, PathBuf};

use bundles::{Bundles, Lock};
use clap::{Args, Subcommand};

use crate::cli::{CommandError, Exit};
use host::disk;

/// Arguments of `stepgate bundle`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Compare two Bundles manifests: which components changed, and of what class each change is.
    ///
    /// Exits 0 when nothing changed, 1 when something did, 2 on errors.
    Diff(diff::DiffArguments),
    /// Check the signature of a Bundles manifest, those of its EKS-D releases and the build metadata of its versions, and
    /// say what they do not cover.
    ///
    /// Exits 0 when all hold, 3 when the signature is missing, one does not fit, or build metadata does not belong to its images.
    Verify(verify::VerifyArguments),
    /// Show what the objects of a manifest file say: Bundles, and the releases of EKS Anywhere and EKS-D.
    Show(show::ShowArguments),
    /// Fill a mirror folder with the manifests and charts that bundles point to, and write their digests to bundles.lock.
    ///
    /// Charts come from their registries; logins are those of the Docker configuration.
    /// Exits 0 when everything is there, 2 when something is missing or refused.
    Fetch(fetch::FetchArguments),
    /// Look for versions that `updates` in stepgate.yaml asks for, and propose them: a pull request each, or a branch where there is no forge.
    ///
    /// A dry run says what it would propose; --yes proposes it. Exits 0 when nothing is to be done, 1 when something would be, 2 when something
    /// failed, 3 when a version is refused.
    Bump(bump::BumpArguments),
}

/// Carries out `stepgate bundle …`.
///
/// # Errors
/// When a file cannot be read or understood (with file, line and what to do).
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    match &arguments.verb {
        Verb::Diff(arguments) => diff::run(arguments),
        Verb::Verify(arguments) => verify::run(arguments),
        Verb::Show(arguments) => show::run(arguments),
        Verb::Fetch(arguments) => fetch::run(arguments),
        Verb::Bump(arguments) => bump::run(arguments),
    }
}

/// More than any manifest has; larger files are refused before they are read whole.
const MAXIMUM_BYTES: u64 = 16 << 20;

fn read_file(path: &Path) -> Result<Vec<u8>, CommandError> {
    let place = path.display();
    let failed = |error: std::io::Error| {
        CommandError::from(error).context(format!("cannot read {place}")).hint("give the path of a manifest file")
    };
    match disk::read(path, MAXIMUM_BYTES) {
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            let error = CommandError::new(format!("{place}:1:1: the file has more than {MAXIMUM_BYTES} bytes"));
            Err(error.hint("Bundles manifests have less than 1 MB; take the file anew from its release"))
        }
        read => read.map_err(failed),
    }
}

pub(super) fn read_bundles(path: &Path) -> Result<Bundles, CommandError> {
    bundles::parse_bundles(&path.display().to_string(), &read_file(path)?).map_err(bundle_error)
}

fn bundle_error(error: bundles::BundleError) -> CommandError {
    let message = format!("{}:{}:{}: {}", error.path, error.line, error.column, error.message);
    CommandError::new(message).hint(error.hint)
}

fn read_lock(path: &Path) -> Result<Lock, CommandError> {
    Ok(Lock::parse(&path.display().to_string(), &read_file(path)?)?)
}

/// The lock of a fleet repository that holds `bundle`: `bundles.lock` beside it, or one folder up when it lies in
/// `bundles/`.
fn lock_beside(bundle: &Path) -> Option<PathBuf> {
    let folder = bundle.parent()?;
    let above = folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == "bundles"));
    [Some(folder), above].into_iter().flatten().map(|folder| folder.join("bundles.lock")).find(|path| path.is_file())
}
