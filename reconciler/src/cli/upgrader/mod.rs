//! `stepgate upgrader`: images of the node upgrader.

pub mod build;
mod layer;
mod layout;
mod source;

use clap::{Args, Subcommand};

use crate::cli::{CommandError, Exit};

/// Arguments of `stepgate upgrader`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make the images that nodes are upgraded in place with: our program, and kubeadm, kubelet, kubectl, containerd, runc and the CNI plugins
    /// of an EKS-D release.
    ///
    /// The same inputs make the same bytes. Nothing is fetched on a node. `reconciler/docs/node-upgrader.md` says what is in an image.
    Build(build::BuildArguments),
}

/// Carries out `stepgate upgrader …`.
///
/// # Errors
/// When something is missing, is not what its digest says, or cannot be written.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    match &arguments.verb {
        Verb::Build(arguments) => build::run(arguments),
    }
}
