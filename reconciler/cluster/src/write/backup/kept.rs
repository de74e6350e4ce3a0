//! Which backups there are, and which of them stay.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::RolloutId;
use jiff::Timestamp;
use rollout::BackupReport;

use super::files::{PARTIAL, REPLACED, check_backup, read_header};

/// The newest whole backup below `root`.
pub(crate) fn newest(root: &Path) -> Option<BackupReport> {
    let whole = folders(root).into_iter().filter_map(|folder| check_backup(&folder).ok());
    whole.map(|header| header.report).max_by_key(|report| report.taken_at)
}

/// The folder of the newest whole backup below this one.
#[must_use]
pub fn newest_whole(root: &Path) -> Option<PathBuf> {
    newest(root).map(|report| PathBuf::from(report.location))
}

/// Whether this backup still lies where it was written.
pub(crate) fn is_there(report: &BackupReport) -> bool {
    read_header(Path::new(&report.location)).is_ok_and(|found| found.report == *report)
}

/// How many backups stay, and how old they may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retention {
    pub(super) keep: u32,
    pub(super) keep_for: Option<Duration>,
}

/// Removes the backups below `root` that are too many or too old. The newest whole one stays in any case, and one that is broken takes nobody's
/// place. What cannot be read is left alone: it may be somebody else's.
pub(super) fn remove_old(root: &Path, retention: Retention, now: Timestamp) {
    let mut known: Vec<(BackupReport, PathBuf)> =
        folders(root).into_iter().filter_map(|folder| Some((read_header(&folder).ok()?.report, folder))).collect();
    known.sort_by_key(|(report, _)| std::cmp::Reverse(report.taken_at));
    let keep = usize::try_from(retention.keep).unwrap_or(usize::MAX).max(1);
    let is_old = |report: &BackupReport| {
        let age = Duration::try_from(now.duration_since(report.taken_at)).unwrap_or_default();
        retention.keep_for.is_some_and(|longest| age > longest)
    };
    let mut whole = 0;
    for (report, folder) in known {
        let is_too_much = whole > 0 && (whole >= keep || is_old(&report));
        if is_too_much {
            remove(&folder);
        } else if check_backup(&folder).is_ok() {
            whole += 1;
        }
    }
}

/// Removes what attempts have left that did not come to an end. A backup that was to be replaced by one of them gets its name back.
pub(super) fn remove_attempts(root: &Path) {
    for folder in directories(root).into_iter().filter(|folder| is_of_rollout(folder)) {
        let extension = folder.extension().and_then(|extension| extension.to_str());
        let place = folder.with_extension("");
        if extension == Some(REPLACED) && !place.exists() {
            if let Err(error) = fs::rename(&folder, &place) {
                tracing::warn!(folder = %folder.display(), %error, "a backup could not be given its name back");
            }
        } else if matches!(extension, Some(PARTIAL | REPLACED)) {
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
            taken_at: Timestamp::from_second(minute * 60).unwrap(),
            objects: 0,
            read_back: true,
            location: folder.display().to_string(),
        };
        let header = header::BackupHeader {
            format: header::FORMAT,
            report,
            cluster: None,
            management: None,
            recipients: Vec::new(),
            files: Default::default(),
            digest: None,
        };
        files::write(&folder, &Contents { header, kinds: Vec::new() }, &[], None).unwrap()
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
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let most = |keep: u32| Retention { keep, keep_for: None };
        remove_old(root, most(2), at(5));
        assert_eq!(names(root), ["aaaaaaaaaaaa", "cccccccccccc", "eeeeeeeeeeee", "mine.partial", "notes"]);
        assert_eq!(newest(root).unwrap().rollout.as_str(), "cccccccccccc");
        remove_old(root, most(0), at(5));
        assert_eq!(names(root), ["cccccccccccc", "eeeeeeeeeeee", "mine.partial", "notes"]);
    }

    #[test]
    fn a_backup_that_was_not_replaced_in_the_end_gets_its_name_back() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let report = take(root, "aaaaaaaaaaaa", 1);
        let (folder, replaced) = (root.join("aaaaaaaaaaaa"), root.join("aaaaaaaaaaaa.replaced"));
        fs::rename(&folder, &replaced).unwrap();
        fs::create_dir(root.join("aaaaaaaaaaaa.partial")).unwrap();
        assert_eq!(newest(root), None);
        remove_attempts(root);
        assert_eq!((names(root), newest(root)), (vec!["aaaaaaaaaaaa".to_owned()], Some(report)));
        // Replaced in the end, the older one is only still to be removed.
        fs::create_dir(&replaced).unwrap();
        remove_attempts(root);
        assert_eq!(names(root), ["aaaaaaaaaaaa"]);
        assert_eq!(names(&folder), ["backup.json"]);
        take(root, "aaaaaaaaaaaa", 2);
        assert_eq!(names(root), ["aaaaaaaaaaaa"]);
    }

    #[test]
    fn what_is_too_old_goes_but_never_the_last_whole_one() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (rollout, minute) in
            [("aaaaaaaaaaaa", 10), ("bbbbbbbbbbbb", 20), ("cccccccccccc", 30), ("dddddddddddd", 40)]
        {
            take(root, rollout, minute);
        }
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let hour = Some(Duration::from_secs(60 * 60));
        let broken = |rollout: &str| {
            let path = root.join(rollout).join("backup.json");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replace("\"objects\": 0", "\"objects\": 1")).unwrap();
        };
        remove_old(root, Retention { keep: 5, keep_for: hour }, at(75));
        assert_eq!(names(root), ["bbbbbbbbbbbb", "cccccccccccc", "dddddddddddd"]);
        // The newest ones are cut off: what is whole below them stays, however old, and counts.
        broken("dddddddddddd");
        broken("cccccccccccc");
        remove_old(root, Retention { keep: 1, keep_for: hour }, at(1000));
        assert_eq!(newest(root).unwrap().rollout.as_str(), "bbbbbbbbbbbb");
        assert!(names(root).contains(&"bbbbbbbbbbbb".to_owned()));
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
