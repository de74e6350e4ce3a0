//! Readers of what a fleet repository holds.

use std::collections::BTreeMap;
use std::path::Path;

use fuzz::{files_below, fuzz, packed, unpacked};

use domain::RepoPath;

use crate::variables::{substitute, variables};
use crate::{MemoryFiles, edit, read_fleet};

/// The fleets of the fixtures that are small, each as one text.
fn fleets() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/fleets");
    let mut fleets: BTreeMap<String, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    for (path, text) in files_below(&folder) {
        let Some((fleet, file)) = path.split_once("/before/") else { continue };
        fleets.entry(fleet.to_owned()).or_default().insert(file.to_owned(), text);
    }
    fleets.values().map(packed).filter(|text| text.len() < 20_000).collect()
}

#[test]
fn fuzzed_fleets_are_read_and_what_is_wrong_is_told() {
    fuzz("fleet", fleets(), |input| {
        let files = unpacked(input).into_iter().filter_map(|(path, text)| Some((RepoPath::new(&path).ok()?, text)));
        let files: MemoryFiles = files.collect();
        let (one, two) = (read_fleet(&files), read_fleet(&files));
        if one.problems.iter().any(|problem| problem.message.is_empty()) {
            return Err("a problem without a message".to_owned());
        }
        if one.problems == two.problems { Ok(()) } else { Err("told otherwise when it is read again".to_owned()) }
    });
}

#[test]
fn fuzzed_templates_leave_no_variable_behind() {
    let seed = "a: ${NAME}\nb: ${SIZE:=3}\nc: $${NOT}\nd: ${OTHER:-${NAME}}\ne: ${NAME//a/b}\n";
    fuzz("variables", [seed.as_bytes().to_vec()], |input| {
        let source = String::from_utf8_lossy(input);
        let Ok(found) = variables(&source) else { return Ok(()) };
        let values: BTreeMap<String, String> = found.into_iter().map(|found| (found.name, "1".to_owned())).collect();
        match substitute(&source, &values) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("with a value for each: {error}")),
        }
    });
}

#[test]
fn fuzzed_files_hold_the_value_that_was_set() {
    let seed = "# why\nspec:\n  version: \"v1.34.0\" # now\n  list: [a, {b: c}]\n---\nspec: {version: 'x'}\n";
    fuzz("edit", [seed.as_bytes().to_vec()], |input| {
        let source = String::from_utf8_lossy(input);
        let Ok(edited) = edit::set(&source, 0, &["spec", "version"], "v1.35.0") else { return Ok(()) };
        let read = yaml::parse(&edited, &yaml::Limits::default()).map_err(|error| format!("{error}\n{edited}"))?;
        let value =
            read.first().and_then(|document| document.root.at(&["spec", "version"])).and_then(yaml::Node::scalar_text);
        if value.as_deref() == Some("v1.35.0") { Ok(()) } else { Err(format!("{value:?} is in\n{edited}")) }
    });
}
