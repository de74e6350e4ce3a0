//! What is secret in a fleet is in no output of any verb: `fixtures/fleets/secrets` has a word wherever a secret may stand.

use git2::Repository;

use crate::fleets::{below, commit, fleets};
use crate::support::{stepgate, support_bundle};

/// The word, and its base64 with and without an end of line.
const CANARY: [&str; 3] = ["kanarienvogel", "a2FuYXJpZW52b2dl", "S2FuYXJpZW52b2dl"];

const VERBS: [&[&str]; 9] = [
    &["check"],
    &["adopt"],
    &["plan"],
    &["diff"],
    &["diff", "shop"],
    &["status"],
    &["why", "shop"],
    &["why", "remote"],
    &["history"],
];

/// Runs every verb in every form, at every level of the log.
fn shown(place: &str) -> Vec<String> {
    let forms: [&[&str]; 4] = [&[], &["-o", "json"], &["-o", "yaml"], &["--log-level", "trace"]];
    let runs = VERBS.iter().flat_map(|verb| forms.iter().map(|form| [*verb, form, &["--repo", place]].concat()));
    let outputs = runs.map(|arguments| (arguments.join(" "), stepgate(&arguments).text()));
    let lines = outputs.flat_map(|(run, text)| {
        let hits = text.lines().filter(|line| CANARY.iter().any(|canary| line.contains(canary)));
        hits.map(|line| format!("{run}: {line}")).collect::<Vec<_>>()
    });
    lines.collect()
}

#[test]
fn no_verb_shows_what_is_secret() {
    let fleet = fleets().join("secrets");
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init_bare(folder.path()).unwrap();
    repository.set_head("refs/heads/main").unwrap();
    let place = folder.path().to_str().unwrap();
    let before = below(&fleet.join("before"));
    let holds = |bytes: &Vec<u8>| CANARY.iter().any(|canary| String::from_utf8_lossy(bytes).contains(canary));
    assert!(before.values().filter(|bytes| holds(bytes)).count() > 4, "the fleet holds its word");
    commit(&repository, &before, &[], "What runs");
    assert_eq!(shown(place), [""; 0]);
    let adopted = stepgate(&["adopt", "--yes", "--as-declared", "--repo", place]);
    assert!(adopted.stdout.contains("shop: recorded"), "{adopted:?}");
    commit(&repository, &below(&fleet.join("after")), &[], "What is wanted");
    assert_eq!(shown(place), [""; 0]);
    let files = support_bundle(|arguments| stepgate(&[arguments, &["--repo", place]].concat()));
    assert!(files.contains_key("clusters/shop/plan.json"), "{:?}", files.keys());
    let hits = files.iter().filter(|(_, text)| CANARY.iter().any(|canary| text.contains(canary)));
    assert_eq!(hits.collect::<Vec<_>>(), []);
}
