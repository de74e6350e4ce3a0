//! Which files a kustomization is made of, read off its lists without building it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use yaml::{Limits, Node, Rules, Value};

use super::tree::{Tree, join};
use domain::RepoPath;
use kustomize_rs::FILE_NAMES;

/// What a kustomization file lists.
#[derive(Default)]
pub(super) struct Listed {
    /// `resources` and `bases`.
    resources: Vec<String>,
    components: Vec<String>,
    /// Files that are no objects: patches, replacements, configurations, sources of generators.
    others: Vec<String>,
    pub is_component: bool,
    /// It lists objects and changes nothing of them.
    is_plain: bool,
    /// It changes single objects by patches or the like.
    pub patches: bool,
    /// It is not YAML: what it lists is not known.
    is_broken: bool,
}

/// The kustomization files of a commit.
pub(super) struct Kustomizations<'t> {
    tree: &'t Tree<'t>,
    listed: HashMap<RepoPath, Arc<Listed>>,
}

/// The files that a folder's objects are made of.
#[derive(Default)]
pub(super) struct Closure {
    /// Files of objects.
    pub resources: BTreeSet<RepoPath>,
    /// Files that change them.
    pub others: BTreeSet<RepoPath>,
    /// Kustomization files, from the top to the bases.
    pub kustomizations: Vec<RepoPath>,
    /// Folders that were entered.
    pub folders: BTreeSet<String>,
    /// Nothing on the way changes an object.
    pub is_plain: bool,
    /// What is listed and not in the repository, as what is at an address.
    pub missing: Vec<String>,
    /// Symbolic links on the way: the link, and the kustomization that goes over it.
    pub links: Vec<(String, Option<RepoPath>)>,
}

impl Closure {
    /// Whether it is kustomizations below this folder alone that go over links.
    pub fn links_are_below(&self, folder: &str) -> bool {
        let is_below = |from: &RepoPath| from.parent().is_some_and(|parent| parent.as_str() != folder);
        self.links.iter().all(|(_, from)| from.as_ref().is_some_and(is_below))
    }
}

impl<'t> Kustomizations<'t> {
    pub fn read(tree: &'t Tree<'t>) -> Self {
        let is_kustomization = |path: &RepoPath| FILE_NAMES.contains(&path.file_name());
        let entries = tree.entries().iter().filter(|entry| is_kustomization(&entry.path) && entry.size < 1 << 20);
        let broken = || Listed { is_broken: true, ..Listed::default() };
        let read = |path| Arc::new(read(tree, path).unwrap_or_else(broken));
        let listed = entries.map(|entry| (entry.path.clone(), read(&entry.path)));
        Self { tree, listed: listed.collect() }
    }

    pub fn is_component(&self, folder: &str) -> bool {
        self.of(folder).is_some_and(|(_, listed)| listed.is_component)
    }

    /// The kustomization file of a folder.
    pub fn file_of(&self, folder: &str) -> Option<RepoPath> {
        self.of(folder).map(|(path, _)| path)
    }

    fn of(&self, folder: &str) -> Option<(RepoPath, Arc<Listed>)> {
        let path = &self.tree.kustomization_of(folder)?.path;
        Some((path.clone(), Arc::clone(self.listed.get(path)?)))
    }

    /// The folders of kustomizations that no other one names, components included, in order.
    pub fn tops(&self) -> Vec<String> {
        let mut named = BTreeSet::new();
        let mut folders = BTreeSet::new();
        for (path, listed) in &self.listed {
            let folder = path.parent().map(|parent| parent.to_string()).unwrap_or_default();
            let names = listed.resources.iter().chain(&listed.components).filter_map(|name| join(&folder, name));
            let real = |name: String| self.tree.link(&name).and_then(|link| link.real).unwrap_or(name);
            named.extend(names.filter(|name| *name != folder).map(real));
            folders.insert(folder);
        }
        let of_links = self.tree.links().filter_map(|link| match link.rsplit_once('/') {
            Some((folder, name)) => FILE_NAMES.contains(&name).then(|| folder.to_owned()),
            None => FILE_NAMES.contains(&link).then(String::new),
        });
        folders.extend(of_links);
        folders.into_iter().filter(|folder| !named.contains(folder)).collect()
    }

    /// The folders of kustomizations that are in none of these closures: they name one another in a circle.
    pub fn circular(&self, reached: &BTreeSet<String>) -> Option<String> {
        let folders = self.listed.iter().filter(|(_, listed)| !listed.is_component);
        let folders = folders.map(|(path, _)| path.parent().map(|parent| parent.to_string()).unwrap_or_default());
        folders.filter(|folder| !reached.contains(folder)).min()
    }

    /// Whether a kustomization, or one below it, changes single objects.
    pub fn patches_objects(&self, closure: &Closure) -> bool {
        closure.kustomizations.iter().filter_map(|path| self.listed.get(path)).any(|it| it.patches || it.is_broken)
    }

    /// Files that some kustomization names as a patch or the like: they are no objects of their own.
    pub fn patches(&self) -> BTreeSet<RepoPath> {
        let all = self.listed.iter().flat_map(|(path, listed)| {
            let folder = path.parent().map(|parent| parent.to_string()).unwrap_or_default();
            listed.others.iter().filter_map(move |name| RepoPath::new(join(&folder, name)?).ok()).collect::<Vec<_>>()
        });
        all.collect()
    }

    /// What the objects of a folder are made of, with these components of a Flux object.
    pub fn closure(&self, folder: &str, components: &[String]) -> Closure {
        let mut closure = Closure { is_plain: true, ..Closure::default() };
        self.enter(folder, &mut closure);
        for component in components.iter().filter_map(|component| join(folder, component)) {
            self.enter(&component, &mut closure);
            closure.is_plain = false;
        }
        closure
    }

    fn enter(&self, folder: &str, closure: &mut Closure) {
        if !closure.folders.insert(folder.to_owned()) {
            // In a circle, or twice: kustomize refuses both, and says which.
            closure.is_plain = false;
            return;
        }
        if self.follow_link(folder, None, closure) {
            return;
        }
        let Some((path, listed)) = self.of(folder) else {
            let names = FILE_NAMES.iter().filter_map(|name| join(folder, name));
            if let Some(link) = names.filter_map(|name| self.tree.link(&name)).next() {
                closure.links.push((link.path.to_owned(), None));
            }
            // Flux makes one of every manifest below, and of the kustomizations there.
            self.generated(folder, closure);
            return;
        };
        closure.kustomizations.push(path.clone());
        closure.is_plain &= listed.is_plain;
        if listed.is_broken {
            // Any file beside it may be one of its own.
            let is_beside =
                |path: &RepoPath| path.parent().map(|parent| parent.to_string()).unwrap_or_default() == folder;
            let files = self.tree.below(folder).iter().map(|entry| &entry.path);
            closure.resources.extend(files.filter(|path| path.is_yaml() && is_beside(path)).cloned());
        }
        let files = listed.others.iter().filter_map(|name| RepoPath::new(join(folder, name)?).ok());
        for file in files {
            // A generator or transformer may be a kustomization of its own.
            if self.tree.entry(file.as_str()).is_none() && self.tree.is_folder(file.as_str()) {
                self.enter(file.as_str(), closure);
            } else if !self.follow_link(file.as_str(), Some(&path), closure) {
                closure.others.insert(file);
            }
        }
        for name in listed.resources.iter().chain(&listed.components) {
            let Some(target) = join(folder, name).filter(|_| !name.is_empty()) else {
                closure.missing.push(name.clone());
                closure.is_plain = false;
                continue;
            };
            if let Some(entry) = self.tree.entry(&target) {
                closure.is_plain &= closure.resources.insert(entry.path.clone());
            } else if self.tree.is_folder(&target) {
                self.enter(&target, closure);
            } else if !self.follow_link(&target, Some(&path), closure) {
                closure.missing.push(name.clone());
                closure.is_plain = false;
            }
        }
    }

    /// Notes the link on the way to a path and goes on where it leads to, so that what is there is known; no where there is none.
    fn follow_link(&self, path: &str, from: Option<&RepoPath>, closure: &mut Closure) -> bool {
        let Some(link) = self.tree.link(path) else { return false };
        closure.links.push((link.path.to_owned(), from.cloned()));
        match link.real {
            Some(real) => match self.tree.entry(&real) {
                Some(entry) => drop(closure.resources.insert(entry.path.clone())),
                None => self.enter(&real, closure),
            },
            None => closure.is_plain = false,
        }
        true
    }

    fn generated(&self, folder: &str, closure: &mut Closure) {
        let (files, folders) = self.manifests(folder);
        closure.resources.extend(files);
        folders.iter().for_each(|inner| self.enter(inner, closure));
    }

    /// What Flux makes a kustomization of where there is none: the manifests below, and the folders with one of their own.
    fn manifests(&self, folder: &str) -> (BTreeSet<RepoPath>, BTreeSet<String>) {
        let mut kustomized: BTreeSet<String> = BTreeSet::new();
        for entry in self.tree.below(folder) {
            let holder = entry.path.parent().map(|parent| parent.to_string()).unwrap_or_default();
            if FILE_NAMES.contains(&entry.path.file_name()) && holder != folder {
                kustomized.insert(holder);
            }
        }
        // Of folders inside of one another the outermost counts.
        let mut outer: BTreeSet<String> = BTreeSet::new();
        for inner in kustomized {
            let parents = inner.match_indices('/').filter_map(|(at, _)| inner.get(..at));
            if !parents.into_iter().any(|parent| outer.contains(parent)) {
                outer.insert(inner);
            }
        }
        let is_inside = |path: &RepoPath| {
            let parents = path.as_str().match_indices('/').filter_map(|(at, _)| path.as_str().get(..at));
            parents.into_iter().any(|parent| outer.contains(parent))
        };
        let files = self.tree.below(folder).iter().filter(|entry| entry.path.is_yaml() && !is_inside(&entry.path));
        (files.map(|entry| entry.path.clone()).collect(), outer)
    }

    /// The files and folders that a folder is made of, where it changes nothing of them by itself.
    pub fn parts(&self, folder: &str) -> Option<(BTreeSet<RepoPath>, BTreeSet<String>)> {
        let Some((_, listed)) = self.of(folder) else { return Some(self.manifests(folder)) };
        if !listed.is_plain {
            return None;
        }
        let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
        for target in listed.resources.iter().filter_map(|name| join(folder, name)) {
            match self.tree.entry(&target) {
                Some(entry) => drop(files.insert(entry.path.clone())),
                None if self.tree.is_folder(&target) => drop(folders.insert(target)),
                None => {}
            }
        }
        Some((files, folders))
    }
}

/// Fields that change no object.
const PLAIN: [&str; 5] = ["apiversion", "kind", "metadata", "resources", "bases"];

/// Fields that change single objects.
const CHANGES: [&str; 7] =
    ["patches", "patchesstrategicmerge", "patchesjson6902", "components", "replacements", "transformers", "vars"];

fn read(tree: &Tree<'_>, path: &RepoPath) -> Option<Listed> {
    let content = tree.text(path)?;
    let documents = yaml::parse_with(&content, &Limits::default(), Rules::V2).ok()?;
    // Whatever kustomize may refuse is not plain: building it tells.
    let mut listed = Listed { is_plain: documents.len() == 1, ..Listed::default() };
    let document = documents.into_iter().next();
    let mapping = document.as_ref().and_then(|document| document.root.as_mapping());
    for entry in mapping.into_iter().flatten() {
        let key = entry.key.to_ascii_lowercase();
        listed.is_plain &= PLAIN.contains(&key.as_str());
        listed.patches |= CHANGES.contains(&key.as_str());
        match key.as_str() {
            "kind" => listed.is_component = entry.value.as_str() == Some("Component"),
            "resources" | "bases" => {
                let names = texts(&entry.value);
                listed.is_plain &= entry.value.as_sequence().is_some_and(|items| items.len() == names.len());
                listed.resources.extend(names);
            }
            "components" => listed.components.extend(texts(&entry.value)),
            "patches" | "patchesjson6902" | "replacements" => {
                let items = entry.value.as_sequence().unwrap_or_default();
                listed.others.extend(items.iter().filter_map(|item| text(item.get("path")?)));
            }
            "patchesstrategicmerge" | "configurations" | "crds" | "generators" | "transformers" | "validators" => {
                listed.others.extend(texts(&entry.value));
            }
            "openapi" => listed.others.extend(entry.value.get("path").and_then(text)),
            "configmapgenerator" | "secretgenerator" => {
                for item in entry.value.as_sequence().unwrap_or_default() {
                    for field in ["files", "envs"] {
                        let names = item.get(field).map(texts).unwrap_or_default();
                        let paths = names.into_iter().map(|name| match name.split_once('=') {
                            Some((_, path)) => path.to_owned(),
                            None => name,
                        });
                        listed.others.extend(paths);
                    }
                    listed.others.extend(item.get("env").and_then(text));
                }
            }
            _ => {}
        }
    }
    Some(listed)
}

fn text(node: &Node) -> Option<String> {
    node.as_str().filter(|text| !text.contains('\n')).map(str::to_owned)
}

fn texts(node: &Node) -> Vec<String> {
    match &node.value {
        Value::Sequence(items) => items.iter().filter_map(text).collect(),
        _ => Vec::new(),
    }
}
