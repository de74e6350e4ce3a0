//! `stepgate kustomize build --flux`: what Flux applies, its variables and the strict mode.

use super::Folder;
use crate::support::{Run, stepgate};

const OBJECT: &str = "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: team}
spec:
  path: ./apps
  namePrefix: eu-
  postBuild:
    substitute: {region: eu}
    substituteFrom: [{kind: ConfigMap, name: settings}, {kind: Secret, name: keys, optional: true}]
";

const SETTINGS: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team}
data: {size: large}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
data: {key: czNjcmV0}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: other}
data: {size: small}
";

fn folder(value: &str) -> Folder {
    let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{k: '{value}'}}\n");
    Folder::new(&[("apps/a.yaml", map.as_str()), ("clusters/apps.yaml", OBJECT), ("settings.yaml", SETTINGS)])
}

/// Builds the Kustomization of the folder.
fn build(folder: &Folder, arguments: &[&str]) -> Run {
    let (file, root) = (folder.join("clusters/apps.yaml"), folder.path());
    let given = ["--root", root.to_str().unwrap(), "--kustomization-file", file.to_str().unwrap()];
    stepgate(&[&["kustomize", "build", "--flux"], &given[..], arguments].concat())
}

fn with_settings(folder: &Folder, arguments: &[&str]) -> Run {
    let file = folder.join("settings.yaml");
    build(folder, &[&["--substitute-from", file.to_str().unwrap()], arguments].concat())
}

#[test]
fn a_kustomization_of_flux_is_built_with_its_variables() {
    let run = with_settings(&folder("${region} ${size} ${key} ${none:=no} [${gone}]"), &[]);
    let expected = "apiVersion: v1\ndata:\n  k: eu large s3cret no []\nkind: ConfigMap\nmetadata:\n  name: eu-a\n";
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, expected, ""));
}

#[test]
fn strict_mode_refuses_a_variable_without_value_and_default() {
    let strict = ["--strict-substitute"];
    let run = with_settings(&folder("${region} ${gone}"), &strict);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    for part in ["apps/a.yaml", "`eu-a`", "a variable without a value", "${gone", "spec.postBuild.substitute"] {
        assert!(run.stderr.contains(part), "{part} in {}", run.stderr);
    }
    assert_eq!(with_settings(&folder("${region} ${gone:=no}"), &strict).code, 0);
    let given = with_settings(&folder("${region} ${gone}"), &["--strict-substitute", "--substitute", "gone=here"]);
    assert!(given.stdout.contains("k: eu here\n"), "{}", given.text());
}

#[test]
fn values_that_are_not_given_are_named_with_the_flag_for_them() {
    let run = build(&folder("${size}"), &[]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("the ConfigMap `settings`"), "{}", run.stderr);
    assert!(run.stderr.contains("--substitute-from FILE"), "{}", run.stderr);
}

#[test]
fn values_of_secrets_are_never_in_errors() {
    let folder = folder("${key}");
    folder.write("settings.yaml", SETTINGS.replace("czNjcmV0", "s3cret!"));
    let run = with_settings(&folder, &[]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("`data.key` is not valid base64"), "{}", run.stderr);
    assert!(!run.text().contains("s3cret"), "{}", run.text());
}

#[test]
fn a_directory_without_kustomization_is_built_as_flux_builds_it() {
    let folder = folder("${region}");
    assert_eq!(folder.build("apps", &[]).code, 1);
    let run = folder.build("apps", &["--flux"]);
    assert!(run.code == 0 && run.stdout.contains("k: ${region}\n"), "{}", run.text());
    let run = folder.build("apps", &["--flux", "--substitute", "region=us"]);
    assert!(run.code == 0 && run.stdout.contains("k: us\n"), "{}", run.text());
}

#[test]
fn strict_mode_without_any_variable_says_that_it_checks_nothing() {
    let run = folder("${region}").build("apps", &["--flux", "--strict-substitute"]);
    assert!(run.code == 0 && run.stderr.contains("--strict-substitute checks nothing"), "{}", run.text());
}

#[test]
fn flags_of_kustomize_alone_and_of_flux_alone_do_not_mix() {
    let folder = folder("x");
    for flags in [["--flux", "--enable-helm"], ["--flux", "--enable-remote"], ["--strict-substitute", "--unlimited"]] {
        let run = folder.build("apps", &flags);
        assert_eq!(run.code, 2, "{flags:?}: {}", run.text());
    }
    let run = folder.build("apps", &["--flux", "--substitute", "region"]);
    assert!(run.code == 1 && run.stderr.contains("is not a valid NAME=VALUE"), "{}", run.text());
    let settings = folder.join("settings.yaml");
    let run = folder.build("apps", &["--flux", "--kustomization-file", settings.to_str().unwrap()]);
    assert!(run.code == 1 && run.stderr.contains("holds 0 Kustomizations of Flux"), "{}", run.text());
}
