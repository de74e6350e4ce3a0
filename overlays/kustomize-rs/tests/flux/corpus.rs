//! Sources that people wrote, compared with the Go library: the conformance corpus, and those of a file.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::case::{self, Case};
use crate::support;

/// Larger sources say nothing more about Flux's part.
const LARGEST: usize = 1 << 20;

/// A case of the corpus with a plain object; every other one goes through a substitution too.
fn read_case(directory: &Path, target: &str, substitutes: bool) -> Option<Case> {
    let (mut files, mut bytes, mut is_text) = (Map::new(), 0, true);
    support::each_file(&directory.join("input"), &mut |path, content| {
        bytes += content.len();
        match String::from_utf8(content) {
            Ok(text) => drop(files.insert(path.to_owned(), Value::from(text))),
            Err(_) => is_text = false,
        }
    });
    let mut spec = json!({"path": target});
    if substitutes {
        spec["postBuild"] = json!({"substituteStrategy": "Always", "substitute": {"name": "value", "empty": ""}});
    }
    let object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "spec": spec});
    (is_text && bytes < LARGEST).then(|| json!({"files": files, "kustomization": object, "from": directory}))
}

#[test]
fn the_corpus_builds_as_in_flux() {
    let (Some(program), Some(root)) = (case::program(), support::find_up("shared/data/kustomize/cases")) else {
        println!("skipped: STEPGATE_FLUX_KUSTOMIZE is not set, or shared data not present");
        return;
    };
    let index: Value = serde_json::from_str(&std::fs::read_to_string(root.join("index.json")).unwrap()).unwrap();
    let cases: Vec<Case> = index
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(number, case)| (number, case, root.join(case["path"].as_str().unwrap())))
        .filter(|(_, _, directory)| directory.is_dir())
        .filter_map(|(number, case, directory)| {
            read_case(&directory, case["target"].as_str().unwrap(), number % 2 == 1)
        })
        .collect();
    case::compare(&program, &cases, "corpus");
}

#[test]
fn cases_of_a_file_build_as_in_flux() {
    let (Some(program), Some(file)) = (case::program(), std::env::var_os("STEPGATE_FLUX_CASES")) else {
        println!("skipped: STEPGATE_FLUX_CASES names no file with a case a line");
        return;
    };
    let text = std::fs::read_to_string(file).unwrap();
    let cases: Vec<Case> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    case::compare(&program, &cases, "cases of the file");
}
