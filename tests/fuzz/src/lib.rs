//! Mutated inputs for whatever reads what others write: nothing panics or hangs, and what a reader promises holds of every input.
//!
//! `./tests/run --fuzz` runs each target for a minute (`STEPGATE_FUZZ_SECONDS`); without it a target runs some hundred
//! cases, as any property test. The seeds are given, and those of `fixtures/fuzz/<target>`. A failing input is made small, saved to
//! `fixtures/fuzz/<target>/failed-<hash>`, and replayed by every run of the tests from then on.
//!
//! The mutations are proptest's, which brings the shrinking: engines that are guided by coverage want a nightly compiler
//! or tools of their own, and without coverage they draw inputs at random too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::missing_panics_doc,
    reason = "only tests call this"
)]

mod structure;
mod text;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

/// No small input takes longer, on a busy machine and without optimisation.
const SLOW: Duration = Duration::from_secs(20);

/// How many inputs are tried between two looks at the clock.
const CASES: u32 = 256;

/// The folder of inputs that are kept for all targets.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fuzz")
}

/// All files below a folder, by their path in it.
#[must_use]
pub fn files_below(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut queue = vec![folder.to_owned()];
    while let Some(next) = queue.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().map(Result::unwrap) {
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

/// Files as one text: a line `=== path` before each.
#[must_use]
pub fn packed(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
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

/// The files of such a text; lines before the first path are a file without a name.
#[must_use]
pub fn unpacked(text: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut path = String::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b"=== ") {
            Some(name) => path = String::from_utf8_lossy(name).trim_end().to_owned(),
            None => files.entry(path.clone()).or_default().extend_from_slice(line),
        }
    }
    files
}

/// What a target says of an input: an error where a promise is broken.
pub type Verdict = Result<(), String>;

/// Its own verdict, or that it panicked or took long.
fn verdict(target: &dyn Fn(&[u8]) -> Verdict, input: &[u8]) -> Verdict {
    let started = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| target(input)));
    let took = started.elapsed();
    match result {
        Err(_) => Err("it panicked".to_owned()),
        Ok(_) if took > SLOW => Err(format!("it took {took:?}")),
        Ok(result) => result,
    }
}

/// Tries the inputs that are kept for a target as they are; how many there are.
pub fn replay(name: &str, target: impl Fn(&[u8]) -> Verdict) -> usize {
    let files = files_below(&kept().join(name));
    for (file, input) in &files {
        verdict(&target, input).unwrap_or_else(|message| panic!("{name}/{file}: {message}"));
    }
    files.len()
}

/// Tries the inputs that are kept for a target, then changed ones of these and of the seeds.
///
/// # Panics
/// When one breaks a promise; with the file that it is saved to.
pub fn fuzz(name: &str, seeds: impl IntoIterator<Item = Vec<u8>>, target: impl Fn(&[u8]) -> Verdict) {
    replay(name, &target);
    let seconds = std::env::var("STEPGATE_FUZZ_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let seeds: Vec<Vec<u8>> = seeds.into_iter().chain(files_below(&kept().join(name)).into_values()).collect();
    assert!(!seeds.is_empty(), "{name} has no seed");
    let inputs = mutated(seeds);
    let mut cases = 0;
    loop {
        let config = Config { cases: CASES, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
        let result =
            TestRunner::new(config).run(&inputs, |input| verdict(&target, &input).map_err(TestCaseError::fail));
        cases += CASES;
        if let Err(TestError::Fail(reason, input)) = result {
            panic!("{name}: {reason}\nsaved as {}", saved(name, &input).display());
        }
        if until.is_none_or(|until| Instant::now() >= until) {
            break;
        }
    }
    println!("{name}: {cases} inputs");
}

/// A seed with some changes: of its bytes, and where it is JSON of its values too.
fn mutated(seeds: Vec<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    let structured: Vec<_> = seeds.iter().filter_map(|seed| serde_json::from_slice(seed).ok()).collect();
    if structured.is_empty() {
        return text::mutated(seeds).boxed();
    }
    prop_oneof![text::mutated(seeds), structure::mutated(structured)].boxed()
}

fn saved(name: &str, input: &[u8]) -> PathBuf {
    let hash = input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let folder = kept().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("failed-{hash:016x}"));
    std::fs::write(&file, input).unwrap();
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_promise_is_found_made_small_and_named() {
        let seeds = vec![br#"{"spec": {"replicas": 3, "paused": false}}"#.to_vec()];
        let target = |input: &[u8]| {
            let read: Option<serde_json::Value> = serde_json::from_slice(input).ok();
            let replicas = read.and_then(|read| read.pointer("/spec/replicas").cloned());
            if replicas.is_some_and(|replicas| !replicas.is_u64()) { Err("no number".to_owned()) } else { Ok(()) }
        };
        let found = catch_unwind(|| fuzz("of-the-harness", seeds, target)).unwrap_err();
        let told = found.downcast_ref::<String>().unwrap();
        let (message, file) = told.split_once("\nsaved as ").unwrap();
        assert_eq!(message, "of-the-harness: no number");
        assert!(target(&std::fs::read(file).unwrap()).is_err());
        std::fs::remove_dir_all(kept().join("of-the-harness")).unwrap();
    }

    #[test]
    fn packed_files_are_unpacked_as_they_were() {
        let files = BTreeMap::from([("a/b".to_owned(), b"one\ntwo\n".to_vec()), ("c".to_owned(), b"three\n".to_vec())]);
        assert_eq!(unpacked(&packed(&files)), files);
    }
}
