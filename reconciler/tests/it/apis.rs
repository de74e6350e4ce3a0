//! `stepgate check apis` on manifests: what is found where, the forms, the exit codes, and what cannot be read.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Run, stepgate};

const OLD: &str = "\
# a budget of before
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: b, namespace: n}
---
apiVersion: v1
kind: List
items:
- {apiVersion: batch/v1, kind: CronJob, metadata: {name: new}}
- {apiVersion: batch/v1beta1, kind: CronJob, metadata: {name: old}}
";
const DEPRECATED: &str = "apiVersion: networking.k8s.io/v1beta1\nkind: IPAddress\nmetadata: {name: i}\n";
const CERTIFICATE: &str = "apiVersion: cert-manager.io/v1alpha2\nkind: Certificate\nmetadata: {name: c}\n";

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn check(folder: &Path, arguments: &[&str]) -> Run {
    let place = folder.to_str().unwrap();
    stepgate(&[&["check", "apis", place, "--target", "1.36"], arguments].concat())
}

#[test]
fn what_goes_is_told_with_its_line_and_stops_a_pipeline() {
    let folder = folder(&[
        ("team/old.yaml", OLD),
        ("team/.git/old.yaml", OLD),
        ("new.json", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}"),
    ]);
    let run = check(folder.path(), &["-o", "json"]);
    assert_eq!(run.code, 3, "{}", run.text());
    let report = run.json();
    let told: Vec<Value> =
        report["uses"].as_array().unwrap().iter().map(|it| json!([it["standing"], it["line"], it["object"]])).collect();
    assert_eq!(told, [json!(["removed", 2, "PodDisruptionBudget n/b"]), json!(["removed", 10, "CronJob old"])]);
    assert_eq!((&report["objects"], &report["unread"], &report["target"]), (&json!(4), &json!([]), &json!("1.36")));
    let table = check(folder.path(), &[]).text();
    assert!(
        table.contains("policy/v1beta1 PodDisruptionBudget is not served from Kubernetes 1.25 on; use policy/v1"),
        "{table}"
    );
    assert!(table.contains("old.yaml:2:13"), "{table}");
}

#[test]
fn what_stays_or_only_warns_ends_well() {
    let folder = folder(&[("a.yaml", DEPRECATED), ("b.yml", CERTIFICATE)]);
    let run = check(folder.path(), &["-o", "json"]);
    assert_eq!(run.code, 0, "{}", run.text());
    let standing = |run: &Run| -> Vec<String> {
        run.json()["uses"].as_array().unwrap().iter().map(|it| it["standing"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(standing(&run), ["unknown", "deprecated"]);
    let run = check(folder.path(), &["-o", "json", "--component", "cert-manager=1.16.1"]);
    assert_eq!((run.code, standing(&run)), (3, vec!["removed".to_owned(), "deprecated".to_owned()]));
    let run = check(folder.path(), &["--component", "cert-manger=1.16"]);
    assert_eq!(run.code, 2);
    assert!(run.text().contains("is not a known component"), "{}", run.text());
}

#[test]
fn what_cannot_be_read_is_named_and_is_no_success() {
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n";
    let folder =
        folder(&[("chart/templates/a.yaml", template), ("b.yaml", "a: [\n"), ("values.yaml", "replicas: 2\n")]);
    let run = check(folder.path(), &[]);
    assert_eq!(run.code, 4, "{}", run.text());
    assert!(run.text().contains("a.yaml:4: it is a template"), "{}", run.text());
    assert!(run.text().contains("b.yaml:1: unclosed bracket"), "{}", run.text());
    let gone = check(&folder.path().join("nothing"), &[]);
    assert_eq!(gone.code, 2);
    assert!(gone.text().contains("nothing"), "{}", gone.text());
}

#[test]
fn of_many_manifests_none_is_lost_and_all_are_told_in_order() {
    let old = "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: old}\n";
    let new = "apiVersion: v1\nkind: Pod\nmetadata: {name: new}\n";
    let text = |number: usize| match number {
        3 | 250 => "a: [\n",
        number if number.is_multiple_of(50) => old,
        _ => new,
    };
    let files: Vec<(String, &str)> = (0..300).map(|number| (format!("{number:03}.yaml"), text(number))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let kept = folder(&files);
    let report = check(kept.path(), &["-o", "json"]).json();
    let told = |list: &str, key: &str| -> Vec<String> {
        let names = report[list].as_array().unwrap().iter().map(|it| it[key].as_str().unwrap().to_owned());
        names.map(|path| path.rsplit('/').next().unwrap().to_owned()).collect()
    };
    assert_eq!(report["objects"], json!(298));
    assert_eq!(told("uses", "path"), ["000.yaml", "050.yaml", "100.yaml", "150.yaml", "200.yaml"]);
    assert_eq!(told("unread", "what"), ["003.yaml", "250.yaml"]);
}

#[test]
fn code_scanning_gets_rule_level_and_place() {
    let folder = folder(&[("a b.yaml", OLD), ("c.yaml", "a: [\n")]);
    let run = check(folder.path(), &["-o", "sarif"]);
    assert_eq!(run.code, 3);
    let document = run.json();
    assert_eq!(document["version"], "2.1.0");
    let of_run = &document["runs"][0];
    let result = &of_run["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&json!("removed"), &json!("error")));
    let place = &result["locations"][0]["physicalLocation"];
    assert!(place["artifactLocation"]["uri"].as_str().unwrap().ends_with("/a%20b.yaml"), "{place}");
    assert_eq!(place["region"], json!({"startLine": 2, "startColumn": 13}));
    let rules = of_run["tool"]["driver"]["rules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]), "{rules:?}");
    assert_eq!(of_run["invocations"][0]["toolExecutionNotifications"].as_array().unwrap().len(), 1);
}
