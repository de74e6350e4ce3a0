//! What folders come to, counted before any path of them is made.
//!
//! Ten folders of ten entries in each other are ten billion paths of eleven objects. So each distinct folder is counted once,
//! and what it comes to is added up wherever it stands; only what is affordable is then walked path by path.
//!
//! Architecture Invariant: a repository costs what its useful content costs. Entries, bytes of
//! paths, links, files and of the bases of their deltas, and depth are compared with limits before
//! a path is made or an object is inflated; `packs.rs` reads the cost of an object from the headers
//! of its pack, `units.rs` counts a cluster's folder for that cluster. Above a limit it is not
//! read, which is that cluster's problem alone. The operator raises limits (`--repo-limit
//! NAME=NUMBER`).

use git2::Oid;

use super::budget::{Exceeded, Usage};
use super::object::Objects;
use super::packs::Cost;
use super::tree::{Entry, Mode};
use crate::limits::{Limit, Limits};

/// The longest text that a symbolic link may have, in bytes: no system follows a longer one (`PATH_MAX`).
pub(crate) const LONGEST_LINK: u64 = 4096;

/// The longest name of a file or folder, in bytes: no usual file system has longer ones (`NAME_MAX`).
pub(crate) const LONGEST_NAME: usize = 255;

/// Folders are looked into by recursion: no limit that is set makes it go deeper.
const DEEPEST: u64 = 512;

/// Which files are going to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Read {
    All,
    /// Those whose names end as YAML's do.
    Yaml,
}

/// Counts folders, each once.
pub(crate) struct Measures<'a> {
    objects: &'a Objects<'a>,
    limits: &'a Limits,
    read: Read,
    /// What reading the folders themselves has cost.
    folders: Usage,
    factor: u64,
}

impl<'a> Measures<'a> {
    /// Counts what may be `factor` times the limits; reading folders has cost so much before.
    pub(crate) fn new(objects: &'a Objects<'a>, limits: &'a Limits, read: Read, factor: u64, folders: Usage) -> Self {
        Self { objects, limits, read, folders, factor }
    }

    /// What reading folders has cost so far.
    pub(crate) fn folders(&self) -> Usage {
        self.folders
    }

    /// What a folder and everything below it come to; paths are relative to it. A folder that cannot be read comes to nothing:
    /// whoever walks it is told why.
    pub(crate) fn folder(&mut self, id: Oid) -> Result<Usage, Exceeded> {
        let usage = self.below(id, 0)?;
        usage.check(self.limits, self.factor)?;
        Ok(usage)
    }

    /// What one entry of a folder and everything below it come to.
    pub(crate) fn entry(&mut self, entry: &Entry) -> Result<Usage, Exceeded> {
        let usage = self.with_name(entry, 0)?;
        usage.check(self.limits, self.factor)?;
        Ok(usage)
    }

    fn below(&mut self, id: Oid, depth: u64) -> Result<Usage, Exceeded> {
        if let Some(usage) = self.objects.measured(id, self.read) {
            return Ok(usage);
        }
        let deepest = self.limits.get(Limit::Depth).min(DEEPEST);
        if depth > deepest {
            return Err(Exceeded { limit: Limit::Depth, allowed: deepest });
        }
        let Ok(cost) = self.objects.cost(id, String::new) else { return Ok(Usage::default()) };
        self.folders.entries += 1;
        self.folders.add_object(cost);
        self.folders.check(self.limits, self.factor)?;
        let Ok(tree) = self.objects.tree(id, String::new) else { return Ok(Usage::default()) };
        let mut usage = Usage { entries: tree.entries.len() as u64, ..Usage::default() };
        usage.check(self.limits, self.factor)?;
        usage.entries = 0;
        for entry in &tree.entries {
            usage.add(&self.with_name(entry, depth)?);
        }
        self.objects.measure(id, self.read, usage);
        Ok(usage)
    }

    fn with_name(&mut self, entry: &Entry, depth: u64) -> Result<Usage, Exceeded> {
        let name = entry.name.len() as u64;
        let mut usage = Usage { entries: 1, path_bytes: name, depth: 1, ..Usage::default() };
        match entry.mode {
            Mode::Submodule => {}
            // Nobody goes into it.
            Mode::Folder if entry.name.len() > LONGEST_NAME => {}
            Mode::Folder => {
                let mut below = self.below(entry.id, depth + 1)?;
                below.path_bytes = below.path_bytes.saturating_add(below.entries.saturating_mul(name + 1));
                below.depth += 1;
                usage.add(&below);
            }
            Mode::Symlink => {
                if let Ok(cost) = self.objects.cost(entry.id, String::new)
                    && cost.size <= LONGEST_LINK
                {
                    usage.add_object(Cost { size: 0, ..cost });
                    usage.link_bytes = cost.size;
                }
            }
            Mode::File | Mode::Executable => {
                if self.is_read(&entry.name)
                    && let Ok(cost) = self.objects.cost(entry.id, String::new)
                    && cost.size <= self.limits.get(Limit::FileBytes)
                {
                    usage.add_object(cost);
                }
            }
        }
        Ok(usage)
    }

    fn is_read(&self, name: &[u8]) -> bool {
        self.read == Read::All || name.ends_with(b".yaml") || name.ends_with(b".yml")
    }
}
