//! Backups of Cluster API objects: listed, written, read back and compared.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject, TypeMeta};
use rollout::{BackupReport, RolloutId};

use super::connection::Connection;
use super::error::RequestError;
use super::kind::SECRET;
use super::request::Selection;
use super::secrets;
use crate::disk;

/// The file that is written last: a folder without it is no backup.
const REPORT: &str = "backup.json";

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The objects could not be listed.
    #[error("could not back up Cluster API objects: {0}")]
    Request(#[from] RequestError),
    /// The server has no Cluster API, or it holds nothing.
    #[error("could not back up Cluster API objects: there are none on {server}; is this the management cluster?")]
    Nothing {
        /// The server's address.
        server: String,
    },
    /// A file could not be written or read.
    #[error("could not back up Cluster API objects to {}: {source}; check that the folder can be written and has room", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// What was read back is not what was written.
    #[error("backup {} does not read back: {reason}; do not rely on it, check the disk and take another", path.display())]
    ReadBack {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
}

/// Saves every object of Cluster API's and EKS Anywhere's groups, and the Secrets of the clusters (of one, where that is named), to a folder named after
/// the rollout.
///
/// The folder holds credentials: it can be read by this program's user alone.
pub(super) async fn back_up(
    connection: &Connection,
    root: &Path,
    cluster: Option<&str>,
    rollout: &RolloutId,
    at: Timestamp,
) -> Result<BackupReport, BackupError> {
    let mut kinds = Vec::new();
    for api_version in connection.served_versions().await?.preferred(is_saved) {
        for address in connection.kinds(&api_version).await? {
            let resource = address.resource;
            let attempt = format!("list {} for a backup", resource.plural);
            let objects = connection.list_resource(&resource, None, Selection::default(), &attempt).await?;
            let objects = with_types(objects, &resource);
            kinds.push((format!("{}.{}", resource.plural, resource.group), objects));
        }
    }
    let objects: usize = kinds.iter().map(|(_, objects)| objects.len()).sum();
    if objects == 0 {
        return Err(BackupError::Nothing { server: connection.server().to_owned() });
    }
    let saved: Vec<DynamicObject> = kinds.iter().flat_map(|(_, objects)| objects.iter().cloned()).collect();
    let secrets = secrets::read(connection, &saved, cluster).await?;
    kinds.push((String::from("secrets"), with_types(secrets, &SECRET.resource("v1"))));
    for (_, objects) in &mut kinds {
        for object in objects {
            object.metadata.managed_fields = None;
        }
    }
    let count = kinds.iter().map(|(_, objects)| objects.len()).sum::<usize>();
    let folder = root.join(rollout.as_str());
    let report = BackupReport {
        rollout: rollout.clone(),
        taken_at: at,
        objects: u32::try_from(count).unwrap_or(u32::MAX),
        read_back: true,
        location: folder.display().to_string(),
    };
    let written = report.clone();
    let work = tokio::task::spawn_blocking(move || write(&folder, &kinds, &written));
    work.await.map_err(|error| BackupError::ReadBack { path: root.to_owned(), reason: error.to_string() })??;
    Ok(report)
}

/// Items of a list need not repeat their type, and nothing can be restored without.
fn with_types(mut objects: Vec<DynamicObject>, resource: &ApiResource) -> Vec<DynamicObject> {
    for object in &mut objects {
        object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    }
    objects
}

fn is_saved(group: &str) -> bool {
    group == "cluster.x-k8s.io" || group.ends_with(".cluster.x-k8s.io") || group == "anywhere.eks.amazonaws.com"
}

fn write(folder: &Path, kinds: &[(String, Vec<DynamicObject>)], report: &BackupReport) -> Result<(), BackupError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| BackupError::File { path, source }
    };
    // A backup of an earlier attempt is replaced only by one that is whole.
    let partial = folder.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(failed(&partial))?;
    }
    create_private(&partial).map_err(failed(&partial))?;
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
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed(folder))?;
    }
    fs::rename(&partial, folder).map_err(failed(folder))
}

fn create_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn write_file<T: serde::Serialize>(path: &Path, value: &T) -> Result<(), BackupError> {
    let failed = |source| BackupError::File { path: path.to_owned(), source };
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

/// The report and the objects of a backup, owner references included.
///
/// # Errors
/// When the folder is no whole backup.
pub fn read_backup(folder: &Path) -> Result<(BackupReport, Vec<serde_json::Value>), BackupError> {
    let report: BackupReport = read_file(&folder.join(REPORT))?;
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

/// The newest whole backup below `root`.
pub(super) fn newest(root: &Path) -> Option<BackupReport> {
    let folders = fs::read_dir(root).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let whole = folders.filter(|folder| folder.extension().is_none());
    whole.filter_map(|folder| read_backup(&folder).ok()).map(|(report, _)| report).max_by_key(|report| report.taken_at)
}
