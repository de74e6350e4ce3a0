//! One file at a time, by content: written beside, synced, the old one kept under its digest, renamed, folder synced.
//! What is current follows from digests; names that a call left behind count for nothing.

pub mod digest;
pub mod executable;
pub mod file_system;
pub mod machine;
pub mod manifest;
pub mod root;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::files::digest::{Counted, Digest};
use crate::files::file_system::FileSystem;
use crate::files::root::{NodePath, Root};

/// Where everything of the upgrader lies on the node.
pub const STATE: &str = "/var/lib/stepgate/node";

/// What a file of the node is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Found {
    /// Of its content.
    pub sha256: Digest,
    /// Who may do what.
    pub mode: u32,
}

/// The files of a node, and old versions of them.
pub struct Files<'a> {
    root: &'a Root,
    disk: &'a dyn FileSystem,
}

impl<'a> Files<'a> {
    /// Changes files below `root` through `disk`.
    #[must_use]
    pub fn new(root: &'a Root, disk: &'a dyn FileSystem) -> Self {
        Self { root, disk }
    }

    /// What lies at `path` of the node.
    ///
    /// # Errors
    /// When it cannot be read, or is not a file.
    pub fn found(&self, path: &str) -> anyhow::Result<Option<Found>> {
        let place = self.root.place(path)?;
        found_at(&place).with_context(|| format!("could not read {path} of the node"))
    }

    /// Puts `content` at `path` if something else is there. Returns whether it was changed.
    ///
    /// # Errors
    /// When `content` is not what `wanted` says, or something cannot be written; `path` is then as it was.
    pub fn put(&self, path: &str, content: &Path, wanted: Found) -> anyhow::Result<bool> {
        let place = self.root.place(path)?;
        let current = found_at(&place).with_context(|| format!("could not read {path} of the node"))?;
        match current {
            Some(found) if found == wanted => return Ok(false),
            Some(found) if found.sha256 == wanted.sha256 => {
                self.disk.set_mode(&place, wanted.mode).with_context(|| format!("could not set the mode of {path}"))?;
                self.disk.sync(&place)?;
                return Ok(true);
            }
            _ => {}
        }
        let write = || -> anyhow::Result<()> {
            let parent = place.parent().context("it lies in no folder")?;
            self.make_directories(parent)?;
            let beside = beside(&place);
            self.write_beside(&beside, content, wanted)?;
            if let Some(found) = current {
                self.keep(&place, found)?;
            }
            self.disk.rename(&beside, &place)?;
            self.disk.sync_directory(parent)?;
            Ok(())
        };
        write().with_context(|| format!("could not replace {path} of the node"))?;
        Ok(true)
    }

    /// Removes what lies at `path`, if anything does. Returns whether it was changed.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn take_away(&self, path: &str) -> anyhow::Result<bool> {
        let place = self.root.place(path)?;
        let Some(found) = found_at(&place)? else { return Ok(false) };
        let remove = || -> anyhow::Result<()> {
            self.keep(&place, found)?;
            self.disk.remove(&place)?;
            Ok(self.disk.sync_directory(place.parent().context("it lies in no folder")?)?)
        };
        remove().with_context(|| format!("could not remove {path} of the node"))?;
        Ok(true)
    }

    /// Keeps a copy of what lies at `path`, and returns what that is.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn keep_copy(&self, path: &str) -> anyhow::Result<Option<Found>> {
        let place = self.root.place(path)?;
        let Some(found) = found_at(&place)? else { return Ok(None) };
        self.store(&place, found).with_context(|| format!("could not keep {path} of the node"))?;
        Ok(Some(found))
    }

    /// Keeps a copy of `content` under its digest.
    ///
    /// # Errors
    /// When it is not what `wanted` says, or cannot be kept.
    pub fn store(&self, content: &Path, wanted: Found) -> anyhow::Result<()> {
        let Some(kept) = self.room_in_kept(wanted)? else { return Ok(()) };
        let beside = beside(&kept);
        self.write_beside(&beside, content, wanted)?;
        self.disk.rename(&beside, &kept)?;
        Ok(self.disk.sync_directory(kept.parent().context("it lies in no folder")?)?)
    }

    /// Forgets every version but these.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn forget_all_but(&self, digests: &BTreeSet<Digest>) -> anyhow::Result<()> {
        let folder = self.root.place(&format!("{STATE}/kept"))?;
        let wanted: BTreeSet<String> = digests.iter().map(Digest::hexadecimal).collect();
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(|name| wanted.contains(name)) {
                self.disk.remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Where the version of this digest is kept.
    ///
    /// # Errors
    /// When it is not there whole.
    pub fn kept(&self, digest: Digest) -> anyhow::Result<PathBuf> {
        let path = kept_path(digest);
        let place = self.root.place(&path)?;
        match found_at(&place)? {
            Some(found) if found.sha256 == digest => Ok(place),
            Some(found) => bail!("{path} of the node has been changed: it is {} now", found.sha256),
            None => bail!("{path} of the node is missing"),
        }
    }

    /// Writes a small file of our own, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_text(&self, path: &NodePath, text: &str) -> anyhow::Result<()> {
        let place = self.root.place(path.as_str())?;
        let write = || -> anyhow::Result<()> {
            let parent = place.parent().context("it lies in no folder")?;
            self.make_directories(parent)?;
            let beside = beside(&place);
            self.remove_leftover(&beside)?;
            self.disk.write(&beside, &mut text.as_bytes(), 0o600)?;
            self.disk.sync(&beside)?;
            self.disk.rename(&beside, &place)?;
            Ok(self.disk.sync_directory(parent)?)
        };
        write().with_context(|| format!("could not write {path} of the node"))
    }

    /// In the folder of the old one, so that both are of one file system: only there a rename is one step.
    fn write_beside(&self, beside: &Path, content: &Path, wanted: Found) -> anyhow::Result<()> {
        self.remove_leftover(beside)?;
        let mut file = File::open(content).with_context(|| format!("could not read {}", content.display()))?;
        let mut counted = Counted::new(&mut file);
        self.disk.write(beside, &mut counted, wanted.mode)?;
        let digest = counted.digest();
        if digest != wanted.sha256 {
            self.disk.remove(beside)?;
            bail!("{} is {digest}, and {} is wanted", content.display(), wanted.sha256);
        }
        Ok(self.disk.sync(beside)?)
    }

    /// Never written into: it may be a second name of a file that is in use.
    fn remove_leftover(&self, path: &Path) -> io::Result<()> {
        if path.symlink_metadata().is_ok() { self.disk.remove(path) } else { Ok(()) }
    }

    /// By a second name for the same file, where both are on one file system.
    fn keep(&self, place: &Path, found: Found) -> anyhow::Result<()> {
        let Some(kept) = self.room_in_kept(found)? else { return Ok(()) };
        match self.disk.link(place, &kept) {
            Ok(()) => Ok(self.disk.sync_directory(kept.parent().context("it lies in no folder")?)?),
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => self.store(place, found),
            Err(error) => Err(error).context("could not link the old version"),
        }
    }

    /// None when this version is kept already, whole.
    fn room_in_kept(&self, found: Found) -> anyhow::Result<Option<PathBuf>> {
        let kept = self.root.place(&kept_path(found.sha256))?;
        match found_at(&kept)? {
            Some(old) if old.sha256 == found.sha256 => return Ok(None),
            Some(_) => self.disk.remove(&kept)?,
            None => self.make_directories(kept.parent().context("it lies in no folder")?)?,
        }
        Ok(Some(kept))
    }

    fn make_directories(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        if let Some(parent) = folder.parent() {
            self.make_directories(parent)?;
            self.disk.make_directory(folder)?;
            self.disk.sync_directory(parent)?;
        }
        Ok(())
    }
}

fn kept_path(digest: Digest) -> String {
    format!("{STATE}/kept/{}", digest.hexadecimal())
}

/// Hidden, so that neither kubelet nor containerd read it, and always the same, so that leftovers do not pile up.
fn beside(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}.stepgate-new"))
}

/// What lies at a place of our own file system.
pub(crate) fn found_at(place: &Path) -> anyhow::Result<Option<Found>> {
    let mut file = match File::open(place) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| place.display().to_string()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        bail!("{} is not a file", place.display());
    }
    let mode = metadata.permissions().mode() & 0o7777;
    Ok(Some(Found { sha256: Digest::of_content(&mut file)?, mode }))
}
