//! Commits are signed by a key of whoever runs Stepgate. A push changes neither that they are
//! signed nor the name on them before that is confirmed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use domain::CommitId;
use git::Signing;
use stepgate::reconcile::{ClusterOutcome, Controller};

use crate::approvals::{Git, OVERLAY};
use crate::fleet::{Fleet, assert_no_stage_twice, outcome, told};

const POLICY: &str = "stepgate.yaml";

/// Under whose name the demo's fleet is deployed.
const AUTHOR: &str = "  name: Stepgate\n  email: stepgate@example.com\n";
const OTHER: &str = "  name: Mallory\n  email: mallory@example.com\n";

const SSH: &str = "signing: {format: ssh}\n";
const GPG: &str = "signing: {format: gpg}\n";

/// What programs that sign find their keys in.
struct Keys(tempfile::TempDir);

impl Keys {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn ssh(&self) -> Signing {
        let key = self.file("key");
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status().unwrap();
        assert!(made.success());
        let public = std::fs::read_to_string(self.file("key.pub")).unwrap();
        std::fs::write(self.file("allowed"), format!("* namespaces=\"git\" {public}")).unwrap();
        Signing::Ssh { key, program: "ssh-keygen".into() }
    }

    fn gpg(&self) -> Signing {
        use std::os::unix::fs::PermissionsExt as _;
        let (home, program) = (self.file("gnupg"), self.file("gpg"));
        std::fs::create_dir(&home).unwrap();
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
        let made = Command::new("gpg")
            .args(["--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "stepgate@example.com", "ed25519"])
            .arg("sign")
            .env("GNUPGHOME", &home)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::write(&program, format!("#!/bin/sh\nGNUPGHOME='{}' exec gpg \"$@\"\n", home.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Signing::OpenPgp { key: "stepgate@example.com".to_owned(), program }
    }

    /// Who is named by a commit whose signature git finds to be of one of these keys.
    fn verified(&self, repository: &Path, commit: &CommitId) -> String {
        let settings = [
            format!("gpg.ssh.allowedSignersFile={}", self.file("allowed").display()),
            format!("gpg.program={}", self.file("gpg").display()),
        ];
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(repository);
            git.args(settings.iter().flat_map(|setting| ["-c", setting]));
            let output = git.args(arguments).arg(commit.as_str()).output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        git(&["verify-commit"]);
        git(&["log", "-1", "--format=%an"])
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // The agent of a key goes with it.
        let _ = Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", self.file("gnupg")).output();
    }
}

fn controller(fleet: &Fleet, signing: &Signing, trusted: Option<&CommitId>) -> Controller {
    let planner = fleet.planner().with_signing(signing.clone()).trusting(trusted.cloned());
    Controller::new(planner, Arc::clone(&fleet.simulated) as Arc<_>, Arc::new(fleet.clock.clone()), 4)
}

/// Somebody pushes another policy together with what it is to let through.
fn push(fleet: &Fleet, policy: impl FnOnce(String) -> String) -> CommitId {
    let main = "main".parse().unwrap();
    let overlay = fleet.read(&main, OVERLAY).unwrap();
    let old = overlay.lines().find_map(|line| Some(line.split_once("value: ")?.1)).unwrap().to_owned();
    let overlay = overlay.replacen(&old, &format!("{old}-next"), 1);
    let policy = policy(fleet.read(&main, POLICY).unwrap());
    fleet.push(&BTreeMap::from([(OVERLAY.to_owned(), overlay.into_bytes()), (POLICY.to_owned(), policy.into_bytes())]))
}

/// Nothing is committed or proposed, and the way out is said.
#[track_caller]
fn is_blocked(fleet: &Fleet, controller: &Controller, said: &str, newest: &CommitId) {
    let (git, head) = (Git::of(fleet), fleet.head());
    for _ in 0..3 {
        let pass = fleet.pass(controller);
        let ClusterOutcome::Blocked { reasons } = outcome(&pass, "mgmt") else { panic!("{said}: {}", told(&pass)) };
        let [reason] = reasons.as_slice() else { panic!("{reasons:?}") };
        assert!(reason.message.starts_with(said), "{reason:?}");
        assert!(reason.help.contains(&format!("--trust-policy {newest}")), "{reason:?}");
        fleet.wait(None);
    }
    assert_eq!((fleet.head(), git.proposed()), (head, Vec::new()), "{said}");
}

/// Nothing is committed, since there is no such key.
#[track_caller]
fn fails(fleet: &Fleet, controller: &Controller, said: &str) {
    let head = fleet.head();
    let failed =
        |pass: &stepgate::reconcile::ReconcileReport| matches!(outcome(pass, "mgmt"), ClusterOutcome::Failed { .. });
    let pass = fleet.run_until(controller, failed);
    assert!(told(&pass).contains(said), "{}", told(&pass));
    assert_eq!(fleet.head(), head);
}

/// All that was committed since `from` bears a signature that git finds good, and this name.
#[track_caller]
fn assert_signed(fleet: &Fleet, keys: &Keys, from: usize, name: &str) {
    let history = fleet.history("mgmt");
    assert!(history.len() > from, "nothing was committed");
    for entry in &history[from..] {
        assert_eq!(keys.verified(fleet.repository.folder(), &entry.commit), name);
    }
}

#[test]
fn a_push_changes_neither_signature_nor_name_unconfirmed() {
    let (fleet, keys) = (Fleet::new(), Keys::new());
    let (ssh, gpg) = (keys.ssh(), keys.gpg());
    let signing = controller(&fleet, &ssh, None);
    // Whoever asks for signatures gets them, or nothing.
    push(&fleet, |policy| policy + SSH);
    fails(&fleet, &fleet.controller(), "Stepgate has no key");
    fails(&fleet, &controller(&fleet, &gpg, None), "Stepgate's key has the other one");
    fleet.run_to_the_end(&signing);
    assert_signed(&fleet, &keys, 0, "Stepgate");

    // To be asked for none, or for those of another key, waits for whoever runs Stepgate: with this
    // key, another one and none.
    let none = push(&fleet, |policy| policy.replace(SSH, ""));
    for controller in [&signing, &controller(&fleet, &gpg, None), &fleet.controller()] {
        is_blocked(&fleet, controller, "signing is none now and was by an SSH key", &none);
    }
    let other = push(&fleet, |policy| policy + GPG);
    for controller in [&signing, &controller(&fleet, &gpg, None), &fleet.controller()] {
        is_blocked(&fleet, controller, "signing is by a GPG key now and was by an SSH key", &other);
    }

    // So does another name, signed or not.
    let named = push(&fleet, |policy| policy.replace(GPG, SSH).replace(AUTHOR, OTHER));
    for controller in [&signing, &fleet.controller()] {
        is_blocked(&fleet, controller, "author is Mallory <mallory@example.com> now and was Stepgate", &named);
    }
    let from = fleet.history("mgmt").len();
    fleet.run_to_the_end(&controller(&fleet, &ssh, Some(&named)));
    assert_signed(&fleet, &keys, from, "Mallory");

    // Confirmed, the other key signs, and the old one does not any more.
    let other = push(&fleet, |policy| policy.replace(SSH, GPG));
    fails(&fleet, &controller(&fleet, &ssh, Some(&other)), "Stepgate's key has the other one");
    let from = fleet.history("mgmt").len();
    fleet.run_to_the_end(&controller(&fleet, &gpg, Some(&other)));
    assert_signed(&fleet, &keys, from, "Mallory");
    assert_no_stage_twice(&fleet);
}

#[test]
fn nothing_is_proposed_under_a_name_that_nobody_confirmed() {
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n");
    let keys = Keys::new();
    let signing = controller(&fleet, &keys.ssh(), None);
    let named = push(&fleet, |policy| policy.replace(AUTHOR, OTHER) + SSH);
    for controller in [&signing, &fleet.controller()] {
        is_blocked(&fleet, controller, "author is Mallory <mallory@example.com> now and was Stepgate", &named);
    }
    push(&fleet, |policy| policy.replace(OTHER, AUTHOR));
    fleet.run_until(&signing, crate::approvals::waits_for_people);
    let (_, head) = Git::of(&fleet).of_cluster("mgmt").unwrap();
    let head: CommitId = head.to_string().parse().unwrap();
    assert_eq!(keys.verified(fleet.repository.folder(), &head), "Stepgate");
}
