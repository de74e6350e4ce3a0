//! The files of a backup: a folder with one file a kind.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use rollout::BackupReport;
use serde_json::Value;

use super::header::{BackupHeader, FORMAT, SavedFile, digest_of};
use super::{BackupError, Contents};
use host::disk;

/// The file that is written last: a folder without it is no backup.
const HEADER: &str = "backup.json";

/// The extension of a folder that is being written.
pub(super) const PARTIAL: &str = "partial";

/// A backup that was read, and found whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Backup {
    /// What it says of itself.
    pub header: BackupHeader,
    /// The objects, owner references included.
    pub objects: Vec<Value>,
}

/// Writes a backup and reads it back. One of the same rollout is replaced only by one that is whole.
pub(super) fn write(folder: &Path, contents: &Contents) -> Result<BackupReport, BackupError> {
    let partial = folder.with_extension(PARTIAL);
    let written = write_partial(&partial, contents);
    if written.is_err() {
        // What cannot be used would only take room away. That it cannot be removed either changes nothing.
        let _ = fs::remove_dir_all(&partial);
        return written;
    }
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|source| BackupError::of_file(folder, source))?;
    }
    fs::rename(&partial, folder).map_err(|source| BackupError::of_file(folder, source))?;
    written
}

fn write_partial(partial: &Path, contents: &Contents) -> Result<BackupReport, BackupError> {
    create_private(partial).map_err(|source| BackupError::of_file(partial, source))?;
    let mut header =
        BackupHeader { format: FORMAT, files: Default::default(), digest: None, ..contents.header.clone() };
    for (kind, objects) in &contents.kinds {
        let name = format!("{kind}.json");
        let path = partial.join(&name);
        let text = serde_json::to_vec_pretty(objects).map_err(|error| BackupError::of_file(&path, error.into()))?;
        write_file(&path, &text)?;
        let count = u32::try_from(objects.len()).unwrap_or(u32::MAX);
        header.files.insert(name, SavedFile { objects: count, digest: digest_of(&text) });
    }
    let header = header.sealed();
    let path = partial.join(HEADER);
    let text = serde_json::to_vec_pretty(&header).map_err(|error| BackupError::of_file(&path, error.into()))?;
    write_file(&path, &text)?;
    let read = read_whole(partial)?;
    if read.header != header {
        return Err(BackupError::ReadBack { path, reason: "it differs from what was written".to_owned() });
    }
    Ok(header.report)
}

fn create_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn write_file(path: &Path, text: &[u8]) -> Result<(), BackupError> {
    let failed = |source| BackupError::of_file(path, source);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(failed)?;
    file.write_all(text).and_then(|()| file.sync_all()).map_err(failed)
}

fn read_file(path: &Path) -> Result<Vec<u8>, BackupError> {
    disk::read(path, u64::MAX).map_err(|source| BackupError::Unreadable { path: path.to_owned(), source })
}

fn objects_in(path: &Path, bytes: &[u8]) -> Result<Vec<Value>, BackupError> {
    // The parser quotes values, and a backup holds credentials.
    serde_json::from_slice(bytes).map_err(|error| BackupError::ReadBack {
        path: path.to_owned(),
        reason: format!("not JSON at line {} column {}", error.line(), error.column()),
    })
}

/// What a backup says of itself, where it lies now.
pub(super) fn read_header(folder: &Path) -> Result<BackupHeader, BackupError> {
    let mut header = BackupHeader::parse(&read_file(&folder.join(HEADER))?, &folder.join(HEADER))?;
    header.report.location = folder.display().to_string();
    Ok(header)
}

/// Reads a backup, and checks that it is whole: as many objects as it says, in the bytes that it
/// says.
///
/// # Errors
/// When the folder does not hold a whole backup, or one of a format that is not understood.
pub fn read_backup(folder: &Path) -> Result<Backup, BackupError> {
    let header = read_header(folder)?;
    let objects = read_objects(folder, &header)?;
    Ok(Backup { header, objects })
}

/// As [`read_backup`], of a folder that is not yet where it says that it lies.
fn read_whole(folder: &Path) -> Result<Backup, BackupError> {
    let header = BackupHeader::parse(&read_file(&folder.join(HEADER))?, &folder.join(HEADER))?;
    let objects = read_objects(folder, &header)?;
    Ok(Backup { header, objects })
}

fn read_objects(folder: &Path, header: &BackupHeader) -> Result<Vec<Value>, BackupError> {
    let mut objects = Vec::new();
    let mut wrong = None;
    for (path, listed) in files(folder, header)? {
        let bytes = match read_file(&path) {
            Err(BackupError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let name = path.file_name().unwrap_or_default().display();
                wrong.get_or_insert(format!("{name} is missing"));
                continue;
            }
            bytes => bytes?,
        };
        let Some(listed) = listed else {
            objects.extend(objects_in(&path, &bytes)?);
            continue;
        };
        if digest_of(&bytes) != listed.digest {
            let name = path.file_name().unwrap_or_default().display();
            wrong.get_or_insert(format!("{name} does not have the digest that backup.json states"));
            continue;
        }
        let found = objects_in(&path, &bytes)?;
        if found.len() != listed.objects as usize {
            let reason = format!("{} objects expected, {} found", listed.objects, found.len());
            return Err(BackupError::ReadBack { path, reason });
        }
        objects.extend(found);
    }
    let expected = header.report.objects;
    if objects.len() != expected as usize || wrong.is_some() {
        let wrong = wrong.map(|wrong| format!(": {wrong}")).unwrap_or_default();
        let reason = format!("{expected} objects expected, {} found{wrong}", objects.len());
        return Err(BackupError::ReadBack { path: folder.to_owned(), reason });
    }
    Ok(objects)
}

/// The files with objects: those that the header lists, or in format 1 all that there are.
fn files<'h>(folder: &Path, header: &'h BackupHeader) -> Result<Vec<(PathBuf, Option<&'h SavedFile>)>, BackupError> {
    if header.format > 1 {
        return Ok(header.files.iter().map(|(name, file)| (folder.join(name), Some(file))).collect());
    }
    let failed = |source| BackupError::Unreadable { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        files.push((entry.map_err(failed)?.path(), None));
    }
    files.retain(|(path, _)| !path.ends_with(HEADER));
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(files)
}
