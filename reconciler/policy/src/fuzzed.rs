//! Readers of what a fleet repository says of its rules.

use std::path::Path;

use fuzz::{Verdict, files_below, fuzz};

use crate::{Owners, OwnersDialect, parse_duration, read_notes, read_policy};

/// The policies of all fleets of the fixtures, and each as JSON, whose values are changed one by one.
fn policies() -> Vec<Vec<u8>> {
    let fleets = files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fleets"));
    let texts: Vec<_> =
        fleets.into_iter().filter(|(path, _)| path.ends_with("/stepgate.yaml")).map(|(_, text)| text).collect();
    let json: Vec<_> = texts.iter().filter_map(|text| as_json(text)).collect();
    texts.into_iter().chain(json).collect()
}

fn as_json(text: &[u8]) -> Option<Vec<u8>> {
    let documents = yaml::parse(std::str::from_utf8(text).ok()?, &yaml::Limits::default()).ok()?;
    Some(yaml::json::to_json(&documents.first()?.root).into_bytes())
}

/// Every problem is told, and of the same text the same is told twice.
fn told(read: impl Fn() -> Vec<String>) -> Verdict {
    let problems = read();
    if problems.iter().any(String::is_empty) {
        return Err("a problem without a message".to_owned());
    }
    if problems == read() { Ok(()) } else { Err("told otherwise when it is read again".to_owned()) }
}

#[test]
fn fuzzed_policies_are_read_or_their_problems_told() {
    let path = "stepgate.yaml".parse().unwrap();
    fuzz("policy", policies(), |input| {
        told(|| read_policy(&path, input).1.into_iter().map(|problem| problem.message).collect())
    });
}

#[test]
fn fuzzed_notes_are_read_or_their_problems_told() {
    let path = "notes.yaml".parse().unwrap();
    let notes = br#"[{"component": "cilium", "versions": ">=1.18", "kind": "breaking", "text": "Policies are strict",
        "source": "https://a.example/notes", "date": "2026-05-01"}]"#;
    fuzz("notes", [notes.to_vec()], |input| {
        told(|| read_notes(&path, input).1.into_iter().map(|problem| problem.message).collect())
    });
}

#[test]
fn fuzzed_owners_are_read_or_their_line_told() {
    let owners = "* @platform\n/clusters/prod/ @alice @bob\n[Docs][2] @docs\n*.md\n^[Optional] @c\n/clusters/*/node?.yaml a@example.com # why\n";
    let expression = "clusters/prod/.* @alice\n!clusters/.* @bob\n";
    fuzz("owners", [owners, expression].map(|text| text.as_bytes().to_vec()), |input| {
        let text = String::from_utf8_lossy(input);
        for dialect in [OwnersDialect::GitHub, OwnersDialect::GitLab, OwnersDialect::Gitea] {
            match Owners::read(&text, dialect) {
                Err(error) if error.line == 0 || error.line > text.lines().count() => {
                    return Err(format!("line {} is not there", error.line));
                }
                Err(error) if error.reason.is_empty() => return Err("an error without a reason".to_owned()),
                _ => {}
            }
        }
        Ok(())
    });
}

#[test]
fn fuzzed_durations_are_read_or_refused() {
    fuzz("duration", ["1h30m", "90s", "2d", "1w 3d"].map(|text| text.as_bytes().to_vec()), |input| {
        let read = parse_duration(&String::from_utf8_lossy(input));
        match read {
            Err(error) if error.to_string().is_empty() => Err("an error without a message".to_owned()),
            _ => Ok(()),
        }
    });
}
