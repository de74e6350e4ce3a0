//! Which part of the disk a build may read.

use std::path::{Component, Path, PathBuf};

use kustomize_rs::{BuildError, BuildErrorKind, DiskFileSystem};

use crate::cli::CommandError;

/// A directory to build, in the tree that its kustomizations may read.
#[derive(Debug)]
pub struct Tree {
    /// The tree. No path and no symbolic link leads out of it.
    pub files: DiskFileSystem,
    /// The directory to build, relative to the tree.
    pub target: String,
    root: PathBuf,
}

impl Tree {
    /// Opens the tree around `directory`: `root` where given, else the top of the git work tree that `directory` lies in,
    /// else the working directory where it is above, else `directory` alone.
    ///
    /// kustomize may read all of the machine through bases; a repository that somebody else wrote should not.
    pub fn open(directory: &Path, root: Option<&Path>) -> Result<Self, CommandError> {
        let real = |path: &Path| {
            std::fs::canonicalize(path).map_err(|error| {
                let error = CommandError::from(error).context(format!("cannot read {}", path.display()));
                error.hint("give the directory of a kustomization.yaml, or the address of a remote one")
            })
        };
        let target = real(directory)?;
        if !target.is_dir() {
            let error = CommandError::new(format!("{} is not a directory", directory.display()));
            return Err(error.hint("give the directory of a kustomization.yaml"));
        }
        let root = match root {
            Some(root) => real(root)?,
            None => around(&target),
        };
        let Ok(inside) = target.strip_prefix(&root) else {
            let message = format!("{} is not in the tree {}", directory.display(), root.display());
            return Err(CommandError::new(message).hint("give --root a directory above it"));
        };
        let Some(inside) = inside.to_str() else {
            return Err(CommandError::new(format!("the path {} is not UTF-8", target.display())));
        };
        Ok(Self { files: DiskFileSystem::new(&root)?, target: inside.to_owned(), root })
    }

    /// The error of a build, with its file as seen from the working directory.
    pub fn error(&self, mut error: BuildError) -> CommandError {
        if let (Some(file), Ok(here)) = (&error.file, std::env::current_dir()) {
            error.file = Some(relative(&here, &self.root.join(file)).display().to_string());
        }
        let hint = error.hint.take();
        let limited = error.kind == BuildErrorKind::Limit;
        let leads_out = error.message.contains("out of the file tree");
        let error = CommandError::new(error.to_string());
        let error = match hint {
            Some(hint) => error.hint(hint),
            None => error,
        };
        if limited {
            return error.hint("if the tree is trusted, lift the limits with --unlimited");
        }
        if leads_out {
            return error.hint(format!("the file tree is {}; widen it with --root", self.root.display()));
        }
        error
    }
}

fn around(target: &Path) -> PathBuf {
    let repository = target.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok());
    if let Some(repository) = repository {
        return repository.to_owned();
    }
    let here = std::env::current_dir().and_then(std::fs::canonicalize);
    here.ok().filter(|here| target.starts_with(here)).unwrap_or_else(|| target.to_owned())
}

/// `path` as seen from `here`; both absolute. What has nothing in common with it stays absolute.
fn relative(here: &Path, path: &Path) -> PathBuf {
    let common = here.components().zip(path.components()).take_while(|(left, right)| left == right).count();
    if common <= 1 && here.parent().is_some() {
        return path.to_owned();
    }
    let up = here.components().skip(common).map(|_| Component::ParentDir);
    up.chain(path.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_errors_are_seen_from_the_working_directory() {
        for (here, path, expected) in
            [("/a/b", "/a/b/c/d", "c/d"), ("/a/b", "/a/c", "../c"), ("/a/b/c", "/a", "../.."), ("/", "/a", "a")]
        {
            assert_eq!(relative(Path::new(here), Path::new(path)), Path::new(expected), "{path} from {here}");
        }
    }

    #[test]
    fn the_tree_is_the_repository_or_the_directory_itself() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let target = top.join("overlays/eu");
        std::fs::create_dir_all(&target).unwrap();
        assert_eq!(around(&target), target);
        std::fs::create_dir(top.join(".git")).unwrap();
        assert_eq!(around(&target), top);
        let tree = Tree::open(&target, None).unwrap();
        assert_eq!(tree.target, "overlays/eu");
        let tree = Tree::open(&target, Some(&top.join("overlays"))).unwrap();
        assert_eq!(tree.target, "eu");
        assert!(Tree::open(&top, Some(&target)).unwrap_err().to_string().contains("is not in the tree"));
    }
}
