//! Mutated inputs of kustomize: nothing panics, hangs or grows, what is printed is read back, and a build gives the same bytes twice.
//!
//! How they are made and what becomes of those that fail: `tests/fuzz`. The seeds are `fixtures/fuzz/<target>` and the inputs of
//! `fixtures/kustomize`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fuzz::{files_below, fuzz, packed, replay};
use kustomize_rs::{MemoryFileSystem, Options, build};
use yaml::{Limits, Node, Value, decode, emit, parse};

/// Limits for small inputs: a mutation that multiplies ends soon.
fn limits() -> Limits {
    Limits { bytes: 1 << 20, documents: 1_000, depth: 100, nodes: 20_000 }
}

/// Reading ends, and errors have a place.
fn parse_target(input: &[u8]) -> Result<(), String> {
    match decode(input).and_then(|text| parse(&text, &limits()).map(|documents| documents.len())) {
        Ok(count) if count <= limits().documents => Ok(()),
        Ok(count) => Err(format!("{count} documents")),
        Err(error) if error.message.is_empty() => Err("an error without a message".to_owned()),
        Err(_) => Ok(()),
    }
}

/// Texts that go-yaml itself cannot carry through.
fn is_sound(node: &Node) -> bool {
    let sound = |text: &str| !text.contains(['\u{85}', '\u{2028}', '\u{2029}', '\u{FEFF}']);
    match &node.value {
        Value::String(text) => sound(text),
        Value::Float(number) => number.is_finite(),
        Value::Sequence(items) => items.iter().all(is_sound),
        Value::Mapping(mapping) => mapping
            .iter()
            .all(|entry| sound(&entry.key) && entry.key != "<<" && entry.key.len() <= 128 && is_sound(&entry.value)),
        _ => true,
    }
}

/// What is printed is read back and printed the same.
fn round_trip_target(input: &[u8]) -> Result<(), String> {
    let Ok(documents) = decode(input).and_then(|text| parse(&text, &limits())) else { return Ok(()) };
    for document in documents.iter().filter(|document| is_sound(&document.root)) {
        let printed = emit(&document.root);
        let more = Limits { bytes: usize::MAX, nodes: usize::MAX, depth: 500, ..limits() };
        let again = parse(&printed, &more).map_err(|error| format!("{error} in what was printed:\n{printed}"))?;
        let again = again.first().map(|document| emit(&document.root)).unwrap_or_else(|| "null\n".to_owned());
        if printed.trim() != again.trim() && !matches!(printed.trim(), "null" | "") {
            return Err(format!("printed as\n{printed}\nread back and printed as\n{again}"));
        }
    }
    Ok(())
}

/// A build ends in the same bytes or the same error twice, and what it prints of sound objects can be read.
fn build_target(input: &[u8]) -> Result<(), String> {
    let tree: MemoryFileSystem = fuzz::unpacked(input).into_iter().collect();
    let options = Options {
        limits: limits(),
        objects: 1_000,
        depth: 20,
        steps: 20_000_000,
        growth: 64 << 20,
        output: 8 << 20,
        ..Options::default()
    };
    let run = || {
        let resources = build(&tree, "", &options).map_err(|error| error.to_string())?;
        Ok::<_, String>((resources.to_yaml(), resources.iter().all(|resource| is_sound(resource.node()))))
    };
    let (first, second) = (run(), run());
    if first != second {
        return Err(format!("two builds differ:\n{first:?}\n{second:?}"));
    }
    // kustomize prints a key `<<` that is text as it prints a merge, which then cannot be read.
    let Ok((text, true)) = first else { return Ok(()) };
    let more = Limits { bytes: usize::MAX, documents: usize::MAX, nodes: usize::MAX, depth: 500 };
    parse(&text, &more).map(|_| ()).map_err(|error| format!("{error} in the output:\n{text}"))
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let cases = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kustomize")).unwrap();
    let mut folders: Vec<PathBuf> = cases.map(|entry| entry.unwrap().path().join("input")).collect();
    folders.sort();
    let trees = folders.iter().filter(|folder| folder.is_dir()).map(|folder| files_below(folder));
    match name {
        "build" => trees.map(|tree| packed(&tree)).collect(),
        _ => trees.flat_map(BTreeMap::into_values).collect(),
    }
}

#[test]
fn every_saved_input_ends_well() {
    assert!(replay("parse", parse_target) > 0 && replay("round-trip", round_trip_target) > 0);
    assert!(replay("build", build_target) > 0);
}

#[test]
fn fuzzed_texts_are_read_or_refused() {
    fuzz("parse", seeds("parse"), parse_target);
}

#[test]
fn fuzzed_texts_are_printed_as_they_are_read() {
    fuzz("round-trip", seeds("round-trip"), round_trip_target);
}

#[test]
fn fuzzed_trees_are_built_or_refused() {
    fuzz("build", seeds("build"), build_target);
}
