//! Repositories that are not as they should be: nothing is overwritten, and what is wrong is said.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Fleet, stepgate};

/// Makes the management cluster's cert-manager differ, so that there is a stage to commit.
fn change_overlay(fleet: &Fleet) {
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
}

#[test]
fn an_unborn_branch_and_a_missing_repository_are_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("empty.git");
    git2::Repository::init_bare(&place).unwrap();
    let nowhere = folder.path().join("nowhere");
    let verbs: &[&[&str]] =
        &[&["check"], &["plan"], &["status"], &["diff"], &["history"], &["why", "mgmt"], &["run", "--once"]];
    for verb in verbs {
        for (place, message) in [(&place, "main"), (&nowhere, "no git repository there")] {
            let run = stepgate(&[verb, &["--repo", place.to_str().unwrap()][..]].concat());
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{verb:?}");
            assert!(run.stderr.contains(message) && run.stderr.contains("hint: "), "{verb:?}: {}", run.stderr);
        }
    }
    assert!(!nowhere.exists(), "a verb made the folder");
}

#[test]
fn a_deleted_deploy_branch_is_told_and_not_made_anew() {
    let fleet = Fleet::settled();
    fleet.repository.find_reference("refs/heads/deploy").unwrap().delete().unwrap();
    let plan = fleet.run(&["plan", "-o", "json"]);
    assert_eq!(plan.code, 3);
    for cluster in plan.json()["clusters"].as_array().unwrap() {
        assert_eq!(cluster["blocked"][0]["code"], "not-adopted", "{cluster}");
        assert!(cluster["blocked"][0]["help"].as_str().unwrap().contains("stepgate adopt"), "{cluster}");
    }
    assert_eq!(fleet.run(&["run", "--once"]).code, 3);
    assert_eq!(fleet.head("deploy"), None);
}

#[test]
fn a_change_by_a_person_on_the_deploy_branch_is_reported_and_never_overwritten() {
    let fleet = Fleet::settled();
    let path = "clusters/mgmt/cert-manager/cert-manager.yaml";
    let text = format!("{}# by hand\n", fleet.text("deploy", path));
    fleet.write("deploy", path, text.as_bytes());
    change_overlay(&fleet);
    let head = fleet.head("deploy");
    let status = fleet.run(&["status", "--exit-code", "-o", "json"]);
    let mgmt = status.json()["clusters"][0].clone();
    assert_eq!((status.code, &mgmt["state"]), (5, &"held".into()));
    assert!(mgmt["message"].as_str().unwrap().contains("cert-manager.yaml"), "{mgmt}");
    assert_eq!(fleet.run(&["run", "--once"]).code, 5);
    // Even with a healthy cluster at hand.
    let run = fleet.demo();
    let report = run.json();
    assert_eq!((run.code, &report["complete"], &report["commits"]), (5, &false.into(), &0.into()), "{}", run.stderr);
    assert!(run.stderr.contains("cert-manager.yaml"), "{}", run.stderr);
    assert_eq!((fleet.head("deploy"), fleet.text("deploy", path)), (head, text));
}

#[test]
fn a_push_that_a_hook_rejects_is_told_and_nothing_moves() {
    let fleet = Fleet::settled();
    change_overlay(&fleet);
    let hook = fleet.folder().join("fleet.git/hooks/update");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(
        &hook,
        "#!/bin/sh\n[ \"$1\" != refs/heads/deploy ] && exit 0\necho change freeze until Monday\nexit 1\n",
    )
    .unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let head = fleet.head("deploy");
    let run = fleet.demo();
    let report = run.json();
    assert_eq!((&report["complete"], &report["commits"]), (&false.into(), &0.into()), "{}", run.stderr);
    assert!(run.code != 0 && run.stderr.contains("change freeze until Monday"), "{}", run.stderr);
    assert_eq!(fleet.head("deploy"), head);
    // The hook gone, the same stage goes through.
    std::fs::remove_file(&hook).unwrap();
    let report = fleet.demo().json();
    assert_eq!(
        (&report["complete"], &report["clusters"][0]["stages"][0]["stage"]),
        (&true.into(), &"cert-manager".into())
    );
    assert!(fleet.text("deploy", "clusters/mgmt/cert-manager/cert-manager.yaml").contains("system-node-critical"));
}

#[test]
fn a_corrupt_object_is_named_and_nothing_is_written() {
    let fleet = Fleet::pending();
    let text = format!("{}# rewritten\n", fleet.text("main", "clusters/team-b/cluster.yaml"));
    fleet.write("main", "clusters/team-b/cluster.yaml", text.as_bytes());
    let id = git2::Oid::hash_object(git2::ObjectType::Blob, text.as_bytes()).unwrap().to_string();
    let object = fleet.folder().join("fleet.git/objects").join(&id[..2]).join(&id[2..]);
    std::fs::set_permissions(&object, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(&object, "garbage").unwrap();
    let head = fleet.head("deploy");
    for verb in [&["check"][..], &["plan"], &["status"], &["run", "--once"]] {
        let run = fleet.run(verb);
        assert_eq!(run.code, 2, "{verb:?}: {}", run.text());
        let told = ["clusters/team-b/cluster.yaml", &id, "git fsck --full"];
        assert!(told.iter().all(|part| run.stderr.contains(part)), "{verb:?}: {}", run.stderr);
    }
    assert_eq!(fleet.head("deploy"), head);
}
