//! Commits as people name them: a branch, a tag, a commit, and how many commits before it.

use domain::{BranchName, CommitId};
use git2::{ErrorCode, ObjectType, Oid};

use crate::error::GitError;
use crate::refs::object_id::commit_id;
use crate::remote::location::RepositoryLocation;
use crate::repository::Repository;
use crate::store::object::library;

/// The fewest characters of a commit's id that name it.
const SHORTEST: usize = 4;

/// The longest id.
const WHOLE: usize = 40;

/// The largest tag that is read, in bytes.
const LARGEST_TAG: usize = 64 << 10;

/// How many commits back a name may lead.
const FARTHEST: usize = 10_000;

impl Repository {
    /// The commit that a person names: a branch, a tag or a commit, or how its id begins; with `^` or `~N` behind it, the commits before that.
    /// `HEAD` is what a local repository has checked out. Of a remote one, the branch of that name is brought up to date first; its tags
    /// are not known.
    ///
    /// # Errors
    /// [`GitError::UnknownRevision`] where nothing, or more than one commit, has that name; else what the repository suffers from.
    pub fn revision(&self, text: &str) -> Result<CommitId, GitError> {
        let (name, steps) = parts(text).ok_or_else(|| self.unknown(text))?;
        let mut commit = self.named(name)?.ok_or_else(|| self.unknown(text))?;
        for _ in 0..steps {
            commit = self.parent(&commit)?.ok_or_else(|| self.unknown(text))?;
        }
        Ok(commit)
    }

    fn unknown(&self, text: &str) -> GitError {
        GitError::UnknownRevision { revision: text.to_owned(), repository: self.location().to_string() }
    }

    fn named(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        if name == "HEAD" && matches!(self.location(), RepositoryLocation::Local(_)) {
            return self.referred(name);
        }
        let is_id = name.len() >= SHORTEST && name.len() <= WHOLE && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id && name.len() == WHOLE {
            return self.by_id(name);
        }
        if let Ok(branch) = name.parse::<BranchName>() {
            self.refresh(std::slice::from_ref(&branch))?;
            if let Some(head) = self.head(&branch)? {
                return Ok(Some(head));
            }
        }
        match self.referred(&format!("refs/tags/{name}"))? {
            None if is_id => self.by_id(name),
            found => Ok(found),
        }
    }

    fn referred(&self, reference: &str) -> Result<Option<CommitId>, GitError> {
        let found = self.handle().refname_to_id(reference);
        match found {
            Ok(id) => self.commit_of(id),
            // A branch without a commit yet leads nowhere.
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::InvalidSpec) => Ok(None),
            Err(error) => Err(library(format!("read `{reference}` of {}", self.location()), &error)),
        }
    }

    /// The one commit whose id begins so.
    fn by_id(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        let action = || format!("find commit {name} in {}", self.location());
        let found = {
            let handle = self.handle();
            let short = Oid::from_str(name).map_err(|error| library(action(), &error))?;
            let store = handle.odb().map_err(|error| library(action(), &error))?;
            store.exists_prefix(short, name.len())
        };
        match found {
            Ok(id) => self.commit_of(id),
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::Ambiguous) => Ok(None),
            Err(error) => Err(library(action(), &error)),
        }
    }

    /// The commit that an object is, or that a tag is put on.
    fn commit_of(&self, id: Oid) -> Result<Option<CommitId>, GitError> {
        let handle = self.handle();
        let action = || format!("read object {id} of {}", self.location());
        let store = handle.odb().map_err(|error| library(action(), &error))?;
        let (size, kind) = store.read_header(id).map_err(|error| library(action(), &error))?;
        match kind {
            ObjectType::Commit => commit_id(id).map(Some),
            ObjectType::Tag if size <= LARGEST_TAG => {
                let tag = handle.find_tag(id).map_err(|error| library(action(), &error))?;
                // A tag on a tag is nobody's way to name a commit.
                if tag.target_type() == Some(ObjectType::Commit) {
                    commit_id(tag.target_id()).map(Some)
                } else {
                    Ok(None)
                }
            }
            _ => Ok(None),
        }
    }
}

/// The name, and how many commits before it are meant.
fn parts(text: &str) -> Option<(&str, usize)> {
    let at = text.find(['~', '^']).unwrap_or(text.len());
    let (name, mut rest) = text.split_at_checked(at)?;
    let mut steps = 0;
    while let Some(sign) = rest.chars().next() {
        rest = rest.strip_prefix(['~', '^'])?;
        let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let (number, behind) = rest.split_at_checked(end)?;
        steps += match (sign, number) {
            (_, "") | ('^', "1") => 1,
            ('~', number) => number.parse::<usize>().ok()?,
            // Another parent than the first is another branch.
            _ => return None,
        };
        rest = behind;
    }
    (!name.is_empty() && steps <= FARTHEST).then_some((name, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_lead_back_by_first_parents_only() {
        for (text, expected) in [
            ("main", Some(("main", 0))),
            ("main^", Some(("main", 1))),
            ("v1.2~3", Some(("v1.2", 3))),
            ("main~^^", Some(("main", 3))),
            ("main^2", None),
            ("~1", None),
            ("main~x", None),
            ("main~99999", None),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }
}
