//! A deploy branch that is not there: it is named with its last commit and the push that brings it back, and nobody is sent to `adopt`, which
//! would put everything that is left of a rollout onto the deploy branch at once.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Fleet, Run, stepgate_with};

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=A Person", "-c", "user.email=person@example.com"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Deletes the deploy branch as `git push origin :deploy` does, and says where it was.
fn delete(fleet: &Fleet) -> String {
    let head = fleet.head("deploy").unwrap().to_string();
    fleet.repository.find_reference("refs/heads/deploy").unwrap().delete().unwrap();
    head
}

/// Runs a verb on a repository, with the fleet's mirror and a cache of its own.
fn run(fleet: &Fleet, repository: &str, arguments: &[&str]) -> Run {
    let (mirror, cache) = (fleet.folder().join("mirror"), fleet.folder().join("cache"));
    let arguments = [arguments, &["--repo", repository, "--mirror", mirror.to_str().unwrap()]].concat();
    stepgate_with(&arguments, &[("XDG_CACHE_HOME", cache.to_str().unwrap())])
}

/// Message and help of the block that the plan of `mgmt` has first, with its code.
#[track_caller]
fn blocked(fleet: &Fleet, repository: &str, code: &str) -> (String, String) {
    let plan = run(fleet, repository, &["plan", "-o", "json"]);
    assert_eq!(plan.code, 3, "{}", plan.text());
    let block = plan.json()["clusters"][0]["blocked"][0].clone();
    assert_eq!(block["code"], code, "{block}");
    let text = |name: &str| block[name].as_str().unwrap().to_owned();
    let (message, help) = (text("message"), text("help"));
    // Every verb that reports says the same.
    let why = run(fleet, repository, &["why", "mgmt"]);
    assert_eq!(why.code, 3, "{}", why.text());
    let status = run(fleet, repository, &["status"]);
    assert!(why.stdout.contains(&message) && why.stdout.contains(&help), "{}", why.stdout);
    assert!(status.stdout.contains(&message), "{}", status.stdout);
    (message, help)
}

/// Neither dry nor with `--yes` anything is recorded.
#[track_caller]
fn refuses_to_adopt(fleet: &Fleet, repository: &str, told: &str) {
    for yes in [&[][..], &["--yes"]] {
        let adopt = run(fleet, repository, &[&["adopt", "mgmt"][..], yes].concat());
        assert_eq!((adopt.code, adopt.stdout.as_str()), (2, ""), "{}", adopt.text());
        assert!(adopt.stderr.contains(told) && adopt.stderr.contains("hint: "), "{}", adopt.stderr);
        assert!(!adopt.stderr.contains("stepgate adopt"), "{}", adopt.stderr);
    }
}

/// The first command of the help that begins with these words.
fn command(help: &str, start: &str) -> String {
    help.split('`').find(|part| part.starts_with(start)).unwrap_or_else(|| panic!("{help}")).to_owned()
}

fn shell(folder: &Path, command: &str) {
    let output = Command::new("sh").current_dir(folder).args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

fn clone(fleet: &Fleet, arguments: &[&str]) -> PathBuf {
    let clone = fleet.folder().join("our clone");
    git(fleet.folder(), &[&["clone", "-q"][..], arguments, &[&fleet.place(), clone.to_str().unwrap()]].concat());
    clone
}

#[test]
fn a_branch_that_is_gone_from_the_remote_is_named_and_the_printed_push_brings_it_back() {
    let fleet = Fleet::settled();
    let url = format!("file://{}", fleet.place());
    assert_eq!(run(&fleet, &url, &["status", "--exit-code"]).code, 0);
    let head = delete(&fleet);
    let (message, help) = blocked(&fleet, &url, "lost-deploy-branch");
    assert!(message.contains(&head) && message.contains(&url), "{message}");
    refuses_to_adopt(&fleet, &url, &head);
    assert_eq!(fleet.head("deploy"), None);
    assert_eq!(run(&fleet, &url, &["run", "--once"]).code, 3);
    shell(fleet.folder(), &command(&help, "git "));
    assert_eq!(fleet.head("deploy").unwrap().to_string(), head);
    assert_eq!(run(&fleet, &url, &["status", "--exit-code"]).code, 0);
}

#[test]
fn a_clone_that_only_follows_the_deploy_branch_is_told_of_the_repository() {
    let fleet = Fleet::settled();
    let head = fleet.head("deploy").unwrap().to_string();
    let clone = clone(&fleet, &[]);
    let place = clone.to_str().unwrap();
    let (message, help) = blocked(&fleet, place, "clone-without-deploy-branch");
    assert!(message.contains("origin/deploy") && message.contains(&head), "{message}");
    let repository = command(&help, "--repo ");
    refuses_to_adopt(&fleet, place, "origin/deploy");
    assert_eq!(run(&fleet, repository.trim_start_matches("--repo "), &["status", "--exit-code"]).code, 0);
}

#[test]
fn a_clone_of_one_branch_asks_what_it_is_of_before_it_records() {
    let fleet = Fleet::settled();
    let clone = clone(&fleet, &["--single-branch", "-b", "main"]);
    let place = clone.to_str().unwrap();
    let (_, help) = blocked(&fleet, place, "not-adopted");
    assert!(help.contains(&format!("--repo {}", fleet.place())), "{help}");
    for yes in [&[][..], &["--yes"]] {
        let adopt = run(&fleet, place, &[&["adopt", "mgmt"][..], yes].concat());
        assert_eq!((adopt.code, adopt.stdout.as_str()), (2, ""), "{}", adopt.text());
        assert!(adopt.stderr.contains("origin/deploy"), "{}", adopt.stderr);
    }
    let made = git(&clone, &["branch", "--list", "deploy"]);
    assert_eq!(made, "");
}

#[test]
fn the_logs_of_git_tell_of_a_branch_that_was_checked_out() {
    let fleet = Fleet::settled();
    let clone = clone(&fleet, &[]);
    let head = fleet.head("deploy").unwrap().to_string();
    git(&clone, &["checkout", "-q", "deploy"]);
    git(&clone, &["checkout", "-q", "main"]);
    git(&clone, &["branch", "-q", "-D", "deploy"]);
    git(&clone, &["remote", "remove", "origin"]);
    let place = clone.to_str().unwrap();
    let (message, help) = blocked(&fleet, place, "lost-deploy-branch");
    assert!(message.contains(&head) && message.contains("HEAD"), "{message}");
    refuses_to_adopt(&fleet, place, &head);
    shell(fleet.folder(), &command(&help, "git "));
    assert_eq!(git(&clone, &["rev-parse", "deploy"]), head);
}

#[test]
fn a_branch_that_never_held_a_ledger_is_no_lost_one() {
    let fleet = Fleet::settled();
    let clone = clone(&fleet, &[]);
    delete(&fleet);
    git(&clone, &["remote", "remove", "origin"]);
    git(&clone, &["checkout", "-q", "-b", "deploy"]);
    git(&clone, &["checkout", "-q", "main"]);
    git(&clone, &["branch", "-q", "-D", "deploy"]);
    let place = clone.to_str().unwrap();
    let (message, _) = blocked(&fleet, place, "not-adopted");
    assert!(message.contains("there is no branch deploy"), "{message}");
    // Whether the record would be true nobody can tell from here.
    let refused = run(&fleet, place, &["adopt", "--yes"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.text());
    assert!(refused.stderr.contains("the cluster does not answer"), "{}", refused.stderr);
    assert!(refused.stderr.contains("`--as-declared` records it all the same"), "{}", refused.stderr);
    let adopt = run(&fleet, place, &["adopt", "--yes", "--as-declared"]);
    assert_eq!(adopt.code, 0, "{}", adopt.text());
    let ledger = git(&clone, &["show", "deploy:clusters/mgmt/rollout.yaml"]);
    assert!(ledger.contains("since the cluster did not answer"), "{ledger}");
    assert!(adopt.stdout.contains("recorded what the source branch says"), "{}", adopt.stdout);
    assert!(adopt.stderr.contains("nothing was compared with what runs"), "{}", adopt.stderr);
}

#[test]
fn a_ledger_that_somebody_took_away_is_brought_back_by_a_revert() {
    let fleet = Fleet::pending();
    let clone = clone(&fleet, &["-b", "deploy"]);
    for (what, paths) in [("ledger", &["clusters/mgmt/rollout.yaml"][..]), ("cluster", &["clusters/mgmt", "flux/mgmt"])]
    {
        git(&clone, &[&["rm", "-q", "-r"][..], paths].concat());
        git(&clone, &["commit", "-q", "-m", "Tidy up"]);
        git(&clone, &["push", "-q", "origin", "deploy"]);
        let removal = fleet.head("deploy").unwrap().to_string();
        let (message, help) = blocked(&fleet, &fleet.place(), "removed-ledger");
        assert!(message.contains(&removal) && message.contains("A Person"), "{what}: {message}");
        refuses_to_adopt(&fleet, &fleet.place(), &removal);
        // The other clusters are as they were.
        let status = run(&fleet, &fleet.place(), &["status", "-o", "json"]).json();
        assert_eq!(status["clusters"][1]["state"], "waiting", "{status}");
        git(&clone, &["revert", "--no-edit", command(&help, "git revert ").trim_start_matches("git revert ")]);
        git(&clone, &["push", "-q", "origin", "deploy"]);
        let status = run(&fleet, &fleet.place(), &["status", "-o", "json"]).json();
        assert_eq!(status["clusters"][0]["state"], "waiting", "{what}: {status}");
    }
}

/// A push that moves the deploy branch or path counts once both policies agree; until then the record is where it was.
#[test]
fn a_policy_that_names_another_place_makes_no_new_record_there() {
    for place in ["  branch: rollouts\n", "  branch: deploy\n  path: rendered\n"] {
        let fleet = Fleet::pending();
        let head = fleet.head("deploy");
        fleet.replace("stepgate.yaml", "  branch: deploy\n", place);
        let plan = run(&fleet, &fleet.place(), &["plan"]);
        assert_eq!(plan.code, 3, "{}", plan.text());
        assert!(
            plan.stdout.contains("policy-unconfirmed") && !plan.stdout.contains("stepgate adopt"),
            "{}",
            plan.stdout
        );
        let adopt = run(&fleet, &fleet.place(), &["adopt", "--yes"]);
        assert_eq!(adopt.stdout.matches("has a ledger already").count(), 3, "{}", adopt.text());
        assert_eq!((fleet.head("deploy"), fleet.head("rollouts")), (head, None));
    }
}

#[test]
fn a_clone_whose_branch_is_behind_says_so_and_records_nothing() {
    let fleet = Fleet::pending();
    let clone = clone(&fleet, &[]);
    let place = clone.to_str().unwrap();
    // The branch before anything was recorded on it.
    let first = git(&clone, &["rev-list", "--max-parents=0", "origin/deploy"]);
    git(&clone, &["branch", "-q", "--no-track", "deploy", &first]);
    for cluster in ["team-a", "team-b"] {
        let refused = run(&fleet, place, &["adopt", cluster, "--yes"]);
        assert_eq!(refused.code, 2, "{}", refused.text());
        assert!(
            refused.stderr.contains("behind origin/deploy") && refused.stderr.contains("--repo "),
            "{}",
            refused.stderr
        );
    }
    let status = run(&fleet, place, &["status"]);
    assert!(
        status.stderr.contains("this is a clone, whose branch deploy is not at origin/deploy"),
        "{}",
        status.stderr
    );
    assert_eq!(git(&clone, &["rev-parse", "deploy"]), first);
}

#[test]
fn whoever_took_a_record_away_on_purpose_may_say_so_by_that_commit_alone() {
    let fleet = Fleet::pending();
    let clone = clone(&fleet, &["-b", "deploy"]);
    git(&clone, &["rm", "-q", "-r", "clusters/mgmt", "flux/mgmt"]);
    git(&clone, &["commit", "-q", "-m", "Take the cluster down"]);
    git(&clone, &["push", "-q", "origin", "deploy"]);
    let removal = fleet.head("deploy").unwrap().to_string();
    let adopt =
        |commit: &str| run(&fleet, &fleet.place(), &["adopt", "mgmt", "--yes", "--as-declared", "--abandon", commit]);
    assert_eq!(adopt(&"1".repeat(40)).code, 2);
    assert_eq!(fleet.head("deploy").unwrap().to_string(), removal);
    let adopted = adopt(&removal);
    assert_eq!(adopted.code, 0, "{}", adopted.text());
    assert_ne!(fleet.head("deploy").unwrap().to_string(), removal);
}
