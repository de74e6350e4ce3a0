//! Whose the folders of a snapshot are: what one cluster's folders cost is counted for that cluster alone.
//!
//! A snapshot is gone through twice: once everything is counted, and only what is left of it is then walked path by path.

use std::collections::HashMap;
use std::sync::Arc;

use git2::Oid;

use super::budget::{Exceeded, Usage};
use super::measure::{LONGEST_NAME, Measures, Read};
use super::object::Objects;
use super::tree::{Entry, Mode, Tree};
use crate::error::GitError;
use crate::limits::{Limit, Limits};

/// Folders that belong to nobody may hold this many times what a cluster's may: much of a repository may be about other things.
const OF_NOBODY: u64 = 10;

/// How many units there may be.
const MOST_UNITS: usize = 65_536;

/// How many top folders that are nobody's are looked into.
const MOST_OF_NOBODY: usize = 2_048;

/// How many entries are looked at one by one.
const MOST_LOOKED_AT: usize = 500_000;

/// How deep below the top folders called `clusters` are looked for.
const DEEPEST_GROUP: usize = 3;

/// The top folders that Stepgate knows.
const OURS: [&[u8]; 4] = [b"bundles", b"clusters", b"flux", b"overlays"];

/// A part of a snapshot that is read as a whole or not at all.
#[derive(Debug)]
pub(crate) struct Unit {
    /// The folder that is named when it is not read.
    pub path: Vec<u8>,
    /// What it comes to.
    usage: Usage,
    /// What counting its folders has cost.
    folders: Usage,
    /// What looking into folders for it has cost.
    opened: Usage,
    /// Why it is not read.
    pub refused: Option<Exceeded>,
}

/// Something in a folder that holds units.
#[derive(Debug)]
pub(crate) enum What<'a> {
    /// An entry that is not a folder.
    Leaf(&'a Entry),
    /// A folder with everything below it.
    Folder(Oid),
    /// A folder that cannot be read.
    Unreadable(GitError),
}

/// Sees what is left, in order of path.
type Visit<'a> = dyn FnMut(&mut Vec<u8>, What<'_>) -> Result<(), GitError> + 'a;

/// The units of a snapshot.
pub(crate) struct Units<'a> {
    objects: &'a Objects<'a>,
    limits: &'a Limits,
    describe: &'a dyn Fn(&[u8]) -> String,
    pub units: Vec<Unit>,
    /// The unit that comes next, once all are counted.
    next: usize,
    /// How many top folders are nobody's.
    of_nobody: usize,
    looked_at: usize,
    /// Whether the folder of a cluster holds some of workload clusters.
    managing: HashMap<Oid, bool>,
}

/// What the folders inside of a folder are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The top, or a folder that holds `clusters`.
    Group,
    /// `clusters`: each is a cluster's.
    Clusters,
    /// The folder of a management cluster: those of its workload clusters, in the layout of EKS Anywhere, are theirs.
    Manager,
    /// `bundles`, `flux` or `overlays`: each stands for itself.
    Each,
}

/// What a folder in such a folder is.
enum Below {
    /// One that holds units itself.
    Units(Kind),
    /// That of a workload cluster, in the folder of its management cluster.
    Workload,
    /// One that is walked as a whole.
    Whole,
}

/// A folder on the way: what it is, whose, and how deep.
#[derive(Clone, Copy)]
struct Place {
    kind: Kind,
    unit: usize,
    depth: usize,
}

const TOP: Place = Place { kind: Kind::Group, unit: 0, depth: 0 };

impl<'a> Units<'a> {
    /// Counts a whole snapshot. What is above a limit is refused.
    pub(crate) fn of(
        objects: &'a Objects<'a>,
        limits: &'a Limits,
        describe: &'a dyn Fn(&[u8]) -> String,
        top: &Tree,
    ) -> Result<Self, GitError> {
        let units = Vec::new();
        let managing = HashMap::new();
        let mut units = Self { objects, limits, describe, units, next: 0, of_nobody: 0, looked_at: 0, managing };
        units.unit(&[])?;
        units.folder(top, &mut Vec::new(), TOP, None)?;
        units.refuse_largest();
        Ok(units)
    }

    /// Visits what is left.
    pub(crate) fn walk(&mut self, top: &Tree, visit: &mut Visit<'_>) -> Result<(), GitError> {
        (self.next, self.of_nobody, self.looked_at) = (1, 0, 0);
        self.units.iter_mut().for_each(|unit| unit.opened = Usage::default());
        self.folder(top, &mut Vec::new(), TOP, Some(visit))
    }

    /// The next unit: a new one, as long as they are counted.
    fn unit(&mut self, path: &[u8]) -> Result<usize, GitError> {
        if self.next > 0 {
            self.next += 1;
            return Ok(self.next - 1);
        }
        if self.units.len() >= MOST_UNITS {
            let exceeded = Exceeded { limit: Limit::Entries, allowed: MOST_UNITS as u64 };
            return Err(exceeded.of((self.describe)(&[])));
        }
        let (usage, folders, opened) = (Usage::default(), Usage::default(), Usage::default());
        self.units.push(Unit { path: path.to_vec(), usage, folders, opened, refused: None });
        Ok(self.units.len() - 1)
    }

    fn refuse(&mut self, unit: usize, limit: Limit, allowed: u64) {
        if let Some(unit) = self.units.get_mut(unit) {
            unit.refused.get_or_insert(Exceeded { limit, allowed });
        }
    }

    fn is_refused(&self, unit: usize) -> bool {
        self.units.get(unit).is_none_or(|unit| unit.refused.is_some())
    }

    /// Counts an entry, and everything below it, for a unit.
    fn charge(&mut self, entry: &Entry, path: &[u8], unit: usize, (read, factor): (Read, u64)) {
        let Some(unit) = self.units.get_mut(unit).filter(|unit| unit.refused.is_none()) else { return };
        let mut measures = Measures::new(self.objects, self.limits, read, factor, unit.folders);
        let usage = measures.entry(entry);
        unit.folders = measures.folders();
        let above = (path.len() - entry.name.len()) as u64;
        let checked = usage.and_then(|mut usage| {
            usage.path_bytes = usage.path_bytes.saturating_add(usage.entries.saturating_mul(above));
            unit.usage.add(&usage);
            unit.usage.check(self.limits, factor)
        });
        unit.refused = checked.err();
    }

    /// Reads a folder that is looked into for a unit; none where the unit is refused for that.
    fn open(&mut self, id: Oid, path: &[u8], unit: usize, factor: u64) -> Result<Option<Arc<Tree>>, GitError> {
        let described = || (self.describe)(path);
        let cost = self.objects.cost(id, described)?;
        let Some(unit) = self.units.get_mut(unit) else { return Ok(None) };
        unit.opened.entries += 1;
        unit.opened.add_object(cost);
        if let Err(exceeded) = unit.opened.check(self.limits, factor) {
            unit.refused.get_or_insert(exceeded);
            return Ok(None);
        }
        self.objects.tree(id, described).map(Some)
    }

    /// The entries of a folder that holds units: counted, or visited.
    fn folder(
        &mut self,
        tree: &Tree,
        path: &mut Vec<u8>,
        place: Place,
        mut visit: Option<&mut Visit<'_>>,
    ) -> Result<(), GitError> {
        let (_, factor) = place.kind.reads();
        let usage = Usage { entries: tree.entries.len() as u64, ..Usage::default() };
        if let (Err(exceeded), true) = (usage.check(self.limits, factor), place.kind != Kind::Clusters) {
            self.refuse(place.unit, exceeded.limit, exceeded.allowed);
            return Ok(());
        }
        let length = path.len();
        for entry in &tree.entries {
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            let is_folder = entry.mode == Mode::Folder && entry.name.len() <= LONGEST_NAME;
            // The borrow ends with each entry.
            let visit = visit.as_mut().map(|visit| &mut **visit as &mut Visit<'_>);
            match is_folder {
                true => self.inner(entry, path, place, visit)?,
                false => self.leaf(entry, path, place, visit)?,
            }
            path.truncate(length);
        }
        Ok(())
    }

    fn leaf(
        &mut self,
        entry: &Entry,
        path: &mut Vec<u8>,
        place: Place,
        visit: Option<&mut Visit<'_>>,
    ) -> Result<(), GitError> {
        self.looked_at += 1;
        if self.looked_at > MOST_LOOKED_AT {
            self.refuse(place.unit, Limit::Entries, MOST_LOOKED_AT as u64);
        }
        match visit {
            // A name that nobody can use is told and costs nothing else: not the others that stand beside it.
            None if entry.name.len() > LONGEST_NAME => {}
            None => self.charge(entry, path, place.unit, place.kind.reads()),
            Some(_) if self.is_refused(place.unit) => {}
            Some(visit) => visit(path, What::Leaf(entry))?,
        }
        Ok(())
    }

    fn inner(
        &mut self,
        entry: &Entry,
        path: &mut Vec<u8>,
        place: Place,
        visit: Option<&mut Visit<'_>>,
    ) -> Result<(), GitError> {
        if place.kind == Kind::Group && place.depth == 0 && !OURS.contains(&entry.name.as_slice()) {
            self.of_nobody += 1;
            if self.of_nobody > MOST_OF_NOBODY {
                // The rest is left out, and told once.
                if self.of_nobody == MOST_OF_NOBODY + 1 {
                    let rest = self.unit(path)?;
                    self.refuse(rest, Limit::Entries, MOST_OF_NOBODY as u64);
                }
                return Ok(());
            }
        }
        let unit = if place.kind.is_apart(place.depth) { self.unit(path)? } else { place.unit };
        let reads = place.kind.reads();
        let tree = match self.open(entry.id, path, unit, reads.1) {
            Ok(Some(tree)) => tree,
            Ok(None) => return Ok(()),
            Err(error) => {
                return match visit {
                    Some(visit) if !self.is_refused(unit) => visit(path, What::Unreadable(error)),
                    _ => Ok(()),
                };
            }
        };
        match self.below(entry, &tree, path, unit, place) {
            Below::Units(kind) => self.folder(&tree, path, Place { kind, unit, depth: place.depth + 1 }, visit),
            Below::Workload => {
                // The folder with its specification is named, which says whose it is.
                let workload = self.unit(&[path.as_slice(), b"/eksa-system"].concat())?;
                self.whole(entry, path, workload, reads, visit)
            }
            Below::Whole => {
                let reads = if place.kind == Kind::Clusters { Kind::Manager.reads() } else { reads };
                self.whole(entry, path, unit, reads, visit)
            }
        }
    }

    /// A folder that is walked as a whole.
    fn whole(
        &mut self,
        entry: &Entry,
        path: &mut Vec<u8>,
        unit: usize,
        reads: (Read, u64),
        visit: Option<&mut Visit<'_>>,
    ) -> Result<(), GitError> {
        match visit {
            None => self.charge(entry, path, unit, reads),
            Some(_) if self.is_refused(unit) => {}
            Some(visit) => visit(path, What::Folder(entry.id))?,
        }
        Ok(())
    }

    /// What a folder is.
    fn below(&mut self, entry: &Entry, tree: &Tree, path: &[u8], unit: usize, place: Place) -> Below {
        match (place.kind, entry.name.as_slice()) {
            (Kind::Group, b"clusters") => Below::Units(Kind::Clusters),
            (Kind::Group, b"bundles" | b"flux" | b"overlays") => Below::Units(Kind::Each),
            (Kind::Group, _) if place.depth < DEEPEST_GROUP && holds(tree, b"clusters") => Below::Units(Kind::Group),
            (Kind::Clusters, _) if self.manages(entry.id, tree, path, unit) => Below::Units(Kind::Manager),
            (Kind::Manager, _) if holds(tree, b"eksa-system") => Below::Workload,
            _ => Below::Whole,
        }
    }

    /// Whether the folder of a cluster holds some of workload clusters.
    fn manages(&mut self, id: Oid, tree: &Tree, path: &[u8], unit: usize) -> bool {
        if let Some(known) = self.managing.get(&id) {
            return *known;
        }
        let described = || (self.describe)(path);
        let (mut found, mut usage) = (false, Usage::default());
        for entry in tree.entries.iter().filter(|entry| entry.mode == Mode::Folder) {
            // What cannot be read is told when it is walked.
            let Ok(cost) = self.objects.cost(entry.id, described) else { continue };
            usage.entries += 1;
            usage.add_object(cost);
            if let Err(exceeded) = usage.check(self.limits, 1) {
                self.refuse(unit, exceeded.limit, exceeded.allowed);
                break;
            }
            found = self.objects.tree(entry.id, described).is_ok_and(|tree| holds(&tree, b"eksa-system"));
            if found {
                break;
            }
        }
        self.managing.insert(id, found);
        found
    }

    /// Where all together are too much, the largest are not read.
    fn refuse_largest(&mut self) {
        for _ in Usage::LIMITS {
            let mut all = Usage::default();
            self.units.iter().filter(|unit| unit.refused.is_none()).for_each(|unit| all.add(&unit.usage));
            let Err(exceeded) = all.check_all(self.limits) else { return };
            let Exceeded { limit, allowed } = exceeded;
            let mut open: Vec<&mut Unit> = self.units.iter_mut().filter(|unit| unit.refused.is_none()).collect();
            // Of equal ones the first in order of path.
            open.sort_by_key(|unit| std::cmp::Reverse(unit.usage.of(limit)));
            let mut left = all.of(limit);
            for unit in open {
                if left <= allowed {
                    break;
                }
                left = left.saturating_sub(unit.usage.of(limit));
                unit.refused = Some(exceeded);
            }
        }
    }
}

fn holds(tree: &Tree, name: &[u8]) -> bool {
    tree.find(name).is_some_and(|entry| entry.mode == Mode::Folder)
}

impl Kind {
    /// Of a cluster everything is read, of the rest of a repository what may be a specification; and how many times the limits there may
    /// be of it.
    fn reads(self) -> (Read, u64) {
        match self {
            Self::Manager | Self::Each => (Read::All, 1),
            Self::Group | Self::Clusters => (Read::Yaml, OF_NOBODY),
        }
    }

    /// Whether each folder in it stands for itself.
    fn is_apart(self, depth: usize) -> bool {
        match self {
            Self::Clusters | Self::Each => true,
            Self::Group => depth == 0,
            Self::Manager => false,
        }
    }
}
