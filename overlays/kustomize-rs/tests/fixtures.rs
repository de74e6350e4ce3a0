//! Every case of `fixtures/kustomize`: equal to what kustomize v5.8.1 printed, warnings too, or refused where it refused.
//! `fixtures/kustomize/record` records them anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::disallowed_methods
)]

mod support;

use kustomize_rs::{BuildError, Cache, FileSystem, Options, Order, Outside, Resources, build, build_cached};
use std::path::{Path, PathBuf};

fn options(order: Order) -> Options {
    Options { order, version: "v5.8.1".into(), ..Options::default() }
}

fn check(case: &Path, order: Order) {
    let name = case.display();
    let files = support::tree(&case.join("input"));
    let built = build(&files as &dyn FileSystem, "", &options(order));
    if let (Ok(resources), Order::Legacy) = (&built, order) {
        let expected = std::fs::read_to_string(case.join("expected_warnings.txt")).unwrap_or_default();
        assert_eq!(resources.warnings(), expected.lines().collect::<Vec<_>>(), "{name}");
    }
    let built = built.map(|resources: Resources| resources.to_yaml());
    let own = case.join(if order == Order::None { "expected.none.yaml" } else { "expected.yaml" });
    let expected = if own.exists() { own } else { case.join("expected.yaml") };
    match (built, std::fs::read_to_string(expected)) {
        (Ok(text), Ok(expected)) => assert_eq!(text, expected, "{name}"),
        (Err(error), Ok(_)) => panic!("{name}: {error}"),
        (Ok(text), Err(_)) => panic!("{name} should be refused, but gave\n{text}"),
        (Err(_), Err(_)) => assert!(case.join("expected_error.txt").exists(), "{name} has not been recorded"),
    }
}

/// What a build gives, as text.
fn said(built: Result<Resources, BuildError>) -> Result<(String, Vec<String>), String> {
    built.map(|built| (built.to_yaml(), built.warnings().to_vec())).map_err(|error| error.to_string())
}

fn cases() -> impl Iterator<Item = PathBuf> {
    let directory = support::find_up("fixtures/kustomize").expect("fixtures/kustomize");
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir())
}

#[test]
fn a_cache_that_has_seen_all_cases_changes_none() {
    let cache = Cache::new(16 << 20);
    for round in 0..2 {
        for case in cases() {
            let (files, options) = (support::tree(&case.join("input")), options(Order::Legacy));
            let cached = said(build_cached(&files, "", &options, Outside::default(), &cache));
            assert_eq!(cached, said(build(&files, "", &options)), "{} in round {round}", case.display());
        }
    }
}

#[cfg(feature = "disk")]
#[test]
fn files_on_disk_and_in_memory_build_alike() {
    for case in cases() {
        let input = case.join("input");
        let disk = kustomize_rs::DiskFileSystem::new(&input).unwrap();
        for order in [Order::Legacy, Order::None] {
            let of = |files: &dyn FileSystem| said(build(files, "", &options(order)));
            assert_eq!(of(&disk), of(&support::tree(&input)), "{}", case.display());
        }
    }
}

#[test]
fn every_case_gives_the_bytes_of_kustomize() {
    let mut count = 0;
    for case in cases() {
        check(&case, Order::Legacy);
        check(&case, Order::None);
        count += 1;
    }
    assert!(count >= 80, "only {count} cases");
}
