//! Reading files for one kustomization, within what it may read.

use std::sync::Arc;

use crate::budget::Budget;
use crate::error::{BuildError, BuildErrorKind};
use crate::fs::{FileError, FileSystem, is_within, join};
use crate::yaml::Limits;

/// What files a kustomization may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadRestrictor {
    /// Those in its own directory and below. Bases are named as directories.
    #[default]
    RootOnly,
    /// All of the file tree.
    None,
}

/// The directory of one kustomization and those that led to it.
#[derive(Clone)]
pub(crate) struct Loader<'b> {
    pub(crate) files: &'b dyn FileSystem,
    pub(crate) restrictor: LoadRestrictor,
    pub(crate) limits: Limits,
    /// Longest chain of kustomizations.
    pub(crate) depth: usize,
    /// The directory itself comes last.
    pub(crate) chain: Vec<String>,
    /// Shared by the whole build.
    pub(crate) budget: Budget,
}

impl<'b> Loader<'b> {
    /// The directory of the kustomization.
    pub(crate) fn root(&self) -> &str {
        self.chain.last().map_or("", String::as_str)
    }

    /// Where `path` leads from here.
    pub(crate) fn resolve(&self, path: &str) -> Result<String, BuildError> {
        join(self.root(), path).ok_or_else(|| {
            let message = format!("the path `{path}` leads out of the file tree");
            BuildError::new(BuildErrorKind::File, message)
        })
    }

    /// Reads a file. Errors name the path as written.
    pub(crate) fn read(&self, path: &str) -> Result<Arc<[u8]>, BuildError> {
        if is_remote(path) {
            return Err(remote(path));
        }
        let full = self.resolve(path)?;
        let failed =
            |error: FileError| BuildError::new(BuildErrorKind::File, format!("`{path}` cannot be read: {error}"));
        if self.restrictor == LoadRestrictor::RootOnly {
            let real = self.files.canonical(&full).map_err(failed)?;
            if !is_within(&real, self.root()) {
                let message = format!("the file `{path}` is not in the directory of the kustomization or below");
                return Err(BuildError::new(BuildErrorKind::File, message)
                    .hint("name a base as a directory, or allow it with the load restrictor `LoadRestrictionsNone`"));
            }
        }
        let content = self.files.read(&full).map_err(failed)?;
        self.charge(&content)?;
        Ok(content)
    }

    /// Takes what a file costs: opening it, and its bytes.
    pub(crate) fn charge(&self, content: &[u8]) -> Result<(), BuildError> {
        const OPENING: usize = 5_000;
        self.budget.spend(OPENING + content.len() / 8)?;
        self.budget.grow(content.len())
    }

    /// Says whether there is nothing at all at the path; what is there may still not be read.
    pub(crate) fn is_missing(&self, path: &str) -> bool {
        self.resolve(path).is_ok_and(|full| matches!(self.files.read(&full), Err(FileError::Missing)))
    }

    /// A loader for the directory `path`, which may not be this one or one that led here.
    pub(crate) fn enter(&self, path: &str) -> Result<Loader<'b>, BuildError> {
        if is_remote(path) {
            return Err(remote(path));
        }
        if path.is_empty() {
            return Err(BuildError::new(BuildErrorKind::File, "an empty path"));
        }
        let full = self.resolve(path)?;
        if !self.files.is_dir(&full) {
            if looks_remote(path) {
                return Err(remote(path));
            }
            let message = format!("`{path}` is no file or directory");
            return Err(BuildError::new(BuildErrorKind::File, message));
        }
        let real = self
            .files
            .canonical(&full)
            .map_err(|error| BuildError::new(BuildErrorKind::File, format!("`{path}` cannot be read: {error}")))?;
        if let Some(visited) = self.chain.iter().find(|visited| is_within(visited, &real)) {
            let message = format!("`{path}` leads back to the kustomization in `{}`", or_dot(visited));
            return Err(BuildError::conflict(message).hint("kustomizations may not contain one another"));
        }
        if self.chain.len() >= self.depth {
            let message = format!("more than {} kustomizations inside of one another", self.depth);
            return Err(BuildError::new(BuildErrorKind::Limit, message));
        }
        // As much as a small overlay takes: directories of directories multiply.
        const ENTERING: usize = 50_000;
        self.budget.spend(ENTERING)?;
        let mut chain = self.chain.clone();
        chain.push(real);
        Ok(Loader { chain, ..self.clone() })
    }

    /// The path of a file for errors.
    pub(crate) fn display(&self, path: &str) -> String {
        join(self.root(), path).unwrap_or_else(|| path.to_owned())
    }
}

fn or_dot(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

/// Says whether the path names another host for certain.
fn is_remote(path: &str) -> bool {
    ["http://", "https://", "ssh://", "git::", "git@", "file://", "oci://"].iter().any(|start| path.starts_with(start))
}

/// Says whether the path may be the short form of a repository.
fn looks_remote(path: &str) -> bool {
    path.starts_with("github.com") || path.contains("?ref=") || path.contains(".git//") || path.contains("//")
}

fn remote(path: &str) -> BuildError {
    BuildError::new(BuildErrorKind::Unsupported, format!("`{path}` is remote, and remote files are not fetched"))
        .hint("copy it into the repository")
}
