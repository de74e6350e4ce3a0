//! What is read on the operator's machine: flags say it, the repository does not.

use std::process::Command;

use crate::support::{Fleet, stepgate};

fn with_policy(line: &str) -> Fleet {
    with_policy_of(Fleet::pending(), line)
}

fn with_policy_of_settled(line: &str) -> Fleet {
    with_policy_of(Fleet::settled(), line)
}

fn with_policy_of(fleet: Fleet, line: &str) -> Fleet {
    let policy = fleet.text("main", "stepgate.yaml") + line;
    fleet.write("main", "stepgate.yaml", policy.as_bytes());
    fleet
}

#[test]
fn paths_in_the_policy_are_errors_with_their_line_and_the_way_out() {
    for (line, told) in [
        ("mirrors: [/etc]\n", ["is not a valid name of a mirror", "--mirror etc=/etc"]),
        ("mirrors: [central, ../../x]\n", ["is not a valid name of a mirror", "STEPGATE_MIRROR"]),
        ("signing: {key: /etc/key}\n", ["signing.key names a key of Stepgate's machine", "--signing-key FILE"]),
    ] {
        let fleet = with_policy(line);
        let number = fleet.text("main", "stepgate.yaml").lines().count();
        let check = fleet.run(&["check"]);
        assert_eq!(check.code, 2, "{line}: {}", check.text());
        assert!(check.stdout.contains(&format!("stepgate.yaml:{number}:")), "{line}: {}", check.stdout);
        assert!(told.iter().all(|part| check.stdout.contains(part)), "{line}: {}", check.stdout);
        let run = fleet.run(&["run", "--once"]);
        assert!(run.code != 0 && run.text().contains(told[0]), "{line}: {}", run.text());
    }
}

#[test]
fn a_mirror_that_the_policy_names_is_the_one_that_the_operator_has_defined() {
    let fleet = with_policy("mirrors: [central]\n");
    let (place, mirror) = (fleet.place(), fleet.folder().join("mirror"));
    let plan = |arguments: &[&str]| {
        stepgate(&[&["plan", "--cluster", "mgmt", "-o", "json", "--repo", &place][..], arguments].concat())
    };
    let unnamed = plan(&["--mirror", mirror.to_str().unwrap()]);
    let named = plan(&["--mirror", &format!("central={}", mirror.display())]);
    assert_eq!(named.json()["clusters"][0]["rolloutId"], unnamed.json()["clusters"][0]["rolloutId"]);
    for other in [&[][..], &["--mirror", &format!("other={}", mirror.display())]] {
        let run = plan(other);
        assert!(run.text().contains("--mirror central=DIR"), "{}", run.text());
        let check = stepgate(&[&["check", "--repo", &place][..], other].concat());
        assert!(check.code == 0 && check.stdout.contains("the mirror central, which is not defined here"), "{check:?}");
    }
}

#[test]
fn commits_are_signed_by_the_operator_s_key_or_not_made() {
    let fleet = with_policy_of_settled("approval: stage\n");
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    fleet.demo();
    let policy = fleet.text("main", "stepgate.yaml") + "signing: {format: ssh}\n";
    fleet.write("main", "stepgate.yaml", policy.as_bytes());
    let key = fleet.folder().join("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status().unwrap();
    assert!(made.success());
    let branches = || {
        let branches = fleet.repository.branches(None).unwrap();
        branches.map(|branch| branch.unwrap().0.get().target()).collect::<Vec<_>>()
    };
    let reject = |signing: &[&str]| {
        let verb = ["reject", "mgmt", "--reason", "freeze", "--yes", "--as", "A Person <person@example.com>"];
        fleet.run(&[&verb[..], signing].concat())
    };
    let before = branches();
    for (signing, told) in [
        (&[][..], "Stepgate has no key"),
        (&["--signing-key", "gpg:somebody"], "Stepgate's key has the other one"),
        (&["--signing-key", "/nonexistent/key"], "cannot read the key /nonexistent/key"),
    ] {
        let run = reject(signing);
        assert!(run.code == 2 && run.stderr.contains(told), "{}", run.text());
        assert_eq!(branches(), before);
    }
    let run = reject(&["--signing-key", key.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.text());
    let new = branches().into_iter().flatten().find(|head| !before.contains(&Some(*head))).unwrap();
    assert!(fleet.repository.extract_signature(&new, None).is_ok());
}

#[test]
fn a_pipe_in_the_place_of_a_file_holds_nothing_up() {
    let fleet = Fleet::settled();
    let pipe = fleet.folder().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    for verb in [
        &["why", "mgmt", "--kubeconfig", pipe][..],
        &["run", "--once", "--kubeconfig", pipe],
        &["bundle", "show", pipe],
        &["gate", "replay", pipe, "--kubernetes-version", "1.35"],
    ] {
        // Whoever waits for the other end waits for ever.
        let run = if verb[0] == "bundle" || verb[0] == "gate" { stepgate(verb) } else { fleet.run(verb) };
        assert_eq!(run.code, 2, "{verb:?}: {}", run.text());
    }
}
