//! Mirror folders: manifests and charts addressed by host and path.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use overlays::{FetchError, Manifests};
use policy::is_mirror_name;

use super::address::MirrorPath;
use host::disk;

/// The largest file that is read from a mirror: several times the largest manifest or chart there is.
pub(super) const MAXIMUM_BYTES: u64 = 64 << 20;

/// A mirror folder as the operator gives it: `NAME=DIR`, or `DIR` alone.
///
/// A folder without a name is always looked in; one with a name where `stepgate.yaml` names it under `mirrors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorFolder {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The folder.
    pub path: PathBuf,
}

impl FromStr for MirrorFolder {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.split_once('=') {
            Some((name, path)) if is_mirror_name(name) => Self { name: Some(name.to_owned()), path: path.into() },
            _ => Self { name: None, path: text.into() },
        })
    }
}

impl From<PathBuf> for MirrorFolder {
    fn from(path: PathBuf) -> Self {
        Self { name: None, path }
    }
}

/// One or more folders, looked through in order; the first that has the file wins.
///
/// A file is only read when it lies below its folder with every symbolic link followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    roots: Vec<PathBuf>,
    maximum_bytes: u64,
}

impl Default for Mirror {
    fn default() -> Self {
        Self { roots: Vec::new(), maximum_bytes: MAXIMUM_BYTES }
    }
}

impl Mirror {
    /// A mirror over `roots`.
    ///
    /// # Errors
    /// A root that is no readable folder.
    pub fn open(roots: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let root = |root: PathBuf| {
            let error = |error: io::Error| io::Error::new(error.kind(), format!("mirror {}: {error}", root.display()));
            let canonical = root.canonicalize().map_err(error)?;
            if canonical.is_dir() { Ok(canonical) } else { Err(error(io::ErrorKind::NotADirectory.into())) }
        };
        Ok(Self { roots: roots.into_iter().map(root).collect::<io::Result<_>>()?, ..Self::default() })
    }

    /// The same with larger files: programs are larger than manifests.
    #[must_use]
    pub fn with_maximum(self, maximum_bytes: u64) -> Self {
        Self { maximum_bytes, ..self }
    }

    /// Whether there is no folder at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    fn read(&self, uri: &str, place: Result<MirrorPath, String>) -> Result<Vec<u8>, FetchError> {
        let not_found = |searched: String| FetchError::NotFound { uri: uri.to_owned(), searched };
        let place = place.map_err(not_found)?;
        for root in &self.roots {
            match read_below(root, place.as_path(), self.maximum_bytes) {
                Ok(bytes) => return Ok(bytes),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => {
                    let message = format!("{}: {error}", root.join(place.as_path()).display());
                    return Err(FetchError::Failed { uri: uri.to_owned(), message });
                }
            }
        }
        let searched: Vec<String> =
            self.roots.iter().map(|root| root.join(place.as_path()).display().to_string()).collect();
        Err(not_found(if searched.is_empty() {
            "no mirror is given".to_owned()
        } else {
            format!("looked for {}", searched.join(", "))
        }))
    }
}

impl Manifests for Mirror {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        self.read(uri, MirrorPath::of(uri).map_err(|error| error.to_string())).map(Arc::from)
    }
}

fn read_below(root: &Path, relative: &Path, maximum_bytes: u64) -> io::Result<Vec<u8>> {
    let path = root.join(relative).canonicalize()?;
    if !path.starts_with(root) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "a symbolic link leads out of the mirror"));
    }
    disk::read(&path, maximum_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_first_folder_that_has_it_wins() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(first.path(), "example.org/a.yaml", "first");
        write(second.path(), "example.org/a.yaml", "second");
        write(second.path(), "example.org/b.yaml", "only second");
        write(second.path(), "example.org/charts/cilium/1.0.0.tgz", "chart");
        let mirror = Mirror::open([first.path().to_owned(), second.path().to_owned()]).unwrap();
        assert_eq!(&*mirror.get("https://example.org/a.yaml").unwrap(), b"first");
        assert_eq!(&*mirror.get("https://example.org/b.yaml").unwrap(), b"only second");
        assert_eq!(&*mirror.get("oci://example.org/charts/cilium:1.0.0").unwrap(), b"chart");
        let error = mirror.get("https://example.org/c.yaml").unwrap_err();
        assert!(
            matches!(&error, FetchError::NotFound { searched, .. } if searched.matches("example.org/c.yaml").count() == 2),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_out_of_the_folder_are_refused_and_links_inside_are_followed() {
        let (outside, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(outside.path(), "secret", "secret");
        write(root.path(), "example.org/a.yaml", "a");
        let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, root.path().join(name)).unwrap();
        link(&outside.path().join("secret"), "example.org/file.yaml");
        link(outside.path(), "example.net");
        link(Path::new("a.yaml"), "example.org/b.yaml");
        let mirror = Mirror::open([root.path().to_owned()]).unwrap();
        for uri in ["https://example.org/file.yaml", "https://example.net/secret"] {
            let error = mirror.get(uri).unwrap_err();
            assert!(error.to_string().contains("leads out of the mirror"), "{error}");
        }
        assert_eq!(&*mirror.get("https://example.org/b.yaml").unwrap(), b"a");
    }

    #[test]
    fn only_what_stands_before_the_first_equals_sign_is_a_name() {
        for (text, name, path) in [
            ("/srv/mirror", None, "/srv/mirror"),
            ("central=/srv/mirror", Some("central"), "/srv/mirror"),
            ("central=a=b", Some("central"), "a=b"),
            ("./a=b", None, "./a=b"),
            ("/x/a=b", None, "/x/a=b"),
            ("A=b", None, "A=b"),
        ] {
            let Ok(folder) = text.parse::<MirrorFolder>();
            assert_eq!((folder.name.as_deref(), folder.path.as_path()), (name, Path::new(path)), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_plain_file_is_refused_without_waiting() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "example.org/a.yaml", "a");
        let pipe = root.path().join("example.org/pipe.yaml");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mirror = Mirror::open([root.path().to_owned()]).unwrap();
        let error = mirror.get("https://example.org/pipe.yaml").unwrap_err();
        assert!(error.to_string().contains("not a plain file"), "{error}");
    }

    #[test]
    fn folders_and_missing_roots_are_errors() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "example.org/folder/a.yaml", "a");
        let mirror = Mirror::open([root.path().to_owned()]).unwrap();
        assert!(matches!(mirror.get("https://example.org/folder"), Err(FetchError::Failed { .. })));
        assert!(matches!(mirror.get("https://example.org/folder/a.yaml/b"), Err(FetchError::NotFound { .. })));
        assert!(matches!(mirror.get("<placeholder>"), Err(FetchError::NotFound { .. })));
        let error = Mirror::open([root.path().join("missing")]).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
    }
}
