//! Recorded answers, in `fixtures/flux`.
//!
//! `templates.jsonl` has one case a line, `templates.expected.jsonl` the answers. Every directory is a case: `source/`,
//! the object `object.yaml`, values by object in `sources.yaml` where there are any, a file `strict`
//! where a missing value is an error. `expected.yaml` or `expected_error.txt` is what Flux makes of it, and
//! `expected.kustomization.yaml` the kustomization that it builds.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use yaml::{Limits, Node, Value as Yaml, parse};

use crate::case::{self, Answer, Case};
use crate::support;

fn directory() -> PathBuf {
    support::find_up("fixtures/flux").expect("fixtures/flux")
}

/// Says whether answers are to be recorded instead of compared.
fn records() -> bool {
    std::env::var_os("STEPGATE_RECORD").is_some()
}

fn answers(cases: &[Case]) -> Vec<Value> {
    case::ask(&case::program().expect("STEPGATE_FLUX_KUSTOMIZE names the program"), cases)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn templates_expand_as_recorded() {
    let cases = lines(&directory().join("templates.jsonl"));
    let recorded = directory().join("templates.expected.jsonl");
    if records() {
        let text: String = answers(&cases).iter().map(|answer| format!("{answer}\n")).collect();
        std::fs::write(&recorded, text).unwrap();
    }
    let answers = lines(&recorded);
    assert_eq!(cases.len(), answers.len());
    assert!(cases.len() > 100, "only {} cases", cases.len());
    for (case, answer) in cases.iter().zip(&answers) {
        let (ours, flux) = (case::own(case), Answer::read(answer).unwrap());
        assert!(ours.agrees(&flux), "{case}\nflux {flux:?}\nours {ours:?}");
    }
}

fn to_json(node: &Node) -> Value {
    match &node.value {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => json!(value),
        Yaml::Int(number) => json!(number),
        Yaml::Uint(number) => json!(number),
        Yaml::Float(number) => json!(number),
        Yaml::String(text) => json!(text.as_str()),
        Yaml::Sequence(items) => items.iter().map(to_json).collect(),
        Yaml::Mapping(mapping) => {
            Value::Object(mapping.iter().map(|entry| (entry.key.to_string(), to_json(&entry.value))).collect())
        }
    }
}

fn read_yaml(path: &Path) -> Value {
    let Ok(text) = std::fs::read_to_string(path) else {
        return json!({});
    };
    to_json(&parse(&text, &Limits::default()).unwrap()[0].root)
}

fn read_case(directory: &Path) -> Case {
    let mut files = Map::new();
    support::each_file(&directory.join("source"), &mut |path, content| {
        files.insert(path.to_owned(), Value::from(String::from_utf8(content).unwrap()));
    });
    json!({
        "files": files,
        "kustomization": read_yaml(&directory.join("object.yaml")),
        "sources": read_yaml(&directory.join("sources.yaml")),
        "strict": directory.join("strict").exists(),
    })
}

fn record(directory: &Path, answer: &Answer) {
    for name in ["expected.yaml", "expected.kustomization.yaml", "expected_error.txt"] {
        let _ = std::fs::remove_file(directory.join(name));
    }
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    match answer {
        Answer::Built { manifest, output } => {
            write("expected.yaml", output);
            write("expected.kustomization.yaml", manifest);
        }
        Answer::Refused(error) => write("expected_error.txt", &format!("{error}\n")),
    }
}

fn recorded(directory: &Path) -> Answer {
    match std::fs::read_to_string(directory.join("expected_error.txt")) {
        Ok(error) => Answer::Refused(error),
        Err(_) => Answer::Built {
            manifest: std::fs::read_to_string(directory.join("expected.kustomization.yaml")).unwrap(),
            output: std::fs::read_to_string(directory.join("expected.yaml")).unwrap(),
        },
    }
}

#[test]
fn sources_build_as_recorded() {
    let mut directories: Vec<PathBuf> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    directories.sort();
    assert!(directories.len() >= 20, "only {} cases", directories.len());
    let cases: Vec<Case> = directories.iter().map(|directory| read_case(directory)).collect();
    if records() {
        for (directory, answer) in directories.iter().zip(answers(&cases)) {
            record(directory, &Answer::read(&answer).unwrap());
        }
    }
    for (directory, case) in directories.iter().zip(&cases) {
        let (ours, flux) = (case::own(case), recorded(directory));
        let name = directory.file_name().unwrap().to_string_lossy();
        assert!(ours.agrees(&flux), "{name}\nflux {flux:#?}\nours {ours:#?}");
        assert_eq!(name.starts_with("refused-"), matches!(flux, Answer::Refused(_)), "{name} has the wrong name");
    }
}
