//! `stepgate demo`: a whole rollout, what it leaves in git, and what a fault does to it.

use std::collections::BTreeMap;
use std::path::Path;

use git2::{Commit, ObjectType, TreeWalkMode, TreeWalkResult};
use serde_json::Value;

use crate::support::{DEMO, Fleet, stepgate};

const MGMT: &[&str] =
    &["cert-manager", "capi", "eks-a", "bundle", "cilium", "flux", "control-plane", "workers/md-0", "verify"];
const TEAM_A: &[&str] = &["cilium", "control-plane", "workers/general", "workers/gpu", "verify"];
const TEAM_B: &[&str] = &["cilium", "control-plane", "workers/general", "verify"];

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

fn stages(cluster: &Value) -> Vec<&str> {
    cluster["stages"].as_array().unwrap().iter().map(|stage| stage["stage"].as_str().unwrap()).collect()
}

/// The value of a trailer.
fn trailer(commit: &Commit<'_>, name: &str) -> Option<String> {
    let message = commit.message().unwrap();
    message.lines().rev().find_map(|line| line.strip_prefix(&format!("Stepgate-{name}: "))).map(str::to_owned)
}

/// The files of a cluster in a commit, by path.
fn files(fleet: &Fleet, commit: &Commit<'_>, cluster: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let walk = |root: &str, entry: &git2::TreeEntry<'_>| {
        let path = format!("{root}{}", entry.name().unwrap());
        if entry.kind() == Some(ObjectType::Blob) && path.starts_with(&format!("clusters/{cluster}/")) {
            let blob = fleet.repository.find_blob(entry.id()).unwrap();
            found.insert(path, String::from_utf8(blob.content().to_vec()).unwrap());
        }
        TreeWalkResult::Ok
    };
    commit.tree().unwrap().walk(TreeWalkMode::PreOrder, walk).unwrap();
    found
}

#[test]
fn the_default_demonstration_is_complete_in_the_order_of_the_design() {
    let report = DEMO.run.json();
    assert_eq!((DEMO.run.code, &report["complete"]), (0, &Value::Bool(true)), "{}", DEMO.run.stderr);
    assert!(report["held"].is_null());
    let clusters = report["clusters"].as_array().unwrap();
    for (cluster, (name, expected)) in clusters.iter().zip([("mgmt", MGMT), ("team-a", TEAM_A), ("team-b", TEAM_B)]) {
        assert_eq!((cluster["cluster"].as_str().unwrap(), cluster["state"].as_str().unwrap()), (name, "done"));
        assert_eq!(stages(cluster), expected, "{name}");
        for stage in cluster["stages"].as_array().unwrap() {
            assert!(
                !strings(&stage["evidence"]).is_empty(),
                "{name} {} was committed without evidence",
                stage["stage"]
            );
        }
    }
    let total = MGMT.len() + TEAM_A.len() + TEAM_B.len();
    assert_eq!((clusters.len(), report["commits"].as_u64().unwrap() as usize), (3, total));
    assert_eq!(report["plans"].as_array().unwrap().len(), 3);
    // No workload cluster is touched before its management cluster is verified.
    let at = |cluster: usize, stage: usize| clusters[cluster]["stages"][stage]["committedAt"].as_str().unwrap();
    let verified = at(0, MGMT.len() - 1);
    assert!(at(1, 0) >= verified && at(2, 0) >= verified);
    // Progress is told on standard error, one line a commit.
    assert_eq!(DEMO.run.stderr.lines().filter(|line| line.contains(" committed ")).count(), total);
    assert!(report["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn every_stage_commit_carries_trailers_the_ledger_and_pinned_images() {
    let fleet = Fleet::settled();
    let mut walk = fleet.repository.revwalk().unwrap();
    walk.set_sorting(git2::Sort::TOPOLOGICAL | git2::Sort::REVERSE).unwrap();
    walk.push_ref("refs/heads/deploy").unwrap();
    let report = DEMO.run.json();
    let plans = report["plans"].as_array().unwrap();
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for id in walk.map(Result::unwrap) {
        let commit = fleet.repository.find_commit(id).unwrap();
        let adopted = commit.summary().unwrap().unwrap().ends_with("adopt as the source branch says");
        let Some(stage) = trailer(&commit, "Stage").filter(|_| !adopted) else { continue };
        let cluster = trailer(&commit, "Cluster").unwrap();
        let plan = plans.iter().find(|plan| plan["cluster"] == cluster.as_str()).unwrap();
        let rollout = plan["rolloutId"].as_str().unwrap();
        assert_eq!(trailer(&commit, "Rollout").as_deref(), Some(rollout), "{cluster} {stage}");
        assert!(trailer(&commit, "Plan").unwrap().starts_with(&format!("sha256:{rollout}")), "{cluster} {stage}");
        assert_eq!(trailer(&commit, "Source"), fleet.head("main").map(|id| id.to_string()), "{cluster} {stage}");

        // The ledger of the same commit records the stage and what its gate saw.
        let files = files(&fleet, &commit, &cluster);
        let ledger: Value = serde_yaml::from_str(&files[&format!("clusters/{cluster}/rollout.yaml")]).unwrap();
        let closing = stage == "verify";
        let record = ledger["stages"].as_array().unwrap().last().unwrap();
        assert_eq!(ledger["rollout"], rollout, "{cluster} {stage}");
        assert!(closing || record["stage"] == stage.as_str(), "{cluster} {stage}: {record}");
        let evidence = if closing { &ledger["verified"] } else { &record["openedBy"] };
        assert!(!evidence["facts"].as_array().unwrap().is_empty(), "{cluster} {stage}");
        if let Some(before) = last.get(&cluster) {
            assert_eq!(evidence["commit"], before.as_str(), "the gate of {cluster} {stage} is about another commit");
        }
        assert_eq!(ledger["state"], if stage == "verify" { "done" } else { "running" }, "{cluster} {stage}");

        // Nothing outside of the cluster's own directory, and nothing without a digest.
        let parent = commit.parent(0).unwrap().tree().unwrap();
        let difference =
            fleet.repository.diff_tree_to_tree(Some(&parent), Some(&commit.tree().unwrap()), None).unwrap();
        let folder = format!("clusters/{cluster}");
        for delta in difference.deltas() {
            let path = delta.new_file().path().or(delta.old_file().path()).unwrap();
            assert!(path.starts_with(Path::new(&folder)), "{cluster} {stage} changes {}", path.display());
        }
        let component = stage.split(['/', '@']).next().unwrap();
        let images: Vec<&str> = files
            .iter()
            .filter(|(path, _)| match component {
                "flux" => path.contains("/flux-system/"),
                "cert-manager" | "capi" | "eks-a" | "cilium" => path.contains(&format!("/{component}/")),
                _ => false,
            })
            .flat_map(|(_, text)| text.lines())
            .filter_map(|line| line.trim_start_matches(['-', ' ']).strip_prefix("image: "))
            .collect();
        let rendered = ["flux", "cert-manager", "capi", "eks-a", "cilium"].contains(&component);
        assert_eq!(images.is_empty(), !rendered, "{cluster} {stage}");
        for image in images {
            assert!(image.contains("@sha256:"), "{cluster} {stage}: {image} is not pinned");
        }
        seen.entry(cluster.clone()).or_default().push(stage);
        last.insert(cluster, id.to_string());
    }
    let expected: Vec<(&str, &[&str])> = vec![("mgmt", MGMT), ("team-a", TEAM_A), ("team-b", TEAM_B)];
    for (cluster, stages) in expected {
        assert_eq!(seen[cluster], stages, "{cluster}: each stage once, in order");
    }
}

#[test]
fn a_second_run_on_the_kept_folder_commits_nothing() {
    let fleet = Fleet::settled();
    let before = (fleet.head("main"), fleet.head("deploy"));
    let run = fleet.demo();
    let report = run.json();
    assert_eq!((run.code, &report["commits"], &report["complete"]), (0, &0.into(), &true.into()), "{}", run.stderr);
    assert_eq!((fleet.head("main"), fleet.head("deploy")), before);
}

/// Breaks a stage of the management cluster, and expects it to be told with the object, and to finish once repaired.
fn check_break(broken: &str, states: &[&str], object: &str, help: &str) {
    let run = stepgate(&["demo", "--break", broken, "-o", "json"]);
    let report = run.json();
    let held = &report["held"];
    assert_eq!(held["cluster"], "mgmt", "{broken}: {}", run.stderr);
    assert_eq!(held["stage"].as_str(), broken.split('=').next(), "{broken}");
    assert!(states.contains(&held["state"].as_str().unwrap()), "{broken}: {held}");
    let reasons = strings(&held["reasons"]);
    assert!(reasons.iter().any(|reason| reason.contains(object)), "{broken}: {reasons:?}");
    assert!(held["help"].as_str().unwrap().contains(help), "{broken}: {held}");
    // The stage after the broken one is committed only after the repair.
    let repaired = run.stderr.find("repaired now").expect("the repair is told");
    let stage = held["stage"].as_str().unwrap();
    let next = MGMT[MGMT.iter().position(|name| *name == stage).unwrap() + 1];
    let committed = |stage: &str| run.stderr.find(&format!("mgmt     committed {stage} ")).unwrap();
    assert!(committed(stage) < repaired && repaired < committed(next), "{broken}: {}", run.stderr);
    assert_eq!((run.code, &report["complete"]), (0, &true.into()), "{broken}: {}", run.stderr);
    assert_eq!(stages(&report["clusters"][0]), MGMT, "{broken}");
}

#[test]
fn a_crashing_cert_manager_is_held_and_goes_on_once_repaired() {
    check_break("cert-manager", &["held"], "Deployment cert-manager/cert-manager", "kubectl describe deployment");
}

#[test]
fn a_stuck_control_plane_is_told_and_goes_on_once_repaired() {
    let object = "KubeadmControlPlane eksa-system/mgmt";
    check_break("control-plane", &["held", "waiting"], object, "kubectl describe kubeadmcontrolplane");
}

#[test]
fn a_stuck_machine_is_told_and_goes_on_once_repaired() {
    let object = "MachineDeployment eksa-system/mgmt-md-0";
    check_break("workers/md-0=machine-stuck", &["held", "waiting"], object, "kubectl describe machinedeployment");
}

#[test]
fn a_flux_that_somebody_suspended_is_told_and_goes_on_once_resumed() {
    let object = "Kustomization flux-system/mgmt-capi: spec.suspend";
    check_break("capi=flux-suspended", &["held", "waiting"], object, "flux resume kustomization");
}

#[test]
fn a_rendered_cluster_of_tanzu_goes_add_ons_first_and_workers_last() {
    let run = stepgate(&["demo", "--kind", "tanzu", "-o", "json"]);
    assert_eq!(run.code, 0, "{}", run.text());
    let report = run.json();
    let expected = ["addons", "control-plane", "workers/steady", "workers/batch", "templates", "verify"];
    assert_eq!(stages(&report["clusters"][0]), expected);
}
