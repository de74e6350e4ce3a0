//! Nothing outside of the source can be read, and everything in it can.

use std::collections::BTreeMap;

use kustomize_rs::DiskFileSystem;
use kustomize_rs::flux::Options;

use crate::case::{build_text, lay};

const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\n";

fn manifest(name: &str) -> String {
    MANIFEST.replace("NAME", name)
}

/// Builds `apps` of a source that lies in the directory `source` of a directory with `outside.yaml`.
fn build(files: &[(&str, &str)], links: &[(&str, &str)]) -> Result<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    all.insert("outside.yaml".into(), manifest("outside"));
    all.insert("outside/kustomization.yaml".into(), "resources: [../outside.yaml]\n".into());
    for (path, content) in files {
        all.insert(format!("source/{path}"), (*content).to_owned());
    }
    let links = links.iter().map(|(path, target)| (format!("source/{path}"), (*target).to_owned())).collect();
    let directory = lay(&all, &links);
    let files = DiskFileSystem::new(directory.path().join("source")).unwrap();
    let object = "{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, spec: {path: ./apps}}";
    build_text(&files, object, &Options::default()).map(|(_, output)| output).map_err(|error| error.to_string())
}

#[test]
fn files_of_all_the_source_can_be_named() {
    let shared = manifest("shared");
    let built =
        build(&[("apps/kustomization.yaml", "resources: [../shared/a.yaml]\n"), ("shared/a.yaml", &shared)], &[]);
    assert_eq!(built.unwrap(), shared);
    // kustomize alone would ask for a base here.
    let patch = "resources: [../shared/a.yaml]\npatches: [{path: ../shared/patch.yaml}]\n";
    let files = [("apps/kustomization.yaml", patch), ("shared/a.yaml", &shared), ("shared/patch.yaml", &shared)];
    assert!(build(&files, &[]).is_ok());
}

#[test]
fn nothing_above_the_source_can_be_named() {
    for kustomization in [
        "resources: [../../outside.yaml]\n",
        "resources: [../../outside]\n",
        "components: [../../outside]\n",
        "configMapGenerator: [{name: a, files: [../../outside.yaml]}]\n",
        "resources: [/etc/hostname]\n",
        "configMapGenerator: [{name: a, files: [/etc/hostname]}]\n",
    ] {
        let error = build(&[("apps/kustomization.yaml", kustomization)], &[]).unwrap_err();
        assert!(error.contains("out of the file tree") || error.contains("no file or directory"), "{error}");
    }
}

#[test]
fn links_are_followed_inside_of_the_source_only() {
    let shared = manifest("shared");
    let files = [("apps/kustomization.yaml", "resources: [link.yaml]\n"), ("shared/a.yaml", &shared)];
    assert_eq!(build(&files, &[("apps/link.yaml", "../shared/a.yaml")]).unwrap(), shared);
    for target in ["../../outside.yaml", "/etc/hostname"] {
        let error = build(&files, &[("apps/link.yaml", target)]).unwrap_err();
        assert!(error.contains("out of the file tree"), "{error}");
    }
    let base = [("apps/kustomization.yaml", "resources: [base]\n")];
    assert!(build(&base, &[("apps/base", "../../outside")]).is_err());
}

#[test]
fn a_kustomization_is_generated_without_following_links_to_directories() {
    let (one, two) = (manifest("one"), manifest("two"));
    let files = [("apps/one.yaml", one.as_str()), ("shared/two.yaml", &two)];
    assert_eq!(build(&files, &[("apps/shared", "../shared")]).unwrap(), one);
    assert_eq!(build(&files, &[("apps/two.yml", "../shared/two.yaml")]).unwrap(), format!("{one}---\n{two}"));
    assert_eq!(build(&files, &[("apps/gone", "nowhere")]).unwrap(), one);
    for target in ["../../outside", "../../outside.yaml", "/etc"] {
        let error = build(&files, &[("apps/away", target)]).unwrap_err();
        assert_eq!(error, "apps/away: it cannot be read: it leads out of the file tree");
    }
}
