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

use kustomize_rs::{FileSystem, Options, Order, Resources, build};
use std::path::Path;

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

#[test]
fn every_case_gives_the_bytes_of_kustomize() {
    let directory = support::find_up("fixtures/kustomize").expect("fixtures/kustomize");
    let mut cases = 0;
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
        check(&entry.path(), Order::Legacy);
        check(&entry.path(), Order::None);
        cases += 1;
    }
    assert!(cases >= 55, "only {cases} cases");
}
