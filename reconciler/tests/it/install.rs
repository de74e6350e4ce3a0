//! `stepgate install --export`: what is printed and written is what the library makes.

use std::collections::BTreeMap;

use stepgate::install::{Settings, helm_chart, kustomize_base, manifests};

use crate::support::stepgate;

const ARGUMENTS: [&str; 10] = [
    "install",
    "--export",
    "--namespace",
    "upgrades",
    "--image",
    "registry.example/stepgate:v7",
    "--repo",
    "ssh://git@git.example/fleet.git",
    "--source-branch",
    "trunk",
];

fn settings() -> Settings {
    Settings {
        namespace: "upgrades".to_owned(),
        image: "registry.example/stepgate:v7".to_owned(),
        repository: "ssh://git@git.example/fleet.git".to_owned(),
        source_branch: "trunk".to_owned(),
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
