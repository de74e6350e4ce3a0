//! Builds one root as kustomize-controller would, from what is in git.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use kustomize_rs::flux::{
    self, Kustomization, Missing, Operation, Part, SourceKind, Sources, SubstituteReference, Template,
};
use kustomize_rs::{BuildError, BuildErrorKind, MemoryFileSystem, Options, Resources};
use sha2::{Digest as _, Sha256};
use yaml::{Node, emit};

use super::tree::{LoadError, Tree};
use crate::{FileEntry, Remembered};
use domain::RepoPath;

/// One object that came out of a build.
pub(super) struct BuiltObject {
    pub node: Arc<Node>,
    /// The file that it was read from.
    pub file: Option<RepoPath>,
    pub line: usize,
    /// Variables whose values are not known, or which nothing sets.
    pub unset: Vec<String>,
}

/// What a build came to.
pub(super) struct Outcome {
    pub objects: Vec<BuiltObject>,
    /// YAML nodes of all objects.
    nodes: u64,
    /// Sources of variables that are not in git, and hold values that an object may need.
    pub unknown: Vec<SubstituteReference>,
}

/// Values of `ConfigMaps` by namespace and name.
pub(super) type ConfigMaps = BTreeMap<(String, String), BTreeMap<String, String>>;

pub(super) type Built = Result<Arc<Outcome>, Arc<BuildError>>;

/// What was built before, by everything that it was built from.
pub(in super::super) struct KnownBuilds(Mutex<Remembered<[u8; 32], Built>>);

impl KnownBuilds {
    pub fn new(bytes: usize) -> Self {
        Self(Mutex::new(Remembered::new(bytes)))
    }

    fn get(&self, key: &[u8; 32]) -> Option<Built> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key)
    }

    fn insert(&self, key: [u8; 32], built: &Built, bytes: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, built.clone(), bytes);
    }
}

/// What one build may cost: far more than specifications take, and less than a second.
fn options() -> Options {
    Options { steps: 60_000_000, growth: 192 << 20, output: 64 << 20, objects: 50_000, ..Options::default() }
}

/// The work that a build was, about: the same for one that was remembered.
pub(super) fn cost(built: &Built) -> u64 {
    match built {
        Ok(outcome) => outcome.nodes.saturating_mul(100),
        Err(error) if error.kind == BuildErrorKind::Limit => options().steps,
        Err(_) => options().steps / 100,
    }
}

/// Builds `object` over these files, which are loaded where that was not built before.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn build(
    known: &KnownBuilds,
    tree: &Tree<'_>,
    entries: &[&FileEntry],
    object: &Kustomization,
    config_maps: &ConfigMaps,
) -> Result<Built, LoadError> {
    let key = key(tree, entries, object, config_maps)?;
    if let Some(built) = known.get(&key) {
        return Ok(built);
    }
    let files = tree.load(entries)?;
    let built = build_anew(&files, object, config_maps).map(Arc::new).map_err(Arc::new);
    let objects = built.as_ref().map_or(0, |outcome| outcome.objects.iter().map(|it| it.node.size()).sum());
    known.insert(key, &built, objects.saturating_mul(8) + 1024);
    Ok(built)
}

fn key(
    tree: &Tree<'_>,
    entries: &[&FileEntry],
    object: &Kustomization,
    config_maps: &ConfigMaps,
) -> Result<[u8; 32], LoadError> {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    };
    add(format!("{object:?}").as_bytes());
    for reference in object.post_build.iter().flat_map(|post_build| &post_build.substitute_from) {
        add(format!("{:?}", config_maps.get(&(object.namespace.clone(), reference.name.clone()))).as_bytes());
    }
    for entry in entries {
        add(entry.path.as_str().as_bytes());
        match &entry.id {
            Some(id) => add(id.bytes()),
            None => {
                let read = tree.read(&entry.path);
                add(&read.map_err(|error| LoadError::Unreadable(entry.path.clone(), error))?);
            }
        }
    }
    Ok(digest.finalize().into())
}

fn build_anew(
    files: &MemoryFileSystem,
    object: &Kustomization,
    config_maps: &ConfigMaps,
) -> Result<Outcome, BuildError> {
    let mut object = object.clone();
    let mut sources = Sources::default();
    let mut set = BTreeSet::new();
    let mut unknown = Vec::new();
    let post_build = object.post_build.take();
    for reference in post_build.iter().flat_map(|post_build| &post_build.substitute_from) {
        let found = config_maps.get(&(object.namespace.clone(), reference.name.clone()));
        match found.filter(|_| reference.kind == SourceKind::ConfigMap) {
            Some(values) => {
                set.extend(values.keys().cloned());
                sources.insert(SourceKind::ConfigMap, reference.name.clone(), values.clone());
            }
            None => {
                // What comes before it may be replaced by it.
                set.clear();
                unknown.push(reference.clone());
            }
        }
    }
    set.extend(post_build.iter().flat_map(|post_build| post_build.substitute.keys().cloned()));
    let flux_options = flux::Options { build: options(), missing: Missing::IsEmpty, sources };
    let Some(mut post_build) = post_build else {
        let resources = flux::build(files, &object, &flux_options)?;
        return Ok(Outcome { objects: objects(&resources, &BTreeMap::new()), nodes: nodes(&resources), unknown });
    };
    let unset = unset(&flux::build(files, &object, &flux_options)?, &set);
    post_build.substitute_from.iter_mut().for_each(|reference| reference.optional = true);
    object.post_build = Some(post_build);
    let resources = flux::build(files, &object, &flux_options)?;
    Ok(Outcome { objects: objects(&resources, &unset), nodes: nodes(&resources), unknown })
}

fn nodes(resources: &Resources) -> u64 {
    resources.iter().map(|resource| u64::try_from(resource.node().count()).unwrap_or(u64::MAX)).sum()
}

/// The variables of each object that are not among those `set` and have no default, by place.
fn unset(resources: &Resources, set: &BTreeSet<String>) -> BTreeMap<(String, usize), Vec<String>> {
    let mut unset = BTreeMap::new();
    for resource in resources.iter() {
        let text = emit(resource.node());
        let Some(template) = text.contains("${").then(|| Template::parse(&text).ok()).flatten() else { continue };
        let mut names = BTreeSet::new();
        collect(template.parts(), &mut names);
        names.retain(|(name, _)| !set.contains(name));
        let names = names.into_iter().map(|(name, has_default)| if has_default { format!("{name}:=") } else { name });
        let origin = resource.origin();
        unset.entry((origin.file.to_string(), origin.line)).or_insert_with(Vec::new).extend(names);
    }
    unset
}

fn collect(parts: &[Part], names: &mut BTreeSet<(String, bool)>) {
    for part in parts {
        if let Part::Expression(expression) = part {
            names.insert((expression.variable.clone(), expression.operation == Operation::Default));
            collect(&expression.arguments, names);
        }
    }
}

fn objects(resources: &Resources, unset: &BTreeMap<(String, usize), Vec<String>>) -> Vec<BuiltObject> {
    let object = |resource: &kustomize_rs::Resource| {
        let origin = resource.origin();
        BuiltObject {
            node: Arc::new(resource.node().clone()),
            file: RepoPath::new(&*origin.file).ok(),
            line: origin.line,
            unset: unset.get(&(origin.file.to_string(), origin.line)).cloned().unwrap_or_default(),
        }
    };
    resources.iter().map(object).collect()
}
