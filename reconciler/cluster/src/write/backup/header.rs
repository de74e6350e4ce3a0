//! What a backup says of itself: its file `backup.json`.
//!
//! Format 1 is the report alone. Format 2 says of which cluster the backup is, and what each file
//! holds, so that a file that was cut off, changed or mixed up is noticed before anything is
//! restored from it.

use std::collections::BTreeMap;
use std::path::Path;

use rollout::{BackupReport, ClusterIdentity};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::BackupError;

/// The format that is written.
pub(super) const FORMAT: u32 = 2;

/// What a backup says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupHeader {
    /// How it is laid out; a backup that does not say is of format 1.
    #[serde(default = "first")]
    pub format: u32,
    /// When it was taken, for which rollout, and how much it holds.
    #[serde(flatten)]
    pub report: BackupReport,
    /// The cluster that it was taken for; none in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<SavedCluster>,
    /// The management cluster that the objects were in; none in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management: Option<ClusterIdentity>,
    /// Whom its files are encrypted to; empty where they are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// Its files, by name; none in format 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, SavedFile>,
    /// Digest of everything above, `sha256:…`; none in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The cluster that a backup was taken for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedCluster {
    /// Its name.
    pub name: String,
    /// The namespace of its Cluster API objects.
    pub namespace: String,
    /// UID of its Cluster API `Cluster`, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The cluster itself, as its ledger recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ClusterIdentity>,
    /// Whether it manages itself, so that the backup holds what belongs to other clusters as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manages_itself: bool,
}

/// One file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedFile {
    /// How many objects it holds.
    pub objects: u32,
    /// Digest of its bytes, `sha256:…`.
    pub digest: String,
}

fn first() -> u32 {
    1
}

/// `sha256:…` of these bytes.
pub(super) fn digest_of(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

impl BackupHeader {
    /// The same, with its digest.
    pub(super) fn sealed(self) -> Self {
        let digest = self.computed_digest();
        Self { digest, ..self }
    }

    /// The digest that the header has to carry.
    fn computed_digest(&self) -> Option<String> {
        let bare = Self { digest: None, ..self.clone() };
        Some(digest_of(&serde_json::to_vec(&bare).ok()?))
    }

    /// What the bytes of a `backup.json` say.
    ///
    /// # Errors
    /// When they are cut off or changed, or of a format that is not understood.
    pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Self, BackupError> {
        #[derive(Deserialize)]
        struct Numbered {
            #[serde(default = "first")]
            format: u32,
        }
        let broken = |reason: String| BackupError::ReadBack { path: path.to_owned(), reason };
        // The parser quotes values, and a backup holds credentials.
        let unread = |error: serde_json::Error| {
            broken(format!("not JSON of a backup at line {} column {}", error.line(), error.column()))
        };
        let Numbered { format } = serde_json::from_slice(bytes).map_err(unread)?;
        if !(1..=FORMAT).contains(&format) {
            return Err(BackupError::Format { path: path.to_owned(), format });
        }
        let header: Self = serde_json::from_slice(bytes).map_err(unread)?;
        if format == 1 {
            return Ok(header);
        }
        if header.digest.is_none() || header.digest != header.computed_digest() {
            return Err(broken("backup.json does not have the digest that it states".to_owned()));
        }
        if let Some(name) = header.files.keys().find(|name| !is_file_name(name)) {
            return Err(broken(format!("`{name}` is not a valid name of a file")));
        }
        let listed: u32 = header.files.values().fold(0, |sum, file| sum.saturating_add(file.objects));
        if listed != header.report.objects {
            let expected = header.report.objects;
            return Err(broken(format!("{expected} objects expected, {listed} listed")));
        }
        Ok(header)
    }

    /// That the backup is of this cluster. Format 1 does not say; what it holds has to.
    ///
    /// # Errors
    /// When it is of another one.
    pub(crate) fn must_be_of(&self, name: &str, namespace: &str, path: &Path) -> Result<(), BackupError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        if cluster.name == name && cluster.namespace == namespace {
            return Ok(());
        }
        Err(BackupError::OtherCluster {
            path: path.to_owned(),
            found: format!("{}/{}", cluster.namespace, cluster.name),
            wanted: format!("{namespace}/{name}"),
        })
    }
}

fn is_file_name(name: &str) -> bool {
    !name.starts_with('.') && name.chars().all(|each| each.is_ascii_alphanumeric() || ".-_".contains(each))
}
