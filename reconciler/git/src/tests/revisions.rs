//! Commits as people name them.

use super::*;

#[test]
fn a_commit_is_found_by_branch_tag_and_beginning_of_its_id() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let first = sandbox.head("main").unwrap();
    sandbox.git(&["tag", "light", first.as_str()]);
    sandbox.git(&["tag", "-a", "-m", "a release", "v1.2", first.as_str()]);
    let second = sandbox.import("main", Some(first.as_str()), &[("a", "2")], "Change it");
    let repository = sandbox.open();
    let short: String = first.as_str().chars().take(10).collect();
    for (name, expected) in [
        ("main", &second),
        ("main~1", &first),
        ("HEAD", &second),
        ("HEAD~1", &first),
        ("main^", &first),
        ("light", &first),
        ("v1.2", &first),
        (short.as_str(), &first),
        (second.as_str(), &second),
    ] {
        assert_eq!(repository.revision(name).as_ref().unwrap(), expected, "{name}");
    }
}

#[test]
fn what_is_no_commit_is_named() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let repository = sandbox.open();
    let tree = sandbox.git(&["rev-parse", "main^{tree}"]);
    for name in ["mian", "main~1", "v9", "", "../x", "main^2", "0000000", tree.as_str()] {
        let error = repository.revision(name).unwrap_err();
        assert_eq!(error.code(), "unknown-revision", "{name}: {error}");
        assert!(error.to_string().contains(&format!("no commit `{name}`")) && error.hint().is_some(), "{error}");
    }
}

#[test]
fn a_branch_of_a_remote_repository_is_brought_up_to_date() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let first = sandbox.head("main").unwrap();
    let remote = sandbox.open_remote("copy");
    assert_eq!(remote.revision("main").unwrap(), first);
    let second = sandbox.import("main", Some(first.as_str()), &[("a", "2")], "Change it");
    assert_eq!((remote.revision("main").unwrap(), remote.revision("main~1").unwrap()), (second, first));
}
