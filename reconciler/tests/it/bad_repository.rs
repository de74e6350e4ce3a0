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
fn a_detached_head_of_the_repository_changes_nothing() {
    let fleet = Fleet::settled();
    let plan = fleet.run(&["plan", "-o", "json"]);
    fleet.repository.set_head_detached(fleet.head("deploy").unwrap()).unwrap();
    let detached = fleet.run(&["plan", "-o", "json"]);
    assert_eq!((detached.code, &detached.stdout), (plan.code, &plan.stdout), "{}", detached.stderr);
    change_overlay(&fleet);
    let run = fleet.demo();
    assert_eq!((run.code, &run.json()["complete"]), (0, &true.into()), "{}", run.stderr);
}

#[test]
fn a_deploy_branch_cut_off_from_its_history_goes_on_from_what_it_holds() {
    let fleet = Fleet::settled();
    let head = fleet.repository.find_commit(fleet.head("deploy").unwrap()).unwrap();
    let author = head.author();
    let orphan = fleet.repository.commit(None, &author, &author, "squashed", &head.tree().unwrap(), &[]).unwrap();
    fleet.repository.reference("refs/heads/deploy", orphan, true, "rewritten").unwrap();
    let status = fleet.run(&["status", "--exit-code"]);
    assert_eq!(status.code, 0, "{}", status.text());
    change_overlay(&fleet);
    let run = fleet.demo();
    assert_eq!((run.code, &run.json()["complete"]), (0, &true.into()), "{}", run.stderr);
    let walked = fleet.repository.graph_descendant_of(fleet.head("deploy").unwrap(), orphan).unwrap();
    assert!(walked, "the branch was rewritten once more");
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
fn what_cannot_be_recorded_is_listed_by_part_with_what_helps() {
    let fleet = Fleet::settled();
    fleet.repository.find_reference("refs/heads/deploy").unwrap().delete().unwrap();
    let run = stepgate(&["adopt", "mgmt", "--yes", "--as-declared", "--repo", &fleet.place()]);
    assert_eq!(run.code, 2, "{}", run.text());
    let starts = |start: &str| run.stderr.lines().filter(|line| line.starts_with(start)).count();
    for part in ["cert-manager", "capi", "eks-a", "flux"] {
        assert_eq!(starts(&format!("  {part}: cannot render ")), 1, "{part}\n{}", run.stderr);
    }
    assert_eq!(starts("hint: get what bundles name with `stepgate bundle fetch"), 1, "{}", run.stderr);
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

/// Spoils an object that is in the repository as a file of its own.
fn corrupt(fleet: &Fleet, id: git2::Oid) {
    let id = id.to_string();
    let object = fleet.folder().join("fleet.git/objects").join(&id[..2]).join(&id[2..]);
    std::fs::set_permissions(&object, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(&object, "garbage").unwrap();
}

/// A file or folder of one cluster whose object is corrupt stops that cluster, and says which object it is.
#[track_caller]
fn stops_team_b(fleet: &Fleet, path: &str, id: git2::Oid) {
    let good = fleet.run(&["plan", "-o", "json"]).json();
    corrupt(fleet, id);
    let (id, head) = (id.to_string(), fleet.head("deploy"));
    let check = fleet.run(&["check"]);
    let told = [path, &id, "git fsck --full"];
    assert!(check.code == 2 && told.iter().all(|part| check.stdout.contains(part)), "{}", check.text());
    let plan = fleet.run(&["plan", "-o", "json"]);
    assert!(plan.code == 2 || plan.code == 3, "{}", plan.text());
    for cluster in plan.json()["clusters"].as_array().unwrap() {
        let before =
            good["clusters"].as_array().unwrap().iter().find(|it| it["cluster"] == cluster["cluster"]).unwrap();
        if cluster["cluster"] == "team-b" {
            assert!(cluster["blocked"][0]["message"].as_str().unwrap().contains(&id), "{cluster}");
        } else {
            assert_eq!(cluster["blocked"].as_array().unwrap().len(), 0, "{cluster}");
            assert_eq!(cluster["rolloutId"], before["rolloutId"], "{cluster}");
        }
    }
    let status = fleet.run(&["status"]);
    assert!(status.stdout.contains(&id), "{}", status.text());
    let pass = fleet.run(&["run", "--once", "-o", "json"]).json();
    assert_eq!(pass["clusters"].as_array().unwrap().len(), 3, "{pass}");
    assert_eq!(fleet.head("deploy"), head);
}

fn object(fleet: &Fleet, path: &str) -> git2::Oid {
    let tree = fleet.repository.find_reference("refs/heads/main").unwrap().peel_to_tree().unwrap();
    if path.is_empty() { tree.id() } else { tree.get_path(std::path::Path::new(path)).unwrap().id() }
}

/// A fleet whose newest objects of team-b and above are files of their own.
fn rewritten() -> Fleet {
    let fleet = Fleet::pending();
    let text = format!("{}# rewritten\n", fleet.text("main", "clusters/team-b/cluster.yaml"));
    fleet.write("main", "clusters/team-b/cluster.yaml", text.as_bytes());
    fleet
}

#[test]
fn a_corrupt_file_of_one_cluster_stops_that_cluster_alone() {
    let fleet = rewritten();
    let path = "clusters/team-b/cluster.yaml";
    stops_team_b(&fleet, path, object(&fleet, path));
}

#[test]
fn a_corrupt_folder_of_one_cluster_stops_that_cluster_alone() {
    let fleet = rewritten();
    stops_team_b(&fleet, "clusters/team-b", object(&fleet, "clusters/team-b"));
}

#[test]
fn a_corrupt_commit_or_top_folder_is_told_by_every_verb_and_nothing_is_written() {
    let spoil: [fn(&Fleet) -> git2::Oid; 3] =
        [|fleet| fleet.head("main").unwrap(), |fleet| object(fleet, ""), |fleet| object(fleet, "clusters")];
    for find in spoil {
        let fleet = rewritten();
        let (id, head) = (find(&fleet), fleet.head("deploy"));
        corrupt(&fleet, id);
        for verb in [&["check"][..], &["plan"], &["status"], &["diff"], &["why", "mgmt"], &["run", "--once"]] {
            let run = fleet.run(verb);
            assert_eq!(run.code, 2, "{verb:?}: {}", run.text());
            let told = [id.to_string(), "git fsck --full".to_owned()];
            assert!(told.iter().all(|part| run.stderr.contains(part)), "{verb:?}: {}", run.stderr);
        }
        assert_eq!(fleet.head("deploy"), head);
    }
}

/// A small file system of its own, unmounted at the end; none where this may not be done.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={bytes}");
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_told_and_the_branch_stays_where_it_is() {
    let Some(disk) = SmallDisk::mount("64m") else {
        return skip::missing("a small file system can only be mounted by root");
    };
    let fleet = Fleet::settled_in(disk.0.path());
    change_overlay(&fleet);
    let head = fleet.head("deploy");
    let ballast = disk.0.path().join("ballast");
    let filled = std::fs::write(&ballast, vec![0_u8; 128 << 20]);
    assert!(filled.is_err(), "the disk is not full");
    let run = fleet.demo();
    assert!(run.code != 0 && run.stderr.contains("disk is full"), "{}", run.text());
    assert_eq!(fleet.head("deploy"), head);
    // With room again the same stage goes through.
    std::fs::remove_file(&ballast).unwrap();
    let report = fleet.demo().json();
    assert_eq!(
        (&report["complete"], &report["clusters"][0]["stages"][0]["stage"]),
        (&true.into(), &"cert-manager".into())
    );
}

#[test]
fn a_policy_that_cannot_be_used_is_an_error_where_nothing_is_pending() {
    let fleet = Fleet::settled();
    assert_eq!(fleet.run(&["run", "--once"]).code, 0);
    let text = format!("{}windows: 7\n", fleet.text("main", "stepgate.yaml"));
    let line = text.lines().count();
    fleet.write("main", "stepgate.yaml", text.as_bytes());
    for verb in [&["run", "--once"][..], &["check"]] {
        let run = fleet.run(verb);
        assert_eq!(run.code, 2, "{verb:?}: {}", run.text());
        assert!(run.text().contains(&format!("stepgate.yaml:{line}:")), "{verb:?}: {}", run.text());
    }
}
