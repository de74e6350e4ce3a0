//! `stepgate install --export`: what is printed and written is what the library makes.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use stepgate::install::{GuardAccounts, Settings, helm_chart, kustomize_base, manifests};

use crate::support::{stepgate, stepgate_with};

const ARGUMENTS: [&str; 12] = [
    "install",
    "--export",
    "--namespace",
    "upgrades",
    "--image",
    "registry.corp.internal/stepgate:v7",
    "--helm-image",
    "registry.corp.internal/helm:v4",
    "--repo",
    "ssh://git@git.corp.internal/fleet.git",
    "--source-branch",
    "trunk",
];

fn settings() -> Settings {
    Settings {
        namespace: "upgrades".to_owned(),
        image: "registry.corp.internal/stepgate:v7".to_owned(),
        repository: "ssh://git@git.corp.internal/fleet.git".to_owned(),
        source_branch: "trunk".to_owned(),
        helm_image: "registry.corp.internal/helm:v4".to_owned(),
        management_cluster: None,
        pull_secrets: Vec::new(),
        guard: None,
        in_place: None,
        runbooks: None,
    }
}

#[test]
fn the_manifests_of_an_installation_are_printed() {
    let run = stepgate(&ARGUMENTS);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(run.stdout, manifests(&settings()).unwrap());
    assert!(run.stdout.contains("value: \"trunk\"") && run.stdout.contains("namespace: upgrades"));
}

#[test]
fn the_guard_is_installed_where_it_is_asked_for_with_whoever_passes_it() {
    let install = |more: &[&str]| stepgate(&[&ARGUMENTS, more].concat());
    let guarded = install(&["--guard", "--guard-user", "ci@corp", "--guard-group", "platform"]);
    assert_eq!((guarded.code, guarded.stderr.as_str()), (0, ""));
    let guard = GuardAccounts { users: vec!["ci@corp".to_owned()], groups: vec!["platform".to_owned()] };
    assert_eq!(guarded.stdout, manifests(&Settings { guard: Some(guard), ..settings() }).unwrap());
    assert!(!install(&[]).stdout.contains("stepgate-guard"));
    assert_eq!(install(&["--guard-user", "ci@corp"]).code, 2);
    let quoted = install(&["--guard", "--guard-user", "it's"]);
    assert!(quoted.code == 2 && quoted.stderr.contains("user of the guard"), "{}", quoted.stderr);
}

/// Kind and name of each object.
fn objects(text: &str) -> BTreeSet<(String, String)> {
    let text_at = |node: &yaml::Node, path: &[&str]| node.at(path)?.as_str().map(str::to_owned);
    let documents = yaml::parse(text, &yaml::Limits::default()).unwrap();
    let of = |document: &yaml::Document| {
        Some((text_at(&document.root, &["kind"])?, text_at(&document.root, &["metadata", "name"])?))
    };
    documents.iter().filter_map(of).collect()
}

#[test]
fn helm_makes_guard_and_alerts_of_the_chart_as_they_are_exported() {
    let Some(helm) = skip::named_by("STEPGATE_HELM") else { return };
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("chart");
    let guard = ["--with-monitoring", "--guard", "--guard-user", "ci@corp", "--guard-group", "platform"];
    let exported = stepgate(&[&ARGUMENTS[..], &guard].concat());
    let written = stepgate(&[&ARGUMENTS[..], &guard, &["--format", "helm", "--to", to.to_str().unwrap()]].concat());
    assert_eq!((exported.code, written.code), (0, 0), "{}", written.stderr);
    let template = |more: &[&str]| {
        let chart = to.to_str().unwrap();
        let arguments = [&["template", "upgrades", chart, "--include-crds", "--namespace", "upgrades"], more].concat();
        let output = Command::new(&helm).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let made = template(&[]);
    // The namespace is Helm's: `--create-namespace`.
    let mut expected = objects(&exported.stdout);
    assert!(expected.remove(&("Namespace".to_owned(), "upgrades".to_owned())));
    assert!(expected.iter().any(|(kind, _)| kind == "ValidatingAdmissionPolicyBinding"), "{expected:?}");
    assert_eq!(objects(&made), expected);
    let passes = "['system:serviceaccount:upgrades:stepgate'] + [\"system:apiserver\"";
    assert!(made.contains(passes) && made.contains("\"ci@corp\"]") && made.contains("\"platform\"]"), "{made}");
    // What Prometheus and Grafana fill in is not Helm's.
    let filled_in = |text: &str| text.matches("{{").count();
    assert!(made.contains("is held at stage {{ $labels.stage }}\"") && made.contains("\"{{state}}\""), "{made}");
    assert_eq!(filled_in(&made), filled_in(&exported.stdout));
    // Whoever lists nobody lets nobody pass, and the expression stays one.
    let nobody = template(&["--set", "guardUsers=null,guardGroups=null"]);
    assert!(nobody.contains("['system:serviceaccount:upgrades:stepgate'] + []"), "{nobody}");
}

#[test]
fn a_base_and_a_chart_are_written_into_folders_and_nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    for (format, expected) in [("kustomize", kustomize_base(&settings())), ("helm", helm_chart(&settings()))] {
        let expected: BTreeMap<String, String> = expected.unwrap().into_iter().collect();
        let to = folder.path().join(format);
        let arguments = [&ARGUMENTS[..], &["--format", format, "--to", to.to_str().unwrap()]].concat();
        let run = stepgate(&arguments);
        assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
        for (path, text) in &expected {
            assert_eq!(&std::fs::read_to_string(to.join(path)).unwrap(), text, "{path}");
        }
        let again = stepgate(&arguments);
        assert_eq!(again.code, 2, "{}", again.text());
    }
    assert_eq!(stepgate(&["install"]).code, 2);
}

#[test]
fn no_address_is_made_up_and_none_that_no_pod_reaches_is_written() {
    let install = |arguments: &[&str]| stepgate(&[&["install", "--export"], arguments].concat());
    let nothing = install(&[]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (2, ""));
    assert!(nothing.stderr.contains("hint: name it by --repo URL, or STEPGATE_REPO"), "{}", nothing.stderr);
    let good = "https://git.corp.internal/fleet.git";
    for (arguments, told) in [
        (&["--repo", "https://git.example/fleet.git"][..], "address for examples"),
        (&["--repo", "git@git.example.com:fleet.git"], "address for examples"),
        (&["--repo", "."], "folder of this machine"),
        (&["--repo", "file:///srv/fleet.git"], "folder of this machine"),
        (&["--repo", "https://user:CANARY@git.corp.internal/fleet.git"], "holds a password"),
        (&["--repo", good, "--image", "registry.example/stepgate:v1"], "address for examples"),
        (&["--repo", good, "--helm-image", "Registry.Example.org:5000/helm:v4"], "address for examples"),
    ] {
        let run = install(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(run.stderr.contains(told) && run.stderr.contains("hint: "), "{arguments:?}: {}", run.stderr);
        assert!(!run.stderr.contains("CANARY"), "{}", run.stderr);
    }
    assert_eq!(install(&["--repo", good]).code, 0);
}

#[test]
fn the_repository_of_the_environment_is_the_one_installed() {
    let run = stepgate_with(&["install", "--export"], &[("STEPGATE_REPO", "https://git.corp.internal/fleet.git")]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("value: \"https://git.corp.internal/fleet.git\""), "{}", run.stdout);
}

#[test]
fn the_management_cluster_is_written_into_the_deployment() {
    let variable = |value: &str| format!("- name: STEPGATE_MANAGEMENT_CLUSTER\n          value: {value}\n");
    let install = |more: &[&str]| stepgate(&[&ARGUMENTS, more].concat());
    let named = install(&["--management-cluster", "mgmt"]);
    assert_eq!((named.code, named.stderr.as_str()), (0, ""));
    assert!(named.stdout.contains(&variable("\"mgmt\"")), "{}", named.stdout);
    // An empty variable names none.
    assert!(install(&[]).stdout.contains(&variable("\"\"")));
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("chart");
    let chart = install(&["--management-cluster", "mgmt", "--format", "helm", "--to", to.to_str().unwrap()]);
    assert_eq!(chart.code, 0, "{}", chart.stderr);
    let read = |path: &str| std::fs::read_to_string(to.join(path)).unwrap();
    assert!(read("values.yaml").contains("managementCluster: \"mgmt\"\n"));
    assert!(read("templates/deployment.yaml").contains(&variable("\"{{ .Values.managementCluster }}\"")));
    let refused = install(&["--management-cluster", "no cluster"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("--management-cluster"), "{}", refused.stderr);
}
