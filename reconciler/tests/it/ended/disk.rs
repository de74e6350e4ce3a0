//! A disk that remembers what was synchronised: which files there can be after a loss of power.
//!
//! As file systems do (ext4, XFS, btrfs): what synchronises a file keeps the name under which it was found too.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::trace::{Descriptor, Operation};

/// What a loss of power takes of what was not synchronised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Nothing: the program alone ended.
    Nothing,
    /// What was written to files, though their names are there.
    Contents,
    /// The second half of it.
    HalfOfContents,
    /// The same, though files have their lengths.
    Zeros,
    /// All of it, names too.
    Everything,
    /// Of each file and each folder another part, by this seed: what was done later may be there without what was done before.
    Any(u64),
}

type Number = usize;

/// The states of something since it was synchronised last: that one first, the present one last.
#[derive(Clone)]
struct States<T>(Vec<Rc<T>>);

impl<T: Clone> States<T> {
    fn new(kept: T, now: T) -> Self {
        Self(vec![Rc::new(kept), Rc::new(now)])
    }

    fn now(&self) -> &T {
        self.0.last().unwrap()
    }

    fn kept(&self) -> &T {
        &self.0[0]
    }

    fn change(&mut self, change: impl FnOnce(&mut T)) {
        let mut next = T::clone(self.now());
        change(&mut next);
        self.0.push(Rc::new(next));
    }

    fn synchronise(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }
}

type Names = BTreeMap<OsString, Number>;

#[derive(Clone)]
enum Node {
    File(States<Vec<u8>>),
    Folder(States<Names>),
}

/// An open file: which one, and where it is written to next.
#[derive(Clone, Copy)]
struct Open {
    node: Number,
    at: usize,
    appends: bool,
}

#[derive(Clone)]
pub struct Disk {
    root: PathBuf,
    nodes: Vec<Node>,
    open: HashMap<Descriptor, Open>,
}

const TOP: Number = 0;

impl Disk {
    /// The files of a folder as they are, all of them synchronised.
    pub fn of(folder: &Path) -> Self {
        let mut disk = Self { root: folder.to_owned(), nodes: Vec::new(), open: HashMap::new() };
        disk.load(folder);
        disk
    }

    fn load(&mut self, path: &Path) -> Number {
        let number = self.nodes.len();
        self.nodes.push(Node::Folder(States(vec![Rc::default()])));
        let mut names = Names::new();
        for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            assert!(!kind.is_symlink(), "{}", entry.path().display());
            let node = if kind.is_dir() {
                self.load(&entry.path())
            } else {
                self.add(Node::File(States(vec![Rc::new(fs::read(entry.path()).unwrap())])))
            };
            names.insert(entry.file_name(), node);
        }
        self.nodes[number] = Node::Folder(States(vec![Rc::new(names)]));
        number
    }

    fn add(&mut self, node: Node) -> Number {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn names(&mut self, folder: Number) -> &mut States<Names> {
        match &mut self.nodes[folder] {
            Node::Folder(names) => names,
            Node::File(_) => panic!("a file is no folder"),
        }
    }

    fn contents(&mut self, file: Number) -> Option<&mut States<Vec<u8>>> {
        match &mut self.nodes[file] {
            Node::File(contents) => Some(contents),
            Node::Folder(_) => None,
        }
    }

    /// The folder that a path is in, and its name there; none outside of this disk.
    fn place(&mut self, path: &Path) -> Option<(Number, OsString)> {
        let below = path.strip_prefix(&self.root).ok()?.to_owned();
        let name = below.file_name()?.to_owned();
        let mut folder = TOP;
        for part in below.parent()? {
            folder = *self.names(folder).now().get(part)?;
        }
        Some((folder, name))
    }

    fn find(&mut self, path: &Path) -> Option<Number> {
        if path == self.root {
            return Some(TOP);
        }
        let (folder, name) = self.place(path)?;
        self.names(folder).now().get(&name).copied()
    }

    fn name(&mut self, path: &Path, node: Number) {
        let (folder, name) = self.place(path).unwrap();
        self.names(folder).change(|names| {
            names.insert(name, node);
        });
    }

    fn remove(&mut self, path: &Path) {
        let (folder, name) = self.place(path).unwrap();
        self.names(folder).change(|names| {
            names.remove(&name);
        });
    }

    fn is_here(&self, path: &Path) -> bool {
        path.starts_with(&self.root)
    }

    /// Does what was done; whether that changes what a loss of power leaves.
    pub fn apply(&mut self, operation: &Operation) -> bool {
        match operation {
            Operation::Open { path, descriptor, creates, empties, appends } => {
                self.open.remove(descriptor);
                if !self.is_here(path) {
                    return false;
                }
                let found = self.find(path);
                let is_new = found.is_none() && *creates;
                let node = match found {
                    Some(node) => node,
                    None if is_new => self.add(Node::File(States::new(Vec::new(), Vec::new()))),
                    None => return false,
                };
                if is_new {
                    self.name(path, node);
                } else if *empties && let Some(contents) = self.contents(node) {
                    contents.change(Vec::clear);
                }
                self.open.insert(*descriptor, Open { node, at: 0, appends: *appends });
                is_new || *empties
            }
            Operation::Duplicate { from, to } => {
                if let Some(open) = self.open.get(from).copied() {
                    self.open.insert(*to, open);
                }
                false
            }
            Operation::Close(descriptor) => {
                self.open.remove(descriptor);
                false
            }
            Operation::Seek { descriptor, to } => {
                self.open.entry(*descriptor).and_modify(|open| open.at = *to);
                false
            }
            Operation::Write { descriptor, at, bytes } => self.write(*descriptor, *at, bytes),
            Operation::Cut { descriptor, length } => {
                let Some(open) = self.open.get(descriptor).copied() else { return false };
                self.contents(open.node).unwrap().change(|contents| contents.resize(*length, 0));
                true
            }
            Operation::Rename { from, to } if self.is_here(from) => {
                let node = self.find(from).unwrap();
                // Of one file, two names stay two.
                if self.find(to) != Some(node) {
                    self.name(to, node);
                    self.remove(from);
                }
                true
            }
            Operation::Link { from, to } if self.is_here(from) => {
                let node = self.find(from).unwrap();
                self.name(to, node);
                true
            }
            Operation::Remove(path) if self.is_here(path) => {
                self.remove(path);
                true
            }
            Operation::MakeFolder(path) if self.is_here(path) => {
                let node = self.add(Node::Folder(States(vec![Rc::default()])));
                self.name(path, node);
                true
            }
            Operation::Rename { .. } | Operation::Link { .. } | Operation::Remove(_) | Operation::MakeFolder(_) => {
                false
            }
            Operation::Synchronise(descriptor) => {
                let Some(open) = self.open.get(descriptor).copied() else { return false };
                self.synchronise(open.node);
                true
            }
        }
    }

    fn write(&mut self, descriptor: Descriptor, at: Option<usize>, bytes: &[u8]) -> bool {
        let Some(open) = self.open.get(&descriptor).copied() else { return false };
        let contents = self.contents(open.node).unwrap();
        let start = at.unwrap_or(if open.appends { contents.now().len() } else { open.at });
        let end = start + bytes.len();
        contents.change(|contents| {
            contents.resize(contents.len().max(end), 0);
            contents[start..end].copy_from_slice(bytes);
        });
        if at.is_none() {
            self.open.entry(descriptor).and_modify(|open| open.at = end);
        }
        true
    }

    fn synchronise(&mut self, node: Number) {
        match &mut self.nodes[node] {
            Node::File(contents) => contents.synchronise(),
            Node::Folder(names) => names.synchronise(),
        }
        self.keep_names_of(node);
    }

    /// What leads to a file is kept with it.
    fn keep_names_of(&mut self, node: Number) {
        for folder in 0..self.nodes.len() {
            let Node::Folder(names) = &mut self.nodes[folder] else { continue };
            let own: Vec<OsString> =
                names.now().iter().filter(|(_, named)| **named == node).map(|(name, _)| name.clone()).collect();
            if own.is_empty() {
                continue;
            }
            let is_new = names.0.iter().any(|names| own.iter().any(|name| names.get(name) != Some(&node)));
            for state in &mut names.0 {
                Rc::make_mut(state).extend(own.iter().map(|name| (name.clone(), node)));
            }
            if is_new {
                self.keep_names_of(folder);
            }
        }
    }

    /// Whether a loss of power takes anything.
    pub fn is_synchronised(&self) -> bool {
        self.nodes.iter().all(|node| match node {
            Node::File(contents) => contents.0.iter().all(|state| state == &contents.0[0]),
            Node::Folder(names) => names.0.iter().all(|state| state == &names.0[0]),
        })
    }

    /// Writes what is there after this loss.
    pub fn write_to(&self, folder: &Path, loss: Loss) {
        let seed = if let Loss::Any(seed) = loss { seed } else { 0 };
        Image { disk: self, loss, random: fastrand::Rng::with_seed(seed), written: HashMap::new() }.write(TOP, folder);
    }
}

/// What is being written after a loss.
struct Image<'a> {
    disk: &'a Disk,
    loss: Loss,
    random: fastrand::Rng,
    /// Files that have a name already: any other one is a link to the same file.
    written: HashMap<Number, PathBuf>,
}

impl Image<'_> {
    fn write(&mut self, node: Number, path: &Path) {
        match &self.disk.nodes[node] {
            Node::File(contents) => {
                if let Some(other) = self.written.get(&node) {
                    return fs::hard_link(other, path).unwrap();
                }
                fs::write(path, left_of(contents, self.loss, &mut self.random)).unwrap();
                self.written.insert(node, path.to_owned());
            }
            Node::Folder(names) => {
                fs::create_dir_all(path).unwrap();
                let left = match self.loss {
                    Loss::Everything => names.kept(),
                    Loss::Any(_) => &names.0[self.random.usize(..names.0.len())],
                    Loss::Nothing | Loss::Contents | Loss::HalfOfContents | Loss::Zeros => names.now(),
                };
                for (name, node) in left {
                    self.write(*node, &path.join(name));
                }
            }
        }
    }
}

fn left_of(contents: &States<Vec<u8>>, loss: Loss, random: &mut fastrand::Rng) -> Vec<u8> {
    let (kept, now) = (contents.kept(), contents.now());
    let same = kept.iter().zip(now).take_while(|(kept, now)| kept == now).count();
    match loss {
        Loss::Nothing => now.clone(),
        // That a file was emptied is kept as its name is.
        Loss::Contents => contents.0.iter().min_by_key(|state| state.len()).unwrap().to_vec(),
        Loss::Everything => kept.clone(),
        Loss::HalfOfContents => now[..usize::midpoint(same, now.len())].to_vec(),
        Loss::Zeros => [&now[..same], &vec![0; now.len() - same]].concat(),
        Loss::Any(_) => {
            let state = &contents.0[random.usize(..contents.0.len())];
            let length = random.usize(same.min(state.len())..=state.len());
            state[..length].to_vec()
        }
    }
}

#[test]
fn what_was_not_synchronised_is_lost_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old"), "old").unwrap();
    let mut disk = Disk::of(folder.path());
    let (new, old) = (folder.path().join("new"), folder.path().join("old"));
    let open = |path: &Path, descriptor| Operation::Open {
        path: path.to_owned(),
        descriptor,
        creates: true,
        empties: false,
        appends: false,
    };
    let text = |descriptor, text: &str| Operation::Write { descriptor, at: None, bytes: text.into() };
    let after = |disk: &Disk, loss| {
        let folder = tempfile::tempdir().unwrap();
        disk.write_to(folder.path(), loss);
        ["old", "new"].map(|name| fs::read_to_string(folder.path().join(name)).ok())
    };
    let [old_text, one, half, empty] = ["old", "one", "o", ""].map(|text| Some(text.to_owned()));
    for operation in [open(&new, 3), text(3, "one")] {
        assert!(disk.apply(&operation) && !disk.is_synchronised());
    }
    assert_eq!(after(&disk, Loss::Nothing), [old_text.clone(), one.clone()]);
    assert_eq!(after(&disk, Loss::Contents), [old_text.clone(), empty]);
    assert_eq!(after(&disk, Loss::HalfOfContents), [old_text.clone(), half]);
    assert_eq!(after(&disk, Loss::Zeros), [old_text.clone(), Some("\0\0\0".to_owned())]);
    assert_eq!(after(&disk, Loss::Everything), [old_text.clone(), None]);
    assert!(disk.apply(&Operation::Synchronise(3)) && disk.is_synchronised());
    assert_eq!(after(&disk, Loss::Everything), [old_text.clone(), one.clone()]);
    assert!(disk.apply(&Operation::Rename { from: new, to: old }));
    assert_eq!(after(&disk, Loss::Contents), [one.clone(), None]);
    assert_eq!(after(&disk, Loss::Everything), [old_text, one]);
}
