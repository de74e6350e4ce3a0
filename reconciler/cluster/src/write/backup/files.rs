//! The files of a backup: a folder with one file a kind.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use kube::core::DynamicObject;
use rollout::BackupReport;

use super::BackupError;
use host::disk;

/// The file that is written last: a folder without it is no backup.
const REPORT: &str = "backup.json";

/// The extension of a folder that is being written.
pub(super) const PARTIAL: &str = "partial";

/// Writes a backup and reads it back. One of the same rollout is replaced only by one that is whole.
pub(super) fn write(
    folder: &Path,
    kinds: &[(String, Vec<DynamicObject>)],
    report: &BackupReport,
) -> Result<(), BackupError> {
    let partial = folder.with_extension(PARTIAL);
    let written = write_partial(&partial, kinds, report);
    if written.is_err() {
        // What cannot be used would only take room away. That it cannot be removed either changes nothing.
        let _ = fs::remove_dir_all(&partial);
        return written;
    }
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|source| BackupError::of_file(folder, source))?;
    }
    fs::rename(&partial, folder).map_err(|source| BackupError::of_file(folder, source))
}

fn write_partial(
    partial: &Path,
    kinds: &[(String, Vec<DynamicObject>)],
    report: &BackupReport,
) -> Result<(), BackupError> {
    create_private(partial).map_err(|source| BackupError::of_file(partial, source))?;
    for (name, objects) in kinds {
        write_file(&partial.join(format!("{name}.json")), objects)?;
    }
    write_file(&partial.join(REPORT), report)?;
    for (name, objects) in kinds {
        let path = partial.join(format!("{name}.json"));
        let read: Vec<DynamicObject> = read_file(&path)?;
        if let Some(reason) = difference(objects, &read) {
            return Err(BackupError::ReadBack { path, reason });
        }
    }
    Ok(())
}

fn create_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn write_file<T: serde::Serialize>(path: &Path, value: &T) -> Result<(), BackupError> {
    let failed = |source| BackupError::of_file(path, source);
    let text = serde_json::to_vec_pretty(value).map_err(|error| failed(error.into()))?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(failed)?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)
}

fn read_file<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, BackupError> {
    let bytes = disk::read(path, u64::MAX).map_err(|source| BackupError::File { path: path.to_owned(), source })?;
    // The parser quotes values, and a backup holds credentials.
    serde_json::from_slice(&bytes).map_err(|error| BackupError::ReadBack {
        path: path.to_owned(),
        reason: format!("not JSON at line {} column {}", error.line(), error.column()),
    })
}

fn difference(written: &[DynamicObject], read: &[DynamicObject]) -> Option<String> {
    if written.len() != read.len() {
        return Some(format!("{} objects written, {} read", written.len(), read.len()));
    }
    let differs = written.iter().zip(read).find(|(written, read)| written != read);
    differs.map(|(written, _)| {
        let metadata = &written.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        format!("{namespace}/{} differs", metadata.name.as_deref().unwrap_or_default())
    })
}

/// The report of a backup.
pub(super) fn read_report(folder: &Path) -> Result<BackupReport, BackupError> {
    read_file(&folder.join(REPORT))
}

/// The report and the objects of a backup, owner references included.
///
/// # Errors
/// When the folder is no whole backup.
pub fn read_backup(folder: &Path) -> Result<(BackupReport, Vec<serde_json::Value>), BackupError> {
    let report = read_report(folder)?;
    let failed = |source| BackupError::File { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        files.push(entry.map_err(failed)?.path());
    }
    files.sort();
    let mut objects = Vec::new();
    for path in files.iter().filter(|path| !path.ends_with(REPORT)) {
        objects.extend(read_file::<Vec<serde_json::Value>>(path)?);
    }
    if objects.len() != report.objects as usize {
        let reason = format!("{} objects expected, {} found", report.objects, objects.len());
        return Err(BackupError::ReadBack { path: folder.to_owned(), reason });
    }
    Ok((report, objects))
}
