//! `--enable-remote` with real repositories.

use std::process::Command;

use super::Folder;
use crate::support::stepgate;

fn git(folder: &Folder, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=A Person", "-c", "user.email=person@example.com", "-c", "init.defaultBranch=main"])
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(folder.path())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

/// A repository with a base and an overlay in it; the tag `v1` names its first state.
fn repository() -> Folder {
    let folder = Folder::new(&[
        ("base/kustomization.yaml", "resources: [a.yaml]\n"),
        ("base/a.yaml", &map("first")),
        ("overlays/eu/kustomization.yaml", "resources: [../../base]\nnamePrefix: eu-\n"),
        (
            "part/kustomization.yaml",
            "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnameSuffix: -part\n",
        ),
    ]);
    git(&folder, &["init", "-q"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-q", "-m", "first"]);
    git(&folder, &["tag", "v1"]);
    folder.write("base/a.yaml", map("second"));
    git(&folder, &["commit", "-q", "-a", "-m", "second"]);
    folder
}

fn address(repository: &Folder, rest: &str) -> String {
    format!("file://{}{rest}", repository.path().display())
}

fn build(kustomization: &str) -> crate::support::Run {
    let folder = Folder::new(&[("kustomization.yaml", kustomization)]);
    folder.write("own.yaml", map("own"));
    folder.build("", &["--enable-remote"])
}

fn printed(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n")
}

#[test]
fn a_base_is_fetched_at_the_reference_asked_for() {
    let repository = repository();
    for (rest, name) in [
        ("//base", "second"),
        ("//base?ref=main", "second"),
        ("//base?ref=v1", "first"),
        ("//base?version=v1", "first"),
        ("//base?ref=v1&timeout=60&submodules=false", "first"),
        ("//overlays/eu", "eu-second"),
        ("//overlays/eu?ref=v1", "eu-first"),
    ] {
        let address = address(&repository, rest);
        let run = build(&format!("resources: [\"{address}\"]\n"));
        assert_eq!((run.code, run.stdout), (0, printed(name)), "{rest}: {}", run.stderr);
        // The directory of the command may be remote itself.
        let run = stepgate(&["kustomize", "build", &address, "--enable-remote"]);
        assert_eq!((run.code, run.stdout), (0, printed(name)), "{rest}: {}", run.stderr);
        let run = stepgate(&["kustomize", "build", &address]);
        assert_eq!(run.code, 1);
        assert!(run.stderr.contains("--enable-remote"), "{}", run.stderr);
    }
    let origins = address(&repository, "//base");
    let run = build(&format!("resources: [\"{origins}\"]\nbuildMetadata: [originAnnotations]\n"));
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("the origin of objects from a remote base"), "{}", run.stderr);
    let run = build(&format!("resources: [\"{origins}\"]\nbuildMetadata: [managedByLabel]\n"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let part = address(&repository, "//part");
    let run = build(&format!("resources: [own.yaml]\ncomponents: [\"{part}\"]\n"));
    assert_eq!((run.code, run.stdout), (0, printed("own-part")), "{}", run.stderr);
}

#[test]
fn submodules_are_fetched_unless_refused() {
    let inner = repository();
    let outer = Folder::new(&[("kustomization.yaml", "resources: [module/base]\n")]);
    git(&outer, &["init", "-q"]);
    git(&outer, &["submodule", "--quiet", "add", &address(&inner, ""), "module"]);
    git(&outer, &["add", "."]);
    git(&outer, &["commit", "-q", "-m", "module"]);
    let run = build(&format!("resources: [\"{}\"]\n", address(&outer, "?submodules=false")));
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("module/base"), "{}", run.stderr);
    // git itself fetches no submodule from the local disk unless it is told to.
    let run = build(&format!("resources: [\"{}\"]\n", address(&outer, "")));
    assert!(run.stderr.contains("git submodule") || run.stdout == printed("second"), "{}", run.text());
}

#[test]
fn a_remote_base_reads_nothing_but_its_repository() {
    let repository = repository();
    let outside = Folder::new(&[("kustomization.yaml", "resources: [a.yaml]\n"), ("a.yaml", &map("canary"))]);
    std::os::unix::fs::symlink(outside.path(), repository.join("link")).unwrap();
    for (folder, field) in [
        ("above", "resources: [../../x]"),
        ("absolute", "resources: [/etc/passwd]"),
        ("linked", "resources: [../link]"),
        ("file", "configMapGenerator: [{name: a, files: [../base/a.yaml]}]"),
        ("git", "configMapGenerator: [{name: a, files: [../.git/config]}]"),
        ("own", "configMapGenerator: [{name: a, files: [../.git/config]}]\n# LoadRestrictionsNone does not count here"),
    ] {
        repository.write(&format!("{folder}/kustomization.yaml"), format!("{field}\n"));
    }
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "-q", "-m", "hostile"]);
    for folder in ["above", "absolute", "linked", "link", "file", "git", "own", "../outside", "missing"] {
        let address = address(&repository, &format!("//{folder}"));
        let over = Folder::new(&[("kustomization.yaml", &format!("resources: [\"{address}\"]\n"))]);
        let run = over.build("", &["--enable-remote", "--load-restrictor", "LoadRestrictionsNone"]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{folder}");
        assert!(!run.stderr.contains("canary"), "{}", run.stderr);
    }
}

#[test]
fn what_cannot_be_fetched_says_so_without_secrets() {
    let repository = repository();
    let missing = address(&repository, "//base?ref=none");
    let run = build(&format!("resources: [\"{missing}\"]\n"));
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("git fetch of") && run.stderr.contains("none"), "{}", run.stderr);
    for (resource, message) in [
        ("https://user:canary-password@127.0.0.1:1/org/repository.git", "cannot be fetched"),
        ("http://127.0.0.1:1/a.yaml", "HTTPS alone"),
        ("https://127.0.0.1:1/a.yaml", "cannot be fetched"),
        ("ssh://-oProxyCommand=touch/a/b", "remote"),
        ("https://github.com/org/repository?ref=--upload-pack=x", "is not a valid reference"),
    ] {
        let run = build(&format!("resources: [\"{resource}\"]\n"));
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{resource}");
        assert!(run.stderr.contains(message), "{resource}: {}", run.stderr);
        assert!(!run.stderr.contains("canary-password"), "{}", run.stderr);
    }
    // A base that leads back to itself.
    let again = address(&repository, "//round");
    repository.write("round/kustomization.yaml", format!("resources: [\"{again}\"]\n"));
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "-q", "-m", "round"]);
    let run = build(&format!("resources: [\"{again}\"]\n"));
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("leads back to the remote base"), "{}", run.stderr);
}
