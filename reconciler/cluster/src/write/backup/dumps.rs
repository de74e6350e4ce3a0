//! Dumps that are kept: one file each, by the digest of its bytes, beside the backups of the cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use domain::RolloutId;
use rollout::dump::{DUMP_FORMAT, Dump};

use super::files::{create_private, write_file};
use super::header::digest_of;
use super::{BackupError, BackupPlace};
use host::disk;

/// The folder of dumps, beside those of backups.
const FOLDER: &str = "dumps";

/// The largest dump that is read, in bytes.
const LARGEST: u64 = 512 << 20;

/// So many dumps of a cluster are kept, the newest ones.
const KEPT: usize = 20;

/// A dump as it is written, with the digest that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenDump {
    /// `sha256:…` of the bytes.
    pub digest: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl WrittenDump {
    /// The bytes of a dump.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn of(dump: &Dump) -> Result<Self, serde_json::Error> {
        let mut bytes = serde_json::to_vec_pretty(dump)?;
        bytes.push(b'\n');
        Ok(Self { digest: digest_of(&bytes), bytes })
    }

    /// Writes it into a folder, under its digest; one that is there stays. Answers with its path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, BackupError> {
        let path = folder.join(file_name(&self.digest));
        create_private(folder).map_err(|source| BackupError::of_file(folder, source))?;
        if read_bytes(&path).is_ok_and(|bytes| bytes == self.bytes) {
            return Ok(path);
        }
        let partial = path.with_extension("partial");
        let _ = fs::remove_file(&partial);
        write_file(&partial, &self.bytes)?;
        fs::rename(&partial, &path).map_err(|source| BackupError::of_file(&path, source))?;
        Ok(path)
    }

    /// Keeps it where backups of the cluster are kept, in the registry as well where there is one.
    ///
    /// # Errors
    /// When either does not take it.
    pub fn keep(&self, place: &BackupPlace, cluster: &str) -> Result<PathBuf, BackupError> {
        let folder = place.folder.join(FOLDER);
        let path = self.write(&folder)?;
        if let Some(registry) = &place.registry {
            let failed = |reason| BackupError::Registry { registry: registry.to_string(), reason };
            let address = registry.push_dump(cluster, &self.digest, &self.bytes).map_err(failed)?;
            tracing::info!(address, "a dump was pushed");
        }
        remove_old(&folder);
        Ok(path)
    }
}

/// At which moment of a rollout a dump is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpMoment {
    /// Before its first commit.
    Before,
    /// When nothing is left to be committed.
    After,
}

impl DumpMoment {
    /// The file that names the dump of a rollout at this moment.
    fn note(self, place: &BackupPlace, rollout: &RolloutId) -> PathBuf {
        let moment = match self {
            Self::Before => "before",
            Self::After => "after",
        };
        place.folder.join(FOLDER).join(format!("{rollout}.{moment}"))
    }

    /// The digest of the dump that was kept for a rollout at this moment; none where it is not there any more.
    pub(crate) fn noted(self, place: &BackupPlace, rollout: &RolloutId) -> Option<String> {
        let digest = String::from_utf8(read_bytes(&self.note(place, rollout)).ok()?).ok()?;
        let digest = digest.trim();
        place.folder.join(FOLDER).join(file_name(digest)).is_file().then(|| digest.to_owned())
    }

    /// Notes which dump was kept for a rollout, so that whoever comes next takes no other one.
    pub(crate) fn write_note(self, place: &BackupPlace, rollout: &RolloutId, digest: &str) -> Result<(), BackupError> {
        let path = self.note(place, rollout);
        fs::write(&path, format!("{digest}\n")).map_err(|source| BackupError::of_file(&path, source))
    }
}

/// The dump of this digest, from where backups of the cluster are kept.
///
/// # Errors
/// When it is in neither place, or is not what the digest names.
pub fn kept_dump(place: &BackupPlace, cluster: &str, digest: &str) -> Result<Dump, BackupError> {
    let path = place.folder.join(FOLDER).join(file_name(digest));
    let bytes = match (read_bytes(&path), &place.registry) {
        (Ok(bytes), _) => bytes,
        (Err(error), None) => return Err(error),
        (Err(_), Some(registry)) => registry
            .pull_dump(cluster, digest)
            .map_err(|reason| BackupError::Registry { registry: registry.to_string(), reason })?,
    };
    let found = digest_of(&bytes);
    if found != digest {
        return Err(BackupError::ReadBack { path, reason: format!("its digest is {found}, and {digest} is meant") });
    }
    parsed(&bytes, &path)
}

/// The dump in a file; of a folder, the newest one of the cluster in it.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn read_dump_file(path: &Path, cluster: &str) -> Result<Dump, BackupError> {
    if !path.is_dir() {
        return parsed(&read_bytes(path)?, path);
    }
    let unreadable = |source| BackupError::UnreadableDump { path: path.to_owned(), source };
    let (mut newest, mut broken): (Option<Dump>, Option<BackupError>) = (None, None);
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let dump = match read_bytes(&file).and_then(|bytes| parsed(&bytes, &file)) {
            Ok(dump) => dump,
            Err(error) => {
                broken.get_or_insert(error);
                continue;
            }
        };
        if dump.cluster == cluster && newest.as_ref().is_none_or(|known| known.taken_at < dump.taken_at) {
            newest = Some(dump);
        }
    }
    // The one that is looked for may be the one that cannot be read.
    newest.ok_or_else(|| {
        let nothing = std::io::Error::new(std::io::ErrorKind::NotFound, format!("no dump of cluster {cluster}"));
        broken.unwrap_or_else(|| unreadable(nothing))
    })
}

pub(super) fn parsed(bytes: &[u8], path: &Path) -> Result<Dump, BackupError> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        format: u32,
    }
    let broken = |error: serde_json::Error| BackupError::ReadBack {
        path: path.to_owned(),
        reason: format!("not a dump: {error}"),
    };
    let Numbered { format } = serde_json::from_slice(bytes).map_err(broken)?;
    if format != DUMP_FORMAT {
        let reason = format!("it is of format {format}, and this program reads format {DUMP_FORMAT}");
        return Err(BackupError::ReadBack { path: path.to_owned(), reason });
    }
    serde_json::from_slice(bytes).map_err(broken)
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, BackupError> {
    disk::read(path, LARGEST).map_err(|source| BackupError::UnreadableDump { path: path.to_owned(), source })
}

/// A digest as the name of a file.
fn file_name(digest: &str) -> String {
    let plain = digest.strip_prefix("sha256:").unwrap_or(digest);
    let plain: String = plain.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{plain}.json")
}

/// Removes what is more than enough. That it cannot be removed only takes room.
fn remove_old(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let written = |path: &Path| fs::metadata(path).and_then(|known| known.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let (mut dumps, mut notes) = (Vec::new(), Vec::new());
    for path in paths {
        let is_dump = path.extension().is_some_and(|extension| extension == "json");
        if is_dump { &mut dumps } else { &mut notes }.push((written(&path), path));
    }
    // Notes name dumps: there are two of a rollout at most.
    for mut files in [dumps, notes] {
        files.sort();
        let more = files.len().saturating_sub(KEPT);
        for (_, path) in files.into_iter().take(more) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn dump(minute: i64) -> Dump {
        let text = format!(
            r#"{{"format":1,"cluster":"prod","takenAt":"{}","nodes":[],"workloads":[],"pods":[]}}"#,
            Timestamp::from_second(minute * 60).unwrap()
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_dump_is_kept_by_its_digest_and_read_back_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let place = BackupPlace::from(root.path().to_owned());
        let written = WrittenDump::of(&dump(1)).unwrap();
        let path = written.keep(&place, "prod").unwrap();
        assert_eq!(written.keep(&place, "prod").unwrap(), path, "twice is as if once");
        assert_eq!(kept_dump(&place, "prod", &written.digest).unwrap(), dump(1));
        let folder = root.path().join(FOLDER);
        WrittenDump::of(&dump(2)).unwrap().keep(&place, "prod").unwrap();
        assert_eq!(read_dump_file(&folder, "prod").unwrap(), dump(2), "the newest one");
        assert!(read_dump_file(&folder, "other").unwrap_err().to_string().contains("no dump of cluster other"));
        // What somebody has changed is not what the ledger names.
        let text = fs::read_to_string(&path).unwrap().replace("prod", "dev");
        fs::write(&path, text).unwrap();
        let error = kept_dump(&place, "prod", &written.digest).unwrap_err().to_string();
        assert!(error.contains("and sha256:") && error.contains("is meant"), "{error}");
    }

    #[test]
    fn only_the_newest_dumps_stay() {
        let root = tempfile::tempdir().unwrap();
        let place = BackupPlace::from(root.path().to_owned());
        for minute in 0..25 {
            WrittenDump::of(&dump(minute)).unwrap().keep(&place, "prod").unwrap();
        }
        let left = fs::read_dir(root.path().join(FOLDER)).unwrap().count();
        assert_eq!(left, KEPT);
    }

    #[test]
    fn a_dump_of_another_format_is_refused() {
        let error = parsed(br#"{"format":2}"#, Path::new("a.json")).unwrap_err().to_string();
        assert!(error.contains("it is of format 2"), "{error}");
    }
}
