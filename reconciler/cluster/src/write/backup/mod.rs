//! Backups of Cluster API objects: listed, written, read back and compared.

mod dumps;
mod encryption;
mod files;
#[cfg(test)]
mod fuzzed;
mod header;
mod kept;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::PlanDigest;
use jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject, TypeMeta};
use rollout::{BackupReport, ClusterIdentity};

pub use self::dumps::{DumpMoment, WrittenDump, kept_dump, read_dump_file};
pub use self::encryption::{BackupIdentity, BackupRecipient};
pub use self::files::{Backup, read_backup, read_pulled};
pub use self::header::{BackupHeader, SavedCluster, SavedFile};
pub use self::kept::newest_whole;
pub(crate) use self::kept::{is_there, newest};
use crate::BackupRequest;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{CLUSTER, CONFIG_MAP, SECRET};
use crate::client::request::Selection;
use crate::client::secrets;

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
    /// There is no room for it.
    #[error(
        "the volume of {} is full, and Cluster API objects could not be backed up; free space there, give it more, or keep fewer (`backup.keep`)",
        path.display()
    )]
    Full {
        /// The file or folder that could not be written.
        path: PathBuf,
    },
    /// A file of a backup could not be read.
    #[error("could not read backup {}: {source}; name the folder of a whole backup", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A dump could not be read.
    #[error("could not read dump {}: {source}; name its file, or a folder with dumps of the cluster", path.display())]
    UnreadableDump {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// It is laid out in a way that is not understood.
    #[error(
        "backup {} is of format {format}, and this program reads formats 1 and 2; use the program that took it, or a newer one",
        path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// The format that it states.
        format: u32,
    },
    /// The registry does not take it, or gives something else back.
    #[error("could not push a backup to {registry}: {reason}")]
    Registry {
        /// The registry.
        registry: String,
        /// What it said.
        reason: String,
    },
    /// It is encrypted, and nothing that was given opens it.
    #[error(
        "could not open backup {}, which is encrypted to {recipients}: {reason}; name the file with the identity of \
         one of them by --identity",
        path.display()
    )]
    Encrypted {
        /// The file.
        path: PathBuf,
        /// Whom it is encrypted to.
        recipients: String,
        /// What is missing.
        reason: String,
    },
    /// It was taken of another cluster.
    #[error(
        "backup {} is of cluster {found}, and {wanted} is to be restored; name a backup of that one by --from",
        path.display()
    )]
    OtherCluster {
        /// The folder.
        path: PathBuf,
        /// The cluster that it is of, as `namespace/name`.
        found: String,
        /// The cluster that is to be restored.
        wanted: String,
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

impl BackupError {
    fn of_file(path: &Path, source: std::io::Error) -> Self {
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full { path: path.to_owned() },
            _ => Self::File { path: path.to_owned(), source },
        }
    }

    /// Whether nothing is wrong but that there is no room.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

/// Where the backups of one cluster or more go, and who can open them.
#[derive(Debug, Clone, Default)]
pub struct BackupPlace {
    /// The folder.
    pub folder: PathBuf,
    /// Whom they are encrypted to; empty where they are not.
    pub recipients: Vec<BackupRecipient>,
    /// Where they go besides.
    pub registry: Option<Arc<dyn BackupRegistry>>,
}

/// A registry that backups go to besides the folder. Its text names it.
pub trait BackupRegistry: fmt::Debug + fmt::Display + Send + Sync {
    /// Sends the files of a backup, and answers with the address that pulls them.
    ///
    /// # Errors
    /// When the registry does not take them.
    fn push(&self, header: &BackupHeader, files: &BTreeMap<String, Vec<u8>>) -> Result<String, String>;

    /// The files at an address.
    ///
    /// # Errors
    /// When nothing is there, or it is not a backup.
    fn pull(&self, address: &str) -> Result<BTreeMap<String, Vec<u8>>, String>;

    /// Sends a dump of a cluster, and answers with the address that pulls it.
    ///
    /// # Errors
    /// When the registry does not take it.
    fn push_dump(&self, cluster: &str, digest: &str, bytes: &[u8]) -> Result<String, String>;

    /// The bytes of the dump of this digest.
    ///
    /// # Errors
    /// When it is not there.
    fn pull_dump(&self, cluster: &str, digest: &str) -> Result<Vec<u8>, String>;
}

impl BackupPlace {
    /// The place of one cluster.
    #[must_use]
    pub fn of_cluster(&self, name: &str) -> Self {
        Self { folder: self.folder.join(name), ..self.clone() }
    }
}

impl From<PathBuf> for BackupPlace {
    fn from(folder: PathBuf) -> Self {
        Self { folder, ..Self::default() }
    }
}

/// What goes into a backup: its header, the files of which are still to be listed, and the objects of each kind.
pub(super) struct Contents {
    pub(super) header: BackupHeader,
    pub(super) kinds: Vec<(String, Vec<DynamicObject>)>,
}

/// Of which cluster a backup is taken, and where.
pub(crate) struct Subject {
    pub(crate) cluster: SavedCluster,
    pub(crate) management: ClusterIdentity,
}

/// Saves every object of Cluster API's and EKS Anywhere's groups, and the Secrets of the clusters (of the one it is taken for, unless that manages
/// others) and the ConfigMaps that these objects refer to, to a folder named after the rollout.
///
/// The folder holds credentials: it can be read by this program's user alone. The newest of those that are kept stay beside it.
pub(crate) async fn back_up(
    connection: &Connection,
    place: &BackupPlace,
    subject: Subject,
    request: &BackupRequest,
) -> Result<BackupReport, BackupError> {
    let BackupPlace { folder: root, recipients, registry } = place.clone();
    let folder = root.join(request.rollout.as_str());
    let report = BackupReport {
        rollout: request.rollout.clone(),
        taken_at: request.at,
        objects: 0,
        read_back: true,
        location: folder.display().to_string(),
    };
    let contents = collect(connection, subject, report).await?;
    let retention = kept::Retention { keep: request.keep, keep_for: request.keep_for };
    let (failed, now) = (root.clone(), request.at);
    let work = tokio::task::spawn_blocking(move || {
        kept::remove_attempts(&root);
        let written = files::write(&folder, &contents, &recipients, registry.as_deref())?;
        kept::remove_old(&root, retention, now);
        Ok::<_, BackupError>(written)
    });
    work.await.map_err(|error| BackupError::ReadBack { path: failed, reason: error.to_string() })?
}

/// What a backup would hold, without writing one.
pub(crate) async fn in_memory(connection: &Connection, subject: Subject, at: Timestamp) -> Result<Backup, BackupError> {
    let location = connection.server().to_owned();
    let report =
        BackupReport { rollout: PlanDigest::of([]).rollout_id(), taken_at: at, objects: 0, read_back: false, location };
    let Contents { header, kinds } = collect(connection, subject, report).await?;
    let objects = kinds.into_iter().flat_map(|(_, objects)| objects);
    let objects = objects.map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
    let failed = |error: serde_json::Error| BackupError::Unreadable {
        path: PathBuf::from(connection.server()),
        source: error.into(),
    };
    Ok(Backup { header, objects: objects.map_err(failed)? })
}

async fn collect(connection: &Connection, subject: Subject, mut report: BackupReport) -> Result<Contents, BackupError> {
    let Subject { mut cluster, management } = subject;
    // What manages others is restored with all that is needed to go on managing them.
    let only = (!cluster.manages_itself).then_some(cluster.name.as_str());
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
    let secrets = secrets::read(connection, &saved, only).await?;
    kinds.push((String::from("secrets"), with_types(secrets, &SECRET.resource("v1"))));
    let config_maps = secrets::read_config_maps(connection, &saved, only).await?;
    if !config_maps.is_empty() {
        kinds.push((String::from("configmaps"), with_types(config_maps, &CONFIG_MAP.resource("v1"))));
    }
    for (_, objects) in &mut kinds {
        for object in objects {
            object.metadata.managed_fields = None;
        }
    }
    cluster.uid = uid_of(&cluster, &saved);
    let count = kinds.iter().map(|(_, objects)| objects.len()).sum::<usize>();
    report.objects = u32::try_from(count).unwrap_or(u32::MAX);
    let (cluster, management) = (Some(cluster), Some(management));
    let (recipients, files) = (Vec::new(), BTreeMap::new());
    let header = BackupHeader { format: header::FORMAT, report, cluster, management, recipients, files, digest: None };
    Ok(Contents { header, kinds })
}

/// UID of the cluster's Cluster API object.
fn uid_of(cluster: &SavedCluster, objects: &[DynamicObject]) -> Option<String> {
    let is_it = |object: &&DynamicObject| {
        let (metadata, types) = (&object.metadata, object.types.as_ref());
        types.is_some_and(|types| types.kind == CLUSTER.kind && types.api_version.starts_with(CLUSTER.group))
            && metadata.name.as_ref() == Some(&cluster.name)
            && metadata.namespace.as_ref() == Some(&cluster.namespace)
    };
    objects.iter().find(is_it).and_then(|object| object.metadata.uid.clone())
}

/// Items of a list need not repeat their type, and nothing can be restored without.
fn with_types(mut objects: Vec<DynamicObject>, resource: &ApiResource) -> Vec<DynamicObject> {
    for object in &mut objects {
        object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    }
    objects
}

fn is_saved(group: &str) -> bool {
    ["cluster.x-k8s.io", "anywhere.eks.amazonaws.com", "run.tanzu.vmware.com"].contains(&group)
        || group.ends_with(".cluster.x-k8s.io")
}
