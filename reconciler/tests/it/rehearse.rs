//! `stepgate rehearse`: a plan carried through a simulation of one cluster, and nothing written.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Fleet, Run};

const BEGIN: &str = "2026-12-01T08:00:00Z";
const MGMT: [&str; 9] =
    ["cert-manager", "capi", "eks-a", "bundle", "cilium", "flux", "control-plane", "workers/md-0", "verify"];

fn rehearse(fleet: &Fleet, cluster: &str, more: &[&str]) -> Run {
    fleet.run(&[&["rehearse", cluster, "--begin", BEGIN, "--rehearsals", "2", "-o", "json"], more].concat())
}

fn stage<'a>(report: &'a Value, name: &str) -> &'a Value {
    let stages = report["stages"].as_array().unwrap();
    stages.iter().find(|stage| stage["stage"] == name).unwrap_or_else(|| panic!("no stage {name}: {report}"))
}

fn committed(report: &Value) -> Vec<&str> {
    let stages = report["stages"].as_array().unwrap().iter();
    stages.filter(|stage| !stage["committed"].is_null()).map(|stage| stage["stage"].as_str().unwrap()).collect()
}

/// Every file of a folder, with its bytes.
fn files(folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.insert(path.display().to_string(), std::fs::read(path).unwrap());
        }
    }
}

#[test]
fn a_rehearsal_tells_when_each_stage_begins_and_writes_nothing() {
    let fleet = Fleet::pending();
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    files(fleet.folder(), &mut before);
    let run = rehearse(&fleet, "mgmt", &[]);
    files(fleet.folder(), &mut after);
    assert!(before == after, "files of the fleet's folder differ");
    let report = run.json();
    assert_eq!((run.code, report["state"].as_str()), (0, Some("done")), "{}", run.text());
    assert_eq!((committed(&report), report["begins"].as_str()), (MGMT.to_vec(), Some(BEGIN)));
    let begun: Vec<i64> =
        report["stages"].as_array().unwrap().iter().map(|stage| stage["begun"].as_i64().unwrap()).collect();
    assert!(begun.is_sorted(), "{begun:?}");
    let seconds = report["seconds"].as_i64().unwrap();
    let stages: i64 = report["stages"].as_array().unwrap().iter().map(|stage| stage["seconds"].as_i64().unwrap()).sum();
    assert!((seconds - stages).abs() < 60, "{seconds} {stages}");
    assert_eq!((report["estimate"]["rehearsals"].as_u64(), report["unfinished"].as_u64()), (Some(2), Some(0)));
    // Machines are replaced one by one, as the plan counts them: with the control plane, a new release of EKS-D takes those of the group.
    let machines = report["machines"].as_array().unwrap();
    let made = |name: &str, owners: &[&str]| {
        let told = stage(&report, name);
        let (from, took) = (told["committed"].as_i64().unwrap(), told["seconds"].as_i64().unwrap());
        let during = from..told["begun"].as_i64().unwrap() + took;
        let of = |machine: &&Value| {
            during.contains(&machine["made"].as_i64().unwrap()) && owners.contains(&machine["of"].as_str().unwrap())
        };
        machines.iter().filter(of).count() as u64
    };
    assert_eq!((made("control-plane", &["mgmt"]), made("control-plane", &["mgmt-md-0"])), (3, 2), "{machines:?}");
    for (name, owners) in [("control-plane", &["mgmt", "mgmt-md-0"][..]), ("workers/md-0", &["mgmt-md-0"])] {
        assert_eq!(Some(made(name, owners)), stage(&report, name)["machines"].as_u64(), "{name}: {machines:?}");
    }
    assert_eq!(machines.len(), 7, "{machines:?}");
    assert!(machines.iter().all(|machine| machine["ran"].as_i64() > machine["made"].as_i64()), "{machines:?}");
}

#[test]
fn a_workload_cluster_is_rehearsed_as_if_its_manager_were_done() {
    let run = rehearse(&Fleet::pending(), "team-a", &[]);
    let report = run.json();
    assert_eq!(run.code, 0, "{}", run.text());
    assert_eq!(committed(&report), ["cilium", "control-plane", "workers/general", "workers/gpu", "verify"]);
    let unknown = report["unknown"].as_array().unwrap();
    assert!(unknown.iter().any(|line| line.as_str().unwrap().starts_with("when mgmt will be done")), "{unknown:?}");
    assert!(run.stderr.contains("filled from the deploy branch alone"), "{}", run.stderr);
}

#[test]
fn one_seed_gives_one_report_and_another_seed_another_one() {
    let fleet = Fleet::pending();
    let of = |seed: &str| rehearse(&fleet, "team-b", &["--seed", seed]).stdout;
    let first = of("7");
    assert_eq!(first, of("7"));
    assert_ne!(first, of("8"));
}

#[test]
fn a_fault_stops_at_its_gate_with_what_why_would_say() {
    let run = rehearse(&Fleet::pending(), "mgmt", &["--fault", "cert-manager", "--fault", "control-plane"]);
    let report = run.json();
    // What was broken on purpose is what was asked for.
    assert_eq!((run.code, report["state"].as_str()), (0, Some("done")), "{}", run.text());
    let [cert_manager, control_plane] = report["faults"].as_array().unwrap().as_slice() else { panic!("{report}") };
    for (fault, stage, name, object, help) in [
        (cert_manager, "cert-manager", "failing-pod", "Deployment cert-manager/", "kubectl describe deployment"),
        (
            control_plane,
            "control-plane",
            "control-plane-stuck",
            "KubeadmControlPlane eksa-system/mgmt",
            "kubectl describe kubeadmcontrolplane",
        ),
    ] {
        assert_eq!((&fault["stage"], &fault["fault"]), (&json!(stage), &json!(name)));
        assert_eq!((&fault["state"], &fault["heldAt"]), (&json!("held"), &json!(stage)), "{fault}");
        assert!(fault["afterCommit"].as_i64().unwrap() >= 600, "{fault}");
        let why = fault["why"].as_array().unwrap();
        assert!(why.iter().any(|reason| reason.as_str().unwrap().contains(object)), "{why:?}");
        assert!(fault["advice"].to_string().contains(help), "{fault}");
    }
    assert_eq!(cert_manager["wayBack"]["possible"], true, "{cert_manager}");
    let barred = control_plane["wayBack"]["barred"].to_string();
    assert!(control_plane["wayBack"]["possible"] == false && barred.contains("control-plane: "), "{barred}");
}

#[test]
fn a_fault_that_goes_by_is_told_as_such() {
    let report = rehearse(&Fleet::pending(), "team-b", &["--fault", "cilium=slow-image"]).json();
    let fault = &report["faults"][0];
    assert_eq!(fault["state"], "done", "{fault}");
    assert!(fault["longer"].as_i64().unwrap() > 300, "{fault}");
}

#[test]
fn the_way_back_narrows_where_the_plan_says_that_there_is_none() {
    let fleet = Fleet::pending();
    let report = rehearse(&fleet, "mgmt", &[]).json();
    let ways = report["waysBack"].as_array().unwrap();
    let way = |stage: &str| ways.iter().find(|way| way["stage"] == stage).unwrap();
    assert_eq!(
        (&way("cert-manager")["possible"], &way("cert-manager")["stages"]),
        (&json!(true), &json!(["cert-manager"]))
    );
    // No minor of Kubernetes goes down, of machines that are workers either.
    let last = way("workers/md-0");
    assert_eq!(
        (&last["possible"], &last["downTo"], &last["stages"]),
        (&json!(false), &Value::Null, &json!([])),
        "{last}"
    );
    let barred = last["barred"].to_string();
    assert!(barred.contains("control-plane: ") && barred.contains("workers/md-0: "), "{barred}");
    // A group that stays at its minor can be put back, down to the control plane.
    let kept = "- name: md-0\n    kubernetesVersion: \"1.33\"\n    labels: {tier: web}";
    fleet.replace("clusters/mgmt/cluster.yaml", "- name: md-0", kept);
    let report = rehearse(&fleet, "mgmt", &[]).json();
    let ways = report["waysBack"].as_array().unwrap();
    let last = ways.iter().find(|way| way["stage"] == "workers/md-0").unwrap_or_else(|| panic!("{report}"));
    assert_eq!((&last["possible"], &last["downTo"]), (&json!(false), &json!("control-plane")), "{last}");
    assert_eq!(last["stages"], json!(["workers/md-0"]), "{last}");
    assert_eq!(last["machines"], 2, "{last}");
}

#[test]
fn people_and_windows_stand_in_the_timeline_and_nobody_is_waited_for() {
    let fleet = Fleet::pending();
    fleet.replace(
        "stepgate.yaml",
        "soak: 30s",
        "soak: 30s\napproval: rollout\nwindows: [{from: '22:00', to: '04:00', timeZone: UTC}]",
    );
    let run = rehearse(&fleet, "team-b", &[]);
    let report = run.json();
    assert_eq!((run.code, report["state"].as_str()), (0, Some("done")), "{}", run.text());
    let first = stage(&report, "cilium");
    assert!(first["asks"].as_str().unwrap().ends_with("for the whole rollout"), "{first}");
    // Fourteen hours from eight in the morning to ten in the evening.
    assert!((14 * 3600..15 * 3600).contains(&first["committed"].as_i64().unwrap()), "{first}");
    assert!(first["waits"][0]["until"].as_str().is_some_and(|until| until.starts_with("2026-12-01T22:00")), "{first}");
    assert!(stage(&report, "control-plane")["asks"].is_null());
    assert!(fleet.repository.branches(None).unwrap().count() == 2, "nothing is proposed");
}

#[test]
fn past_rollouts_tell_how_long_machines_take() {
    let fleet = Fleet::settled();
    let report = rehearse(&fleet, "team-b", &[]).json();
    assert_eq!((&report["state"], &report["stages"]), (&json!("nothing-to-do"), &json!([])));
    // A release of EKS-D more: machines are made anew, and the rollout before tells how long that takes.
    let next = |text: String| {
        let pairs = [("bundles-81", "bundles-82"), ("number: 81", "number: 82"), ("v1.34.2", "v1.34.3")];
        let text = text.replace("1-34-eks-9", "1-34-eks-10").replace("eks-1-34-9", "eks-1-34-10");
        pairs.iter().fold(text, |text, (from, to)| text.replace(from, to)).replace("number: 9\n", "number: 10\n")
    };
    let releases = fleet.folder().join("mirror/artifacts.example.com/eks-d");
    let release = std::fs::read_to_string(releases.join("kubernetes-1-34-eks-9.yaml")).unwrap();
    std::fs::write(releases.join("kubernetes-1-34-eks-10.yaml"), next(release)).unwrap();
    let bundle = next(fleet.text("main", "bundles/bundles-81.yaml"));
    fleet.write("main", "bundles/bundles-82.yaml", bundle.as_bytes());
    // A cluster that names no bundle has nothing to commit for it: its specification is the same.
    let reference =
        "apiVersion: anywhere.eks.amazonaws.com/v1alpha1, kind: Bundles, name: bundles-82, namespace: eksa-system";
    let named = format!("bundlesRef: {{{reference}}}\n  controlPlaneConfiguration:");
    fleet.replace("clusters/team-b/cluster.yaml", "controlPlaneConfiguration:", &named);
    let report = rehearse(&fleet, "team-b", &[]).json();
    assert_eq!((&report["state"], committed(&report)), (&json!("done"), vec!["control-plane", "verify"]), "{report}");
    assert_eq!(report["machines"].as_array().unwrap().len(), 5, "{report}");
    // What the stage took in the rollout that is closed stands beside what it takes in the rehearsal.
    let told = stage(&report, "control-plane");
    assert!(told["past"].as_array().unwrap().len() == 1 && told["seconds"].as_i64().unwrap() > 0, "{told}");
    let past = report["paces"].as_array().unwrap().iter().all(|pace| pace["knownBy"] == "past");
    assert!(past && !report["paces"].as_array().unwrap().is_empty(), "{report}");
}

#[test]
fn a_dump_fills_what_the_specification_does_not_tell() {
    let fleet = Fleet::pending();
    let dump = json!({
        "format": 1, "cluster": "team-b", "takenAt": "2026-11-30T08:00:00Z", "workloads": [], "pods": [],
        "nodes": [
            {"name": "a", "group": "control-plane", "ready": "True"},
            {"name": "b", "group": "team-b-general", "ready": "False"},
        ],
        "budgets": [{"namespace": "shop", "name": "web", "expected": 1, "healthy": 1, "desired": 1, "allowed": 0}],
    });
    let file = fleet.folder().join("dump.json");
    std::fs::write(&file, dump.to_string()).unwrap();
    let run = rehearse(&fleet, "team-b", &["--dump", file.to_str().unwrap()]);
    let report = run.json();
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.text());
    let found = &report["found"];
    assert_eq!(found["dumpedAt"], "2026-11-30T08:00:00Z");
    assert_eq!((&found["refusingBudgets"], &found["unreadyNodes"]), (&json!(["shop/web"]), &json!(["b"])));
    assert!(!found["newImages"].as_array().unwrap().is_empty(), "{found}");
    assert!(report["unknown"].to_string().contains("drain-blocked"), "{report}");
}

#[test]
fn what_cannot_be_rehearsed_is_told_with_what_helps() {
    let fleet = Fleet::pending();
    let (other, broken) = (fleet.folder().join("other.json"), fleet.folder().join("broken.json"));
    let dump = json!({"format": 1, "cluster": "prod", "takenAt": BEGIN, "nodes": [], "workloads": [], "pods": []});
    std::fs::write(&other, dump.to_string()).unwrap();
    std::fs::write(&broken, "{").unwrap();
    let (other, broken) = (other.to_str().unwrap(), broken.to_str().unwrap());
    for (cluster, arguments, expected) in [
        ("mgmd", &[][..], "did you mean mgmt?"),
        ("mgmt", &["--fault", "etcd"], "stage etcd changes nothing in the rollout of mgmt"),
        ("mgmt", &["--fault", "capi=slow"], "\"slow\" is not a valid fault"),
        ("mgmt", &["--dump", "/nowhere/dump.json"], "/nowhere/dump.json"),
        ("mgmt", &["--dump", broken], "not a dump"),
        ("mgmt", &["--dump", other], "the dump is of cluster prod"),
        ("mgmt", &["--rehearsals", "0"], "0 is not in 1..=1000"),
    ] {
        let run = fleet.run(&[&["rehearse", cluster], arguments].concat());
        assert!(run.code == 2 && run.stderr.contains(expected), "{arguments:?}: {}", run.text());
    }
}

#[test]
fn a_blocked_plan_is_told_by_what_blocks_it() {
    let fleet = Fleet::pending();
    fleet.repository.find_reference("refs/heads/deploy").unwrap().delete().unwrap();
    let run = fleet.run(&["rehearse", "mgmt"]);
    let plan = fleet.run(&["plan", "--cluster", "mgmt"]);
    assert_eq!((run.code, plan.code), (3, 3), "{}", run.text());
    assert!(run.stdout.contains("blocked (not-adopted)") && run.stdout.contains("stepgate adopt"), "{}", run.stdout);
}

#[test]
fn a_rehearsal_for_people_fits_its_columns() {
    let fleet = Fleet::pending();
    let run = fleet.run(&["rehearse", "mgmt", "--begin", BEGIN, "--rehearsals", "2", "--fault", "control-plane"]);
    assert_eq!(run.code, 0, "{}", run.text());
    for part in
        ["mgmt: rehearsal of rollout ", "STAGE ", "MACHINES OF ", "Faults", "The way back", "What the simulation"]
    {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let longest = run.stdout.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(longest.chars().count() <= 100, "{longest}");
}
