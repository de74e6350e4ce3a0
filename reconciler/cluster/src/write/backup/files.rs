//! The files of a backup: a folder with one file a kind.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use rollout::BackupReport;
use serde_json::Value;

use super::encryption::{self, BackupIdentity, BackupRecipient};
use super::header::{BackupHeader, FORMAT, SavedFile, digest_of};
use super::{BackupError, Contents};
use host::disk;

/// The file that is written last: a folder without it is no backup.
const HEADER: &str = "backup.json";

/// What the name of an encrypted file ends in.
const ENCRYPTED: &str = ".age";

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
pub(super) fn write(
    folder: &Path,
    contents: &Contents,
    recipients: &[BackupRecipient],
) -> Result<BackupReport, BackupError> {
    let partial = folder.with_extension(PARTIAL);
    let written = write_partial(&partial, contents, recipients);
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

fn write_partial(
    partial: &Path,
    contents: &Contents,
    recipients: &[BackupRecipient],
) -> Result<BackupReport, BackupError> {
    create_private(partial).map_err(|source| BackupError::of_file(partial, source))?;
    let mut header =
        BackupHeader { format: FORMAT, files: Default::default(), digest: None, ..contents.header.clone() };
    header.recipients = recipients.iter().map(ToString::to_string).collect();
    for (kind, objects) in &contents.kinds {
        let name = format!("{kind}.json{}", if recipients.is_empty() { "" } else { ENCRYPTED });
        let path = partial.join(&name);
        let text = serde_json::to_vec_pretty(objects).map_err(|error| BackupError::of_file(&path, error.into()))?;
        let text = if recipients.is_empty() { text } else { encryption::encrypt(recipients, &text, &path)? };
        write_file(&path, &text)?;
        let count = u32::try_from(objects.len()).unwrap_or(u32::MAX);
        header.files.insert(name, SavedFile { objects: count, digest: digest_of(&text) });
    }
    let header = header.sealed();
    let path = partial.join(HEADER);
    let text = serde_json::to_vec_pretty(&header).map_err(|error| BackupError::of_file(&path, error.into()))?;
    write_file(&path, &text)?;
    if check_in(partial)? != header {
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
/// says. One that is encrypted needs one of the identities.
///
/// # Errors
/// When the folder does not hold a whole backup, or one of a format that is not understood, or none of the
/// identities opens it.
pub fn read_backup(folder: &Path, identities: &[BackupIdentity]) -> Result<Backup, BackupError> {
    let header = read_header(folder)?;
    let mut objects = Vec::new();
    for (path, bytes) in whole_files(folder, &header)? {
        let bytes = if header.recipients.is_empty() {
            bytes
        } else {
            encryption::decrypt(identities, &bytes, &path, &header.recipients)?
        };
        let found = objects_in(&path, &bytes)?;
        let listed = path.file_name().and_then(|name| name.to_str()).and_then(|name| header.files.get(name));
        if let Some(expected) = listed.map(|file| file.objects).filter(|expected| *expected as usize != found.len()) {
            let reason = format!("{expected} objects expected, {} found", found.len());
            return Err(BackupError::ReadBack { path, reason });
        }
        objects.extend(found);
    }
    let expected = header.report.objects;
    if objects.len() != expected as usize {
        let reason = format!("{expected} objects expected, {} found", objects.len());
        return Err(BackupError::ReadBack { path: folder.to_owned(), reason });
    }
    Ok(Backup { header, objects })
}

/// What a backup says of itself, where it is whole. Nothing has to be decrypted for that.
pub(super) fn check_backup(folder: &Path) -> Result<BackupHeader, BackupError> {
    let header = read_header(folder)?;
    if header.format == 1 {
        return read_backup(folder, &[]).map(|backup| backup.header);
    }
    whole_files(folder, &header)?;
    Ok(header)
}

/// As [`check_backup`], of a folder that is not yet where it says that it lies.
fn check_in(folder: &Path) -> Result<BackupHeader, BackupError> {
    let header = BackupHeader::parse(&read_file(&folder.join(HEADER))?, &folder.join(HEADER))?;
    whole_files(folder, &header)?;
    Ok(header)
}

/// The files with objects, each as its header says.
fn whole_files(folder: &Path, header: &BackupHeader) -> Result<Vec<(PathBuf, Vec<u8>)>, BackupError> {
    let (mut whole, mut found, mut wrong) = (Vec::new(), 0, None);
    for (path, listed) in files(folder, header)? {
        let name = path.file_name().unwrap_or_default().display().to_string();
        let bytes = match read_file(&path) {
            Err(BackupError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {
                wrong.get_or_insert(format!("{name} is missing"));
                continue;
            }
            bytes => bytes?,
        };
        if listed.is_some_and(|listed| digest_of(&bytes) != listed.digest) {
            wrong.get_or_insert(format!("{name} does not have the digest that backup.json states"));
            continue;
        }
        found += listed.map_or(0, |listed| listed.objects);
        whole.push((path, bytes));
    }
    match wrong {
        None => Ok(whole),
        Some(wrong) => {
            let reason = format!("{} objects expected, {found} found: {wrong}", header.report.objects);
            Err(BackupError::ReadBack { path: folder.to_owned(), reason })
        }
    }
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
