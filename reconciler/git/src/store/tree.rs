//! Trees as git stores them, parsed by our own code.
//!
//! The library does not parse them because non-UTF-8 names, odd modes and malformed entries must become errors of ours, and because
//! comparing two trees needs nothing but their bytes.

use std::cmp::Ordering;

use git2::Oid;

/// What a tree entry is, from its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Folder,
    File,
    Executable,
    Symlink,
    Submodule,
}

impl Mode {
    fn read(text: &[u8]) -> Option<Self> {
        Some(match text {
            b"40000" | b"040000" => Self::Folder,
            // 100664 is written by very old programs and means a plain file.
            b"100644" | b"100664" => Self::File,
            b"100755" => Self::Executable,
            b"120000" => Self::Symlink,
            b"160000" => Self::Submodule,
            _ => return None,
        })
    }

    fn written(self) -> &'static str {
        match self {
            Self::Folder => "40000",
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
            Self::Submodule => "160000",
        }
    }

    pub(crate) fn shown(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::File | Self::Executable => "file",
            Self::Symlink => "symbolic link",
            Self::Submodule => "submodule",
        }
    }
}

/// One entry of a tree. The name is bytes: git does not promise UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mode: Mode,
    pub(crate) name: Vec<u8>,
    pub(crate) id: Oid,
}

impl Entry {
    /// The order in which git keeps entries: by bytes, a folder as if its name ended in `/`.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let shared = self.name.len().min(other.name.len());
        let (left, left_rest) = self.name.split_at_checked(shared).unwrap_or_default();
        let (right, right_rest) = other.name.split_at_checked(shared).unwrap_or_default();
        let tail = |entry: &Self| (entry.mode == Mode::Folder).then_some(b'/');
        left.cmp(right).then_with(|| {
            left_rest.iter().copied().chain(tail(self)).cmp(right_rest.iter().copied().chain(tail(other)))
        })
    }
}

/// The entries of a tree object, in git's order where the tree is well-formed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) entries: Vec<Entry>,
    /// Whether they are in git's order, so that names can be searched for.
    sorted: bool,
}

impl Tree {
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let sorted = entries.is_sorted_by(|left, right| left.order(right) == Ordering::Less);
        Self { entries, sorted }
    }

    /// The entry of that name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&Entry> {
        if !self.sorted {
            return self.entries.iter().find(|entry| entry.name == name);
        }
        // A folder is in another place of the order than a file of the same name.
        let place = |mode: Mode| {
            let wanted = Entry { mode, name: name.to_vec(), id: Oid::ZERO_SHA1 };
            self.entries.binary_search_by(|entry| entry.order(&wanted)).ok()
        };
        place(Mode::Folder).or_else(|| place(Mode::File)).and_then(|at| self.entries.get(at))
    }

    /// The names under which this tree and another one hold different things, in order; none where they cannot be told, since one of the trees is
    /// not in git's order.
    pub(crate) fn differing(&self, other: &Self) -> Option<Vec<Vec<u8>>> {
        if !self.sorted || !other.sorted {
            return None;
        }
        let (mut names, mut left, mut right) = (Vec::new(), self.entries.as_slice(), other.entries.as_slice());
        loop {
            let order = match (left.first(), right.first()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(two)) => one.order(two),
            };
            let (one, two) = (left.split_first(), right.split_first());
            if order != Ordering::Equal || one.map(|(entry, _)| entry) != two.map(|(entry, _)| entry) {
                let differs = if order == Ordering::Greater { two } else { one };
                names.extend(differs.map(|(entry, _)| entry.name.clone()));
            }
            if order != Ordering::Greater {
                left = one.map_or(&[], |(_, rest)| rest);
            }
            if order != Ordering::Less {
                right = two.map_or(&[], |(_, rest)| rest);
            }
        }
        names.sort();
        names.dedup();
        Some(names)
    }

    /// About how much memory it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| size_of::<Entry>() + entry.name.len() + 16).sum::<usize>() + 64
    }
}

/// Reads the entries of a tree object. `None` when it is malformed.
pub(crate) fn parse_tree(mut data: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::with_capacity(data.len() / 40);
    while !data.is_empty() {
        let space = data.iter().position(|byte| *byte == b' ')?;
        let mode = Mode::read(data.get(..space)?)?;
        let rest = data.get(space + 1..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        let name = rest.get(..end)?;
        let id = Oid::from_bytes(rest.get(end + 1..end + 21)?).ok()?;
        if name.is_empty() || name.contains(&b'/') {
            return None;
        }
        entries.push(Entry { mode, name: name.to_vec(), id });
        data = rest.get(end + 21..)?;
    }
    Some(entries)
}

/// Writes a tree object, in git's order.
pub(crate) fn write_tree(entries: &mut [Entry]) -> Vec<u8> {
    entries.sort_by(Entry::order);
    let mut bytes = Vec::with_capacity(entries.iter().map(|entry| entry.name.len() + 28).sum());
    for entry in entries {
        bytes.extend_from_slice(entry.mode.written().as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(&entry.name);
        bytes.push(0);
        bytes.extend_from_slice(entry.id.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use git2::ObjectType;

    use super::*;

    fn entry(mode: Mode, name: &[u8]) -> Entry {
        Entry { mode, name: name.to_vec(), id: Oid::hash_object(ObjectType::Blob, name).unwrap() }
    }

    #[test]
    fn a_tree_reads_back_in_the_order_of_git() {
        let mut entries = vec![
            entry(Mode::Folder, b"a"),
            entry(Mode::File, b"a.b"),
            entry(Mode::File, b"a0"),
            entry(Mode::Symlink, b"\xff"),
            entry(Mode::Submodule, b"m"),
            entry(Mode::Executable, b"B"),
        ];
        let bytes = write_tree(&mut entries);
        let names: Vec<_> = entries.iter().map(|entry| entry.name.clone()).collect();
        // As `git mktree` orders them: the folder `a` counts as `a/`, which is after `a.b` and before `a0`.
        assert_eq!(names, [&b"B"[..], b"a.b", b"a", b"a0", b"m", b"\xff"]);
        assert_eq!(parse_tree(&bytes).unwrap(), entries);
    }

    #[test]
    fn an_entry_is_found_by_name_in_every_place_that_the_order_gives_it() {
        let names = [&b"B"[..], b"a.b", b"a", b"a0", b"m", b"\xff"];
        for folders in 0..1 << names.len() {
            let mode = |at: usize| if folders >> at & 1 == 1 { Mode::Folder } else { Mode::File };
            let mut entries: Vec<Entry> = names.iter().enumerate().map(|(at, name)| entry(mode(at), name)).collect();
            let shuffled = Tree::new(entries.clone());
            write_tree(&mut entries);
            let tree = Tree::new(entries);
            assert!(tree.sorted);
            for name in names {
                assert_eq!(tree.find(name).unwrap().name, name);
                assert_eq!(tree.find(name), shuffled.find(name));
            }
            assert!(tree.find(b"a.").is_none() && tree.find(b"").is_none());
        }
    }

    #[test]
    fn malformed_trees_are_refused_and_never_panic() {
        let good = write_tree(&mut [entry(Mode::File, b"a"), entry(Mode::Folder, b"b")]);
        for end in 1..good.len() {
            let cut = parse_tree(&good[..end]);
            assert!(cut.is_none() || end == 29, "cut at {end}");
        }
        for bad in [&b"100600 a\0"[..], b"100644 \x000123456789012345678901", b"100644 a/b\x0001234567890123456789"] {
            assert!(parse_tree(bad).is_none());
        }
    }
    #[test]
    fn trees_differ_where_a_name_is_another_thing_or_missing() {
        let (folder, file) = (entry(Mode::Folder, b"a"), entry(Mode::File, b"a"));
        let changed = Entry { id: Oid::ZERO_SHA1, ..entry(Mode::File, b"a-b") };
        let before = Tree::new(vec![file.clone(), entry(Mode::File, b"a-b"), folder.clone(), entry(Mode::File, b"c")]);
        let after = Tree::new(vec![changed, folder.clone(), entry(Mode::File, b"c"), entry(Mode::Executable, b"d")]);
        let names = |names: &[&str]| Some(names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>());
        let expected = names(&["a", "a-b", "d"]);
        assert_eq!((before.differing(&after), after.differing(&before)), (expected.clone(), expected));
        assert_eq!(after.differing(&after), names(&[]));
        assert_eq!(Tree::new(Vec::new()).differing(&after), names(&["a", "a-b", "c", "d"]));
        // Where git's order is not kept, anything may be anywhere.
        assert_eq!(Tree::new(vec![folder, file]).differing(&after), None);
    }
}
