//! Remote bases of kustomizations, fetched by the `git` program with the commands that kustomize gives it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kustomize_rs::{DiskFileSystem, FileError, FileSystem, OutsideError, RemoteRepository, SharedFileSystem};
use tempfile::TempDir;

use crate::limits::Limits;
use crate::remote::location::{RepositoryLocation, redact};
use crate::remote::program::GitProgram;
use crate::remote::progress::Pace;

/// Fetches repositories that kustomizations name.
///
/// Each is a shallow fetch of one reference into a temporary folder. The repository's own data, where an address with a
/// password would be written, is removed before anything reads the files.
#[derive(Clone, Debug)]
pub struct GitBases {
    program: PathBuf,
}

impl Default for GitBases {
    /// By the `git` on `PATH`.
    fn default() -> Self {
        Self { program: PathBuf::from("git") }
    }
}

impl GitBases {
    /// The files of a repository at the reference asked for.
    ///
    /// # Errors
    /// What git said, without secrets.
    pub fn fetch(&self, repository: &RemoteRepository) -> Result<SharedFileSystem, OutsideError> {
        let folder = tempfile::tempdir().map_err(failed)?;
        let reference = repository.reference.as_deref().unwrap_or("HEAD");
        if reference.starts_with('-') {
            return Err(OutsideError(format!("`{reference}` is not a valid reference")));
        }
        let address = &repository.address;
        self.run(repository, folder.path(), &["init", "--quiet", "--template="])?;
        self.run(repository, folder.path(), &["remote", "add", "origin", address])?;
        self.run(repository, folder.path(), &["fetch", "--quiet", "--depth=1", address, reference])?;
        self.run(repository, folder.path(), &["checkout", "--quiet", "FETCH_HEAD"])?;
        if repository.submodules {
            self.run(repository, folder.path(), &["submodule", "--quiet", "update", "--init", "--recursive"])?;
        }
        fs::remove_dir_all(folder.path().join(".git")).map_err(failed)?;
        let files = DiskFileSystem::new(folder.path()).map_err(failed)?;
        Ok(Arc::new(Checkout { files, _folder: folder }))
    }

    fn run(&self, repository: &RemoteRepository, folder: &Path, arguments: &[&str]) -> Result<(), OutsideError> {
        let program = GitProgram {
            program: self.program.clone(),
            timeout: repository.timeout,
            pace: Pace::default(),
            limits: Limits::default(),
            secret: None,
        };
        let Some(folder) = folder.to_str() else {
            return Err(OutsideError("the temporary folder is not UTF-8".into()));
        };
        let url = match repository.address.parse() {
            Ok(RepositoryLocation::Remote(url)) => Some(url),
            _ => None,
        };
        let all: Vec<&str> =
            ["-C", folder, "-c", "core.hooksPath=/dev/null"].iter().chain(arguments).copied().collect();
        let output = program.run(None, url.as_ref(), &all).map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        let verb = arguments.first().copied().unwrap_or_default();
        let lines: Vec<&str> = output.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        Err(OutsideError(format!("git {verb} of {}: {}", redact(&repository.address), lines.join("; "))))
    }
}

fn failed(error: impl std::fmt::Display) -> OutsideError {
    OutsideError(error.to_string())
}

/// A folder that is there as long as its files are needed.
struct Checkout {
    files: DiskFileSystem,
    _folder: TempDir,
}

impl FileSystem for Checkout {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, FileError> {
        self.files.read(path)
    }

    fn is_dir(&self, path: &str) -> bool {
        self.files.is_dir(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, FileError> {
        self.files.list(path)
    }

    fn canonical(&self, path: &str) -> Result<String, FileError> {
        self.files.canonical(path)
    }
}
