//! Wherever a secret may stand, there is one: in the files of a fleet, in variables, in files of the machine. No eight bytes of any of them
//! are in what the program writes, as they are, in base64 or as hexadecimal digits.

mod places;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::TreeDigest;
use git2::Repository;

use crate::fleets::commit;
use crate::support::{Run, stepgate_with, support_bundle};
use places::{fleet, machine};

/// Secrets by the place where each stands.
#[derive(Default)]
struct Secrets(RefCell<BTreeMap<&'static str, String>>);

impl Secrets {
    /// The secret of a place: 24 letters that are nowhere else.
    fn at(&self, place: &'static str) -> String {
        let digest = TreeDigest::of([place.as_bytes()]);
        let letters =
            digest.as_str().bytes().rev().map(|digit| char::from(digit % 10 + if digit < b'a' { b'k' } else { b'M' }));
        let secret: String = letters.take(24).collect();
        let known = self.0.borrow_mut().insert(place, secret.clone());
        assert!(known.is_none_or(|known| known == secret), "{place} is named twice");
        secret
    }

    fn base64(&self, place: &'static str) -> String {
        STANDARD.encode(self.at(place))
    }

    /// Every eight bytes by which one of them can be known, and its place.
    fn windows(&self) -> HashMap<Vec<u8>, &'static str> {
        let mut windows = HashMap::new();
        for (place, secret) in &*self.0.borrow() {
            let hexadecimal: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
            let mut forms = vec![secret.clone(), hexadecimal.clone(), hexadecimal.to_uppercase()];
            // Behind no, one or two other bytes; the first and the last characters may be of those.
            for before in ["", "x", "xy"] {
                let text = STANDARD.encode(format!("{before}{secret}xyz"));
                forms.push(text[4..text.len() - 8].to_owned());
            }
            for form in forms {
                windows.extend(form.as_bytes().windows(8).map(|window| (window.to_vec(), *place)));
            }
        }
        windows
    }
}

/// The places of all the secrets that a text shows, with the line.
fn shown(windows: &HashMap<Vec<u8>, &'static str>, from: &str, text: &str) -> Vec<String> {
    let hit = |line: &&str| line.as_bytes().windows(8).find_map(|window| windows.get(window));
    text.lines().filter_map(|line| hit(&line).map(|place| format!("{from} shows {place}: {line}"))).collect()
}

const VERBS: [&[&str]; 19] = [
    &["check"],
    &["check", "--online"],
    &["adopt"],
    &["plan"],
    &["diff"],
    &["diff", "--unified"],
    &["diff", "main~1..main"],
    &["status"],
    &["why", "shop"],
    &["why", "made"],
    &["why", "remote"],
    &["why", "values"],
    &["history"],
    &["events"],
    &["show", "main"],
    &["approve", "shop"],
    &["rollback", "shop"],
    &["run", "--once", "--listen", "off"],
    &["bundle", "bump"],
];

#[test]
fn no_eight_bytes_of_a_secret_are_in_any_output() {
    let secrets = Secrets::default();
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let repository = Repository::init_bare(folder.path()).unwrap();
    repository.set_head("refs/heads/main").unwrap();
    let place = folder.path().to_str().unwrap();
    let variables = machine(&secrets, home.path());
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let run = |arguments: &[&str]| stepgate_with(&[arguments, &["--repo", place]].concat(), &variables);
    let (mut written, mut hits) = (0, Vec::new());
    let mut look = |arguments: &[&str], run: &Run| {
        written += run.text().len();
        hits.extend(shown(&secrets.windows(), &arguments.join(" "), &run.text()));
    };
    let forms: [&[&str]; 4] = [&[], &["-o", "json"], &["-o", "yaml"], &["--log-level", "trace"]];

    commit(&repository, &fleet(&secrets, "v1.32.4", |[before, _]| before), &[], "What runs");
    let adopt = ["adopt", "shop", "made", "--yes", "--as-declared", "--log-level", "trace"];
    let elsewhere: Vec<_> = variables.iter().copied().filter(|(name, _)| *name != "STEPGATE_KUBECONFIG").collect();
    let adopted = stepgate_with(&[&adopt[..], &["--repo", place]].concat(), &elsewhere);
    assert!(adopted.stdout.contains("shop: recorded") && adopted.stdout.contains("made: recorded"), "{adopted:?}");
    look(&adopt, &adopted);
    commit(&repository, &fleet(&secrets, "v1.33.1", |[_, after]| after), &[], "What is wanted");
    for (verb, form) in VERBS.iter().flat_map(|verb| forms.iter().map(move |form| (verb, form))) {
        let arguments = [verb, *form].concat();
        look(&arguments, &run(&arguments));
    }
    // Other ways to log in.
    for number in 1..5 {
        let kubeconfig = home.path().join(format!("kubeconfig-{number}"));
        let login = [("STEPGATE_KUBECONFIG", kubeconfig.to_str().unwrap())];
        for verb in [&["why", "shop"][..], &["status"], &["run", "--once", "--listen", "off"]] {
            let arguments = [verb, &["--log-level", "trace", "--repo", place]].concat();
            look(&arguments, &stepgate_with(&arguments, &[&elsewhere[..], &login].concat()));
        }
    }
    // Addresses that nobody answers at.
    for (place, name) in [("repository", "https"), ("repository over SSH", "ssh")] {
        let address = format!("{name}://user:{}@127.0.0.1:1/fleet.git", secrets.at(place));
        for verb in ["check", "plan", "run"] {
            let arguments = [verb, "--repo", &address, "--log-level", "trace"];
            let arguments = if verb == "run" {
                [&arguments[..], &["--once", "--listen", "off"]].concat()
            } else {
                arguments.to_vec()
            };
            look(&arguments, &stepgate_with(&arguments, &variables));
        }
    }
    let bundle = |arguments: &[&str]| stepgate_with(&[arguments, &["--repo", place]].concat(), &elsewhere);
    for (path, text) in support_bundle(bundle) {
        written += text.len();
        hits.extend(shown(&secrets.windows(), &format!("support bundle {path}"), &text));
    }
    // What Stepgate has written to git beside the files themselves.
    let mut walk = repository.revwalk().unwrap();
    walk.push_ref("refs/heads/deploy").unwrap();
    for id in walk.map(Result::unwrap) {
        let commit = repository.find_commit(id).unwrap();
        hits.extend(shown(&secrets.windows(), "a commit", commit.message().unwrap()));
        for ledger in ["clusters/shop/rollout.yaml", "clusters/made/rollout.yaml"] {
            let Ok(entry) = commit.tree().unwrap().get_path(Path::new(ledger)) else { continue };
            let blob = repository.find_blob(entry.id()).unwrap();
            hits.extend(shown(&secrets.windows(), ledger, std::str::from_utf8(blob.content()).unwrap()));
        }
    }
    let count = secrets.0.borrow().len();
    println!("{count} secrets, {written} bytes written");
    assert!(count >= 60, "{count} secrets");
    assert_eq!(hits, [""; 0]);
}
