//! Reading files for one kustomization, within what it may read.

use std::sync::Arc;

use yaml::Limits;

use super::outside::{Outside, OutsideError, SharedFileSystem};
use super::remote::RemoteRepository;
use crate::budget::Budget;
use crate::cache::Cache;
use crate::error::{BuildError, BuildErrorKind};
use crate::fs::{FileError, FileSystem, is_within, join};

/// Which files a kustomization may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadRestrictor {
    /// Files in its directory and below.
    #[default]
    RootOnly,
    /// Every file of the tree.
    None,
}

/// The tree that a kustomization lies in: the build's own, or that of a remote base.
#[derive(Clone)]
pub(crate) enum Files<'b> {
    Borrowed(&'b dyn FileSystem),
    Shared(SharedFileSystem),
}

impl<'b> std::ops::Deref for Files<'b> {
    type Target = dyn FileSystem + 'b;

    fn deref(&self) -> &Self::Target {
        match self {
            Files::Borrowed(files) => *files,
            Files::Shared(files) => &**files,
        }
    }
}

/// The directory of one kustomization and those that led to it.
#[derive(Clone)]
pub(crate) struct Loader<'b> {
    pub(crate) files: Files<'b>,
    pub(crate) outside: Outside<'b>,
    /// Addresses of the remote bases that led here, as they are written.
    pub(crate) remotes: Vec<String>,
    /// Kustomizations above the remote base that this one belongs to.
    pub(crate) above: usize,
    pub(crate) restrictor: LoadRestrictor,
    pub(crate) limits: Limits,
    /// Longest chain of kustomizations.
    pub(crate) depth: usize,
    /// The directory itself comes last.
    pub(crate) chain: Vec<String>,
    /// Shared by the whole build.
    pub(crate) budget: Budget,
    /// Shared by several builds.
    pub(crate) cache: Option<&'b Cache>,
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
            let is_file = path.starts_with("http://") || path.starts_with("https://");
            let Some(remotes) = self.outside.remotes.filter(|_| is_file) else {
                return Err(remote(path));
            };
            let content = remotes.file(path).map_err(|error| fetching(path, &error))?;
            self.charge(&content)?;
            return Ok(content);
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

    /// Takes what a file costs.
    pub(crate) fn charge(&self, content: &[u8]) -> Result<(), BuildError> {
        self.budget.read(content)
    }

    /// Says whether there is nothing at all at the path; what is there may still not be read.
    pub(crate) fn is_missing(&self, path: &str) -> bool {
        !is_remote(path)
            && self.resolve(path).is_ok_and(|full| matches!(self.files.read(&full), Err(FileError::Missing)))
    }

    /// A loader for the directory `path`, which may not be this one or one that led here.
    pub(crate) fn enter(&self, path: &str) -> Result<Loader<'b>, BuildError> {
        if let Some(repository) = self.repository(path) {
            return self.enter_remote(path, &repository);
        }
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
            let message = format!("`{path}` is not a file or directory");
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
        self.check_depth()?;
        // As much as a small overlay takes: directories of directories multiply.
        const ENTERING: usize = 50_000;
        self.budget.spend(ENTERING)?;
        let mut chain = self.chain.clone();
        chain.push(real);
        Ok(Loader { chain, ..self.clone() })
    }

    /// The repository that a path means, where remote bases are on.
    pub(crate) fn repository(&self, path: &str) -> Option<RemoteRepository> {
        self.outside.remotes.and_then(|_| RemoteRepository::parse(path))
    }

    /// A loader for a remote base. It may read nothing outside of its repository.
    fn enter_remote(&self, path: &str, repository: &RemoteRepository) -> Result<Loader<'b>, BuildError> {
        let Some(remotes) = self.outside.remotes else {
            return Err(remote(path));
        };
        if let Some(visited) = self.remotes.iter().find(|visited| visited.starts_with(path)) {
            let (path, visited) = (without_secrets(path), without_secrets(visited));
            let message = format!("`{path}` leads back to the remote base `{visited}`");
            return Err(BuildError::conflict(message).hint("kustomizations may not contain one another"));
        }
        self.check_depth()?;
        let files = remotes.repository(repository).map_err(|error| fetching(path, &error))?;
        let there = join("", &repository.path).filter(|there| files.is_dir(there));
        let there = there.and_then(|there| files.canonical(&there).ok()).ok_or_else(|| {
            let message = format!("`{}`: the repository has no directory `{}`", without_secrets(path), repository.path);
            BuildError::new(BuildErrorKind::File, message)
        })?;
        let mut below = self.clone();
        below.remotes.push(path.to_owned());
        below.above += self.chain.len();
        below.chain = vec![there];
        below.files = Files::Shared(files);
        below.restrictor = LoadRestrictor::RootOnly;
        Ok(below)
    }

    fn check_depth(&self) -> Result<(), BuildError> {
        if self.above + self.chain.len() >= self.depth {
            let message = format!("more than {} kustomizations inside of one another", self.depth);
            return Err(BuildError::new(BuildErrorKind::Limit, message));
        }
        Ok(())
    }

    /// Says whether the kustomization belongs to a remote base.
    pub(crate) fn is_remote(&self) -> bool {
        !self.remotes.is_empty()
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
    let message = format!("`{}` is remote, and remote files are not fetched", without_secrets(path));
    BuildError::new(BuildErrorKind::Unsupported, message)
        .hint("copy it into the repository, or turn remote bases on (--enable-remote)")
}

/// Parameters of addresses that hold no secret.
const PARAMETERS: [&str; 5] = ["ref", "version", "timeout", "submodules", "depth"];

/// An address without the user, the password and the parameters that may stand in it.
fn without_secrets(path: &str) -> String {
    let user = path.split_once("://").and_then(|(scheme, rest)| {
        let (authority, _) = rest.split_once(['/', '?']).unwrap_or((rest, ""));
        let (user, _) = authority.rsplit_once('@')?;
        Some((scheme, rest.get(user.len()..)?))
    });
    let shown = match user {
        Some((scheme, rest)) => format!("{scheme}://***{rest}"),
        None => path.to_owned(),
    };
    let Some((address, parameters)) = shown.split_once('?') else { return shown };
    let parameters = parameters.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) if !PARAMETERS.contains(&name) => format!("{name}=***"),
        _ => parameter.to_owned(),
    });
    format!("{address}?{}", parameters.collect::<Vec<_>>().join("&"))
}

fn fetching(path: &str, error: &OutsideError) -> BuildError {
    BuildError::new(BuildErrorKind::File, format!("`{}` cannot be fetched: {error}", without_secrets(path)))
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        for (path, expected) in [
            ("https://user:password@example.com/a@b", "https://***@example.com/a@b"),
            ("https://a@b@example.com/c", "https://***@example.com/c"),
            ("https://example.com/a@b?c", "https://example.com/a@b?c"),
            ("https://a@example.com/c?ref=v1&token=d", "https://***@example.com/c?ref=v1&token=***"),
            ("git@example.com:a/b", "git@example.com:a/b"),
            ("../base", "../base"),
        ] {
            assert_eq!(without_secrets(path), expected);
        }
    }
}
