//! The files of a commit as Flux and kustomize see them: regular files by path, without those of Stepgate.

use std::collections::BTreeMap;
use std::sync::Arc;

use kustomize_rs::{FILE_NAMES, MemoryFileSystem};

use super::super::component_overlays::has_overlay;
use super::ignore::Ignore;
use crate::{ComponentName, EntryKind, FileEntry, Files, ReadError};
use domain::RepoPath;
use policy::Policy;

/// Bytes that one build may load; more is no specification.
const MOST_BYTES: u64 = 64 << 20;

/// Links one after another on the way to one path, as Linux takes them.
const MOST_LINKS: usize = 40;

/// The files of a commit.
pub(super) struct Tree<'a> {
    files: &'a dyn Files,
    entries: Vec<&'a FileEntry>,
    /// Symbolic links: path, and what that means.
    links: BTreeMap<&'a str, String>,
}

/// A symbolic link on the way to a path. Flux leaves links out of its source.
pub(super) struct Link<'a> {
    pub path: &'a str,
    /// What the whole path means, where that is in the repository.
    pub real: Option<String>,
}

/// Why files of a build could not be loaded.
pub(super) enum LoadError {
    TooLarge { bytes: u64, most: u64 },
    Unreadable(RepoPath, ReadError),
}

impl<'a> Tree<'a> {
    pub fn new(files: &'a dyn Files, entries: &'a [FileEntry], policy: &Policy, ignore: &Ignore) -> Self {
        // What is no manifest is read where a kustomization names it, and by nobody else.
        let is_manifest = |path: &RepoPath| path.is_yaml() || FILE_NAMES.contains(&path.file_name());
        let is_seen = |entry: &&FileEntry| {
            entry.kind == EntryKind::File
                && !is_of_stepgate(&entry.path, policy)
                && !(is_manifest(&entry.path) && ignore.leaves_out(&entry.path))
        };
        let links = entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Symlink { target } if !is_of_stepgate(&entry.path, policy) => {
                Some((entry.path.as_str(), target.clone()))
            }
            _ => None,
        });
        Self { files, entries: entries.iter().filter(is_seen).collect(), links: links.collect() }
    }

    /// The first link on the way to a path.
    pub fn link(&self, path: &str) -> Option<Link<'a>> {
        let first = self.link_on(path)?;
        let mut real = Some(path.to_owned());
        // Links may lead in a circle.
        for _ in 0..MOST_LINKS {
            let Some(link) = real.as_deref().and_then(|path| self.link_on(path)) else {
                return Some(Link { path: first, real });
            };
            let folder = link.rsplit_once('/').map_or("", |(folder, _)| folder);
            let target = self.links.get(link).and_then(|target| join(folder, target));
            real = target.zip(real).and_then(|(target, path)| join(&target, path.get(link.len()..)?.trim_matches('/')));
        }
        Some(Link { path: first, real: None })
    }

    fn link_on(&self, path: &str) -> Option<&'a str> {
        if self.links.is_empty() {
            return None;
        }
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut parts = ends.filter_map(|end| path.get(..end));
        parts.find_map(|part| self.links.get_key_value(part).map(|(link, _)| *link))
    }

    /// The paths of links.
    pub fn links(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.links.keys().copied()
    }

    pub fn entries(&self) -> &[&'a FileEntry] {
        &self.entries
    }

    pub fn entry(&self, path: &str) -> Option<&'a FileEntry> {
        let found = self.entries.binary_search_by(|entry| entry.path.as_str().cmp(path)).ok()?;
        self.entries.get(found).copied()
    }

    /// The entries below a folder; the empty path is the top level.
    pub fn below(&self, folder: &str) -> &[&'a FileEntry] {
        if folder.is_empty() {
            return &self.entries;
        }
        let first = format!("{folder}/");
        let start = self.entries.partition_point(|entry| entry.path.as_str() < first.as_str());
        let rest = self.entries.get(start..).unwrap_or_default();
        let end = rest.partition_point(|entry| entry.path.is_below(folder));
        rest.get(..end).unwrap_or_default()
    }

    pub fn is_folder(&self, path: &str) -> bool {
        path.is_empty() || !self.below(path).is_empty()
    }

    pub fn read(&self, path: &RepoPath) -> Result<Arc<[u8]>, ReadError> {
        self.files.read(path)
    }

    /// The text of a file; none where it cannot be read.
    pub fn text(&self, path: &RepoPath) -> Option<String> {
        let bytes = self.read(path).ok()?;
        yaml::decode(&bytes).ok().map(std::borrow::Cow::into_owned)
    }

    /// The kustomization file of a folder.
    pub fn kustomization_of(&self, folder: &str) -> Option<&'a FileEntry> {
        FILE_NAMES.iter().find_map(|name| self.entry(&join(folder, name)?))
    }

    /// The files below these folders, and these files.
    ///
    /// # Errors
    /// When that is more than a specification is made of.
    pub fn select<'p>(
        &self,
        folders: impl IntoIterator<Item = &'p str>,
        others: impl IntoIterator<Item = &'p RepoPath>,
    ) -> Result<Vec<&'a FileEntry>, LoadError> {
        let below = folders.into_iter().flat_map(|folder| self.below(folder).iter().copied());
        let others = others.into_iter().filter_map(|path| self.entry(path.as_str()));
        let mut entries: Vec<&'a FileEntry> = below.chain(others).collect();
        entries.sort_by(|left, right| left.path.cmp(&right.path));
        entries.dedup_by(|left, right| left.path == right.path);
        let bytes = entries.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.size));
        if bytes > MOST_BYTES {
            return Err(LoadError::TooLarge { bytes, most: MOST_BYTES });
        }
        Ok(entries)
    }

    /// The content of these files.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn load(&self, entries: &[&FileEntry]) -> Result<MemoryFileSystem, LoadError> {
        let mut files = MemoryFileSystem::new();
        for entry in entries {
            let content = self.read(&entry.path).map_err(|error| LoadError::Unreadable(entry.path.clone(), error))?;
            files.insert(entry.path.as_str(), content);
        }
        Ok(files)
    }
}

/// Files of Stepgate itself, which no kustomization of the fleet means: policy, lock, the deploy tree, and the team's overlays of components,
/// which stand over manifests that are not here.
pub(super) fn is_of_stepgate(path: &RepoPath, policy: &Policy) -> bool {
    let is_deployed = policy.deploy.path.as_ref().is_some_and(|deploy| path.is_below(deploy.as_str()));
    let is_own = matches!(path.as_str(), "stepgate.yaml" | "bundles.lock" | "stepgate.schema.json");
    is_deployed || is_own || is_component_overlay(path)
}

/// Whether a path is that of a file of `overlays/<component>/` or `clusters/<name>/overlays/<component>/`.
fn is_component_overlay(path: &RepoPath) -> bool {
    let mut segments = path.segments();
    let first = segments.next();
    if first == Some("clusters") {
        segments.next();
    }
    let folder = if first == Some("clusters") { segments.next() } else { first };
    let name = segments.next().filter(|_| folder == Some("overlays"));
    let is_component = |name: &str| {
        ComponentName::ALL.into_iter().any(|component| has_overlay(component) && component.overlay() == name)
    };
    name.is_some_and(is_component) && segments.next().is_some()
}

/// Joins a relative path to a folder; none where that leads out of the tree.
pub(super) fn join(folder: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The folder that `spec.path` of a Flux Kustomization means: `..` above the top level stays there.
pub(super) fn folder_of(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}
