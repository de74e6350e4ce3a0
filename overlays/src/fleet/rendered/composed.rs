//! Files as they would have to stand in git for Flux to apply the same without kustomize, and where each value of theirs comes from.
//!
//! A document that no kustomization changes keeps its text, comments included; others are printed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use yaml::{Limits, Node, Rules, Value, emit};

use super::super::objects::FoundObject;
use super::build::BuiltObject;
use super::tree::join;
use crate::Place;
use domain::RepoPath;
use kustomize_rs::FILE_NAMES;

/// A file that takes part in a build, strongest first, to look values up in.
pub(super) struct Layer {
    pub path: RepoPath,
    pub text: String,
}

/// A file made of what a build came to.
pub(super) struct ComposedFile {
    /// What it is called among all objects: no other file has that path.
    pub path: RepoPath,
    /// The file that its objects were read from.
    pub origin: RepoPath,
    pub text: Arc<str>,
    documents: Vec<ComposedDocument>,
    layers: Arc<[Layer]>,
    /// Whether it has the bytes of its origin.
    pub is_unchanged: bool,
}

struct ComposedDocument {
    node: Node,
    raw: Option<Node>,
    /// Line of the object in its origin.
    line: usize,
}

/// The documents of a file as they stand in git: text and object.
fn raw_documents(bytes: &[u8]) -> Vec<(String, Node)> {
    let Ok(text) = yaml::decode(bytes) else { return Vec::new() };
    let Ok(documents) = yaml::parse_with(&text, &Limits::default(), Rules::Manifest) else { return Vec::new() };
    let ranges = crate::document::split(&text);
    let text_of = |node: &Node| {
        let range = ranges.iter().find(|document| document.range.contains(&node.span.start()))?;
        text.get(range.range.clone()).map(str::to_owned)
    };
    documents.into_iter().filter_map(|document| Some((text_of(&document.root)?, document.root))).collect()
}

/// Makes the files of a root's objects.
pub(super) fn compose(
    root: &str,
    folder: &str,
    objects: &[&BuiltObject],
    read: &dyn Fn(&RepoPath) -> Option<Arc<[u8]>>,
    layers: &Arc<[Layer]>,
) -> Vec<ComposedFile> {
    let mut by_file: BTreeMap<&RepoPath, Vec<&BuiltObject>> = BTreeMap::new();
    for object in objects {
        if let Some(file) = &object.file {
            by_file.entry(file).or_default().push(object);
        }
    }
    let mut taken = BTreeSet::new();
    let composed = by_file.into_iter().filter_map(|(origin, mut objects)| {
        objects.sort_by_key(|object| object.line);
        let bytes = read(origin)?;
        let path = composed_path(root, folder, origin, &mut taken)?;
        Some(compose_file(path, origin, &bytes, &objects, layers))
    });
    composed.collect()
}

fn compose_file(
    path: RepoPath,
    origin: &RepoPath,
    bytes: &[u8],
    objects: &[&BuiltObject],
    layers: &Arc<[Layer]>,
) -> ComposedFile {
    let raw = raw_documents(bytes);
    let is_json = origin.as_str().ends_with(".json");
    let mut documents = Vec::new();
    let mut parts: Vec<String> = Vec::new();
    let mut unchanged = 0;
    for object in objects {
        let before = raw.iter().find(|(_, node)| node.span.line() == object.line);
        let printed = emit(&object.node);
        let same = before.filter(|(_, node)| !is_json && emit(node) == printed);
        unchanged += usize::from(same.is_some());
        parts.push(same.map_or(printed, |(text, _)| text.trim_start_matches(['\r', '\n']).to_owned()));
        documents.push((before.map(|(_, node)| node.clone()), object));
    }
    let is_unchanged = unchanged == raw.len() && objects.len() == raw.len();
    let text: Arc<str> = match yaml::decode(bytes) {
        Ok(text) if is_unchanged => Arc::from(&*text),
        _ => Arc::from(parts.iter().map(|part| ended(part)).collect::<Vec<_>>().join("---\n")),
    };
    let nodes = yaml::parse(&text, &Limits::default()).unwrap_or_default();
    let documents = nodes.into_iter().map(|document| document.root).filter(|node| !node.is_null()).zip(documents);
    let documents =
        documents.map(|(node, (raw, object))| ComposedDocument { node, raw, line: object.line.max(1) }).collect();
    ComposedFile { path, origin: shown(origin), text, documents, layers: Arc::clone(layers), is_unchanged }
}

fn ended(part: &str) -> String {
    if part.ends_with('\n') { part.to_owned() } else { format!("{part}\n") }
}

/// The file below `cluster/` on the deploy branch: one that Flux takes for a manifest, and for no kustomization.
fn shown(origin: &RepoPath) -> RepoPath {
    let name = origin.file_name();
    let name = if FILE_NAMES.contains(&name) {
        "generated.yaml".to_owned()
    } else if origin.is_yaml() {
        return origin.clone();
    } else {
        format!("{}.yaml", name.trim_end_matches(".json"))
    };
    let folder = origin.parent().map(|parent| format!("{parent}/")).unwrap_or_default();
    RepoPath::new(format!("{folder}{name}")).unwrap_or_else(|_| origin.clone())
}

/// A path of its own in the folder of the root, with the folders that the origin has below that.
fn composed_path(root: &str, folder: &str, origin: &RepoPath, taken: &mut BTreeSet<String>) -> Option<RepoPath> {
    let rest = if folder.is_empty() { Some(origin.clone()) } else { origin.strip_prefix(folder) };
    let rest = rest.unwrap_or_else(|| origin.clone());
    let below = rest.parent().map(|parent| format!("{parent}/")).unwrap_or_default();
    let mut path = join(folder, &format!("{below}@{root}/{}", rest.file_name()))?;
    while !taken.insert(path.clone()) {
        path = join(folder, &format!("{below}@{root}/@{}/{}", taken.len(), rest.file_name()))?;
    }
    RepoPath::new(path).ok()
}

impl ComposedFile {
    /// Its objects.
    pub fn objects(&self) -> Vec<Arc<FoundObject>> {
        let bytes: Arc<[u8]> = Arc::from(self.text.as_bytes());
        let nodes = self.documents.iter().map(|document| document.node.clone());
        nodes.filter_map(|node| FoundObject::new(&self.path, &bytes, node)).map(Arc::new).collect()
    }

    /// Where what stands at a place of this file stands in git.
    pub fn locate(&self, line: usize, column: usize) -> Place {
        let after = self.documents.iter().position(|document| document.node.span.line() > line);
        let at = after.unwrap_or(self.documents.len()).saturating_sub(1);
        let Some(document) = self.documents.get(at) else {
            return Place { path: self.origin.clone(), line: 1, column: 1 };
        };
        let fallback = Place { path: self.origin.clone(), line: document.line, column: 1 };
        if self.is_unchanged {
            return Place { line, column, ..fallback };
        }
        let mut path = Vec::new();
        if !find(&document.node, line, column, &mut path) || path.is_empty() {
            return fallback;
        }
        let Some(node) = at_path(&document.node, &path) else { return fallback };
        let raw = document.raw.as_ref().and_then(|raw| at_path(raw, &path));
        if let Some(raw) = raw.filter(|raw| **raw == *node) {
            let column = raw.span.column().max(1);
            return Place { path: self.origin.clone(), line: raw.span.line().max(1), column };
        }
        let key = path.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        });
        let found = node.scalar_text().and_then(|value| self.search(&value, key.unwrap_or_default()));
        found
            .or_else(|| {
                raw.map(|raw| raw.span).map(|span| Place {
                    path: self.origin.clone(),
                    line: span.line().max(1),
                    column: span.column().max(1),
                })
            })
            .unwrap_or(fallback)
    }

    /// A patch that says of the same field what stands at a place of this file: then it is what counts. Files of `objects` are none.
    pub fn said_as_well(&self, line: usize, column: usize, objects: &BTreeSet<&RepoPath>) -> Option<Place> {
        let mut path = Vec::new();
        let document = self.documents.iter().find(|document| {
            path.clear();
            find(&document.node, line, column, &mut path)
        })?;
        let value = at_path(&document.node, &path)?.scalar_text()?;
        let Some(Step::Key(key)) = path.last() else { return None };
        self.search_for(&value, key, 2, &|layer| !objects.contains(&layer.path))
    }

    /// The strongest file that says `value`, best where it says it of `key`.
    fn search(&self, value: &str, key: &str) -> Option<Place> {
        let best = |wanted: u8| self.search_for(value, key, wanted, &|_| true);
        best(2).or_else(|| best(1))
    }

    fn search_for(&self, value: &str, key: &str, wanted: u8, takes: &dyn Fn(&Layer) -> bool) -> Option<Place> {
        if value.is_empty() {
            return None;
        }
        self.layers.iter().filter(|layer| takes(layer)).find_map(|layer| {
            let lines: Vec<&str> = layer.text.lines().collect();
            lines.iter().enumerate().find_map(|(at, line)| {
                let column = token(line, value)?;
                let before = at.saturating_sub(4)..at;
                let pointer = format!("/{key}");
                let names = |line: &&str| line.trim_end_matches(['"', '\'', ' ', ',', '}']).ends_with(&pointer);
                let is_key = line.get(..column).is_some_and(|before| before.contains(&format!("{key}:")));
                let rank = if is_key || lines.get(before).is_some_and(|lines| lines.iter().any(names)) { 2 } else { 1 };
                let column = line.get(..column).map_or(1, |before| before.chars().count() + 1);
                (rank == wanted).then(|| Place { path: layer.path.clone(), line: at + 1, column })
            })
        })
    }
}

/// Where `value` stands in a line as a whole word, in bytes.
fn token(line: &str, value: &str) -> Option<usize> {
    let is_edge = |character: Option<char>| {
        character.is_none_or(|character| !(character.is_alphanumeric() || matches!(character, '.' | '-' | '_' | '+')))
    };
    let fits = |at: &usize| {
        is_edge(line.get(..*at).and_then(|before| before.chars().next_back()))
            && is_edge(line.get(at + value.len()..).and_then(|after| after.chars().next()))
    };
    line.match_indices(value).map(|(at, _)| at).find(fits)
}

/// One step of a path in an object.
enum Step {
    Key(String),
    Index(usize),
}

/// The path to what begins at a place; a mapping begins where its first key does, so the innermost is found last.
fn find(node: &Node, line: usize, column: usize, path: &mut Vec<Step>) -> bool {
    match &node.value {
        Value::Mapping(mapping) => {
            for entry in mapping {
                path.push(Step::Key(entry.key.to_string()));
                let is_key = (entry.key_span.line(), entry.key_span.column()) == (line, column);
                if is_key || find(&entry.value, line, column, path) {
                    return true;
                }
                path.pop();
            }
        }
        Value::Sequence(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                if find(item, line, column, path) {
                    return true;
                }
                path.pop();
            }
        }
        _ => {}
    }
    (node.span.line(), node.span.column()) == (line, column)
}

fn at_path<'n>(node: &'n Node, path: &[Step]) -> Option<&'n Node> {
    path.iter().try_fold(node, |node, step| match step {
        Step::Key(key) => node.get(key),
        Step::Index(index) => node.as_sequence()?.get(*index),
    })
}
