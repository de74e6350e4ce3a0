//! Snapshots, listings and differences, and everything a repository may hold that is not a plain file.

use overlays::{EntryKind, Files as _};

use super::*;
use crate::{Difference, Limit, Limits};

#[test]
fn a_snapshot_reads_files_without_a_checkout() {
    let sandbox =
        Sandbox::with_files(&[("stepgate.yaml", "a"), ("clusters/mgmt/cluster.yaml", "b"), ("bundles/b.yaml", "c")]);
    let snapshot = sandbox.open().snapshot(&branch("main")).unwrap();
    assert_eq!(Some(snapshot.commit().clone()), sandbox.head("main"));
    assert_eq!(&*snapshot.read(&path("clusters/mgmt/cluster.yaml")).unwrap(), b"b");
    let below = snapshot.below(&path("clusters")).unwrap().below(&path("mgmt")).unwrap();
    assert_eq!(&*below.read(&path("cluster.yaml")).unwrap(), b"b");
    assert_eq!(snapshot.files().unwrap().files.len(), 3);
    let tree = sandbox.git(&["rev-parse", "main:clusters/mgmt"]);
    assert_eq!(snapshot.tree_id(&path("clusters/mgmt")).unwrap().unwrap().to_string(), tree);
    assert_eq!(below.tree().unwrap().to_string(), tree);
}

#[test]
fn what_cannot_be_read_is_named() {
    let sandbox = Sandbox::with_files(&[("a/b", "text")]);
    let limits = Limits::default().with(Limit::FileBytes, 3);
    let settings = GitSettings { limits, ..sandbox.settings("none") };
    let repository = Repository::open_with(&RepositoryLocation::Local(sandbox.path()), &settings).unwrap();
    let snapshot = repository.snapshot(&branch("main")).unwrap();
    for (at, code) in [("x", "missing-path"), ("a/b/c", "missing-path"), ("a", "not-a-file"), ("a/b", "too-large")] {
        let error = snapshot.read(&path(at)).unwrap_err();
        assert_eq!(error.code(), code, "{at}: {error}");
        assert!(error.to_string().contains(at), "{error}");
    }
    let absent = snapshot.below(&path("nowhere")).unwrap();
    assert_eq!((absent.tree(), absent.files().unwrap().files.len()), (None, 0));
    assert_eq!(snapshot.below(&path("a/b")).unwrap_err().code(), "not-a-file");
}

#[test]
fn links_submodules_and_odd_names_are_kinds_and_not_files() {
    let sandbox = Sandbox::empty();
    let blob = sandbox.with_input(&["hash-object", "-w", "--stdin"], "../../../etc/passwd");
    let odd = format!(
        "100644 blob {blob}\tclusters\\\u{1}\n120000 blob {blob}\tlink\n160000 commit {}\tmodule\n100755 blob {blob}\trun\n",
        "1".repeat(40)
    );
    let mut entries = odd.replace("clusters\\\u{1}", "back\\slash");
    entries.push_str(&format!("100644 blob {blob}\tplain\n"));
    let top = sandbox.with_input(&["mktree", "--missing"], &entries);
    // A folder and a file whose names are not UTF-8 (Latin-1 "é").
    let latin = sandbox.mktree_bytes(&[b"100644 blob ".as_slice(), blob.as_bytes(), b"\tcaf\xe9\0"].concat());
    let folder = sandbox.mktree_bytes(&[b"040000 tree ".as_slice(), latin.as_bytes(), b"\t\xe9\0"].concat());
    let all = format!("{}\n040000 tree {folder}\todd\n", sandbox.git(&["ls-tree", &top]));
    let top = sandbox.with_input(&["mktree", "--missing"], &all);
    let commit = sandbox.git(&["commit-tree", "-m", "x", &top]);
    sandbox.git(&["update-ref", "refs/heads/main", &commit]);

    let snapshot = sandbox.open().snapshot(&branch("main")).unwrap();
    let listed = snapshot.clone().listed().unwrap();
    let kinds: Vec<(String, EntryKind, u64)> =
        listed.paths().iter().map(|entry| (entry.path.to_string(), entry.kind.clone(), entry.size)).collect();
    let target = "../../../etc/passwd".to_owned();
    assert_eq!(
        kinds,
        [
            ("link".to_owned(), EntryKind::Symlink { target }, 19),
            ("module".to_owned(), EntryKind::Submodule, 0),
            ("plain".to_owned(), EntryKind::File, 19),
            ("run".to_owned(), EntryKind::File, 19),
        ]
    );
    let unusable: Vec<String> = listed.unusable_paths().into_iter().map(|unusable| unusable.path).collect();
    assert_eq!(unusable, ["back\\slash", "odd/\\xE9/caf\\xE9"]);
    for (at, kind) in [("link", "symbolic link"), ("module", "submodule"), ("odd", "folder")] {
        let error = snapshot.read(&path(at)).unwrap_err();
        assert!(error.to_string().contains(kind), "{error}");
    }
    // Nothing is below a link, wherever it points.
    assert_eq!(snapshot.tree_id(&path("link/passwd")).unwrap(), None);

    // Replacing what is below keeps the odd entries that were not asked to go.
    let repository = sandbox.open();
    advance(&repository, "main", &[("plain", None), ("new/file", Some("x"))]);
    let names = sandbox.git(&["ls-tree", "--name-only", "main"]);
    assert_eq!(names, "\"back\\\\slash\"\nlink\nmodule\nnew\nodd\nrun");
}

#[test]
fn differences_are_those_of_git() {
    let sandbox =
        Sandbox::with_files(&[("a", "1"), ("b/c", "1"), ("b/d", "1"), ("e/f", "1"), ("g", "1"), ("same/x", "1")]);
    let repository = sandbox.open();
    let old = repository.snapshot(&branch("main")).unwrap();
    // A file becomes a folder, a folder a file; one is added, one removed, one modified.
    advance(
        &repository,
        "main",
        &[("a", None), ("a/x", Some("2")), ("b", None), ("b.c", Some("2")), ("e/f", Some("2")), ("g", Some("1"))],
    );
    let new = repository.snapshot(&branch("main")).unwrap();
    let difference = Difference::between(&old, &new).unwrap();
    let ours: Vec<String> = difference
        .changed
        .iter()
        .map(|file| {
            let status = match (file.before, file.after) {
                (None, Some(_)) => "A",
                (Some(_), None) => "D",
                _ => "M",
            };
            format!("{status}\t{}", file.path)
        })
        .collect();
    let theirs = sandbox.git(&[
        "diff-tree",
        "-r",
        "--no-renames",
        "--name-status",
        old.commit().as_str(),
        new.commit().as_str(),
    ]);
    assert_eq!(sorted(ours), sorted(theirs.lines().map(str::to_owned).collect()));
    assert_eq!(Difference::between(&new, &new).unwrap(), Difference::default());
    let back = Difference::between(&new, &old).unwrap();
    assert_eq!(back.changed.len(), difference.changed.len());
    let read = new.read_objects(difference.changed.iter().filter_map(|f| Some((f.after?, f.path.as_str())))).unwrap();
    assert!(read.iter().all(|bytes| &**bytes == b"2"));
}

#[test]
fn unborn_missing_and_detached_are_three_things() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    assert_eq!(repository.snapshot(&branch("main")).unwrap_err().code(), "unborn-branch");
    assert_eq!(repository.head(&branch("main")).unwrap(), None);
    assert_eq!(repository.current_branch().unwrap(), branch("main"));
    let head = sandbox.import("main", None, &[("a", "1")], "x");
    let error = repository.snapshot(&branch("deploy")).unwrap_err();
    assert_eq!(error.code(), "missing-branch");
    assert_eq!(error.hint().unwrap(), "branches there: main");
    sandbox.git(&["update-ref", "--no-deref", "HEAD", head.as_str()]);
    let error = repository.current_branch().unwrap_err();
    assert_eq!(error.code(), "detached-head");
    // A detached HEAD does not keep a named branch from being read.
    assert!(repository.snapshot(&branch("main")).is_ok());
}

#[test]
fn places_without_a_repository_are_named() {
    let folder = TempDir::new().unwrap();
    let open = |path: &Path| Repository::open(&RepositoryLocation::Local(path.to_owned()));
    assert_eq!(open(folder.path()).unwrap_err().code(), "not-a-repository");
    assert_eq!(open(Path::new("/nonexistent/fleet.git")).unwrap_err().code(), "not-a-repository");
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    assert!(open(&file).unwrap_err().to_string().contains("file"));
    let created = Repository::create(&folder.path().join("new.git"), &branch("main")).unwrap();
    assert_eq!(created.snapshot(&branch("main")).unwrap_err().code(), "unborn-branch");
    assert_eq!(
        Repository::create(&folder.path().join("new.git"), &branch("main")).unwrap_err().code(),
        "unusable-repository"
    );
}

#[test]
fn a_clone_with_a_work_tree_is_read_the_same_way() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    sandbox.git_in(sandbox.folder.path(), &["clone", "-q", "fleet.git", "clone"]);
    let clone = sandbox.folder.path().join("clone");
    // The work tree may be anything: it is not looked at.
    std::fs::write(clone.join("a"), "dirty").unwrap();
    let repository = Repository::open(&RepositoryLocation::Local(clone.clone())).unwrap();
    assert_eq!(&*repository.snapshot(&branch("main")).unwrap().read(&path("a")).unwrap(), b"1");
    sandbox.git_in(&clone, &["checkout", "-q", "--detach"]);
    assert_eq!(repository.current_branch().unwrap_err().code(), "detached-head");
}

#[test]
fn corrupt_and_missing_objects_are_named_with_what_was_read() {
    for (revision, at, truncated) in [
        ("main:a/b", "a/b", "corrupt-object"),
        ("main:a", "folder", "corrupt-object"),
        ("main", "commit", "corrupt-object"),
    ] {
        let sandbox = Sandbox::with_files(&[("a/b", "text"), ("c", "other")]);
        // fast-import keeps few objects loose by itself; unpack the rest.
        sandbox.unpack();
        let id = sandbox.git(&["rev-parse", revision]);
        let file = sandbox.path().join("objects").join(&id[..2]).join(&id[2..]);
        let good = std::fs::read(&file).unwrap();
        let read = || {
            let snapshot = sandbox.open().snapshot(&branch("main"))?;
            snapshot.read(&path("a/b")).map(drop)?;
            snapshot.listing().map(drop)
        };
        read().unwrap();
        std::fs::remove_file(&file).unwrap();
        let error = read().unwrap_err();
        assert_eq!(error.code(), "missing-object", "{error}");
        assert!(
            error.to_string().contains(&id) && error.to_string().contains(at.trim_start_matches("folder")),
            "{error}"
        );
        std::fs::write(&file, &good[..good.len() / 2]).unwrap();
        let error = read().unwrap_err();
        assert_eq!(error.code(), truncated, "{error}");
        // Bytes that inflate well and hash to something else.
        let other = sandbox.with_input(&["hash-object", "-w", "--stdin"], "forged");
        std::fs::copy(sandbox.path().join("objects").join(&other[..2]).join(&other[2..]), &file).unwrap();
        let error = read().unwrap_err();
        assert_eq!(error.code(), "corrupt-object", "{error}");
        assert!(error.hint().unwrap().contains("git fsck"));
    }
}

#[test]
fn hostile_trees_end_in_an_error_or_an_unusable_path() {
    // Entries that no checkout may ever write: `..`, `.git`, an absolute path; and a tree that contains itself deeply.
    let sandbox = Sandbox::empty();
    let blob = sandbox.with_input(&["hash-object", "-w", "--stdin"], "x");
    let mut bytes = Vec::new();
    for name in ["..", ".git", "ok"] {
        bytes.extend_from_slice(format!("100644 {name}\0").as_bytes());
        bytes.extend_from_slice(&raw(&blob));
    }
    let top = sandbox.raw_tree(&bytes);
    sandbox.point("main", &top);
    let listing = sandbox.open().snapshot(&branch("main")).unwrap().listing().unwrap();
    let unusable: Vec<&str> = listing.unusable.iter().map(|unusable| unusable.path.as_str()).collect();
    assert_eq!(unusable, ["..", ".git"]);
    assert_eq!(listing.entries.len(), 1);

    let mut tree = top;
    for _ in 0..300 {
        let bytes = [b"40000 d\0".as_slice(), &raw(&tree)].concat();
        tree = sandbox.raw_tree(&bytes);
    }
    sandbox.point("main", &tree);
    let listing = sandbox.open().snapshot(&branch("main")).unwrap().listing().unwrap();
    let [unusable] = listing.unusable.as_slice() else { panic!("{listing:?}") };
    assert!(unusable.path == "d" && format!("{unusable:?}").contains("256 folders nested"), "{unusable:?}");

    let broken = sandbox.raw_tree(b"100644 a");
    sandbox.point("main", &broken);
    assert_eq!(sandbox.open().snapshot(&branch("main")).unwrap().listing().unwrap_err().code(), "corrupt-object");
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn raw(id: &str) -> Vec<u8> {
    (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect()
}

impl Sandbox {
    fn with_input(&self, arguments: &[&str], input: &str) -> String {
        let (success, out) = self.try_git(&self.path(), arguments, input);
        assert!(success, "git {arguments:?}: {out}");
        out
    }

    /// `git mktree -z` over bytes that need not be UTF-8.
    fn mktree_bytes(&self, listing: &[u8]) -> String {
        let file = self.folder.path().join("listing");
        std::fs::write(&file, listing).unwrap();
        let script = format!("git mktree -z --missing < {}", file.display());
        let output = Command::new("sh").args(["-c", &script]).current_dir(self.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Writes a tree object that git itself would not write.
    fn raw_tree(&self, bytes: &[u8]) -> String {
        let file = self.folder.path().join("tree");
        std::fs::write(&file, bytes).unwrap();
        self.git(&["hash-object", "-w", "-t", "tree", "--literally", file.to_str().unwrap()])
    }

    fn point(&self, name: &str, tree: &str) {
        let text = format!("tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n");
        let commit = self.with_input(&["hash-object", "-w", "-t", "commit", "--stdin", "--literally"], &text);
        std::fs::write(self.path().join("refs/heads").join(name), format!("{commit}\n")).unwrap();
    }

    /// Turns every pack into loose objects.
    fn unpack(&self) {
        let folder = self.path().join("objects/pack");
        let moved = self.folder.path().join("packs");
        std::fs::create_dir_all(&moved).unwrap();
        for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            std::fs::rename(file.path(), moved.join(file.file_name())).unwrap();
        }
        for file in std::fs::read_dir(moved).unwrap().flatten() {
            if file.path().extension().is_some_and(|extension| extension == "pack") {
                let script = format!("git unpack-objects -q < {}", file.path().display());
                let output = Command::new("sh").args(["-c", &script]).current_dir(self.path()).output().unwrap();
                assert!(output.status.success(), "{output:?}");
            }
        }
    }
}

#[test]
fn a_damaged_pack_never_yields_other_content() {
    let text = "one: two\n".repeat(40);
    let sandbox = Sandbox::with_files(&[("a/b", &text), ("a/c", &text.replace("two", "three")), ("d", "e")]);
    sandbox.git(&["repack", "-adq"]);
    let packs = sandbox.path().join("objects/pack");
    let pack = std::fs::read_dir(packs)
        .unwrap()
        .flatten()
        .map(|file| file.path())
        .find(|path| path.extension().is_some_and(|e| e == "pack"))
        .unwrap();
    let good = std::fs::read(&pack).unwrap();
    let read = || -> Result<(), crate::GitError> {
        let snapshot = sandbox.open().snapshot(&branch("main"))?;
        let content = snapshot.read(&path("a/b"))?;
        assert!(*content == *text.as_bytes(), "other bytes than were committed");
        snapshot.listing().map(drop)
    };
    read().unwrap();
    let replace = |bytes: &[u8]| {
        // A new file each time: the library maps packs, and a mapped file must not change.
        std::fs::remove_file(&pack).unwrap();
        std::fs::write(&pack, bytes).unwrap();
    };
    let mut refused = 0;
    for at in (12..good.len() - 20).step_by(3) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        replace(&bad);
        refused += usize::from(read().is_err());
    }
    assert!(refused > 30, "{refused}");
    for length in [0, 12, good.len() / 2, good.len() - 1] {
        replace(&good[..length]);
        assert!(read().is_err(), "cut at {length}");
    }
    replace(&good);
    read().unwrap();
}
