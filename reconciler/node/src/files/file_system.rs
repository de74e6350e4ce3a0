//! Everything that changes the node's files, one operation each. A test counts them, and ends at every single one.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Operations that a loss of power may come between.
pub trait FileSystem {
    /// Makes one folder, which may be there.
    ///
    /// # Errors
    /// Of the operating system, as all here.
    fn make_directory(&self, path: &Path) -> io::Result<()>;
    /// Writes a file that must not be there.
    ///
    /// # Errors
    /// Of the operating system.
    fn write(&self, path: &Path, content: &mut dyn Read, mode: u32) -> io::Result<()>;
    /// Returns when the content of a file is on the disk.
    ///
    /// # Errors
    /// Of the operating system.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Returns when the names in a folder are on the disk.
    ///
    /// # Errors
    /// Of the operating system.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name, which must not be there.
    ///
    /// # Errors
    /// Of the operating system.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Moves a file over another one, or none.
    ///
    /// # Errors
    /// Of the operating system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes one name of a file.
    ///
    /// # Errors
    /// Of the operating system.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Sets who may do what.
    ///
    /// # Errors
    /// Of the operating system.
    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Bytes that can still be written to the disk of a folder. It changes nothing.
    ///
    /// # Errors
    /// Of the operating system.
    fn free(&self, folder: &Path) -> io::Result<u64>;
}

/// The disk of the node.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl FileSystem for Disk {
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            result => result,
        }
    }

    fn write(&self, path: &Path, content: &mut dyn Read, mode: u32) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        io::copy(content, &mut file)?;
        // Only now: an executable that is half written cannot be started.
        file.set_permissions(Permissions::from_mode(mode))
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        fs::set_permissions(path, Permissions::from_mode(mode))
    }

    fn free(&self, folder: &Path) -> io::Result<u64> {
        let found = rustix::fs::statvfs(folder)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}
