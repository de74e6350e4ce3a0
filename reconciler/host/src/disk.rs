//! Files of this machine, read so that nobody who can put something in their place holds the program up or fills its memory.
//!
//! Architecture Invariant: whatever is read from disk by a path is opened here (by `kustomize_rs::DiskFileSystem` where it is a
//! kustomization): without blocking, only if it is a plain file, and no further than a limit. A pipe, a socket or a device
//! in its place is an error.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// Opens a plain file for reading. A symbolic link to one is followed: operators use them, as Kubernetes does for Secrets.
///
/// # Errors
/// When it cannot be opened, or is not a plain file.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    // The other end of a pipe is not waited for, and what was opened is what is looked at.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let shown = if kind.is_dir() { "it is a folder, not a plain file" } else { "it is not a plain file" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, shown))
}

/// The bytes of a plain file that has at most `limit` of them.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::FileTooLarge`] when it has more.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes"));
    let length = file.metadata()?.len();
    if length > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    // It may grow while it is read.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

/// The text of a plain file that has at most `limit` bytes.
///
/// # Errors
/// As [`read`]; [`io::ErrorKind::InvalidData`] when it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let bytes = read(path, limit)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_files_are_read_up_to_their_limit_and_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read_text(&file, 5).unwrap(), "12345");
        assert_eq!(read(&file, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&folder.path().join("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(read(folder.path(), 4).unwrap_err().to_string().contains("a folder"));
        std::fs::write(&file, [0xff]).unwrap();
        assert_eq!(read_text(&file, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink("file", &link).unwrap();
            assert_eq!(read(&link, 5).unwrap(), [0xff]);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn pipes_sockets_and_devices_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, socket) = (folder.path().join("pipe"), folder.path().join("socket"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [pipe.as_path(), socket.as_path(), Path::new("/dev/zero"), Path::new("/dev/null")] {
            assert!(read(path, 5).is_err(), "{}", path.display());
        }
    }
}
