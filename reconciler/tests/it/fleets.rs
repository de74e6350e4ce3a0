//! Small fleets of many shapes (`fixtures/fleets`), and what the program says of each: `check`, `adopt`, and `plan` after a change.
//!
//! A fleet is a folder: `before/` is the source branch at first, `after/` the files that a person changes then (none where there is
//! nothing to change), `removed.txt` the paths that go, `links.txt` symbolic links that it has from the beginning, and
//! `expected/<verb>.txt` what each verb prints. `expected/status.txt` is compared where it is there. Recorded anew with `UPDATE_FIXTURES=1`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Repository, Signature, Time};

use crate::support::{Run, stepgate};

pub(super) fn fleets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/fleets")
}

/// The files below a folder, by their path from there.
fn files(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.map(Result::unwrap) {
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), &format!("{path}/"), found);
        } else {
            found.insert(path, std::fs::read(entry.path()).unwrap());
        }
    }
}

pub(super) fn below(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    files(folder, "", &mut found);
    found
}

/// The symbolic links of a fleet: `links.txt`, path and target on each line.
fn links(fleet: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(fleet.join("links.txt")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(path, target)| (path.to_owned(), target.to_owned())).collect()
}

/// Adds symbolic links to the commit of the source branch.
fn link(repository: &Repository, links: &[(String, String)]) {
    let parent = repository.find_commit(repository.refname_to_id("refs/heads/main").unwrap()).unwrap();
    let mut update = TreeUpdateBuilder::new();
    for (path, target) in links {
        update.upsert(path.as_str(), repository.blob(target.as_bytes()).unwrap(), FileMode::Link);
    }
    let tree = repository.find_tree(update.create_updated(repository, &parent.tree().unwrap()).unwrap()).unwrap();
    parent.amend(Some("refs/heads/main"), None, None, None, None, Some(&tree)).unwrap();
}

/// Commits files over what the source branch has.
pub(super) fn commit(repository: &Repository, files: &BTreeMap<String, Vec<u8>>, removed: &[&str], message: &str) {
    let parent = repository.refname_to_id("refs/heads/main").ok().map(|id| repository.find_commit(id).unwrap());
    let mut update = TreeUpdateBuilder::new();
    for (path, bytes) in files {
        update.upsert(path.as_str(), repository.blob(bytes).unwrap(), FileMode::Blob);
    }
    for path in removed {
        update.remove(*path);
    }
    let base = match &parent {
        Some(parent) => parent.tree().unwrap(),
        None => repository.find_tree(repository.treebuilder(None).unwrap().write().unwrap()).unwrap(),
    };
    let tree = repository.find_tree(update.create_updated(repository, &base).unwrap()).unwrap();
    let person = Signature::new("A Person", "person@example.com", &Time::new(1_790_000_000, 0)).unwrap();
    let parents: Vec<_> = parent.iter().collect();
    repository.commit(Some("refs/heads/main"), &person, &person, message, &tree, &parents).unwrap();
}

/// What a run said, without what differs from run to run.
fn told(run: &Run, place: &str) -> String {
    let text = format!("exit code {}\n{}{}", run.code, run.stdout, run.stderr).replace(place, "REPOSITORY");
    // No cluster answers here, and how that is told is shown elsewhere.
    let lines = text.lines().filter(|line| !line.contains("kubeconfig")).map(|line| {
        let words = line.split_inclusive(|character: char| !character.is_ascii_alphanumeric()).map(|word| {
            let id = word.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
            let is_id = matches!(id.len(), 12 | 40) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_id = is_id && (id.len() == 40 || line.contains("rollout "));
            if is_id { word.replace(id, "ID") } else { word.to_owned() }
        });
        format!("{}\n", words.collect::<String>().trim_end())
    });
    lines.collect()
}

/// The files of the deploy branch, each on a line.
fn deployed(repository: &Repository) -> String {
    let Ok(head) = repository.refname_to_id("refs/heads/deploy") else { return "no deploy branch\n".to_owned() };
    let mut lines = String::from("the deploy branch holds:\n");
    let tree = repository.find_commit(head).unwrap().tree().unwrap();
    tree.walk(git2::TreeWalkMode::PreOrder, |folder, entry| {
        if entry.kind() == Some(git2::ObjectType::Blob) {
            lines.push_str(&format!("  {folder}{}\n", entry.name().unwrap_or_default()));
        }
        git2::TreeWalkResult::Ok
    })
    .unwrap();
    lines
}

/// What each verb says of a fleet.
fn run(fleet: &Path) -> BTreeMap<&'static str, String> {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init_bare(folder.path()).unwrap();
    repository.set_head("refs/heads/main").unwrap();
    let place = folder.path().to_str().unwrap().to_owned();
    let verb = |arguments: &[&str]| told(&stepgate(&[arguments, &["--repo", &place]].concat()), &place);
    commit(&repository, &below(&fleet.join("before")), &[], "What runs");
    let links = links(fleet);
    if !links.is_empty() {
        link(&repository, &links);
    }
    let mut said = BTreeMap::new();
    said.insert("check", verb(&["check"]));
    said.insert("adopt", format!("{}{}", verb(&["adopt", "--yes", "--as-declared"]), deployed(&repository)));
    let removed = std::fs::read_to_string(fleet.join("removed.txt")).unwrap_or_default();
    let (after, removed) = (below(&fleet.join("after")), removed.lines().collect::<Vec<_>>());
    if !after.is_empty() || !removed.is_empty() {
        commit(&repository, &after, &removed, "What is wanted");
    }
    said.insert("plan", verb(&["plan"]));
    if fleet.join("expected/status.txt").exists() {
        said.insert("status", verb(&["status"]));
    }
    said
}

#[test]
fn every_fleet_is_read_rightly_or_refused_with_the_reason() {
    let update = std::env::var_os("UPDATE_FIXTURES").is_some();
    let only = std::env::var("FLEET").unwrap_or_default();
    let mut wrong = String::new();
    let mut names: Vec<PathBuf> = std::fs::read_dir(fleets()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for fleet in names.iter().filter(|path| path.is_dir() && path.to_str().unwrap().contains(&only)) {
        for (verb, said) in run(fleet) {
            let path = fleet.join(format!("expected/{verb}.txt"));
            if update {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, said).unwrap();
                continue;
            }
            let expected = std::fs::read_to_string(&path).unwrap_or_default();
            if expected != said {
                wrong.push_str(&format!("--- {}\n{expected}+++ {verb} now\n{said}\n", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "record anew with UPDATE_FIXTURES=1 where it is meant:\n{wrong}");
}

#[test]
fn a_cluster_that_is_recorded_and_no_longer_specified_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init_bare(folder.path()).unwrap();
    repository.set_head("refs/heads/main").unwrap();
    let place = folder.path().to_str().unwrap();
    let fleet = fleets().join("workers-beside-another-cluster");
    commit(&repository, &below(&fleet.join("before")), &[], "What runs");
    assert_eq!(stepgate(&["adopt", "--yes", "--as-declared", "--repo", place]).code, 0);
    let said = "is recorded on branch deploy and no longer specified";
    assert!(!stepgate(&["check", "--repo", place]).stdout.contains(said));
    commit(&repository, &BTreeMap::new(), &["clusters/shop/cluster.yaml"], "Give up the shop");
    let check = stepgate(&["check", "--repo", place]);
    assert!(check.stdout.contains(&format!("cluster shop {said}")), "{}{}", check.stdout, check.stderr);
}
