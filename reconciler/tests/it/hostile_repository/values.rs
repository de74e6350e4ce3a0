//! What may stand in the fields of a cluster: each ends in a named problem or is shown as what it is, steers no terminal, and the cluster
//! beside it is planned as if it were alone.

use std::collections::BTreeSet;
use std::path::Path;

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Repository, Signature};
use serde_json::Value;

use crate::measured;
use crate::support::Run;

/// A cluster; `@NAME` stands where the field of that name has its value.
const CLUSTER: &str = "\
apiVersion: @API-VERSION
kind: @KIND
metadata:
  name: @NAME
  namespace: @NAMESPACE
  annotations: {note: @ANNOTATION}
spec:
  topology:
    class: @CLASS
    version: @VERSION
    controlPlane: {replicas: @REPLICAS}
    workers: {machineDeployments: [{class: worker, name: @GROUP, replicas: @GROUP-REPLICAS}]}
    variables: @VARIABLES
";

/// The fields, with what stands there where nothing is wrong.
const FIELDS: [(&str, &str); 11] = [
    ("API-VERSION", "cluster.x-k8s.io/v1beta1"),
    ("KIND", "Cluster"),
    ("NAME", ""),
    ("NAMESPACE", "shop"),
    ("ANNOTATION", "x"),
    ("CLASS", "web"),
    ("VERSION", "v1.32.4"),
    ("REPLICAS", "3"),
    ("GROUP", "blue"),
    ("GROUP-REPLICAS", "2"),
    ("VARIABLES", "[]"),
];

/// Values by name, as YAML.
fn values() -> Vec<(&'static str, String)> {
    let all = [
        ("erases", r#""\e[2J\e[H""#),
        ("hides", r#""\e[8mhidden""#),
        ("title", r#""\e]0;owned\a""#),
        ("overwrites", r#""good\rbad\b""#),
        ("c1", r#""\u009b2J""#),
        ("turns", r#""v1.32.4\u202e4.23.1v""#),
        ("two-lines", r#""a\nb: c""#),
        ("header", r#""a\r\nX-Injected: y""#),
        ("nul", r#""a\0b""#),
        ("empty", r#""""#),
        ("null", "~"),
        ("list", "[]"),
        ("mapping", "{}"),
        ("infinite", "1e400"),
        ("not-a-number", ".nan"),
        ("negative", "-1"),
        ("large", "99999999999999999999"),
        ("hexadecimal", "0x7f"),
        ("octal", "0o17"),
        ("true", "true"),
        ("date", "2026-11-29"),
        ("query", r#""'; DROP TABLE clusters; --""#),
        ("command", r#""$(touch pwned)""#),
        ("backquotes", r#""`touch pwned`""#),
        ("variable", r#""${HOME}""#),
        ("template", r#""{{ .Values.x }}""#),
        ("format", r#""%s%n%x{}""#),
        ("option", r#""--upload-pack=touch pwned""#),
        ("above", r#""../../x""#),
        ("dots", r#""..""#),
        ("slash", r#""a/b""#),
        ("script", r#""<script>alert(1)</script>""#),
        ("mention", r#""@everyone [x](javascript:alert(1))""#),
        ("look-alike", r#""v1.32.４""#),
        ("build", r#""v1.32.4+build-1;rm -rf .""#),
        ("huge-version", r#""v18446744073709551616.0.0+build-99999999999999999999""#),
        ("binary", "!!binary aGFsbG8="),
        ("object", "!!python/object/apply:os.system [touch pwned]"),
        ("alias-of-itself", "&a [*a]"),
        ("alias-of-nothing", "*nothing"),
        ("merge", "{<<: {a: b}, a: c}"),
    ];
    let long = ("long", format!("\"{}\"", "x".repeat(100_000)));
    let deep = ("deep", format!("{}{}", "[".repeat(900), "]".repeat(900)));
    all.map(|(name, text)| (name, text.to_owned())).into_iter().chain([long, deep]).collect()
}

fn cluster(name: &str, field: &str, value: &str) -> String {
    // The longer names first: one is the beginning of another.
    let mut fields = FIELDS;
    fields.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    fields.into_iter().fold(CLUSTER.to_owned(), |text, (known, usual)| {
        let usual = if known == "NAME" { name } else { usual };
        text.replace(&format!("@{known}"), if known == field { value } else { usual })
    })
}

/// A repository of these clusters, by name.
fn repository(folder: &Path, clusters: &[(String, String)]) {
    let repository = Repository::init_bare(folder).unwrap();
    repository.set_head("refs/heads/main").unwrap();
    let mut update = TreeUpdateBuilder::new();
    for (name, text) in clusters {
        let path = format!("clusters/{name}/cluster.yaml");
        update.upsert(path, repository.blob(text.as_bytes()).unwrap(), FileMode::Blob);
    }
    let empty = repository.find_tree(repository.treebuilder(None).unwrap().write().unwrap()).unwrap();
    let tree = repository.find_tree(update.create_updated(&repository, &empty).unwrap()).unwrap();
    let person = Signature::now("A Person", "person@example.com").unwrap();
    repository.commit(Some("refs/heads/main"), &person, &person, "What runs", &tree, &[]).unwrap();
}

fn run(folder: &Path, place: &str, arguments: &[&str]) -> Run {
    let (run, taken) = measured::run_in(folder, place, arguments);
    println!("{arguments:?}: {taken:?}, exit {}, {} bytes", run.code, run.text().len());
    assert!(taken.memory <= 256 && taken.processor <= 30.0, "{arguments:?}: {taken:?}");
    assert!(!run.text().contains("panicked"), "{arguments:?}: {}", run.text());
    let steers = |character: &char| {
        let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || (character.is_control() && !matches!(character, '\n' | '\t'))
    };
    let is_document = arguments.contains(&"json") || arguments.contains(&"yaml");
    let steering = run.text().lines().find(|line| line.chars().any(|character| steers(&character))).map(str::to_owned);
    assert!(is_document || steering.is_none(), "{arguments:?}: {steering:?}");
    run
}

/// The plan of a cluster, without what names the repository.
fn plan_of(run: &Run, name: &str) -> Value {
    let report = run.json();
    let found = report["clusters"].as_array().unwrap().iter().find(|it| it["cluster"] == name);
    let found = found.unwrap_or_else(|| panic!("{name} is not planned: {}", run.text()));
    serde_json::json!([found["rolloutId"], found["stages"], found["commits"], found["machines"]])
}

#[test]
fn no_value_of_a_cluster_steers_a_terminal_or_harms_the_cluster_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let good = ("good".to_owned(), cluster("good", "", ""));
    let alone = folder.path().join("alone.git");
    repository(&alone, std::slice::from_ref(&good));
    let mut clusters = vec![good];
    for (field, _) in FIELDS {
        for (value, text) in values() {
            let name = format!("{}-{value}", field.to_lowercase());
            clusters.push((name.clone(), cluster(&name, field, &text)));
        }
    }
    assert!(clusters.len() > 300, "{}", clusters.len());
    let place = folder.path().join("fleet.git");
    repository(&place, &clusters);
    let (alone, place) = (alone.to_str().unwrap(), place.to_str().unwrap());

    let expected = plan_of(&run(folder.path(), alone, &["plan", "-o", "json"]), "good");
    assert_eq!(plan_of(&run(folder.path(), place, &["plan", "-o", "json"]), "good"), expected);
    // What becomes a path, a branch or a commit's line is refused; a placeholder is somebody else's to fill in.
    let check = run(folder.path(), place, &["check", "-o", "json"]).json();
    let told: BTreeSet<&str> =
        check["problems"].as_array().unwrap().iter().filter_map(|it| it["path"].as_str()?.split('/').nth(1)).collect();
    for field in ["name", "namespace", "group", "version"] {
        for value in ["erases", "turns", "two-lines", "header", "nul", "above", "dots", "slash", "build", "long"] {
            assert!(told.contains(format!("{field}-{value}").as_str()), "{field}: {value} is taken for what it is not");
        }
    }
    for arguments in [
        &["check"][..],
        &["check", "-o", "wide"],
        &["plan"],
        &["plan", "-o", "markdown"],
        &["plan", "-o", "yaml"],
        &["status"],
        &["why", "good"],
        &["diff"],
        &["adopt", "--yes", "--as-declared"],
        &["status", "-o", "name"],
        &["history"],
        &["diff"],
        &["check", "--log-level", "trace"],
    ] {
        run(folder.path(), place, arguments);
    }
    let status = run(folder.path(), place, &["status", "-o", "json"]);
    assert!(
        status.json()["clusters"].as_array().unwrap().iter().any(|it| it["cluster"] == "good"),
        "{}",
        status.text()
    );
    assert!(!Path::new("pwned").exists() && !folder.path().join("pwned").exists(), "something was run");
}
