//! File events of a local repository.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::{Noticed, Nudge};

/// Watches the folders in which references live: the repository's own, `refs/` below it, and the folders above it, so that
/// replacing the repository by another one is seen as well.
pub(super) struct FolderWatch {
    watcher: Option<RecommendedWatcher>,
    folders: Vec<(PathBuf, RecursiveMode)>,
    /// Which folder each path meant when it was last watched. A replaced folder is another one under the same path.
    watched: BTreeMap<PathBuf, Identity>,
}

impl FolderWatch {
    /// Watches the repository in `folder` (the one that holds `refs/`).
    pub(super) fn new(folder: &Path, nudge: Nudge) -> Self {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let mut folders =
            vec![(folder.clone(), RecursiveMode::NonRecursive), (folder.join("refs"), RecursiveMode::Recursive)];
        let mut above = folder.parent();
        if folder.file_name() == Some(OsStr::new(".git")) {
            folders.extend(above.map(|above| (above.to_owned(), RecursiveMode::NonRecursive)));
            above = above.and_then(Path::parent);
        }
        folders.extend(above.map(|above| (above.to_owned(), RecursiveMode::NonRecursive)));
        let repository = folder.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error means lost events, so it is a reason to look too.
            if event.is_ok_and(|event| !concerns(&event, &repository)) {
                return;
            }
            nudge.look(Noticed::FileEvent);
        });
        let watcher = watcher.inspect_err(|error| tracing::warn!(%error, "no file events here; polling instead")).ok();
        Self { watcher, folders, watched: BTreeMap::new() }
    }

    /// Whether file events arrive at all.
    pub(super) fn has_events(&self) -> bool {
        self.watcher.is_some() && self.folders.iter().all(|(path, _)| self.watched.contains_key(path))
    }

    /// Watches what is not watched yet or was replaced. Must come before the references are read: a change in between is
    /// then either read or reported.
    pub(super) fn renew(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        for (path, mode) in &self.folders {
            let now = Identity::of(path);
            if now.is_some() && self.watched.get(path) == now.as_ref() {
                continue;
            }
            if self.watched.remove(path).is_some() {
                // The old folder may be gone together with its watch.
                let _ = watcher.unwatch(path);
            }
            if let (Some(identity), Ok(())) = (now, watcher.watch(path, *mode)) {
                self.watched.insert(path.clone(), identity);
            }
        }
    }
}

/// Whether an event can mean that a reference moved. Reading (by ourselves, too) never does.
fn concerns(event: &Event, repository: &Path) -> bool {
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    event.paths.is_empty()
        || event.need_rescan()
        || event.paths.iter().any(|path| match path.strip_prefix(repository) {
            Ok(inside) => {
                let first = inside.components().next().map(|part| part.as_os_str().to_owned());
                let lock = path.extension() == Some(OsStr::new("lock"));
                match first.as_deref().and_then(OsStr::to_str) {
                    None | Some("refs" | "packed-refs" | "HEAD") => !lock,
                    Some(_) => false,
                }
            }
            // A folder above was moved or removed.
            Err(_) => repository.starts_with(path),
        })
}

/// Tells a folder from another one that took its place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self(metadata.dev(), metadata.ino()))
    }

    #[cfg(not(unix))]
    fn of(path: &Path) -> Option<Self> {
        let created = std::fs::metadata(path).ok()?.created().ok()?;
        let since = created.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Self(since.as_secs(), u64::from(since.subsec_nanos())))
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, CreateKind, ModifyKind, RenameMode};

    use super::*;

    #[test]
    fn only_events_that_can_move_a_reference_count() {
        let repository = Path::new("/srv/fleet.git");
        let rename = EventKind::Modify(ModifyKind::Name(RenameMode::Both));
        for (kind, paths, expected) in [
            (rename, &["/srv/fleet.git/refs/heads/main.lock", "/srv/fleet.git/refs/heads/main"][..], true),
            (EventKind::Create(CreateKind::File), &["/srv/fleet.git/refs/heads/main.lock"], false),
            (rename, &["/srv/fleet.git/packed-refs"], true),
            (rename, &["/srv/fleet.git/objects/pack/x"], false),
            (rename, &["/srv/fleet.git/config"], false),
            (rename, &["/srv/fleet.git"], true),
            (rename, &["/srv"], true),
            (rename, &["/srv/other.git"], false),
            (EventKind::Access(AccessKind::Any), &["/srv/fleet.git/refs/heads/main"], false),
            (EventKind::Other, &[], true),
        ] {
            let mut event = Event::new(kind);
            for path in paths {
                event = event.add_path(PathBuf::from(path));
            }
            assert_eq!(concerns(&event, repository), expected, "{event:?}");
        }
    }
}
