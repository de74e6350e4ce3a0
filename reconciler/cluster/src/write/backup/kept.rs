//! Which backups there are, and which of them stay.

use std::fs;
use std::path::{Path, PathBuf};

use domain::RolloutId;
use rollout::BackupReport;

use super::files::{Backup, PARTIAL, read_backup, read_header};

/// The newest whole backup below `root`.
pub(crate) fn newest(root: &Path) -> Option<BackupReport> {
    newest_whole(root).map(|backup| backup.header.report)
}

/// The newest whole backup below a folder, with its objects.
#[must_use]
pub fn newest_whole(root: &Path) -> Option<Backup> {
    let whole = folders(root).into_iter().filter_map(|folder| read_backup(&folder).ok());
    whole.max_by_key(|backup| backup.header.report.taken_at)
}

/// Whether this backup still lies where it was written.
pub(crate) fn is_there(report: &BackupReport) -> bool {
    read_header(Path::new(&report.location)).is_ok_and(|found| found.report == *report)
}

/// Removes all but the newest backups below `root`. What cannot be read is left alone: it may be somebody else's.
pub(super) fn remove_old(root: &Path, keep: u32) {
    let mut known: Vec<(BackupReport, PathBuf)> =
        folders(root).into_iter().filter_map(|folder| Some((read_header(&folder).ok()?.report, folder))).collect();
    known.sort_by_key(|(report, _)| std::cmp::Reverse(report.taken_at));
    // The one that was just taken stays in any case.
    let keep = usize::try_from(keep).unwrap_or(usize::MAX).max(1);
    known.into_iter().skip(keep).for_each(|(_, folder)| remove(&folder));
}

/// Removes what attempts have left that did not come to an end.
pub(super) fn remove_attempts(root: &Path) {
    for folder in directories(root) {
        let is_attempt = folder.extension().is_some_and(|extension| extension == PARTIAL);
        if is_attempt && is_of_rollout(&folder) {
            remove(&folder);
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!(folder = %folder.display(), %error, "an old backup could not be removed; remove it by hand");
    }
}

/// The folders of rollouts.
fn folders(root: &Path) -> Vec<PathBuf> {
    directories(root).into_iter().filter(|folder| folder.extension().is_none() && is_of_rollout(folder)).collect()
}

fn is_of_rollout(folder: &Path) -> bool {
    folder.file_stem().and_then(|name| name.to_str()).is_some_and(|name| name.parse::<RolloutId>().is_ok())
}

fn directories(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
    // Links are not followed.
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::backup::{Contents, files, header};

    fn take(root: &Path, rollout: &str, minute: i64) -> BackupReport {
        let folder = root.join(rollout);
        let report = BackupReport {
            rollout: rollout.parse().unwrap(),
            taken_at: jiff::Timestamp::from_second(minute * 60).unwrap(),
            objects: 0,
            read_back: true,
            location: folder.display().to_string(),
        };
        let header = header::BackupHeader {
            format: header::FORMAT,
            report,
            cluster: None,
            management: None,
            files: Default::default(),
            digest: None,
        };
        files::write(&folder, &Contents { header, kinds: Vec::new() }).unwrap()
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_stay_and_what_is_not_ours_stays_too() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (rollout, minute) in [("aaaaaaaaaaaa", 3), ("bbbbbbbbbbbb", 1), ("cccccccccccc", 4), ("dddddddddddd", 2)] {
            take(root, rollout, minute);
        }
        for foreign in ["notes", "eeeeeeeeeeee", "ffffffffffff.partial", "mine.partial"] {
            fs::create_dir(root.join(foreign)).unwrap();
        }
        remove_attempts(root);
        remove_old(root, 2);
        assert_eq!(names(root), ["aaaaaaaaaaaa", "cccccccccccc", "eeeeeeeeeeee", "mine.partial", "notes"]);
        assert_eq!(newest(root).unwrap().rollout.as_str(), "cccccccccccc");
        remove_old(root, 0);
        assert_eq!(names(root), ["cccccccccccc", "eeeeeeeeeeee", "mine.partial", "notes"]);
    }

    #[test]
    fn a_backup_that_was_removed_or_replaced_is_not_there() {
        let root = tempfile::tempdir().unwrap();
        let report = take(root.path(), "aaaaaaaaaaaa", 1);
        assert!(is_there(&report));
        take(root.path(), "aaaaaaaaaaaa", 2);
        assert!(!is_there(&report));
        fs::remove_dir_all(&report.location).unwrap();
        assert!(!is_there(&report) && newest(root.path()).is_none());
    }
}
