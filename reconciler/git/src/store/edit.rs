//! A new tree from an old one and a list of edits, without an index or a work tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::RepoPath;
use git2::{ObjectType, Oid};

use super::object::Objects;
use super::pack::NewObjects;
use super::tree::{Entry, Mode};
use crate::error::GitError;

/// What is done to one name of a folder.
enum Edit<'a> {
    /// The name goes away, whatever it was.
    Remove,
    /// The name becomes a file with these bytes.
    Write(&'a [u8]),
    /// The name becomes or stays a folder.
    Descend { emptied: bool, names: BTreeMap<&'a str, Edit<'a>> },
}

/// The edits of a commit, sorted into folders.
pub(crate) struct Edits<'a> {
    names: BTreeMap<&'a str, Edit<'a>>,
}

impl<'a> Edits<'a> {
    /// Sorts `edits`, whose paths are below `prefix` where there is one.
    ///
    /// `None` removes a file or a whole folder; together with paths below it, it empties the folder first.
    pub(crate) fn new(
        prefix: Option<&'a RepoPath>,
        edits: &'a BTreeMap<RepoPath, Option<Arc<[u8]>>>,
    ) -> Result<Self, GitError> {
        let mut names = BTreeMap::new();
        for (path, content) in edits {
            let segments = prefix.into_iter().flat_map(RepoPath::segments).chain(path.segments()).collect::<Vec<_>>();
            for segment in &segments {
                if let Some(reason) = refused(segment) {
                    return Err(GitError::RefusedPath { path: path.to_string(), reason });
                }
            }
            insert(&mut names, &segments, content.as_deref())
                .map_err(|reason| GitError::RefusedPath { path: path.to_string(), reason })?;
        }
        Ok(Self { names })
    }

    /// Applies the edits to `base` and adds the new blobs and trees to `new`; returns the id of the top tree.
    pub(crate) fn apply(&self, base: Option<Oid>, store: &Objects<'_>, new: &mut NewObjects) -> Result<Oid, GitError> {
        match apply(&self.names, base, store, new, "/")? {
            Some(id) => Ok(id),
            None => new.add(ObjectType::Tree, Vec::new(), None),
        }
    }
}

fn insert<'a>(
    names: &mut BTreeMap<&'a str, Edit<'a>>,
    segments: &[&'a str],
    content: Option<&'a [u8]>,
) -> Result<(), &'static str> {
    const BOTH: &str = "it would be a file and a folder at once";
    match segments {
        [] => Ok(()),
        [name] => match (names.remove(name), content) {
            (None, None) => {
                names.insert(name, Edit::Remove);
                Ok(())
            }
            (None, Some(bytes)) => {
                names.insert(name, Edit::Write(bytes));
                Ok(())
            }
            (Some(Edit::Descend { names: inner, .. }), None) => {
                names.insert(name, Edit::Descend { emptied: true, names: inner });
                Ok(())
            }
            (Some(_), _) => Err(BOTH),
        },
        [name, rest @ ..] => {
            let folder = match names.remove(name) {
                None => Edit::Descend { emptied: false, names: BTreeMap::new() },
                Some(Edit::Remove) => Edit::Descend { emptied: true, names: BTreeMap::new() },
                Some(folder @ Edit::Descend { .. }) => folder,
                Some(Edit::Write(_)) => return Err(BOTH),
            };
            let Edit::Descend { emptied, names: mut inner } = folder else { return Err(BOTH) };
            insert(&mut inner, rest, content)?;
            names.insert(name, Edit::Descend { emptied, names: inner });
            Ok(())
        }
    }
}

/// `None` when nothing is left in the folder: git keeps no empty folders.
fn apply(
    edits: &BTreeMap<&str, Edit<'_>>,
    base: Option<Oid>,
    store: &Objects<'_>,
    new: &mut NewObjects,
    shown: &str,
) -> Result<Option<Oid>, GitError> {
    let old = match base {
        Some(id) => store.tree(id, || format!("folder {shown}"))?,
        None => Arc::default(),
    };
    let mut entries: BTreeMap<Vec<u8>, Entry> =
        old.entries.iter().map(|entry| (entry.name.clone(), entry.clone())).collect();
    for (name, edit) in edits {
        let name = name.as_bytes();
        let made = match edit {
            Edit::Remove => None,
            Edit::Write(bytes) => {
                let present = entries.get(name).map(|entry| entry.id);
                Some((Mode::File, new.add(ObjectType::Blob, bytes.to_vec(), present)?))
            }
            Edit::Descend { emptied, names } => {
                let before = entries.get(name).filter(|_| !emptied);
                if before.is_some_and(|entry| entry.mode != Mode::Folder) && names.values().all(removes) {
                    // Removing a name below a file changes nothing: the file stays.
                    continue;
                }
                let before = before.filter(|entry| entry.mode == Mode::Folder).map(|entry| entry.id);
                let shown = format!("{shown}{}/", String::from_utf8_lossy(name));
                apply(names, before, store, new, &shown)?.map(|id| (Mode::Folder, id))
            }
        };
        match made {
            Some((mode, id)) => entries.insert(name.to_vec(), Entry { mode, name: name.to_vec(), id }),
            None => entries.remove(name),
        };
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let mut entries: Vec<Entry> = entries.into_values().collect();
    new.add(ObjectType::Tree, super::tree::write_tree(&mut entries), base).map(Some)
}

fn removes(edit: &Edit<'_>) -> bool {
    match edit {
        Edit::Remove => true,
        Edit::Write(_) => false,
        Edit::Descend { names, .. } => names.values().all(removes),
    }
}

/// Names that `git fsck --strict` refuses, because some file system reads them as `.git`, or that git itself interprets.
fn refused(segment: &str) -> Option<&'static str> {
    // HFS+ ignores these when it compares names.
    let ignorable =
        |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let plain: String = segment.chars().filter(|c| !ignorable(*c)).collect::<String>().to_ascii_lowercase();
    // NTFS ignores trailing dots and spaces, and `:stream`.
    let stem = plain.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    if stem == ".git" || stem == "git~1" {
        return Some("some file systems read this name as `.git`");
    }
    if matches!(stem, ".gitmodules" | ".gitattributes" | ".gitignore" | ".mailmap") || stem.starts_with("gitmod~") {
        return Some("git interprets files of this name");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_or_a_file_system_interprets_are_refused() {
        for name in [".git", ".GIT", ".git.", ".git ", "git~1", "GIT~1", ".g\u{200c}it", ".git::$INDEX", ".gitmodules"]
        {
            assert!(refused(name).is_some(), "{name:?}");
        }
        for name in ["git", "a.git", ".github", "gotk-components.yaml", "x~1"] {
            assert!(refused(name).is_none(), "{name:?}");
        }
    }

    #[test]
    fn a_path_is_not_file_and_folder_at_once() {
        let edits = |paths: &[(&str, Option<&str>)]| {
            paths.iter().map(|(p, c)| (RepoPath::new(*p).unwrap(), c.map(|c| Arc::from(c.as_bytes())))).collect()
        };
        let check = |paths: &[(&str, Option<&str>)]| Edits::new(None, &edits(paths)).is_ok();
        assert!(check(&[("a", None), ("a/b", Some("x"))]));
        assert!(check(&[("a/b", Some("x")), ("a.b", Some("y")), ("a/c/d", None)]));
        assert!(!check(&[("a", Some("x")), ("a/b", Some("y"))]));
        assert!(!check(&[("a", Some("x")), ("a/b", None)]));
    }
}
