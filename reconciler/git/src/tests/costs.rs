//! What reading costs, as the headers of real packs tell it.

use git2::Oid;

use super::*;
use crate::{GitError, Limit, Limits};

/// Size of every object by the git program, and its base; none where it is stored whole.
fn by_git(sandbox: &Sandbox, folder: &Path) -> Vec<(Oid, u64, bool)> {
    let format = "--batch-check=%(objectname) %(objectsize) %(deltabase)";
    let text = sandbox.git_in(folder, &["cat-file", "--batch-all-objects", format]);
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let is_delta = fields[2].bytes().any(|byte| byte != b'0');
        (Oid::from_str(fields[0]).unwrap(), fields[1].parse().unwrap(), is_delta)
    };
    text.lines().map(line).collect()
}

/// Our costs of the same objects are of these sizes; as many as returned are deltas.
fn compare(sandbox: &Sandbox, folder: &Path) -> usize {
    let repository = Repository::open(&RepositoryLocation::Local(folder.to_owned())).unwrap();
    let objects = by_git(sandbox, folder);
    repository
        .with_objects(|store| {
            for (id, size, is_delta) in &objects {
                let cost = store.cost(*id, || id.to_string())?;
                assert_eq!((cost.size, cost.bases > 0), (*size, *is_delta), "{id}");
            }
            let unknown = store.cost(Oid::from_str(&"12".repeat(20)).unwrap(), || "x".to_owned()).unwrap_err();
            assert_eq!(unknown.code(), "missing-object");
            Ok(())
        })
        .unwrap();
    objects.iter().filter(|(_, _, is_delta)| *is_delta).count()
}

fn similar_files() -> Sandbox {
    let sandbox = Sandbox::empty();
    let text = noise(100_000);
    let names: Vec<String> = (0..60).map(|number| format!("folder/{number}")).collect();
    let texts: Vec<String> = (0..60).map(|number| format!("{text}{number}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    sandbox.import("main", None, &files, "Add files");
    sandbox
}

#[test]
fn costs_are_those_of_git_in_packs_of_either_index() {
    let sandbox = similar_files();
    compare(&sandbox, &sandbox.path());
    for version in ["2", "1"] {
        let setting = format!("pack.indexVersion={version}");
        sandbox.git(&["-c", &setting, "repack", "-adfq", "--depth=50", "--window=50"]);
        assert!(compare(&sandbox, &sandbox.path()) > 40);
    }
    // Objects that refer to their bases by id.
    sandbox.git(&["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq", "--depth=50", "--window=50"]);
    assert!(compare(&sandbox, &sandbox.path()) > 40);
}

#[test]
fn objects_are_found_in_large_indexes_and_in_borrowed_stores() {
    let sandbox = Sandbox::empty();
    let names: Vec<String> = (0..12_000).map(|number| format!("{}/{number}", number % 100)).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    sandbox.import("main", None, &files, "Add files");
    sandbox.git(&["repack", "-adq"]);
    compare(&sandbox, &sandbox.path());
    // A loose object of the store that is borrowed from.
    sandbox.import("main", Some("main^0"), &[("new", "new")], "One more");
    sandbox.git_in(sandbox.folder.path(), &["clone", "-q", "--bare", "--shared", "fleet.git", "borrower.git"]);
    let borrower = sandbox.folder.path().join("borrower.git");
    compare(&sandbox, &borrower);
    let repository = Repository::open(&RepositoryLocation::Local(borrower)).unwrap();
    assert_eq!(&*repository.snapshot(&branch("main")).unwrap().read(&path("new")).unwrap(), b"new");
}

#[test]
fn what_is_written_while_it_is_open_is_found() {
    let sandbox = similar_files();
    sandbox.git(&["repack", "-adq"]);
    let repository = sandbox.open();
    let first = repository.snapshot(&branch("main")).unwrap();
    for number in 0..5 {
        let name = format!("new/{number}");
        let id = sandbox.import("main", Some("main^0"), &[(name.as_str(), "x")], "One more");
        if number % 2 == 0 {
            sandbox.git(&["repack", "-adq"]);
        }
        let snapshot = repository.snapshot(&branch("main")).unwrap();
        assert_eq!((snapshot.commit(), &*snapshot.read(&path(&name)).unwrap()), (&id, &b"x"[..]));
    }
    assert_eq!(first.files().unwrap().files.len(), 60);
}

#[test]
fn what_is_above_a_limit_is_named_with_that_limit() {
    let sandbox = similar_files();
    sandbox.git(&["repack", "-adfq", "--depth=50", "--window=50"]);
    let read = |limit: Limit, number: u64| {
        let settings = GitSettings { limits: Limits::default().with(limit, number), ..sandbox.settings("none") };
        let location = RepositoryLocation::Local(sandbox.path());
        let snapshot = Repository::open_with(&location, &settings).unwrap().snapshot(&branch("main")).unwrap();
        let folder = snapshot.below(&path("folder")).unwrap();
        (folder.files().map(drop), folder.listing().map(drop), snapshot.listing().unwrap())
    };
    for (limit, number) in [
        (Limit::Entries, 59),
        (Limit::PathBytes, 100),
        (Limit::ObjectBytes, 50_000),
        (Limit::DeltaBytes, 50_000),
        (Limit::Depth, 0),
    ] {
        let (files, listing, _) = read(limit, number);
        for result in [files, listing] {
            let Err(GitError::OverBudget { what, limit: found, allowed }) = result else {
                panic!("{limit}: {result:?}")
            };
            assert_eq!((found, allowed, what.contains("folder")), (limit, number, true), "{what}");
        }
    }
    let (files, listing, whole) = read(Limit::BaseBytes, 3_000);
    assert!(listing.is_ok() && whole.unusable.is_empty(), "each file is told by itself");
    assert!(matches!(files, Err(GitError::OverBudget { limit: Limit::BaseBytes, .. })), "{files:?}");
    // Nobody's folder may hold more than a cluster's.
    let (_, _, whole) = read(Limit::Entries, 5);
    assert_eq!(whole.unusable.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["folder"]);
    assert!(read(Limit::Entries, 7).2.unusable.is_empty());
}

#[test]
fn each_folder_is_counted_for_whose_it_is() {
    let sandbox = Sandbox::empty();
    let fine = [
        "bundles/1.yaml",
        "clusters/m/flux-system/a.yaml",
        "clusters/m/m/eksa-system/a.yaml",
        "clusters/m/w/eksa-system/a.yaml",
        "clusters/y/a.yaml",
        "deploy/clusters/z/a.yaml",
        "deploy/flux/z/a.yaml",
        "docs/a.md",
        "overlays/capi/a.yaml",
        "stepgate.yaml",
    ];
    let files: Vec<(&str, &str)> = fine.iter().map(|name| (*name, "a")).collect();
    sandbox.import("main", None, &files, "Add files");
    let settings = GitSettings { limits: Limits::default().with(Limit::Entries, 10), ..sandbox.settings("none") };
    let repository = Repository::open_with(&RepositoryLocation::Local(sandbox.path()), &settings).unwrap();
    for (bomb, refused) in [
        ("bundles/x", "bundles/x"),
        ("clusters/m/other", "clusters/m"),
        ("clusters/m/w/more", "clusters/m/w/eksa-system"),
        ("clusters/y/a/b/c", "clusters/y"),
        ("deploy/clusters/z/x", "deploy/clusters/z"),
        ("deploy/flux/z/x", "deploy/flux/z"),
        ("docs/x", "docs"),
        ("overlays/capi/x", "overlays/capi"),
    ] {
        let names: Vec<String> = (0..101).map(|number| format!("{bomb}/{number}.yaml")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "a")).collect();
        sandbox.import("bomb", Some("main^0"), &files, "Add a bomb");
        let listing = repository.snapshot(&branch("bomb")).unwrap().listing().unwrap();
        let unusable: Vec<&str> = listing.unusable.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(unusable, [refused], "{bomb}");
        let whose = refused.trim_end_matches("/eksa-system");
        let left: Vec<&str> = fine
            .into_iter()
            .filter(|name| {
                !name.starts_with(&format!("{whose}/")) || {
                    // A workload cluster's folder is its own, wherever it stands.
                    whose == "clusters/m" && name.contains("eksa-system")
                }
            })
            .collect();
        let listed: Vec<&str> = listing.entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(listed, left, "{bomb}");
    }
    // Without the top nothing is known.
    let names: Vec<String> = (0..101).map(|number| format!("{number}.yaml")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "a")).collect();
    sandbox.import("bomb", Some("main^0"), &files, "Add a bomb");
    assert_eq!(repository.snapshot(&branch("bomb")).unwrap().listing().unwrap_err().code(), "over-budget");
}

#[test]
fn a_history_of_more_commits_than_are_read_is_an_error() {
    let sandbox = Sandbox::with_files(&[("a", "0")]);
    for number in 1..6 {
        sandbox.import("main", Some("main^0"), &[("a", &number.to_string())], "Change");
    }
    let (repository, head) = (sandbox.open(), sandbox.head("main").unwrap());
    let base: CommitId = sandbox.git(&["rev-parse", "main~3"]).parse().unwrap();
    assert_eq!(repository.beyond(&head, Some(&base), 3).unwrap().len(), 3);
    assert_eq!(repository.between(Some(&base), &head, 3).unwrap().len(), 3);
    assert_eq!(repository.beyond(&head, None, 6).unwrap().len(), 6);
    for cut in [repository.beyond(&head, Some(&base), 2).map(drop), repository.between(None, &head, 5).map(drop)] {
        assert_eq!(cut.unwrap_err().code(), "over-budget");
    }
}

#[test]
fn of_a_commit_with_a_huge_message_the_tree_is_known() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let message = noise(1_100_000);
    let head = sandbox.import("main", Some("main^0"), &[("a", "2")], &message);
    for _ in 0..2 {
        let repository = sandbox.open();
        assert_eq!(&*repository.snapshot(&branch("main")).unwrap().read(&path("a")).unwrap(), b"2");
        assert_eq!(repository.message(&head).unwrap(), "");
        let cut = |commit: &crate::WrittenCommit| commit.is_cut;
        let between = repository.between(None, &head, 10).unwrap();
        assert_eq!(between.iter().map(cut).collect::<Vec<_>>(), [true, false]);
        sandbox.git(&["repack", "-adq"]);
    }
}
