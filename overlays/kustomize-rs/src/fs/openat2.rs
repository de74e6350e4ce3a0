//! Opening below a directory with the kernel's word that nothing leads out of it: openat2(2), Linux 5.6.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::FileError;

/// What is to happen at a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// It is followed where it leads inside.
    Followed,
    /// It is an error.
    Refused,
}

/// An open directory.
#[derive(Debug, Clone)]
pub(super) struct Openat2(Arc<OwnedFd>);

impl Openat2 {
    pub(super) fn new(root: &Path) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(Arc::new(rustix::fs::open(root, flags, Mode::empty())?)))
    }

    /// Opens for reading without waiting for the other end of a pipe; `None` where the kernel cannot, or may not.
    pub(super) fn open(&self, path: &Path) -> Option<Result<File, FileError>> {
        match self.at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, Links::Followed) {
            Ok(file) => Some(Ok(File::from(file))),
            Err(Errno::NOENT | Errno::NOTDIR) => Some(Err(FileError::Missing)),
            Err(Errno::XDEV) => Some(Err(FileError::Outside)),
            // An old kernel, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => None,
            Err(error) => Some(Err(FileError::Other(std::io::Error::from(error).to_string()))),
        }
    }

    /// Says whether there certainly is a directory.
    pub(super) fn is_dir(&self, path: &str, links: Links) -> bool {
        self.at(Path::new(path), OFlags::PATH | OFlags::DIRECTORY, links).is_ok()
    }

    fn at(&self, path: &Path, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let resolve = match links {
            Links::Followed => resolve,
            Links::Refused => resolve | ResolveFlags::NO_SYMLINKS,
        };
        openat2(&*self.0, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }
}
