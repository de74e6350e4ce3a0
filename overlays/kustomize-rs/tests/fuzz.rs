//! Mutated inputs: nothing panics, hangs or grows, what is printed is read back, and a build gives the same bytes twice.
//!
//! `./tests/run --fuzz` runs each target for a minute (`STEPGATE_FUZZ_SECONDS`); without it a target runs some hundred
//! cases, as any property test. The seeds are `fixtures/fuzz/<target>` and the inputs of `fixtures/kustomize`. A failing
//! input is made small, saved to `fixtures/fuzz/<target>/failed-<hash>`, and replayed by every run of the tests from then on.
//!
//! The mutations are proptest's, which brings the shrinking: engines that are guided by coverage want a nightly compiler
//! or tools of their own, and without coverage they draw inputs at random too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout
)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kustomize_rs::{MemoryFileSystem, Options, build};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use yaml::{Limits, Node, Value, decode, emit, parse};

/// No small input takes longer, on a busy machine and without optimisation.
const SLOW: Duration = Duration::from_secs(20);

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// All files below a folder, by their path in it.
fn files_below(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut queue = vec![folder.to_owned()];
    while let Some(next) = queue.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                queue.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                files.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    files
}

/// One change of a text.
#[derive(Debug, Clone)]
enum Edit {
    Insert(Index, String),
    Delete(Index, usize),
    Repeat(Index, usize, usize),
    Replace(Index, u8),
    Splice(Index, Index, usize),
}

const WORDS: [&str; 48] = [
    "- ",
    ": ",
    "? ",
    "&a ",
    "*a ",
    "<<: *a\n",
    "|\n",
    "|2-\n",
    ">\n",
    ">+\n",
    "\"",
    "'",
    "{",
    "}",
    "[",
    "]",
    ",",
    "#",
    " #",
    "\n",
    "\n\n",
    "\r\n",
    "\n---\n",
    "\n...\n",
    "!!binary ",
    "!!str ",
    "!x ",
    "\t",
    " ",
    "  ",
    "\u{85}",
    "\u{FEFF}",
    "😀",
    "\0",
    "\\",
    "\\x41",
    "0x",
    "1e999",
    ".inf",
    "~",
    "null",
    "yes",
    "0777",
    "2001-01-01",
    "$patch: delete\n",
    "$(A)",
    "../",
    "[name=a]",
];

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        (at(), prop::sample::select(WORDS.to_vec())).prop_map(|(at, word)| Edit::Insert(at, word.to_owned())),
        (at(), "\\PC{1,4}").prop_map(|(at, text)| Edit::Insert(at, text)),
        (at(), 1..20_usize).prop_map(|(at, length)| Edit::Delete(at, length)),
        (at(), 1..40_usize, 1..40_usize).prop_map(|(at, length, times)| Edit::Repeat(at, length, times)),
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Replace(at, byte)),
        (at(), at(), 1..60_usize).prop_map(|(at, from, length)| Edit::Splice(at, from, length)),
    ]
}

fn apply(text: &mut Vec<u8>, edit: &Edit) {
    let place = |at: &Index, text: &[u8]| at.index(text.len() + 1);
    match edit {
        Edit::Insert(at, word) => {
            let at = place(at, text);
            text.splice(at..at, word.bytes());
        }
        Edit::Delete(at, length) => {
            let at = place(at, text);
            text.drain(at..(at + length).min(text.len()));
        }
        Edit::Repeat(at, length, times) => {
            let at = place(at, text);
            let part = text[at..(at + length).min(text.len())].repeat(*times);
            text.splice(at..at, part);
        }
        Edit::Replace(at, byte) => {
            let at = place(at, text);
            if let Some(old) = text.get_mut(at) {
                *old = *byte;
            }
        }
        Edit::Splice(at, from, length) => {
            let (at, from) = (place(at, text), place(from, text));
            let part = text[from..(from + length).min(text.len())].to_vec();
            text.splice(at..at, part);
        }
    }
}

/// A seed with some changes.
fn mutated(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(seeds), prop::collection::vec(edit(), 0..6)).prop_map(|(mut text, edits)| {
        edits.iter().for_each(|edit| apply(&mut text, edit));
        text
    })
}

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

/// A tree as one text: a line `=== path` before each file.
fn packed(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut text = Vec::new();
    for (path, content) in files {
        text.extend_from_slice(format!("=== {path}\n").as_bytes());
        text.extend_from_slice(content);
        if !content.ends_with(b"\n") {
            text.push(b'\n');
        }
    }
    text
}

fn unpacked(text: &[u8]) -> MemoryFileSystem {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut path = String::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b"=== ") {
            Some(name) => path = String::from_utf8_lossy(name).trim_end().to_owned(),
            None => files.entry(path.clone()).or_default().extend_from_slice(line),
        }
    }
    files.into_iter().collect()
}

/// A build ends in the same bytes or the same error twice, and what it prints of sound objects can be read.
fn build_target(input: &[u8]) -> Result<(), String> {
    let tree = unpacked(input);
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

type Target = fn(&[u8]) -> Result<(), String>;

const TARGETS: [(&str, Target); 3] =
    [("parse", parse_target), ("round-trip", round_trip_target), ("build", build_target)];

/// Runs a target: its own verdict, or that it panicked or took long.
fn verdict(target: Target, input: &[u8]) -> Result<(), String> {
    let started = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| target(input)));
    let took = started.elapsed();
    match result {
        Err(_) => Err("it panicked".to_owned()),
        Ok(_) if took > SLOW => Err(format!("it took {took:?}")),
        Ok(result) => result,
    }
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let own = files_below(&fixtures().join("fuzz").join(name)).into_values();
    let cases = std::fs::read_dir(fixtures().join("kustomize")).unwrap();
    let mut folders: Vec<PathBuf> = cases.map(|entry| entry.unwrap().path().join("input")).collect();
    folders.sort();
    let trees = folders.iter().filter(|folder| folder.is_dir()).map(|folder| files_below(folder));
    match name {
        "build" => own.chain(trees.map(|tree| packed(&tree))).collect(),
        _ => own.chain(trees.flat_map(BTreeMap::into_values)).collect(),
    }
}

fn fuzz(name: &str, target: Target) {
    let seconds = std::env::var("STEPGATE_FUZZ_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let strategy = mutated(seeds(name));
    let mut cases = 0_u64;
    loop {
        let config = Config { cases: 256, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
        let mut runner = TestRunner::new(config);
        let result = runner.run(&strategy, |input| verdict(target, &input).map_err(TestCaseError::fail));
        cases += 256;
        if let Err(TestError::Fail(reason, input)) = result {
            let hash = input
                .iter()
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
            let file = fixtures().join("fuzz").join(name).join(format!("failed-{hash:016x}"));
            std::fs::write(&file, &input).unwrap();
            panic!("{name}: {reason}\nsaved as {}", file.display());
        }
        if until.is_none_or(|until| Instant::now() >= until) {
            break;
        }
    }
    println!("{name}: {cases} inputs");
}

#[test]
fn every_saved_input_ends_well() {
    let mut count = 0;
    for (name, target) in TARGETS {
        for (file, input) in files_below(&fixtures().join("fuzz").join(name)) {
            verdict(target, &input).unwrap_or_else(|message| panic!("{name}/{file}: {message}"));
            count += 1;
        }
    }
    assert!(count >= TARGETS.len(), "every target has a seed");
}

#[test]
fn mutated_texts_are_read_or_refused() {
    fuzz("parse", parse_target);
}

#[test]
fn mutated_texts_are_printed_as_they_are_read() {
    fuzz("round-trip", round_trip_target);
}

#[test]
fn mutated_trees_are_built_or_refused() {
    fuzz("build", build_target);
}
