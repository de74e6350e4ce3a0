//! The work tree beside a local repository: what people see there is not what is read.

use std::path::{Path, PathBuf};

use git2::{Status, StatusOptions};

use super::repository::Repository;
use crate::store::budget::Usage;
use crate::store::measure::{Measures, Read};
use domain::BranchName;

/// Folders of a work tree that are looked into for YAML, at most this deep and this many entries.
const MAXIMUM_DEPTH: usize = 8;
const MAXIMUM_ENTRIES: usize = 2_000;

/// What is checked out is compared where it has at most this many times what a cluster's folder may.
const AS_MANY: u64 = 10;

/// How a work tree differs from the branch that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkTree {
    /// The branch that is checked out, where it is another one than is read.
    pub other_branch: Option<String>,
    /// Files that belong to a fleet and are changed, new or deleted without being committed; folders that are new as a whole end in `/`.
    pub uncommitted: Vec<String>,
}

impl Repository {
    /// How the work tree differs from `branch`; none where there is no work tree. Nothing at or below `skipped` counts, nor do files that
    /// git ignores.
    pub fn work_tree(&self, branch: &BranchName, skipped: &[PathBuf]) -> Option<WorkTree> {
        let current = self.current_branch().ok();
        if !self.may_be_compared() {
            return None;
        }
        let handle = self.handle();
        let top = handle.workdir()?.canonicalize().ok()?;
        let skipped: Vec<PathBuf> = skipped.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        let mut options = StatusOptions::new();
        options.include_untracked(true).recurse_untracked_dirs(false).include_ignored(false).exclude_submodules(true);
        let statuses = handle.statuses(Some(&mut options)).ok()?;
        let mut uncommitted = Vec::new();
        for status in statuses.iter().filter(|status| status.status() != Status::CURRENT) {
            let Ok(path) = status.path() else { continue };
            let place = top.join(path);
            let is_skipped = skipped.iter().any(|folder| place.starts_with(folder));
            if !is_skipped && (is_of_fleet(path) || path.ends_with('/') && holds_yaml(&place, &skipped)) {
                uncommitted.push(path.to_owned());
            }
        }
        let other_branch = match current {
            Some(current) if current == *branch => None,
            Some(current) => Some(current.to_string()),
            None => Some("no branch".to_owned()),
        };
        Some(WorkTree { other_branch, uncommitted })
    }
}

impl Repository {
    /// Whether the library may go through every path of what is checked out: it sets itself no bounds.
    fn may_be_compared(&self) -> bool {
        let Ok(head) = self.handle().refname_to_id("HEAD") else { return true };
        let limits = &self.inner.limits;
        let counted = self.with_objects(|objects| {
            let tree = objects.commit(head)?.tree;
            Ok(Measures::new(objects, limits, Read::Yaml, AS_MANY, Usage::default()).folder(tree).is_ok())
        });
        counted.is_ok_and(|affordable| affordable)
    }
}

/// Whether a fleet may read the file.
fn is_of_fleet(path: &str) -> bool {
    let end = path.rsplit_once('.').map_or("", |(_, end)| end);
    matches!(end, "yaml" | "yml") || path == "bundles.lock" || path.split('/').any(|part| part == "overlays")
}

fn holds_yaml(folder: &Path, skipped: &[PathBuf]) -> bool {
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut left = MAXIMUM_ENTRIES;
    while let Some((folder, depth)) = folders.pop() {
        if skipped.contains(&folder) {
            continue;
        }
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (Ok(kind), Some(fewer)) = (entry.file_type(), left.checked_sub(1)) else { return false };
            left = fewer;
            let name = entry.file_name();
            if kind.is_dir() && depth < MAXIMUM_DEPTH {
                folders.push((entry.path(), depth + 1));
            } else if kind.is_file() && name.to_str().is_some_and(is_of_fleet) {
                return true;
            }
        }
    }
    false
}
