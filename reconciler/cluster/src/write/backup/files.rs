//! The files of a backup: a folder with one file a kind.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use rollout::BackupReport;
use serde_json::Value;

use super::encryption::{self, BackupIdentity, BackupRecipient};
use super::header::{BackupHeader, FORMAT, SavedFile, digest_of};
use super::{BackupError, BackupRegistry, Contents};
use host::disk;

/// The file that is written last: a folder without it is no backup.
const HEADER: &str = "backup.json";

/// What the name of an encrypted file ends in.
const ENCRYPTED: &str = ".age";

/// The extension of a folder that is being written.
pub(super) const PARTIAL: &str = "partial";

/// The extension of a folder whose place another one takes.
pub(super) const REPLACED: &str = "replaced";

/// A backup that was read, and found whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Backup {
    /// What it says of itself.
    pub header: BackupHeader,
    /// The objects, owner references included.
    pub objects: Vec<Value>,
}

/// Writes a backup and reads it back. One of the same rollout is replaced only by one that is whole.
///
/// Where there is a registry, it has the backup before the folder has its name: what counts is in both.
pub(super) fn write(
    folder: &Path,
    contents: &Contents,
    recipients: &[BackupRecipient],
    registry: Option<&dyn BackupRegistry>,
) -> Result<BackupReport, BackupError> {
    let partial = folder.with_extension(PARTIAL);
    let mut written = write_partial(&partial, contents, recipients);
    if let (Some(registry), Ok(_)) = (registry, &written)
        && let Err(error) = push(&partial, registry)
    {
        written = Err(error);
    }
    if written.is_err() {
        // What cannot be used would only take room away. That it cannot be removed either changes nothing.
        let _ = fs::remove_dir_all(&partial);
        return written;
    }
    let failed = |source| BackupError::of_file(folder, source);
    // At no moment there is neither of them: whoever finds only the replaced one gives it its name back.
    let replaced = folder.with_extension(REPLACED);
    if folder.exists() {
        fs::rename(folder, &replaced).map_err(failed)?;
    }
    fs::rename(&partial, folder).map_err(failed)?;
    if replaced.exists() {
        fs::remove_dir_all(&replaced).map_err(failed)?;
    }
    written
}

/// Sends the files of a folder, and reads them back.
fn push(folder: &Path, registry: &dyn BackupRegistry) -> Result<(), BackupError> {
    let header = Source::Folder(folder).header()?;
    let mut files = BTreeMap::from([(HEADER.to_owned(), read_file(&folder.join(HEADER))?)]);
    for name in header.files.keys() {
        files.insert(name.clone(), read_file(&folder.join(name))?);
    }
    let failed = |reason| BackupError::Registry { registry: registry.to_string(), reason };
    let address = registry.push(&header, &files).map_err(failed)?;
    if registry.pull(&address).map_err(failed)? != files {
        return Err(failed(format!("{address} is not what was sent")));
    }
    tracing::info!(address, "a backup was pushed");
    Ok(())
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

pub(super) fn create_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

pub(super) fn write_file(path: &Path, text: &[u8]) -> Result<(), BackupError> {
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

/// Where the files of a backup are read from.
#[derive(Debug, Clone, Copy)]
enum Source<'s> {
    Folder(&'s Path),
    /// Files by name, and where they come from.
    Pulled(&'s str, &'s BTreeMap<String, Vec<u8>>),
}

impl Source<'_> {
    fn place(&self) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.to_path_buf(),
            Self::Pulled(address, _) => PathBuf::from(address),
        }
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, BackupError> {
        match self {
            Self::Folder(folder) => read_file(&folder.join(name)),
            Self::Pulled(address, files) => files.get(name).cloned().ok_or_else(|| BackupError::Unreadable {
                path: Path::new(address).join(name),
                source: ErrorKind::NotFound.into(),
            }),
        }
    }

    fn header(&self) -> Result<BackupHeader, BackupError> {
        BackupHeader::parse(&self.read(HEADER)?, &self.place().join(HEADER))
    }
}

/// What a backup says of itself, where it lies now.
pub(super) fn read_header(folder: &Path) -> Result<BackupHeader, BackupError> {
    let mut header = Source::Folder(folder).header()?;
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
    read(Source::Folder(folder), identities)
}

/// As [`read_backup`], of files that were pulled from an address.
///
/// # Errors
/// As [`read_backup`].
pub fn read_pulled(
    address: &str,
    files: &BTreeMap<String, Vec<u8>>,
    identities: &[BackupIdentity],
) -> Result<Backup, BackupError> {
    read(Source::Pulled(address, files), identities)
}

fn read(source: Source<'_>, identities: &[BackupIdentity]) -> Result<Backup, BackupError> {
    let mut header = source.header()?;
    header.report.location = source.place().display().to_string();
    let mut objects = Vec::new();
    for (path, bytes) in whole_files(source, &header)? {
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
        return Err(BackupError::ReadBack { path: source.place(), reason });
    }
    Ok(Backup { header, objects })
}

/// What a backup says of itself, where it is whole. Nothing has to be decrypted for that.
pub(super) fn check_backup(folder: &Path) -> Result<BackupHeader, BackupError> {
    let header = read_header(folder)?;
    if header.format == 1 {
        return read_backup(folder, &[]).map(|backup| backup.header);
    }
    whole_files(Source::Folder(folder), &header)?;
    Ok(header)
}

/// As [`check_backup`], of a folder that is not yet where it says that it lies.
fn check_in(folder: &Path) -> Result<BackupHeader, BackupError> {
    let header = Source::Folder(folder).header()?;
    whole_files(Source::Folder(folder), &header)?;
    Ok(header)
}

/// The files with objects, each as its header says.
fn whole_files(source: Source<'_>, header: &BackupHeader) -> Result<Vec<(PathBuf, Vec<u8>)>, BackupError> {
    let (mut whole, mut found, mut wrong) = (Vec::new(), 0, None);
    for (name, listed) in files(source, header)? {
        let path = source.place().join(&name);
        let bytes = match source.read(&name) {
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
            Err(BackupError::ReadBack { path: source.place(), reason })
        }
    }
}

/// The files with objects: those that the header lists, or in format 1 all that there are.
fn files<'h>(
    source: Source<'_>,
    header: &'h BackupHeader,
) -> Result<Vec<(String, Option<&'h SavedFile>)>, BackupError> {
    if header.format > 1 {
        return Ok(header.files.iter().map(|(name, file)| (name.clone(), Some(file))).collect());
    }
    let mut names: Vec<String> = match source {
        Source::Pulled(_, files) => files.keys().cloned().collect(),
        Source::Folder(folder) => {
            let failed = |source| BackupError::Unreadable { path: folder.to_owned(), source };
            let mut names = Vec::new();
            for entry in fs::read_dir(folder).map_err(failed)? {
                names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
            }
            names
        }
    };
    names.retain(|name| name != HEADER);
    names.sort();
    Ok(names.into_iter().map(|name| (name, None)).collect())
}
