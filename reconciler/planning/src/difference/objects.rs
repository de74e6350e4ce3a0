//! The objects of rendered files.

use kustomize_rs::{BuildError, MemoryFileSystem, Options, Resources, build};
use yaml::{Mapping, Node, emit};

/// Where the files lie while they are read.
const BELOW: &str = "objects";

/// Whether a file may hold objects, by its name.
pub fn is_manifest(name: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|extension| name.ends_with(extension))
}

/// The objects of rendered files, by name and content: those of a kustomization that names them all and changes nothing. A single file may
/// have the empty name.
///
/// # Errors
/// [`BuildError`] with the file's name, where one of them holds no objects.
pub fn objects(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<Resources, BuildError> {
    objects_in(files, None)
}

/// The same, in this namespace where one is given, as a kustomization moves them there.
///
/// # Errors
/// As [`objects`].
pub(crate) fn objects_in(
    files: impl IntoIterator<Item = (String, Vec<u8>)>,
    namespace: Option<&str>,
) -> Result<Resources, BuildError> {
    let mut tree = MemoryFileSystem::new();
    let mut names = Vec::new();
    for (path, bytes) in files {
        let name = if path.is_empty() { BELOW.to_owned() } else { format!("{BELOW}/{path}") };
        names.push(Node::from(name.as_str()));
        tree.insert(&name, bytes);
    }
    if names.is_empty() {
        return Ok(Resources::default());
    }
    let namespace = namespace.map(|namespace| ("namespace".to_owned(), Node::from(namespace)));
    let resources = ("resources".to_owned(), Node::from(names));
    let kustomization: Mapping = namespace.into_iter().chain([resources]).collect();
    tree.insert("kustomization.yaml", emit(&kustomization.into()).into_bytes());
    let options = Options { include_local_config: true, ..Options::default() };
    build(&tree, "", &options).map_err(|mut error| {
        let below = |file: String| {
            let file = file.strip_prefix(BELOW).unwrap_or_default();
            file.trim_start_matches('/').to_owned()
        };
        error.file = error.file.map(below);
        error
    })
}
