//! Targets of other shapes than the demo's bump, and targets that change on the way.

use std::collections::BTreeSet;

use crate::fleet::{CLUSTERS, Files, Fleet, assert_no_stage_twice, is_done};

const OVERLAY: &str = "overlays/cert-manager/kustomization.yaml";

fn other_priority(overlay: &str) -> String {
    assert!(overlay.contains("system-cluster-critical"));
    overlay.replace("system-cluster-critical", "system-node-critical")
}

fn distinct(stages: Vec<String>) -> BTreeSet<String> {
    stages.into_iter().collect()
}

#[test]
fn a_change_of_one_overlay_is_a_rollout_of_that_component_alone() {
    let fleet = Fleet::new();
    let before = fleet.tree();
    fleet.edit(OVERLAY, other_priority);
    fleet.run_to_the_end(&fleet.controller());
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
    for cluster in CLUSTERS {
        let own = fleet.stages(cluster);
        assert!(own.is_empty() || own == ["cert-manager", "verify"], "{cluster}: {own:?}");
    }
    let changed = before.diff(&fleet.tree());
    assert!(!changed.files.is_empty());
    for path in changed.files.keys() {
        assert!(path.as_str().contains("/cert-manager/"), "{path}");
    }
}

/// The tags of a new build with the digests of the old one: what runs stays as it is.
#[test]
fn a_bundle_with_renamed_tags_alone_replaces_no_machine_and_restarts_nothing() {
    let fleet = Fleet::new();
    let text = String::from_utf8(fleet.files.before["bundles/bundles-80.yaml"].clone()).unwrap();
    let renamed =
        text.replace("bundles-80", "bundles-81").replace("number: 80", "number: 81").replace("-eks-a-80", "-eks-a-81");
    let before = fleet.tree();
    fleet.push(&Files::from([("bundles/bundles-81.yaml".to_owned(), renamed.into_bytes())]));
    fleet.run_to_the_end(&fleet.controller());
    for cluster in CLUSTERS {
        let stages = distinct(fleet.stages(cluster));
        assert!(stages.is_subset(&["bundle".to_owned(), "verify".to_owned()].into()), "{cluster}: {stages:?}");
    }
    let changed = before.diff(&fleet.tree());
    assert!(!changed.files.is_empty(), "the bundle itself is deployed");
    for path in changed.files.keys() {
        assert!(path.as_str().contains("/bundle/"), "{path}");
    }
}

#[test]
fn a_new_target_before_the_control_plane_takes_over_after_the_running_stage() {
    let fleet = Fleet::new();
    let controller = fleet.controller();
    let first = fleet.bump();
    fleet.run_until_committed(&controller, "mgmt", "cert-manager");
    let committed = fleet.history("mgmt").len();
    let second = fleet.edit(OVERLAY, other_priority);
    // The running stage has just been committed: nothing follows before its gate has passed.
    fleet.pass(&controller);
    assert_eq!(fleet.history("mgmt").len(), committed);
    fleet.run_to_the_end(&controller);
    assert_no_stage_twice(&fleet);
    let history = fleet.history("mgmt");
    let sources: Vec<_> = history.iter().map(|entry| entry.stage.as_ref().unwrap().source.clone()).collect();
    let (old, new) = sources.split_at(committed);
    assert!(old.iter().all(|source| *source == first), "{old:?}");
    assert!(new.iter().all(|source| *source == second), "{new:?}");
    let stages = fleet.stages("mgmt");
    assert_eq!(stages.iter().filter(|stage| *stage == "verify").count(), 1, "{stages:?}");
    assert_eq!(stages[committed], "cert-manager", "{stages:?}");
    assert_new_overlay(&fleet);
}

#[test]
fn a_new_target_after_the_control_plane_has_started_waits_for_the_end_of_the_rollout() {
    let fleet = Fleet::new();
    let controller = fleet.controller();
    let first = fleet.bump();
    fleet.run_until_committed(&controller, "mgmt", "control-plane");
    let second = fleet.edit(OVERLAY, other_priority);
    // The process is restarted as well: the rollout's own plan is made again from its own source.
    fleet.run_to_the_end(&fleet.controller());
    assert_no_stage_twice(&fleet);
    let history = fleet.history("mgmt");
    let entry = |index: usize| {
        let trailers = history[index].stage.as_ref().unwrap();
        (trailers.stage.to_string(), trailers.source.clone())
    };
    let closed = fleet.stages("mgmt").iter().position(|stage| stage == "verify").unwrap();
    for index in 0..=closed {
        assert_eq!(entry(index).1, first, "{:?}", entry(index));
    }
    assert_eq!(entry(closed - 1).0, "workers/md-0");
    assert_eq!(history.len(), closed + 3);
    assert_eq!(entry(closed + 1), ("cert-manager".to_owned(), second.clone()));
    assert_eq!(entry(closed + 2), ("verify".to_owned(), second));
    assert_new_overlay(&fleet);
}

#[track_caller]
fn assert_new_overlay(fleet: &Fleet) {
    let folder = fleet.folder("clusters/mgmt/cert-manager");
    let text: String = folder.files.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(text.contains("system-node-critical") && !text.contains("system-cluster-critical"));
}

#[test]
fn a_fleet_with_source_and_deploy_on_one_branch_finishes_and_its_source_stays_untouched() {
    let fleet = Fleet::with_policy(|policy| {
        policy.replace("deploy:\n  branch: deploy\n", "deploy:\n  branch: main\n  path: deploy\n")
    });
    let controller = fleet.controller();
    fleet.bump();
    let source = |fleet: &Fleet| {
        let mut tree = fleet.tree();
        tree.files.retain(|path, _| !path.is_below("deploy"));
        tree
    };
    let before = source(&fleet);
    let pass = fleet.run_to_the_end(&controller);
    assert!(is_done(&pass));
    assert_no_stage_twice(&fleet);
    for cluster in CLUSTERS {
        assert_eq!(fleet.stages(cluster).last().map(String::as_str), Some("verify"), "{cluster}");
    }
    let differing: Vec<String> = before.diff(&source(&fleet)).files.keys().map(ToString::to_string).collect();
    assert_eq!(differing, Vec::<String>::new());
    assert!(fleet.deployed("deploy/clusters/mgmt/rollout.yaml").is_some());
    // The commits of Stepgate are on the source branch too: they are no new target.
    let head = fleet.head();
    for _ in 0..5 {
        fleet.pass(&fleet.controller());
        fleet.clock.advance(jiff::SignedDuration::from_mins(10));
    }
    assert_eq!(fleet.head(), head);
}

#[test]
fn a_worker_group_that_is_taken_out_goes_by_a_stage_of_its_own() {
    let fleet = Fleet::new();
    let path = "clusters/team-a/cluster.yaml";
    let gpu =
        "  - name: gpu\n    count: 1\n    machineGroupRef:\n      kind: DockerMachineConfig\n      name: team-a-gpu\n";
    fleet.edit(path, |text| {
        assert!(text.contains(gpu));
        text.replace(gpu, "")
    });
    // Each pass is one of a process that remembers nothing.
    let pass = fleet.run_to_the_end(&fleet.controller());
    assert!(is_done(&pass));
    assert_eq!(fleet.stages("team-a"), ["workers/gpu", "verify"]);
    let deployed = fleet.folder("clusters/team-a/cluster");
    let text: String = deployed.files.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(!text.contains("name: gpu") && text.contains("name: general"), "{text}");
}

#[test]
fn a_worker_group_goes_after_the_others_have_a_new_version() {
    let fleet = Fleet::new();
    fleet.bump();
    let gpu =
        "  - name: gpu\n    count: 1\n    machineGroupRef:\n      kind: DockerMachineConfig\n      name: team-a-gpu\n";
    fleet.edit("clusters/team-a/cluster.yaml", |text| text.replace(gpu, ""));
    fleet.run_to_the_end(&fleet.controller());
    assert_no_stage_twice(&fleet);
    let stages = fleet.stages("team-a");
    let place = |name: &str| stages.iter().position(|stage| stage == name);
    let [general, gone, verify] = ["workers/general", "workers/gpu", "verify"].map(place);
    assert!(general.is_some() && general < gone && gone < verify, "{stages:?}");
}
