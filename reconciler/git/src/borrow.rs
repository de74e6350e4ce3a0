//! A repository of its own that reads what another one holds: for whoever tries something out.

use std::fs;
use std::path::Path;

use domain::BranchName;

use super::durable::storage;
use super::error::GitError;
use super::repository::{GitSettings, Repository};
use crate::remote::location::RepositoryLocation;

impl Repository {
    /// Makes a bare repository at `path` that has these branches as they are here, borrows their objects (gitrepository-layout(5),
    /// `objects/info/alternates`) and opens it. What is committed there stays there: nothing leads back. A branch that is not here is not there.
    ///
    /// # Errors
    /// [`GitError`] when a branch cannot be read, or the folder cannot be written or already holds a repository.
    pub fn borrow_to(&self, path: &Path, branches: &[BranchName]) -> Result<Self, GitError> {
        let head = branches.first().cloned().map_or_else(|| self.current_branch(), Ok)?;
        drop(Self::create(path, &head)?);
        let objects = self.folder().join("objects");
        let objects = fs::canonicalize(&objects).map_err(storage("find", &objects))?;
        let alternates = path.join("objects").join("info").join("alternates");
        fs::write(&alternates, format!("{}\n", objects.display())).map_err(storage("write", &alternates))?;
        let settings = GitSettings { limits: self.limits().clone(), ..GitSettings::default() };
        let borrower = Self::open_with(&RepositoryLocation::Local(path.to_owned()), &settings)?;
        for branch in branches {
            if let Some(commit) = self.head(branch)? {
                borrower.push(branch, &commit, None)?;
            }
        }
        Ok(borrower)
    }
}
