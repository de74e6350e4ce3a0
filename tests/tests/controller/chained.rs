//! Upgrades over several bundles and Kubernetes minors: rollouts one after another, each by legal steps.

use domain::RepoPath;
use jiff::SignedDuration;
use planning::DeployedLedger;
use rollout::LedgerState;
use stepgate::demo::FleetFiles;

use crate::fleet::{CLUSTERS, Files, Fleet, assert_no_stage_twice, is_done, outcome, told};

/// The bundles of EKS Anywhere 0.25 and 0.26, of which the second one alone has Kubernetes 1.35.
fn bundles(fleet: &Fleet) -> Files {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let middle = text(&fleet.files.bump["bundles/bundles-81.yaml"]);
    let of_35 = |text: &str| text.replace("1.33", "1.35").replace("1-33", "1-35");
    let of_26 = |text: &str| text.replace("v0.25.0", "v0.26.0").replace("-eks-a-81", "-eks-a-82");
    let last = of_26(&of_35(&middle)).replace("bundles-81", "bundles-82").replace("number: 81", "number: 82");
    let components = fleet.files.mirrors[0].join("artifacts.example.com/eks-anywhere");
    std::fs::create_dir_all(components.join("v0.26.0")).unwrap();
    let text = std::fs::read_to_string(components.join("v0.25.0/eksa-components.yaml")).unwrap();
    std::fs::write(components.join("v0.26.0/eksa-components.yaml"), of_26(&text)).unwrap();
    let release = fleet.files.mirrors[0].join("artifacts.example.com/eks-d/kubernetes-1-33-eks-20.yaml");
    let release = of_35(&std::fs::read_to_string(release).unwrap());
    Files::from([
        ("bundles/bundles-81.yaml".to_owned(), middle.into_bytes()),
        ("bundles/bundles-82.yaml".to_owned(), last.into_bytes()),
        ("bundles/kubernetes-1-35.yaml".to_owned(), release.into_bytes()),
    ])
}

fn specification(cluster: &str) -> String {
    format!("clusters/{cluster}/cluster.yaml")
}

/// The specifications of all clusters at another Kubernetes version.
fn at_kubernetes(fleet: &Fleet, version: &str) -> Files {
    let main = "main".parse().unwrap();
    let file = |cluster: &str| {
        let text = fleet.read(&main, &specification(cluster)).unwrap();
        let line = text.lines().find(|line| line.contains("kubernetesVersion:")).unwrap().to_owned();
        (specification(cluster), text.replace(&line, &format!("  kubernetesVersion: \"{version}\"")).into_bytes())
    };
    CLUSTERS.iter().map(|cluster| file(cluster)).collect()
}

/// A fleet at Kubernetes 1.33 with EKS Anywhere 0.24 that may go further than one minor.
fn fleet() -> Fleet {
    Fleet::with_policy(|policy| format!("{policy}chainedUpgrades: true\n"))
}

/// The same, with clusters that name the version of EKS Anywhere.
fn fleet_with_versions() -> Fleet {
    Fleet::with_files(|files: &mut FleetFiles| {
        let policy = files.before.get_mut("stepgate.yaml").unwrap();
        policy.extend_from_slice(b"chainedUpgrades: true\n");
        for cluster in CLUSTERS {
            let text = files.before.get_mut(&specification(cluster)).unwrap();
            let named = String::from_utf8(text.clone()).unwrap();
            *text = named.replace("spec:\n  kubernetes", "spec:\n  eksaVersion: v0.24.0\n  kubernetes").into_bytes();
        }
        files.before.extend([release("v0.24.0", 80)]);
    })
}

fn release(version: &str, number: u32) -> (String, Vec<u8>) {
    let name = format!("eksa-{}", version.replace('.', "-"));
    let text = format!(
        "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: EKSARelease\nmetadata: {{name: {name}, namespace: eksa-system}}\n\
         spec:\n  version: {version}\n  bundlesRef: {{apiVersion: anywhere.eks.amazonaws.com/v1alpha1, name: bundles-{number}, \
         namespace: eksa-system}}\n"
    );
    (format!("bundles/{name}.yaml"), text.into_bytes())
}

/// What lies at a commit of the deploy branch.
fn at(fleet: &Fleet, commit: &domain::CommitId, path: &str) -> Option<String> {
    let snapshot = fleet.repository.deploy_snapshot(&fleet.layout, commit).unwrap();
    let bytes = snapshot.read(&RepoPath::new(path).unwrap()).ok()?;
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

/// Kubernetes of a cluster, EKS Anywhere where it is named, and how far its chain is, after each commit.
fn course(fleet: &Fleet, cluster: &str) -> Vec<(String, Option<String>, String, LedgerState)> {
    let mut course = Vec::new();
    for entry in fleet.history(cluster) {
        let file = at(fleet, &entry.commit, &format!("clusters/{cluster}/cluster/cluster.yaml")).unwrap();
        let field = |name: &str| {
            let line = file.lines().find(|line| line.trim_start().starts_with(name))?;
            Some(line.rsplit(": ").next().unwrap().trim_matches('"').to_owned())
        };
        let text = at(fleet, &entry.commit, &format!("clusters/{cluster}/rollout.yaml")).unwrap();
        let DeployedLedger::Read(ledger) = DeployedLedger::of(text.as_bytes()) else { panic!("{text}") };
        let chain = ledger.chain.as_ref().map(|chain| format!("{} of {}", chain.rollout, chain.targets.len()));
        let stands =
            (field("kubernetesVersion:").unwrap(), field("eksaVersion:"), chain.unwrap_or_default(), ledger.state);
        if course.last() != Some(&stands) {
            course.push(stands);
        }
    }
    course
}

/// The same without EKS Anywhere, as text.
fn told_course(fleet: &Fleet, cluster: &str) -> Vec<String> {
    let told = |(kubernetes, _, chain, state): (String, Option<String>, String, LedgerState)| {
        format!("{kubernetes}, {chain}, {}", if state == LedgerState::Done { "done" } else { "running" })
    };
    course(fleet, cluster).into_iter().map(told).collect()
}

/// Rollouts of a cluster, each closed once.
fn rollouts(fleet: &Fleet, cluster: &str) -> usize {
    fleet.stages(cluster).iter().filter(|stage| *stage == "verify").count()
}

const WHOLE: [&str; 6] = [
    "1.33, 1 of 2, running",
    "1.34, 1 of 2, running",
    "1.34, 1 of 2, done",
    "1.34, 2 of 2, running",
    "1.35, 2 of 2, running",
    "1.35, 2 of 2, done",
];

#[track_caller]
fn assert_whole(fleet: &Fleet) {
    assert_no_stage_twice(fleet);
    for cluster in CLUSTERS {
        let told = told_course(fleet, cluster);
        // What has nothing to commit before its control plane moves at once.
        let shown: Vec<&str> = told.iter().map(String::as_str).collect();
        let expected: Vec<&str> =
            WHOLE.into_iter().filter(|line| shown.contains(line) || !line.contains("running")).collect();
        assert_eq!(shown, expected, "{cluster}");
        assert!(shown.contains(&WHOLE[1]) && shown.contains(&WHOLE[4]), "{cluster}: {shown:?}");
        assert_eq!(rollouts(fleet, cluster), 2, "{cluster}");
    }
    let bundle = fleet.folder("clusters/mgmt/bundle");
    let text: String = bundle.files.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(text.contains("name: bundles-82") && text.contains("1-35"));
}

fn push_target(fleet: &Fleet) -> domain::CommitId {
    let mut files = bundles(fleet);
    files.extend(at_kubernetes(fleet, "1.35"));
    fleet.push(&files)
}

#[test]
fn two_minors_and_two_bundles_are_two_rollouts_whatever_process_carries_them_out() {
    let fleet = fleet();
    push_target(&fleet);
    let mut controller = fleet.controller();
    let mut random = fastrand::Rng::with_seed(36);
    let end = fleet.clock_now() + SignedDuration::from_hours(48);
    loop {
        if random.u8(0..3) == 0 {
            controller = fleet.controller();
        }
        let pass = fleet.pass(&controller);
        if is_done(&pass) {
            break;
        }
        assert!(fleet.clock_now() < end, "it goes on for ever: {}", told(&pass));
        fleet.wait(Some(&pass));
    }
    assert_whole(&fleet);
}

#[test]
fn without_the_setting_a_jump_is_refused_and_the_setting_named() {
    let fleet = Fleet::new();
    push_target(&fleet);
    let pass = fleet.pass(&fleet.controller());
    let said = outcome(&pass, "mgmt").message();
    assert_eq!(outcome(&pass, "mgmt").word(), "blocked", "{said}");
    let planner = fleet.planner();
    let view = planner.view(&planner.read().unwrap(), "mgmt").unwrap();
    let block = view.plan.blocked.iter().find(|block| block.code == "kubernetes-minor-step").unwrap();
    assert!(block.help.contains("go to 1.34 first, or set chainedUpgrades for the cluster"), "{}", block.help);
    // Set, it goes on.
    fleet.edit("stepgate.yaml", |policy| format!("{policy}chainedUpgrades: true\n"));
    fleet.run_to_the_end(&fleet.controller());
    assert_whole(&fleet);
}

#[test]
fn without_a_bundle_in_between_nothing_begins_and_it_is_named() {
    let fleet = fleet();
    let mut files = bundles(&fleet);
    let middle = files.remove("bundles/bundles-81.yaml").unwrap();
    files.extend(at_kubernetes(&fleet, "1.35"));
    fleet.push(&files);
    let head = fleet.head();
    let pass = fleet.pass(&fleet.controller());
    assert_eq!(outcome(&pass, "mgmt").word(), "blocked");
    let planner = fleet.planner();
    let view = planner.view(&planner.read().unwrap(), "mgmt").unwrap();
    let block = view.plan.blocked.iter().find(|block| block.code == "broken-chain").unwrap();
    assert!(block.message.ends_with("no bundle of EKS Anywhere v0.25 is in the repository"), "{}", block.message);
    assert_eq!(fleet.head(), head);
    fleet.push(&Files::from([("bundles/bundles-81.yaml".to_owned(), middle)]));
    fleet.run_to_the_end(&fleet.controller());
    assert_whole(&fleet);
}

#[test]
fn what_is_pushed_on_the_way_counts_once_the_rollout_under_way_has_ended() {
    let fleet = fleet();
    let first = push_target(&fleet);
    let controller = fleet.controller();
    fleet.run_until_committed(&controller, "mgmt", "control-plane");
    // Kubernetes is to stay at 1.34 after all, which the last bundle has too.
    let second = fleet.push(&at_kubernetes(&fleet, "1.34"));
    fleet.run_to_the_end(&fleet.controller());
    assert_no_stage_twice(&fleet);
    let told = told_course(&fleet, "mgmt");
    assert!(told.contains(&"1.34, 1 of 2, done".to_owned()), "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some("1.34, 2 of 2, done"), "{told:?}");
    assert!(told.iter().all(|line| !line.starts_with("1.35")), "{told:?}");
    let sources: Vec<_> =
        fleet.history("mgmt").iter().map(|entry| entry.stage.as_ref().unwrap().source.clone()).collect();
    assert!(sources.contains(&first) && sources.last() == Some(&second));
    let bundle = fleet.folder("clusters/mgmt/bundle");
    let text: String = bundle.files.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(text.contains("name: bundles-82"));
}

#[test]
fn the_way_back_in_the_middle_is_taken_before_the_control_plane_moves() {
    let fleet = fleet();
    push_target(&fleet);
    let controller = fleet.controller();
    fleet.run_until_committed(&controller, "mgmt", "cert-manager");
    // The last bundle does not have Kubernetes 1.33.
    let mut back = at_kubernetes(&fleet, "1.33");
    let policy = fleet.read(&"main".parse().unwrap(), "stepgate.yaml").unwrap();
    back.insert("stepgate.yaml".to_owned(), format!("{policy}bundle: bundles-81\n").into_bytes());
    fleet.push(&back);
    fleet.run_to_the_end(&fleet.controller());
    assert_no_stage_twice(&fleet);
    for cluster in CLUSTERS {
        assert!(told_course(&fleet, cluster).iter().all(|line| line.starts_with("1.33")), "{cluster}");
    }
    let bundle = fleet.folder("clusters/mgmt/bundle");
    let text: String = bundle.files.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(!text.contains("name: bundles-80"));
}

#[test]
fn a_management_cluster_goes_one_minor_ahead_and_waits_for_its_workload_clusters() {
    let fleet = fleet_with_versions();
    let mut files = bundles(&fleet);
    files.extend([release("v0.25.0", 81), release("v0.26.0", 82)]);
    for (path, text) in at_kubernetes(&fleet, "1.35") {
        let text = String::from_utf8(text).unwrap().replace("eksaVersion: v0.24.0", "eksaVersion: v0.26.0");
        files.insert(path, text.into_bytes());
    }
    fleet.push(&files);
    fleet.run_to_the_end(&fleet.controller());
    assert_whole(&fleet);
    let versions = |cluster: &str| -> Vec<String> {
        let mut versions: Vec<String> = course(&fleet, cluster).into_iter().filter_map(|(_, eksa, ..)| eksa).collect();
        versions.dedup();
        versions
    };
    for cluster in CLUSTERS {
        assert_eq!(versions(cluster), ["v0.24.0", "v0.25.0", "v0.26.0"], "{cluster}");
    }
}
