//! The conformance corpus, where it is present: every unpacked case equal to kustomize or rightly refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::print_stdout
)]

mod support;

use kustomize_rs::{
    BuildError, Cache, LoadRestrictor, MemoryFileSystem, Options, Order, Outside, Resources, build, build_cached,
};
use serde_json::Value;
use std::path::Path;

fn options(case: &Value) -> Options {
    let mut options = Options::default();
    let arguments: Vec<&str> = case["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for (index, argument) in arguments.iter().enumerate() {
        match (*argument, arguments.get(index + 1)) {
            ("--reorder", Some(&"none")) => options.order = Order::None,
            ("--load-restrictor", Some(&"LoadRestrictionsNone")) => options.load_restrictor = LoadRestrictor::None,
            ("--enable-managedby-label", _) => options.managed_by_label = true,
            _ => {}
        }
    }
    options
}

/// A cache that other cases have filled changes nothing, nor does one that holds this case already.
fn same_with_a_cache(
    files: &MemoryFileSystem,
    target: &str,
    options: &Options,
    cache: &Cache,
    expected: &Result<Resources, BuildError>,
) {
    for _ in 0..2 {
        match (build_cached(files, target, options, Outside::default(), cache), expected) {
            (Ok(cached), Ok(expected)) => {
                assert_eq!(cached.to_yaml(), expected.to_yaml(), "{target}");
                assert_eq!(cached.warnings(), expected.warnings(), "{target}");
                let origins =
                    |resources: &Resources| -> Vec<_> { resources.iter().map(|it| it.origin().clone()).collect() };
                assert_eq!(origins(&cached), origins(expected), "{target}");
            }
            (Err(cached), Err(expected)) => assert_eq!(cached.to_string(), expected.to_string(), "{target}"),
            (cached, expected) => panic!("{target}: {cached:?} with a cache, {expected:?} without"),
        }
    }
}

fn passes(directory: &Path, case: &Value, cache: &Cache) -> bool {
    let files = support::tree(&directory.join("input"));
    let (target, options) = (case["target"].as_str().unwrap(), options(case));
    let built = build(&files, target, &options);
    same_with_a_cache(&files, target, &options, cache, &built);
    let exists = |name: &str| directory.join(name).exists();
    match built {
        Ok(resources) => {
            let text = resources.to_yaml();
            let equal =
                |name: &str| std::fs::read_to_string(directory.join(name)).is_ok_and(|expected| expected == text);
            let outputs = exists("expected.yaml") || exists("expected.v5.8.1.yaml");
            let internal = case["error_class"].as_str() == Some("internal");
            equal("expected.yaml") || equal("expected.v5.8.1.yaml") || (internal && !outputs)
        }
        Err(_) => exists("expected_error.txt") || exists("expected_error.v5.8.1.txt"),
    }
}

#[test]
fn the_corpus_is_rendered_as_kustomize_renders_it() {
    let Some(root) = skip::shared("data/kustomize/cases") else { return };
    let index: Value = serde_json::from_str(&std::fs::read_to_string(root.join("index.json")).unwrap()).unwrap();
    let mut failed = Vec::new();
    // Small enough to be emptied on the way.
    let cache = Cache::new(1 << 20);
    for case in index.as_array().unwrap() {
        let directory = root.join(case["path"].as_str().unwrap());
        let id = case["id"].as_str().unwrap();
        if directory.is_dir() && !passes(&directory, case, &cache) {
            failed.push(id.to_owned());
        }
    }
    failed.sort();
    assert_eq!(failed, Vec::<String>::new());
}
