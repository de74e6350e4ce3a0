//! Every file of `fixtures/gates` is judged as its own comments say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::recording::{GateReplay, GateState, read_dump};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

/// What a file says of itself: the version that is waited for, and what each gate has to say.
fn expected(text: &str) -> BTreeMap<String, String> {
    let comments = text.lines().take_while(|line| line.starts_with('#')).skip(1);
    let read = |line: &str| {
        let (name, value) = line.trim_start_matches("# ").split_once(": ").unwrap();
        (name.to_owned(), value.to_owned())
    };
    comments.map(read).collect()
}

/// The verdicts on a file that are not as it says.
fn wrong(path: &Path) -> Vec<String> {
    let mut expected = expected(&fs::read_to_string(path).unwrap());
    let version = expected.remove("kubernetes-version").unwrap();
    let seen = GateReplay::new(version).judge_dump(&read_dump(path).unwrap()).gates;
    let mut wrong = Vec::new();
    for (name, wanted) in &expected {
        let (verdict, reason) = wanted.split_once(' ').unwrap_or((wanted, ""));
        match seen.get(name) {
            Some(gate) if gate.verdict.as_str() == verdict && gate.reason.contains(reason) => {}
            gate => wrong.push(format!("{}: {name} is not {wanted}: {gate:?}", path.display())),
        }
    }
    let unexpected = seen.keys().filter(|name| !expected.contains_key(*name));
    wrong.extend(unexpected.map(|name| format!("{}: {name} is not expected", path.display())));
    wrong
}

#[test]
fn objects_of_every_era_and_provider_are_judged_as_their_files_say() {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/gates"), &mut found);
    found.sort();
    assert!(found.len() > 80, "{}", found.len());
    let wrong: Vec<String> = found.iter().flat_map(|path| wrong(path)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn shared_cases_of_other_control_planes_pass() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/cases/gate-other-control-planes");
    if !cases.is_dir() {
        println!("skipped: {} is not there", cases.display());
        return;
    }
    for (case, version) in [("rke2", "v1.34.1+rke2r1"), ("eks", "v1.33.1")] {
        let gates = GateReplay::new(version).judge_dump(&read_dump(&cases.join(case)).unwrap()).gates;
        assert_eq!(gates["control-plane"].verdict, GateState::Pass, "{case}: {gates:?}");
    }
}
