//! `stepgate kustomize diff`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use kustomize_rs::{DiskFileSystem, FILE_NAMES, FileSystem, Options, Resources, build};
use serde::Serialize;
use serde_json::json;
use yaml::{Limits, Node, Value};

use super::tree::Tree;
use crate::cli::common::output;
use crate::cli::{CommandError, Exit, Format, Report, Table};
use planning::difference::{Change, FieldDifference, ObjectDifference, compare, is_manifest, objects};

/// Arguments of `stepgate kustomize diff`.
#[derive(Debug, Args)]
pub struct DiffArguments {
    /// Before: the directory of a kustomization, a file of objects, or a directory of such files.
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// After: as OLD.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// The tree that kustomizations may read, for both sides. Without it: as `stepgate kustomize build` chooses it.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What differs between two sets of objects.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct KustomizeDiffReport {
    /// The objects that differ, by group, kind, namespace and name.
    objects: Vec<ObjectReport>,
}

/// An object that differs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ObjectReport {
    /// Its `apiVersion`, on the new side where it is there.
    api_version: String,
    /// Its kind.
    kind: String,
    /// Its namespace; null where it says none.
    namespace: Option<String>,
    /// Its name.
    name: String,
    /// `added`, `removed` or `modified`.
    change: &'static str,
    /// For a modified object: the fields that differ.
    fields: Vec<FieldReport>,
}

/// A field that differs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct FieldReport {
    /// Names joined by dots; `[name=x]` for an item of a list of named things, a number for other items.
    path: String,
    /// `added`, `removed`, `modified` or `reordered`.
    change: &'static str,
    /// The value before; null where absent or hidden.
    old: serde_json::Value,
    /// The value after; null where absent or hidden.
    new: serde_json::Value,
    /// The values belong to a Secret and are not told.
    hidden: bool,
}

impl From<ObjectDifference<'_>> for ObjectReport {
    fn from(difference: ObjectDifference<'_>) -> Self {
        let object = difference.object;
        let gvk = object.gvk();
        Self {
            api_version: gvk.api_version(),
            kind: gvk.kind.into(),
            namespace: Some(object.namespace().into()).filter(|namespace: &String| !namespace.is_empty()),
            name: object.name().into(),
            change: word(difference.change),
            fields: difference.fields.into_iter().map(FieldReport::from).collect(),
        }
    }
}

impl From<FieldDifference<'_>> for FieldReport {
    fn from(field: FieldDifference<'_>) -> Self {
        let value = |node: Option<&Node>| node.filter(|_| !field.secret).map_or(serde_json::Value::Null, json_of);
        let (old, new) = (value(field.old), value(field.new));
        Self { path: field.path, change: word(field.change), old, new, hidden: field.secret }
    }
}

fn word(change: Change) -> &'static str {
    match change {
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Modified => "modified",
        Change::Reordered => "reordered",
    }
}

fn json_of(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!(value),
        Value::Uint(value) => json!(value),
        Value::Float(value) => json!(value),
        Value::String(value) => json!(value.as_str()),
        Value::Sequence(items) => items.iter().map(json_of).collect(),
        Value::Mapping(mapping) => mapping.iter().map(|entry| (entry.key.clone(), json_of(&entry.value))).collect(),
    }
}

impl Report for KustomizeDiffReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut rows = Vec::new();
        for object in &self.objects {
            let name = match &object.namespace {
                Some(namespace) => format!("{namespace}/{}", object.name),
                None => object.name.clone(),
            };
            let row = |change: &str, cells: [String; 3]| {
                [object.kind.clone(), name.clone(), change.to_owned()].into_iter().chain(cells).collect()
            };
            if object.fields.is_empty() {
                rows.push(row(object.change, [String::new(), String::new(), String::new()]));
            }
            for field in &object.fields {
                let shown = |value: &serde_json::Value| if field.hidden { "(hidden)".to_owned() } else { cell(value) };
                let old = if field.change == "added" { String::new() } else { shown(&field.old) };
                let new = if field.change == "removed" { String::new() } else { shown(&field.new) };
                rows.push(row(field.change, [field.path.clone(), old, new]));
            }
        }
        let notes = if rows.is_empty() { vec!["no differences".to_owned()] } else { Vec::new() };
        vec![(None, Table { headers: vec!["KIND", "NAME", "CHANGE", "FIELD", "OLD", "NEW"], rows, notes, width: None })]
    }
}

/// A value on one line, cut where it is long.
fn cell(value: &serde_json::Value) -> String {
    const WIDTH: usize = 48;
    let text = match value {
        serde_json::Value::String(text) if !text.contains(char::is_control) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Compares the two sides and prints what differs.
pub fn run(arguments: &DiffArguments) -> Result<Exit, CommandError> {
    let root = arguments.root.as_deref();
    let (old, new) = (read(&arguments.old, root)?, read(&arguments.new, root)?);
    let report = KustomizeDiffReport { objects: compare(&old, &new).into_iter().map(ObjectReport::from).collect() };
    output::print(arguments.output, &report)?;
    Ok(if report.objects.is_empty() { Exit::Success } else { Exit::Differences })
}

fn read(path: &Path, root: Option<&Path>) -> Result<Resources, CommandError> {
    if !path.is_dir() {
        return rendered(path, vec![(String::new(), file(path)?)]);
    }
    if !FILE_NAMES.iter().any(|name| path.join(name).is_file()) {
        let files = DiskFileSystem::new(path)?;
        let mut found = Vec::new();
        collect(&files, "", &mut found)
            .map_err(|error| CommandError::from(error).context(format!("cannot read {}", path.display())))?;
        return rendered(path, found);
    }
    let tree = Tree::open(path, root)?;
    let resources = build(&tree.files, &tree.target, &Options::default()).map_err(|error| tree.error(error))?;
    resources.warnings().iter().for_each(|warning| output::note(warning));
    Ok(resources)
}

/// A file that was named by the person: a pipe will do.
fn file(path: &Path) -> Result<Vec<u8>, CommandError> {
    let limit = Limits::default().bytes as u64;
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    read.map_err(|error| CommandError::from(error).context(format!("cannot read {}", path.display())))?;
    Ok(bytes)
}

/// Every YAML and JSON file below a directory, in the order of their names.
fn collect(
    files: &DiskFileSystem,
    directory: &str,
    found: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), kustomize_rs::FileError> {
    for name in files.list(directory)? {
        let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
        // A link to a directory could lead round in a circle.
        let is_link = files.canonical(&path).is_ok_and(|real| real != path);
        if files.is_dir(&path) {
            if !is_link && name != ".git" {
                collect(files, &path, found)?;
            }
        } else if is_manifest(&name) {
            found.push((path.clone(), files.read(&path)?.to_vec()));
        }
    }
    Ok(())
}

/// The objects of rendered files of a side.
fn rendered(place: &Path, files: Vec<(String, Vec<u8>)>) -> Result<Resources, CommandError> {
    objects(files).map_err(|mut error| {
        error.file = error.file.map(|file| {
            if file.is_empty() { place.display().to_string() } else { place.join(file).display().to_string() }
        });
        let hint = error.hint.take();
        let error = CommandError::new(error.to_string());
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })
}
