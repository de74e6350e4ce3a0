//! Every kustomization that the renderers build, built by the real program too (`STEPGATE_KUSTOMIZE`).
#![allow(clippy::disallowed_methods, reason = "the real program reads files and is a program")]

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;

use kustomize_rs::{BuildError, FileSystem, MemoryFileSystem, Resources};

use super::*;

/// One build: its files, the directory that was built, and what came out.
struct Seen {
    files: MemoryFileSystem,
    directory: String,
    text: String,
}

thread_local! {
    static SEEN: RefCell<Option<Vec<Seen>>> = const { RefCell::new(None) };
}

/// Called for every build.
pub(in crate::render) fn note(files: &MemoryFileSystem, directory: &str, built: &Result<Resources, BuildError>) {
    SEEN.with_borrow_mut(|seen| {
        if let (Some(seen), Ok(resources)) = (seen, built) {
            let (directory, text) = (directory.to_owned(), resources.to_yaml());
            seen.push(Seen { files: files.clone(), directory, text });
        }
    });
}

/// The builds of one rendering.
fn builds(render: impl FnOnce()) -> Vec<Seen> {
    SEEN.set(Some(Vec::new()));
    render();
    SEEN.take().unwrap()
}

fn write(files: &dyn FileSystem, from: &str, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in files.list(from).unwrap() {
        let path = if from.is_empty() { name.clone() } else { format!("{from}/{name}") };
        if files.is_dir(&path) {
            write(files, &path, &to.join(&name));
        } else {
            std::fs::write(to.join(&name), files.read(&path).unwrap()).unwrap();
        }
    }
}

fn check(name: &str, builds: &[Seen]) {
    let Some(program) = skip::named_by("STEPGATE_KUSTOMIZE") else { return };
    for Seen { files, directory, text } in builds {
        let folder = tempfile::tempdir().unwrap();
        write(files, "", folder.path());
        let output = Command::new(&program).arg("build").arg(folder.path().join(directory)).output().unwrap();
        assert!(output.status.success(), "{name} {directory}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == text.as_bytes(), "{name} {directory}: the bytes differ from kustomize's");
    }
}

#[test]
fn the_demos_components_have_the_bytes_of_kustomize() {
    let Scene { files, fleet, mirror } = demo();
    let mut built = 0;
    for cluster in &fleet.clusters {
        let seen = builds(|| {
            render(&RenderRequest {
                fleet: &fleet,
                cluster,
                bundle: Some(bundle_for(&fleet, cluster).unwrap()),
                deployed: &RenderedTree::new(),
                manifests: &mirror,
                charts: &Charter,
                files: &files,
            });
        });
        built += seen.len();
        check(&cluster.name, &seen);
    }
    assert!(built >= 3, "only {built} builds");
}

#[test]
fn the_components_of_real_releases_have_the_bytes_of_kustomize() {
    let overlay = [
        ("overlays/cert-manager/kustomization.yaml", "patches: [{path: patch.yaml, target: {kind: Deployment}}]\n"),
        ("overlays/cert-manager/patch.yaml", "- {op: add, path: /spec/revisionHistoryLimit, value: 3}\n"),
        ("clusters/management/overlays/cert-manager/kustomization.yaml", "commonAnnotations: {team: platform}\n"),
        ("overlays/capi/kustomization.yaml", "labels: [{pairs: {team: platform}, includeTemplates: true}]\n"),
    ];
    for release in ["release-0.25.yaml", "release-0.26.yaml"] {
        for more in [&[][..], &overlay] {
            let Some(scene) = scene(release, more) else { return };
            let seen = builds(|| {
                scene.render("management", &RenderedTree::new());
            });
            assert!(seen.len() >= 4, "{release}: only {} builds", seen.len());
            check(release, &seen);
        }
    }
}
