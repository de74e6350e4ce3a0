//! `stepgate install --export`: the manifests of an installation in a management cluster.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::error::CommandError;
use super::exit::Exit;
use super::output;
use crate::install::{self, Settings};

/// Arguments of `stepgate install`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Write the manifests; nothing is sent to a cluster.
    #[arg(long, required = true)]
    export: bool,
    /// In which form.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// The folder to write into, which has to be empty or not there; manifests go to standard output without it.
    #[arg(long, value_name = "DIR", required_if_eq_any = [("format", "kustomize"), ("format", "helm")])]
    to: Option<PathBuf>,
    /// The namespace of the installation.
    #[arg(long, default_value = crate::cluster::kubernetes::SYSTEM_NAMESPACE, value_name = "NAME")]
    namespace: String,
    /// The container image.
    #[arg(long, default_value = concat!("stepgate:", env!("CARGO_PKG_VERSION")), value_name = "IMAGE")]
    image: String,
    /// The fleet repository: `https://` or `ssh://`.
    #[arg(long, default_value = "https://git.example/fleet.git", value_name = "URL")]
    repo: String,
    /// The branch that people write.
    #[arg(long, default_value = "main", value_name = "BRANCH")]
    source_branch: String,
}

/// The forms that an installation comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One file for `kubectl apply --server-side -f -`.
    #[default]
    Manifests,
    /// A kustomize base.
    Kustomize,
    /// A Helm chart.
    Helm,
}

/// Writes the manifests.
///
/// # Errors
/// When a setting cannot be written into a manifest, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let settings = Settings {
        namespace: arguments.namespace.clone(),
        image: arguments.image.clone(),
        repository: arguments.repo.clone(),
        source_branch: arguments.source_branch.clone(),
    };
    let files = match (arguments.format, &arguments.to) {
        (Form::Manifests, None) => {
            output::print_text(&install::manifests(&settings)?)?;
            return Ok(Exit::Success);
        }
        (Form::Manifests, Some(_)) => vec![("stepgate.yaml".to_owned(), install::manifests(&settings)?)],
        (Form::Kustomize, _) => install::kustomize_base(&settings)?,
        (Form::Helm, _) => install::helm_chart(&settings)?,
    };
    let folder = arguments.to.as_deref().unwrap_or(Path::new("."));
    for (name, text) in &files {
        let path = folder.join(name);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
            std::io::Write::write_all(&mut file, text.as_bytes())
        });
        written.map_err(|error| CommandError::from(error).context(format!("writing {}", path.display())))?;
    }
    output::note(&format!("wrote {} files to {}", files.len(), folder.display()));
    Ok(Exit::Success)
}
