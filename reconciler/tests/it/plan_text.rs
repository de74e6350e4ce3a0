//! What `plan` says to a person.

use crate::support::Fleet;

/// A fleet with the bump on its source branch, whose upstream sets another priority than the overlay from now on.
fn conflicting() -> Fleet {
    let fleet = Fleet::pending();
    let manifest = fleet.folder().join("mirror/artifacts.example.com/cert-manager/v1.19.3/cert-manager.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let account = "      serviceAccountName: cert-manager\n";
    let priority = format!("{account}      priorityClassName: system-node-critical\n");
    assert!(text.contains(account), "{text}");
    std::fs::write(&manifest, text.replacen(account, &priority, 1)).unwrap();
    fleet
}

#[test]
fn a_plan_is_ten_lines_first_and_never_wider_than_100_columns() {
    let fleet = Fleet::pending();
    let plan = fleet.run(&["plan", "--cluster", "mgmt"]);
    let (short, table) = plan.stdout.split_once("\nSTAGE").unwrap_or_else(|| panic!("{}", plan.text()));
    let short: Vec<&str> = short.lines().collect();
    assert!(short.len() <= 10 && short[0].starts_with("mgmt: rollout "), "{}", plan.stdout);
    for wanted in ["changes: kubernetes 1.33 to 1.34", "rolls: ", "no way back: ", "risks: "] {
        assert!(short.iter().any(|line| line.starts_with(wanted)), "{wanted}: {}", plan.stdout);
    }
    let verbose = fleet.run(&["plan", "--cluster", "mgmt", "--verbose"]);
    // What cannot be broken stays whole: paths and addresses.
    let wide = |line: &&str| line.chars().count() > 100 && line.trim().contains(' ');
    assert_eq!(plan.stdout.lines().chain(verbose.stdout.lines()).filter(wide).collect::<Vec<_>>(), [""; 0]);
    assert!(table.contains("cert-manager"), "{}", plan.stdout);
}

#[test]
fn risks_of_one_kind_are_one_line_unless_all_are_wanted() {
    let fleet = Fleet::pending();
    let report = fleet.run(&["plan", "--cluster", "mgmt", "-o", "json"]).json();
    let stages = report["clusters"][0]["stages"].as_array().unwrap().iter();
    let shown = stages.filter(|stage| stage["state"] != "skipped");
    let risks: usize = shown.map(|stage| stage["risks"].as_array().unwrap().len()).sum();
    let groups = report["clusters"][0]["riskGroups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| group["count"].as_u64().unwrap()).sum::<u64>(), risks as u64);
    let lines = |arguments: &[&str]| {
        let run = fleet.run(&[&["plan", "--cluster", "mgmt"], arguments].concat());
        run.stdout.lines().filter(|line| line.starts_with("risk")).filter(|line| !line.starts_with("risks")).count()
    };
    assert_eq!((lines(&[]), lines(&["--verbose"])), (groups.len(), risks));
    assert!(groups.len() < risks, "{groups:?}");
}

#[test]
fn a_plan_tells_how_long_the_last_rollout_took() {
    let fleet = Fleet::settled();
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    let plan = fleet.run(&["plan", "--cluster", "mgmt"]);
    assert!(plan.stdout.contains("rolls: no machine; about 2 min, as in rollout "), "{}", plan.text());
    let never = Fleet::pending().run(&["plan", "--cluster", "mgmt", "-o", "json"]).json();
    assert!(never["clusters"][0]["expectedTime"].is_null(), "{never}");
}

#[test]
fn what_upstream_changed_under_an_overlay_is_told_side_by_side() {
    let fleet = conflicting();
    let conflict = "spec.template.spec.priorityClassName: upstream has system-node-critical now, and had nothing; the \
                    overlay sets system-cluster-critical";
    let plan = fleet.run(&["plan", "--cluster", "mgmt", "-o", "json"]).json();
    let groups = plan["clusters"][0]["riskGroups"].as_array().unwrap();
    assert_eq!(groups[0]["kind"], "overlay-conflict", "{groups:?}");
    assert!(groups[0]["text"].as_str().unwrap().contains(conflict), "{groups:?}");
    let check = fleet.run(&["check", "-o", "json"]);
    let problems = check.json()["problems"].as_array().unwrap().clone();
    let told: Vec<_> = problems.iter().filter(|problem| problem["code"] == "overlay-conflict").collect();
    assert!(told.len() == 1 && told[0]["message"].as_str().unwrap().contains(conflict), "{problems:?}");
    assert_eq!((&told[0]["path"], &told[0]["cluster"]), (&"overlays/cert-manager".into(), &"mgmt".into()));
    // The overlay alone is no conflict.
    let without = Fleet::pending().run(&["plan", "--cluster", "mgmt"]);
    assert!(!without.stdout.contains("overlay sets"), "{}", without.stdout);
}

#[test]
fn an_unreachable_cluster_leaves_every_risk_and_says_so() {
    let fleet = Fleet::pending();
    let kubeconfig = fleet.folder().join("kubeconfig");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
                clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: a, user: {}}]\n";
    std::fs::write(&kubeconfig, text).unwrap();
    let risks = |arguments: &[&str]| {
        let run = fleet.run(&[&["plan", "--cluster", "mgmt", "-o", "json"], arguments].concat());
        let plan = run.json()["clusters"][0].clone();
        (plan["riskGroups"].clone(), plan["warnings"].to_string())
    };
    let (offline, _) = risks(&[]);
    let (unread, warnings) = risks(&["--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert_eq!(unread, offline);
    assert!(warnings.contains("definitions were not read: cluster mgmt cannot be reached"), "{warnings}");
}
