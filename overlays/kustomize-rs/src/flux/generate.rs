//! The kustomization that Flux builds: the one in the directory, or one over all manifests below it, with what the Flux
//! object adds.

use yaml::{Limits, Mapping, Node, Rules, decode, emit, parse_with};

use super::kustomization::Kustomization;
use super::{merge, shape};
use crate::budget::Budget;
use crate::error::{BuildError, BuildErrorKind};
use crate::fs::{self, FileError, FileSystem};
use crate::kustomization::FILE_NAMES;
use crate::resource::objects;

/// The kustomization that Flux generates before it builds. It is not written to `files`.
#[derive(Debug, Clone)]
pub struct Generated {
    /// Where it stands, or would stand, in the file system.
    pub file: String,
    /// Whether the directory had none, so that this covers all manifests below.
    pub is_new: bool,
    /// Unknown fields that were dropped, one line each.
    pub warnings: Vec<String>,
    pub(super) directory: String,
    pub(super) root: Node,
}

impl Generated {
    /// The text that Flux writes.
    pub fn to_yaml(&self) -> String {
        emit(&self.root)
    }
}

/// Makes the kustomization of `object.path`.
///
/// # Errors
/// A directory that is not there, a kustomization that cannot be read; where there is none, a manifest that is none or a
/// symbolic link that leads out of the file system.
pub fn generate(
    files: &dyn FileSystem,
    object: &Kustomization,
    options: &crate::Options,
) -> Result<Generated, BuildError> {
    let directory = directory(files, &object.path)?;
    let source = Source { files, limits: &options.limits, budget: Budget::new(options.steps, options.growth) };
    let mut generated = match source.existing(&directory)? {
        Some(existing) => existing,
        None => source.over_manifests(directory)?,
    };
    if let Some(mapping) = generated.root.as_mapping_mut() {
        let components = |path: &str| exists(files, &generated.directory, path);
        merge::merge(mapping, object, &components).map_err(|error| error.in_file(&generated.file))?;
    }
    Ok(generated)
}

/// The directory of `spec.path`: a path that climbs above the root stays there.
fn directory(files: &dyn FileSystem, path: &str) -> Result<String, BuildError> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    let joined = parts.join("/");
    let failed = |reason: &str| BuildError::new(BuildErrorKind::File, format!("`spec.path` is `{path}`, {reason}"));
    if !files.is_dir(&joined) {
        return Err(failed("which is not a directory of the source"));
    }
    files.canonical(&joined).map_err(|error| failed(&format!("which cannot be read: {error}")))
}

/// Says whether there is a file or directory.
fn exists(files: &dyn FileSystem, directory: &str, path: &str) -> bool {
    fs::join(directory, path).is_some_and(|path| files.is_dir(&path) || is_file(files, &path))
}

fn is_file(files: &dyn FileSystem, path: &str) -> bool {
    !matches!(files.read(path), Err(FileError::Missing | FileError::NotAFile | FileError::Outside))
}

fn header() -> Mapping {
    let pairs = [("apiVersion", "kustomize.config.k8s.io/v1beta1"), ("kind", "Kustomization")];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), Node::from(value))).collect()
}

/// What is read from, and at what cost.
struct Source<'f> {
    files: &'f dyn FileSystem,
    limits: &'f Limits,
    budget: Budget,
}

impl Source<'_> {
    fn existing(&self, directory: &str) -> Result<Option<Generated>, BuildError> {
        for name in FILE_NAMES {
            let Some(file) = fs::join(directory, name) else {
                continue;
            };
            let content = match self.files.read(&file) {
                Ok(content) => content,
                Err(FileError::Missing | FileError::NotAFile | FileError::Outside) => continue,
                Err(error) => {
                    return Err(
                        BuildError::new(BuildErrorKind::File, format!("it cannot be read: {error}")).in_file(&file)
                    );
                }
            };
            let yaml = |error| BuildError::from_yaml(error, &file);
            let text = decode(&content).map_err(yaml)?;
            let document = parse_with(&text, self.limits, Rules::V2).map_err(yaml)?.into_iter().next();
            let mut lost = Vec::new();
            let given = match &document {
                Some(document) => {
                    shape::kustomization(&document.root, &mut lost).map_err(|error| error.in_file(&file))?
                }
                None => Mapping::new(),
            };
            let mut mapping = header();
            for entry in given {
                mapping.remove(&entry.key);
                mapping.push_entry(entry);
            }
            if mapping.get("resources").is_none() {
                // Flux has to write something, or kustomize calls the file empty.
                mapping.insert("buildMetadata", vec![Node::from("originAnnotations")]);
            }
            let mut warnings: Vec<String> = lost
                .iter()
                .map(|lost| {
                    format!(
                        "# Warning: {file}:{}:{}: Flux drops the unknown field `{}`.",
                        lost.line, lost.column, lost.name
                    )
                })
                .collect();
            for (key, span) in document.iter().flat_map(|document| &document.duplicates) {
                let place = format!("{file}:{}:{}", span.line(), span.column());
                warnings.push(format!("# Warning: {place}: `{key}` is given again below, this one is lost."));
            }
            let span = document.map(|document| document.root.span).unwrap_or_default();
            let root = Node::with_span(yaml::Value::Mapping(mapping), span);
            return Ok(Some(Generated { file, is_new: false, warnings, directory: directory.to_owned(), root }));
        }
        Ok(None)
    }

    fn over_manifests(&self, directory: String) -> Result<Generated, BuildError> {
        let mut mapping = header();
        let resources = self.manifests(&directory)?;
        if resources.is_empty() {
            // Flux has to write something, or kustomize calls the file empty.
            mapping.insert("namespace", "_placeholder");
        } else {
            mapping.insert("resources", resources);
        }
        let file = fs::join(&directory, FILE_NAMES[0]).unwrap_or_default();
        Ok(Generated { file, is_new: true, warnings: Vec::new(), directory, root: mapping.into() })
    }

    /// All manifests below `base`, and all directories with a kustomization of their own, in the order of their names.
    fn manifests(&self, base: &str) -> Result<Vec<Node>, BuildError> {
        let mut found = Vec::new();
        // What comes next is last.
        let mut waiting = children(self.files, base)?;
        while let Some(path) = waiting.pop() {
            let is_yaml = path.ends_with(".yaml") || path.ends_with(".yml");
            let failed = |error: &FileError| {
                BuildError::new(BuildErrorKind::File, format!("it cannot be read: {error}")).in_file(&path)
            };
            let real = match self.files.canonical(&path) {
                Ok(real) => real,
                // A link to nothing matters only if it should be a manifest.
                Err(FileError::Missing) if !is_yaml => continue,
                Err(error) => return Err(failed(&error)),
            };
            // A link is a file, whatever it leads to.
            if real == path && self.files.is_dir(&path) {
                let inside = |name: &&str| fs::join(&path, name).is_some_and(|name| is_file(self.files, &name));
                if FILE_NAMES.iter().any(inside) {
                    found.push(relative(base, &path));
                } else {
                    waiting.extend(children(self.files, &path)?);
                }
                continue;
            }
            if is_yaml {
                let content = self.files.read(&path).map_err(|error| failed(&error))?;
                self.budget.read(&content)?;
                objects::read(&content, &path, self.limits).map_err(|error| {
                error.hint("without a kustomization.yaml Flux applies every YAML file below `spec.path`; add one, or move this file")
            })?;
                found.push(relative(base, &path));
            }
        }
        Ok(found)
    }
}

fn relative(base: &str, path: &str) -> Node {
    let below = if base.is_empty() { path } else { path.strip_prefix(base).unwrap_or(path).trim_start_matches('/') };
    Node::from(format!("./{below}"))
}

/// What is in a directory, last name first.
fn children(files: &dyn FileSystem, directory: &str) -> Result<Vec<String>, BuildError> {
    let mut names = files.list(directory).map_err(|error| {
        BuildError::new(BuildErrorKind::File, format!("the directory `{directory}` cannot be read: {error}"))
    })?;
    names.sort_by(|a, b| b.cmp(a));
    Ok(names.into_iter().filter_map(|name| fs::join(directory, &name)).collect())
}
