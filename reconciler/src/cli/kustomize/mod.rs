//! `stepgate kustomize`: what `kustomize build` does, and the comparison of two of its results.

mod build;
pub(super) mod diff;
mod flux;
mod individual;
mod remotes;
mod tree;

use clap::{Args, Subcommand};

use super::{CommandError, Exit};

/// Arguments of `stepgate kustomize`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the objects of a kustomization: the bytes of `kustomize build` v5.8.1.
    ///
    /// With `--flux`, what Flux's kustomize-controller makes of it.
    ///
    /// Exits 0 when it was built and 1 when not, as kustomize does.
    Build(Box<build::BuildArguments>),
    /// Compare the objects of two kustomizations or rendered files, by object and field.
    ///
    /// Order, layout and comments do not count. Values of Secrets are never shown. Exits 0 when nothing differs, 1 when
    /// something does, 2 on errors.
    Diff(diff::DiffArguments),
}

/// Carries out `stepgate kustomize …`.
///
/// # Errors
/// When an argument is refused, or a side of a comparison cannot be built (with file, line and what to do).
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    match &arguments.verb {
        Verb::Build(arguments) => Ok(build::run(arguments)),
        Verb::Diff(arguments) => diff::run(arguments),
    }
}
