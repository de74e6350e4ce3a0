//! Manifests in files and folders.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use host::disk;
use planning::apis::used::used_apis;
use rayon::iter::{IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _};
use rollout::check::{ApiTargets, standing};
use yaml::Limits;

use super::report::{ApiReport, ApiUseReport, UnreadReport};
use crate::cli::common::error::CommandError;

/// Files that are looked at, at most.
const MAXIMUM_FILES: usize = 200_000;
/// Bytes that are read of one file, at most.
const MAXIMUM_BYTES: u64 = 32 << 20;
/// Folders inside of folders, at most.
const MAXIMUM_DEPTH: usize = 32;

/// Fewer files than these are not worth a thread.
const WORTH_A_THREAD: usize = 64;

/// What manifests at these paths use.
///
/// # Errors
/// A path that is not there, or holds more than a repository does.
pub fn report(targets: &ApiTargets, paths: &[PathBuf]) -> Result<ApiReport, CommandError> {
    let mut found = Found::new(targets);
    let mut left = MAXIMUM_FILES;
    for path in paths {
        if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().lock().take(MAXIMUM_BYTES + 1).read_to_end(&mut bytes)?;
            found.file("standard input", &bytes);
        } else if path.is_dir() {
            let mut manifests = Vec::new();
            manifests_below(path, 0, &mut left, &mut manifests).map_err(|error| {
                CommandError::from(error).context(format!("reading manifests in {}", path.display()))
            })?;
            found.look_at(&manifests);
        } else {
            let bytes = disk::read(path, MAXIMUM_BYTES)
                .map_err(|error| CommandError::from(error).context(format!("reading {}", path.display())))?;
            found.file(&path.to_string_lossy(), &bytes);
        }
    }
    Ok(ApiReport::new(targets.kubernetes, Some(found.objects), found.uses, found.unread))
}

/// Every manifest below a folder, in order. Links are not followed, and hidden folders (`.git`) not entered.
fn manifests_below(folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let too_much = |what: String| std::io::Error::new(std::io::ErrorKind::QuotaExceeded, what);
    if depth > MAXIMUM_DEPTH {
        return Err(too_much(format!("more than {MAXIMUM_DEPTH} folders are inside of each other")));
    }
    let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        *left = left.checked_sub(1).ok_or_else(|| too_much(format!("there are more than {MAXIMUM_FILES} files")))?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_dir() {
            manifests_below(&path, depth + 1, left, found)?;
        } else if kind.is_file() && is_manifest(&path) {
            found.push(path);
        }
    }
    Ok(())
}

struct Found<'a> {
    targets: &'a ApiTargets,
    objects: usize,
    uses: Vec<ApiUseReport>,
    unread: Vec<UnreadReport>,
}

impl<'a> Found<'a> {
    fn new(targets: &'a ApiTargets) -> Self {
        Self { targets, objects: 0, uses: Vec::new(), unread: Vec::new() }
    }

    /// Looks at manifests on all processors: to parse them is all that takes long.
    fn look_at(&mut self, manifests: &[PathBuf]) {
        let targets = self.targets;
        let look = |mut found: Found<'a>, path: &PathBuf| {
            found.manifest(path);
            found
        };
        let both = |mut first: Found<'a>, second: Found<'a>| {
            first.add(second);
            first
        };
        let empty = || Found::new(targets);
        let found = manifests.par_iter().with_min_len(WORTH_A_THREAD).fold(empty, look).reduce(empty, both);
        self.add(found);
    }

    /// Adds what was found behind this.
    fn add(&mut self, found: Self) {
        self.objects += found.objects;
        self.uses.extend(found.uses);
        self.unread.extend(found.unread);
    }

    fn manifest(&mut self, path: &Path) {
        let name = path.strip_prefix(".").unwrap_or(path).to_string_lossy().into_owned();
        match disk::read(path, MAXIMUM_BYTES) {
            Ok(bytes) => self.file(&name, &bytes),
            Err(error) => self.unread(name, None, error.to_string()),
        }
    }

    fn file(&mut self, path: &str, bytes: &[u8]) {
        let limits = Limits { bytes: usize::try_from(MAXIMUM_BYTES).unwrap_or(usize::MAX), ..Limits::default() };
        let documents = yaml::decode(bytes).and_then(|text| yaml::parse(&text, &limits));
        let documents = match documents {
            Ok(documents) => documents,
            Err(error) => {
                let is_template = bytes.windows(2).any(|pair| pair == b"{{");
                let what = if is_template { "it is a template: give what it renders to" } else { &*error.message };
                return self.unread(path.to_owned(), Some(error.line), what.to_owned());
            }
        };
        for used in documents.iter().flat_map(|document| used_apis(&document.root)) {
            self.objects += usize::from(used.field.is_none());
            if let Some(finding) = standing(self.targets, &used.api_version, &used.kind) {
                self.uses.push(ApiUseReport::of_manifest(path, used, finding));
            }
        }
    }

    fn unread(&mut self, what: String, line: Option<usize>, reason: String) {
        self.unread.push(UnreadReport { what, line, reason });
    }
}

fn is_manifest(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["yaml", "yml", "json"].contains(&ending)
}
