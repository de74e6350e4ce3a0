//! What `check` says of the machine that it runs on: files that are not committed, manifests that are not there, no helm.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Fleet, stepgate_with};

fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=A Person", "-c", "user.email=person@example.com"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A clone with a work tree, as a person has it.
fn clone(fleet: &Fleet) -> PathBuf {
    let clone = fleet.folder().join("clone");
    git(fleet.folder(), &["clone", "-q", &fleet.place(), clone.to_str().unwrap()]);
    clone
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The problems of these kinds that `check` finds: exit code, and severity, path and message of each.
fn problems(
    repository: &Path,
    code: &str,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Vec<(String, Value, String)> {
    let repository = repository.to_str().unwrap();
    let run = stepgate_with(&[&["check", "-o", "json", "--repo", repository][..], arguments].concat(), variables);
    assert_eq!(run.code, 0, "{}", run.text());
    let report = run.json();
    let problems = report["problems"].as_array().unwrap().iter().filter(|problem| problem["code"] == code);
    let told = |problem: &Value| {
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        assert!(!text("hint").is_empty(), "{problem}");
        (text("severity"), problem["path"].clone(), format!("{} {}", text("message"), text("hint")))
    };
    problems.map(told).collect()
}

#[test]
fn files_that_are_not_committed_are_named_as_what_is_not_read() {
    let fleet = Fleet::settled();
    let clone = clone(&fleet);
    let mirror = clone.join("mirror");
    write(&clone, "mirror/artifacts.example.com/a/a.yaml", "a: 1\n");
    let uncommitted = |clone: &Path| problems(clone, "uncommitted", &["--mirror", mirror.to_str().unwrap()], &[]);
    assert_eq!(uncommitted(&clone), []);
    let policy = std::fs::read_to_string(clone.join("stepgate.yaml")).unwrap();
    write(&clone, "stepgate.yaml", &format!("{policy}# more\n"));
    write(&clone, "clusters/team-c/cluster.yaml", "a: 1\n");
    write(&clone, "overlays/cert-manager/values.txt", "a\n");
    write(&clone, ".gitignore", "ignored/\n");
    write(&clone, "ignored/cluster.yaml", "a: 1\n");
    write(&clone, "notes/readme.txt", "a\n");
    std::fs::remove_file(clone.join("bundles/bundles-80.yaml")).unwrap();
    let found = uncommitted(&clone);
    let paths: Vec<&str> = found.iter().filter_map(|(_, path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        ["bundles/bundles-80.yaml", "clusters/team-c/", "overlays/cert-manager/values.txt", "stepgate.yaml"],
        "{found:?}"
    );
    for (severity, _, told) in &found {
        assert!(severity == "warning" && told.contains("what is read is branch main at"), "{told}");
        assert!(told.contains("`git commit`"), "{told}");
    }
    git(&clone, &["add", "-A", "--", ":!mirror"]);
    assert_eq!(uncommitted(&clone).len(), 4);
    git(&clone, &["commit", "-q", "-m", "All of it"]);
    assert_eq!(uncommitted(&clone), []);
}

#[test]
fn a_bare_repository_has_nothing_to_commit_and_another_branch_is_named() {
    let fleet = Fleet::settled();
    let none = problems(Path::new(&fleet.place()), "uncommitted", &[], &[]);
    assert_eq!(none, []);
    let clone = clone(&fleet);
    git(&clone, &["checkout", "-q", "-b", "feature"]);
    let [(severity, _, told)] = problems(&clone, "other-branch", &[], &[]).try_into().unwrap();
    assert!(severity == "warning" && told.contains("feature is checked out here"), "{told}");
    assert!(told.contains("git switch main"), "{told}");
}

#[test]
fn manifests_that_no_mirror_has_are_told_with_the_command_that_fetches_them() {
    let fleet = Fleet::settled();
    let (place, mirror) = (PathBuf::from(fleet.place()), fleet.folder().join("mirror"));
    let missing = |arguments: &[&str]| problems(&place, "missing-manifests", arguments, &[]);
    assert_eq!(missing(&["--mirror", mirror.to_str().unwrap()]), []);
    let [(severity, path, told)] = missing(&[]).try_into().unwrap();
    assert_eq!((severity.as_str(), &path), ("warning", &"bundles/bundles-81.yaml".into()));
    for part in ["are missing", "artifacts.example.com", "`stepgate bundle fetch bundles/bundles-81.yaml --to "] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // One alone, of those that are fetched when they are needed.
    std::fs::remove_dir_all(mirror.join("github.com")).unwrap();
    fleet.write(
        "main",
        "stepgate.yaml",
        format!("{}fetch: {{allow: [github.com/fluxcd]}}\n", fleet.text("main", "stepgate.yaml")).as_bytes(),
    );
    let [(severity, _, told)] = missing(&["--mirror", mirror.to_str().unwrap()]).try_into().unwrap();
    assert_eq!(severity, "note");
    assert!(told.contains("are missing (1)") && told.contains("fetched when they are needed"), "{told}");
}

#[test]
fn a_chart_without_helm_is_told_only_where_there_is_a_chart() {
    let fleet = Fleet::settled();
    let place = PathBuf::from(fleet.place());
    let variables = [("STEPGATE_HELM", "/nowhere/helm")];
    assert_eq!(problems(&place, "no-helm", &[], &variables), []);
    let chart =
        "\n    cilium:\n      helmChart:\n        name: cilium\n        uri: registry.corp.internal/cilium:1.18.4\n";
    let bundle = fleet.text("main", "bundles/bundles-81.yaml").replace("\n    cilium:\n", chart);
    fleet.write("main", "bundles/bundles-81.yaml", bundle.as_bytes());
    let [(severity, _, told)] = problems(&place, "no-helm", &[], &variables).try_into().unwrap();
    assert_eq!(severity, "warning");
    assert!(told.contains("/nowhere/helm") && told.contains("STEPGATE_HELM"), "{told}");
}

#[test]
fn check_says_who_renders_overlays() {
    let fleet = Fleet::settled();
    let check = fleet.run(&["check"]);
    assert!(check.code == 0 && check.stdout.contains("`stepgate plan` names objects of them"), "{}", check.text());
}
